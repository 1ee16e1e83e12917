package wire

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestNegotiateRead(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		contentType, accept string
		want                ReadMode
	}{
		{"", "", ReadJSON}, {"", "*/*", ReadJSON}, {"", "text/html", ReadJSON}, {"", "application/json", ReadJSON},
		{"", "application/protobuf", ReadProto}, {"", "application/x-protobuf;q=1", ReadProto}, {"application/json", "APPLICATION/Protobuf , text/event-stream", ReadProto},
		{"", "text/event-stream", ReadSSE}, {"", "text/event-stream; charset=utf-8, */*", ReadSSE}, {"", "*/*, text/event-stream", ReadJSON}, {"", "s2s/proto", ReadJSON},
		{"s2s/proto", "text/event-stream", ReadSession}, {" S2S/Proto ; v=1", "application/protobuf", ReadSession}, {"application/json, s2s/proto", "", ReadJSON},
	} {
		if got := NegotiateRead(test.contentType, test.accept); got != test.want {
			t.Errorf("%q, %q: got %d, want %d", test.contentType, test.accept, got, test.want)
		}
	}
}

func TestNegotiateAppend(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		contentType, accept string
		want                AppendMode
		proto, isJSON       bool
	}{
		{"", "", AppendJSON, false, false}, {"text/plain", "*/*", AppendJSON, false, false}, {"application/json", "application/protobuf", AppendJSON, true, true},
		{"application/vnd.s2+json; charset=utf-8", "", AppendJSON, false, true}, {"application/+json", "", AppendJSON, false, false}, {"+json", "", AppendJSON, false, false},
		{"application/protobuf", "", AppendProto, false, false}, {"application/x-protobuf", "application/x-protobuf", AppendProto, true, false}, {"s2s/proto", "s2s/proto", AppendSession, false, false},
	} {
		got, proto := NegotiateAppend(test.contentType, test.accept)
		if got != test.want || proto != test.proto || (RequireJSON(test.contentType) == nil) != test.isJSON {
			t.Errorf("%q, %q: got %d, %t, %v", test.contentType, test.accept, got, proto, RequireJSON(test.contentType))
		}
	}
	wantCode(t, RequireJSON(""), CodeBadJSON)
}

func TestOptionalJSON(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		contentType, body string
		want              bool
	}{
		{"", "nonsense", false}, {MediaJSON, "", false}, {MediaJSON, " null\n", false}, {MediaJSON, "{}", true}, {MediaJSON, "nullx", true}, {"a/b+json", "{}", true},
	} {
		if got, err := OptionalJSON(test.contentType, []byte(test.body)); err != nil || got != test.want {
			t.Errorf("%q, %q: got %t, %v", test.contentType, test.body, got, err)
		}
	}
	_, err := OptionalJSON("text/plain", nil)
	wantCode(t, err, CodeBadJSON)
}

// with makes a header with one field, or none for an empty name.
func with(name, value string) http.Header {
	h := http.Header{}
	if name != "" {
		h.Set(name, value)
	}
	return h
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		header string
		read   func(http.Header) (any, error)
		absent any // nil: the header must be there
		good   map[string]any
		bad    []string
	}{
		{"basin", "s2-basin", func(h http.Header) (any, error) { return BasinOf(h) }, nil, map[string]any{"basin-one": "basin-one", " basin-one ": "basin-one"}, []string{"", "b", "Basin-one"}},
		{"format", "s2-format", func(h http.Header) (any, error) { return FormatOf(h) }, FormatRaw,
			map[string]any{"raw": FormatRaw, " json\t": FormatRaw, "base64": FormatBase64, "json-binsafe ": FormatBase64}, []string{"", "RAW", "hex", "raw,base64"}},
		{"request token", "s2-request-token", func(h http.Header) (any, error) { return RequestTokenOf(h) }, (*string)(nil),
			map[string]any{"": ptr(""), strings.Repeat("t", 36): ptr(strings.Repeat("t", 36))}, []string{strings.Repeat("t", 37)}},
		{"encryption key", "s2-encryption-key", func(h http.Header) (any, error) { return EncryptionKeyOf(h) }, "",
			map[string]any{" k ": "k", strings.Repeat("k", 44): strings.Repeat("k", 44)}, []string{"", "  ", strings.Repeat("k", 45)}},
		{"stream config", "s2-stream-config", func(h http.Header) (any, error) { return StreamConfigOf(h) }, (*StreamConfig)(nil),
			map[string]any{
				"{}": new(StreamConfig),
				` { "retention_policy" : {"age": 3600},` + "\t" + `"delete_on_empty":{"min_age_secs":300}, "later": 1} `: &StreamConfig{
					RetentionPolicy: &RetentionPolicy{Age: 3600}, DeleteOnEmpty: &DeleteOnEmpty{MinAgeSecs: 300},
				},
			},
			[]string{"", "null", "not json", "[]", `{"retention_policy":{"age":0}}`, `{"storage_class":1}`, "{" + strings.Repeat(" ", 4096) + "}"}},
		{"conflicts", "tailrace-conflicts", func(h http.Header) (any, error) { return ConflictsOf(h) }, false, map[string]any{"per-batch": true}, []string{"", "session"}},
		{"revision in acks", "tailrace-revision", func(h http.Header) (any, error) { return RevisionInAcksOf(h) }, false, map[string]any{"acks": true}, []string{"", "b/s@1.2"}},
		{"consistency", "tailrace-consistency", func(h http.Header) (any, error) { return ReadTermsOf(h, "") }, ReadTerms{At: CodeBadHeader, Timeout: 5 * time.Second},
			map[string]any{
				"eventual": ReadTerms{Asked: true, Eventual: true, At: CodeBadHeader, Timeout: 5 * time.Second},
				"strong":   ReadTerms{Asked: true, At: CodeBadHeader, Timeout: 5 * time.Second},
			}, []string{"", "weak", "eventual, strong"}},
		{"timeout", "tailrace-revision-timeout-ms", func(h http.Header) (any, error) { return ReadTermsOf(h, "") }, ReadTerms{At: CodeBadHeader, Timeout: 5 * time.Second},
			map[string]any{
				"0":                    ReadTerms{At: CodeBadHeader},
				"250":                  ReadTerms{At: CodeBadHeader, Timeout: 250 * time.Millisecond},
				"18446744073709551615": ReadTerms{At: CodeBadHeader, Timeout: 30 * time.Second},
			}, []string{"", "-1", "1s"}},
		{"min revision", "tailrace-min-revision", func(h http.Header) (any, error) { return ReadTermsOf(h, "b-asin-1/q@1.2") },
			ReadTerms{Asked: true, Min: &Revision{"b-asin-1", "q", "1", 2}, At: CodeBadQuery, Timeout: 5 * time.Second},
			map[string]any{"b-asin-1/s@1.2": ReadTerms{Asked: true, Min: &Revision{"b-asin-1", "s", "1", 2}, At: CodeBadHeader, Timeout: 5 * time.Second}},
			[]string{"", "7"}},
		{"max age", "tailrace-max-age-ms", func(h http.Header) (any, error) {
			h.Set(HeaderConsistency, ConsistencyEventual)
			return ReadTermsOf(h, "")
		}, ReadTerms{Asked: true, Eventual: true, At: CodeBadHeader, Timeout: 5 * time.Second},
			map[string]any{"20": ReadTerms{Asked: true, Eventual: true, MaxAge: ptr(20 * time.Millisecond), At: CodeBadHeader, Timeout: 5 * time.Second}},
			[]string{"", "-1", "soon"}},
		{"max age of a strong read", "tailrace-max-age-ms", func(h http.Header) (any, error) { return ReadTermsOf(h, "") },
			ReadTerms{At: CodeBadHeader, Timeout: 5 * time.Second}, nil, []string{"20"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			switch got, err := test.read(http.Header{}); {
			case test.absent == nil:
				wantCode(t, err, CodeBadHeader)
			case err != nil || !reflect.DeepEqual(got, test.absent):
				t.Errorf("absent: got %v, %v", got, err)
			}
			for value, want := range test.good {
				if got, err := test.read(with(test.header, value)); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%q: got %v, %v", value, got, err)
				}
			}
			for _, value := range test.bad {
				if _, err := test.read(with(test.header, value)); err == nil {
					t.Errorf("%q is accepted", value)
				} else {
					wantCode(t, err, CodeBadHeader)
				}
			}
		})
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	want := StreamPosition{1<<64 - 1, 17}
	if got, err := ParseTail(FormatTail(want)); err != nil || got != want {
		t.Errorf("got %v, %v", got, err)
	}
	for _, text := range []string{"", "1", "1,", ",1", "1,2,3", "-1,2", "a,b"} {
		if _, err := ParseTail(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestParseReadQuery(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]ReadQuery{
		"":                {},
		"other=1&other=2": {},
		"seq_num=0&count=18446744073709551615&bytes=5&clamp=true&wait=4294967295": {SeqNum: ptr(uint64(0)), Count: ptr(uint64(1<<64 - 1)), Bytes: ptr(uint64(5)), Clamp: true, Wait: ptr(uint32(1<<32 - 1))},
		"timestamp=7&until=8&clamp=false&min_revision=a%2Fb%401.2":                {Timestamp: ptr(uint64(7)), Until: ptr(uint64(8)), MinRevision: "a/b@1.2"},
		"tail_offset=3&wait=0": {TailOffset: ptr(uint64(3)), Wait: ptr(uint32(0))},
	} {
		v, err := ParseQuery(raw)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseReadQuery(v)
		if err != nil || !reflect.DeepEqual(got, want) || got.Validate() != nil {
			t.Errorf("%q: got %+v, %v", raw, got, err)
		}
	}
	for _, name := range []string{"seq_num", "timestamp", "tail_offset", "count", "bytes", "until", "wait"} {
		for _, value := range []string{"", "-1", "%2B1", "1.0", "a", "18446744073709551616", "0x1", "1&" + name + "=1"} {
			v, err := ParseQuery(name + "=" + value)
			if err != nil {
				t.Fatal(err)
			}
			_, err = ParseReadQuery(v)
			wantCode(t, err, CodeBadQuery)
		}
	}
	for _, raw := range []string{"clamp=", "clamp=1", "clamp=True", "wait=4294967296"} {
		v, _ := ParseQuery(raw)
		_, err := ParseReadQuery(v)
		wantCode(t, err, CodeBadQuery)
	}
	_, err := ParseQuery("a=%zz")
	wantCode(t, err, CodeBadQuery)
}

func TestValidateReadQuery(t *testing.T) {
	t.Parallel()
	one := ptr(uint64(1))
	for _, q := range []ReadQuery{{SeqNum: one, Timestamp: one}, {SeqNum: one, TailOffset: one}, {Timestamp: one, TailOffset: one}, {Timestamp: one, Until: one}} {
		wantCode(t, q.Validate(), CodeInvalid)
	}
	if err := (ReadQuery{SeqNum: one, Until: one}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestParseListQuery(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]ListQuery{
		"": {Limit: 1000}, "limit=0": {Limit: 1000}, "limit=1": {Limit: 1}, "limit=999": {Limit: 999}, "limit=1001": {Limit: 1000}, "limit=18446744073709551615": {Limit: 1000},
		"prefix=&start_after=": {Limit: 1000}, "prefix=a-&start_after=a-b&limit=7&min_revision=r": {Prefix: "a-", StartAfter: "a-b", Limit: 7, MinRevision: "r"},
	} {
		v, _ := url.ParseQuery(raw)
		if got, err := ParseListQuery(v, BasinNames); err != nil || got != want {
			t.Errorf("%q: got %+v, %v", raw, got, err)
		}
	}
	for _, raw := range []string{"limit=", "limit=-1", "limit=x", "limit=18446744073709551616", "prefix=-a", "start_after=A", "prefix=a&prefix=b"} {
		v, _ := url.ParseQuery(raw)
		_, err := ParseListQuery(v, BasinNames)
		wantCode(t, err, CodeBadQuery)
	}
	v, _ := url.ParseQuery("prefix=A%20&start_after=é")
	if got, err := ParseListQuery(v, StreamNames); err != nil || got.Prefix != "A " {
		t.Errorf("got %+v, %v", got, err)
	}
}

func FuzzReadQuery(f *testing.F) {
	f.Add("seq_num=1&count=5&clamp=true&wait=3")
	f.Add("timestamp=1&until=1&min_revision=x")
	f.Fuzz(func(t *testing.T, raw string) {
		v, err := ParseQuery(raw)
		if err != nil {
			return
		}
		if q, err := ParseReadQuery(v); err == nil {
			_ = q.Validate()
			if q.Count != nil && v.Get("count") == "" {
				t.Fatal("an empty count was read")
			}
		}
		if q, err := ParseListQuery(v, StreamNames); err == nil && (q.Limit < 1 || q.Limit > ListLimitMax) {
			t.Fatalf("limit %d", q.Limit)
		}
	})
}
