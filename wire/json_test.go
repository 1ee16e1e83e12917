package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// wantCode fails unless err is an *Error of code.
func wantCode(t *testing.T, err error, code Code) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Code != code || e.Message == "" {
		t.Errorf("got error %v, want %s", err, code)
	}
}

func ptr[T any](v T) *T { return &v }

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	want, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if want = bytes.TrimSuffix(want, []byte("\n")); !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

var (
	ackSample = AppendAck{
		Start: StreamPosition{1, 1700000000001}, End: StreamPosition{3, 1700000000002}, Tail: StreamPosition{1<<64 - 1, 1700000000003},
	}
	recordsSample = []Record{
		{SeqNum: 1, Timestamp: 1700000000001, Headers: []Header{{[]byte("name"), []byte("välue")}, {[]byte("a\x00\"\\\n"), []byte("b\r\u2028<&>")}}, Body: []byte("b\xffody")},
		{SeqNum: 2, Timestamp: 1700000000002, Headers: []Header{{nil, []byte("fence")}}, Body: []byte("tok")},
		{SeqNum: 3, Timestamp: 1700000000003},
	}
	inputSample = AppendInput{
		Records: []AppendRecord{
			{Timestamp: 1700000000001, HasTimestamp: true, Headers: []Header{{[]byte("name"), []byte("value")}, {[]byte("n2"), nil}}, Body: []byte("body")},
			{HasTimestamp: true},
			{Headers: []Header{{nil, []byte("trim")}}, Body: []byte("\x00\x00\x00\x00\x00\x00\x00\x2a")},
		},
		MatchSeqNum: ptr(uint64(9)), FencingToken: ptr("tök"),
	}
)

func TestRecordsGolden(t *testing.T) {
	t.Parallel()
	tail := &StreamPosition{4, 1700000000004}
	golden(t, "tail.json", AppendTailJSON(nil, *tail))
	golden(t, "ack.json", AppendAckJSON(nil, ackSample))
	golden(t, "batch_raw.json", AppendReadBatchJSON(nil, recordsSample, tail, FormatRaw))
	golden(t, "batch_base64.json", AppendReadBatchJSON(nil, recordsSample, tail, FormatBase64))
	golden(t, "batch_empty.json", AppendReadBatchJSON(nil, nil, nil, FormatRaw))
	golden(t, "input_raw.json", EncodeAppendInputJSON(nil, inputSample, FormatRaw))
	golden(t, "input_base64.json", EncodeAppendInputJSON(nil, inputSample, FormatBase64))
}

func TestDecodeAppendInput(t *testing.T) {
	t.Parallel()
	one := func(r AppendRecord) AppendInput { return AppendInput{Records: []AppendRecord{r}} }
	tests := []struct {
		body   string
		format Format
		want   AppendInput
	}{
		{`{"records":[]}`, FormatRaw, AppendInput{}},
		{` {"records" : [ { } ] , "more":{"a":[1,-2.5e+3,true,null,"x",{}]}} ` + "\r\n\t", FormatRaw, one(AppendRecord{})},
		{`{"records":[{"body":"hi"}],"match_seq_num":0,"fencing_token":""}`, FormatRaw,
			AppendInput{Records: []AppendRecord{{Body: []byte("hi")}}, MatchSeqNum: ptr(uint64(0)), FencingToken: ptr("")}},
		{`{"records":[{"timestamp":18446744073709551615}]}`, FormatRaw, one(AppendRecord{Timestamp: 1<<64 - 1, HasTimestamp: true})},
		{`{"records":[{"timestamp":0}],"match_seq_num":null,"fencing_token":null}`, FormatRaw, one(AppendRecord{HasTimestamp: true})},
		{`{"records":[{"timestamp":null,"body":"","headers":[]}]}`, FormatRaw, one(AppendRecord{})},
		{`{"records":[{"body":"\u0000\"\\\/\b\f\n\r\t\u00e9\ud83d\uDE00é"}]}`, FormatRaw, one(AppendRecord{Body: []byte("\x00\"\\/\b\f\n\r\té😀é")})},
		{`{"records":[{"headers":[["","fence"],["a","b"]]},{"headers":[["c","d"]]}]}`, FormatRaw, AppendInput{Records: []AppendRecord{
			{Headers: []Header{{nil, []byte("fence")}, {[]byte("a"), []byte("b")}}}, {Headers: []Header{{[]byte("c"), []byte("d")}}},
		}}},
		{`{"records":[{"headers":[["","dHJpbQ=="]],"body":"AAAAAAAAACo\u003d"}]}`, FormatBase64,
			one(AppendRecord{Headers: []Header{{nil, []byte("trim")}}, Body: []byte("\x00\x00\x00\x00\x00\x00\x00\x2a")})},
		{`{"records":[{"body":"1"}],"records":[{"body":"2","body":"3"}]}`, FormatRaw, one(AppendRecord{Body: []byte("3")})},
		{`{"records":[{"timestamp":5,"timestamp":null}]}`, FormatRaw, one(AppendRecord{})},
		{`{"records":[],"Records":[{}],"fencing_token":"123456789012345678901234567890123456"}`, FormatRaw, AppendInput{FencingToken: ptr("123456789012345678901234567890123456")}},
	}
	for _, test := range tests {
		got, err := DecodeAppendInputJSON([]byte(test.body), test.format)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %+v, %v", test.body, got, err)
		}
	}
}

func TestDecodeAppendInputRefuses(t *testing.T) {
	t.Parallel()
	for _, number := range []string{"1.5", "1.0", "1e3", "1E3", "-1", "-0", `"5"`, "18446744073709551616", "99999999999999999999", "00", "01", "+1", "", "0x1", "true", "[]", "1 2"} {
		for _, body := range []string{`{"records":[{"timestamp":%s}]}`, `{"records":[],"match_seq_num":%s}`} {
			_, err := DecodeAppendInputJSON(fmt.Appendf(nil, body, number), FormatRaw)
			wantCode(t, err, CodeBadJSON)
		}
	}
	for _, body := range []string{
		``, ` `, `null`, `[]`, `1`, `"records"`, `{}`, `{"records":null}`, `{"records":{}}`, `{"records":[null]}`, `{"records":[1]}`,
		`{"records":[]}x`, `{"records":[]}{}`, `{"records":[]},`, `{"records":[],}`, `{"records":[{},]}`, `{"records":[}`, `{"records":[]`, `{"records"`,
		`{"records":[{"body":null}]}`, `{"records":[{"body":5}]}`, `{"records":[{"headers":null}]}`, `{"records":[{"headers":{}}]}`,
		`{"records":[{"headers":[["a"]]}]}`, `{"records":[{"headers":[["a","b","c"]]}]}`, `{"records":[{"headers":[[]]}]}`, `{"records":[{"headers":[null]}]}`, `{"records":[{"headers":[["a",null]]}]}`,
		`{"records":[{"headers":["ab"]}]}`, "{\"records\":[{\"body\":\"\xff\"}]}", "{\"records\":[{\"body\":\"\xed\xa0\x80\"}]}", "{\"records\":[{\"body\":\"\n\"}]}", "{\"records\":[{\"body\":\"\x00\"}]}",
		`{"records":[{"body":"\ud800"}]}`, `{"records":[{"body":"\ud800\u0041"}]}`, `{"records":[{"body":"\udc00\ud800"}]}`, `{"records":[{"body":"\ud800x"}]}`,
		`{"records":[{"body":"\x"}]}`, `{"records":[{"body":"\u12"}]}`, `{"records":[{"body":"\u12g4"}]}`, `{"records":[{"body":"\`, `{"records":[{"body":"`, `{"records":[{"body":"a`,
		`{"records":[],"fencing_token":5}`, `{"records":[],"fencing_token":"1234567890123456789012345678901234567"}`, `{"records":[],"fencing_token":"ééééééééééééééééééé"}`,
		`{"records":[],"x":01}`, `{"records":[],"x":1.}`, `{"records":[],"x":.1}`, `{"records":[],"x":1e}`, `{"records":[],"x":-}`, `{"records":[],"x":nul}`, `{"records":[],"x":tru}`, `{"records":[],"x":NaN}`, `{"records":[],"x"}`, `{"records":[],x:1}`,
		"\ufeff" + `{"records":[]}`, `{"records":[]} /* */`, strings.Repeat(`{"a":`, NestingMax+1), strings.Repeat("[", 1<<20), `{"x":` + strings.Repeat("[", NestingMax) + strings.Repeat("]", NestingMax) + `,"records":[]}`,
	} {
		_, err := DecodeAppendInputJSON([]byte(body), FormatRaw)
		if wantCode(t, err, CodeBadJSON); err == nil {
			t.Errorf("%.80s is accepted", body)
		}
	}
}

func TestNestingIsAllowedToItsLimit(t *testing.T) {
	t.Parallel()
	body := `{"x":` + strings.Repeat("[", NestingMax-1) + strings.Repeat("]", NestingMax-1) + `,"records":[]}`
	if _, err := DecodeAppendInputJSON([]byte(body), FormatRaw); err != nil {
		t.Error(err)
	}
}

func TestBase64IsStrict(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"QQ", "QQ=", "QR==", "QUI", "Q-_=", "QQ==\\n", "QU\\nI=", "QU\\rI=", " QQ==", "====", "QQ==QQ==", "é", "="} {
		for _, record := range []string{`{"body":"%s"}`, `{"headers":[["%s",""]]}`, `{"headers":[["","%s"]]}`} {
			body := `{"records":[{},{},` + fmt.Sprintf(record, text) + `]}`
			_, err := DecodeAppendInputJSON([]byte(body), FormatBase64)
			if wantCode(t, err, CodeInvalid); err != nil && !strings.Contains(err.Error(), "record 2") {
				t.Errorf("%s: the error does not name the record: %v", body, err)
			}
		}
	}
	// What is no JSON is that first, whatever the base64 before it.
	_, err := DecodeAppendInputJSON([]byte(`{"records":[{"body":"!"}]`), FormatBase64)
	wantCode(t, err, CodeBadJSON)
	// A fencing token is never base64.
	in, err := DecodeAppendInputJSON([]byte(`{"records":[],"fencing_token":"a!"}`), FormatBase64)
	if err != nil || *in.FencingToken != "a!" {
		t.Errorf("got %v, %v", in, err)
	}
}

func TestDecodedRecordsAreBounded(t *testing.T) {
	t.Parallel()
	body := func(n int) []byte {
		return []byte(`{"records":[` + strings.TrimSuffix(strings.Repeat("{},", n), ",") + `]}`)
	}
	if in, err := DecodeAppendInputJSON(body(RecordsDecodeMax), FormatRaw); err != nil || len(in.Records) != RecordsDecodeMax {
		t.Errorf("got %d records, %v", len(in.Records), err)
	}
	_, err := DecodeAppendInputJSON(body(RecordsDecodeMax+1), FormatRaw)
	wantCode(t, err, CodeInvalid)
}

func TestRawReplacesWhatIsNotUTF8(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"\xff": "\ufffd", "a\xc3": "a\ufffd", "\xe2\x82b": "\ufffd\ufffdb", "\xed\xa0\x80": "\ufffd\ufffd\ufffd", "\xf0\x9f\x98\x80\x80": "😀\ufffd", "\ufffd": "\ufffd", "é": "é", "\x7f": "\x7f",
	} {
		line := AppendReadBatchJSON(nil, []Record{{Body: []byte(body)}}, nil, FormatRaw)
		var got struct{ Records []struct{ Body string } }
		if err := json.Unmarshal(line, &got); err != nil || got.Records[0].Body != want {
			t.Errorf("%q: got %q, %v", body, got.Records[0].Body, err)
		}
	}
}

// genBytes draws bytes that the format can carry.
func genBytes(f Format) *rapid.Generator[[]byte] {
	return rapid.Custom(func(t *rapid.T) []byte {
		var b []byte
		if f == FormatRaw {
			b = []byte(rapid.StringN(-1, 20, -1).Draw(t, "text"))
		} else {
			b = rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bytes")
		}
		if len(b) == 0 {
			return nil
		}
		return b
	})
}

func genHeaders(f Format) *rapid.Generator[[]Header] {
	return rapid.Custom(func(t *rapid.T) []Header {
		n := rapid.IntRange(0, 3).Draw(t, "headers")
		var headers []Header
		for range n {
			headers = append(headers, Header{genBytes(f).Draw(t, "name"), genBytes(f).Draw(t, "value")})
		}
		return headers
	})
}

func genInput(f Format) *rapid.Generator[AppendInput] {
	return rapid.Custom(func(t *rapid.T) AppendInput {
		var in AppendInput
		for range rapid.IntRange(0, 4).Draw(t, "records") {
			r := AppendRecord{Headers: genHeaders(f).Draw(t, "headers"), Body: genBytes(f).Draw(t, "body")}
			if rapid.Bool().Draw(t, "has timestamp") {
				r.HasTimestamp, r.Timestamp = true, rapid.Uint64().Draw(t, "timestamp")
			}
			in.Records = append(in.Records, r)
		}
		if rapid.Bool().Draw(t, "match") {
			in.MatchSeqNum = ptr(rapid.Uint64().Draw(t, "match_seq_num"))
		}
		if rapid.Bool().Draw(t, "fence") {
			in.FencingToken = ptr(rapid.StringN(-1, 9, FencingTokenMax).Draw(t, "fencing_token"))
		}
		return in
	})
}

func genBatch(f Format) *rapid.Generator[ReadBatch] {
	return rapid.Custom(func(t *rapid.T) ReadBatch {
		var b ReadBatch
		for range rapid.IntRange(0, 4).Draw(t, "records") {
			b.Records = append(b.Records, Record{
				SeqNum: rapid.Uint64().Draw(t, "seq"), Timestamp: rapid.Uint64().Draw(t, "ts"),
				Headers: genHeaders(f).Draw(t, "headers"), Body: genBytes(f).Draw(t, "body"),
			})
		}
		if rapid.Bool().Draw(t, "has tail") {
			b.Tail = &StreamPosition{rapid.Uint64().Draw(t, "tail seq"), rapid.Uint64().Draw(t, "tail ts")}
		}
		return b
	})
}

var formats = []Format{FormatRaw, FormatBase64}

// TestJSONRoundTrip also checks that what is written is JSON to encoding/json, and on one line.
func TestJSONRoundTrip(t *testing.T) {
	t.Parallel()
	for _, f := range formats {
		rapid.Check(t, func(t *rapid.T) {
			in := genInput(f).Draw(t, "input")
			text := EncodeAppendInputJSON(nil, in, f)
			if !json.Valid(text) || !utf8.Valid(text) {
				t.Fatalf("not JSON: %s", text)
			}
			if got, err := DecodeAppendInputJSON(text, f); err != nil || !reflect.DeepEqual(got, in) {
				t.Fatalf("got %+v, %v, want %+v", got, err, in)
			}
			b := genBatch(f).Draw(t, "batch")
			text = AppendReadBatchJSON(nil, b.Records, b.Tail, f)
			if !json.Valid(text) || bytes.ContainsAny(text, "\r\n") {
				t.Fatalf("not JSON on one line: %q", text)
			}
			if got, err := DecodeReadBatchJSON(text, f); err != nil || !reflect.DeepEqual(got, b) {
				t.Fatalf("got %+v, %v, want %+v", got, err, b)
			}
		})
	}
}

func TestAckRoundTrip(t *testing.T) {
	t.Parallel()
	text := AppendAckJSON(nil, ackSample)
	var std AppendAck
	if err := json.Unmarshal(text, &std); err != nil || std != ackSample {
		t.Errorf("encoding/json: got %+v, %v", std, err)
	}
	if got, err := DecodeAppendAckJSON(text); err != nil || got != ackSample {
		t.Errorf("got %+v, %v", got, err)
	}
	if again, err := json.Marshal(ackSample); err != nil || !bytes.Equal(again, AppendAckJSON(nil, ackSample)) {
		t.Errorf("encoding/json writes %s, %v", again, err)
	}
}

// FuzzAppendInputJSON holds the scanner against encoding/json: what is accepted is JSON, and both read the same.
func FuzzAppendInputJSON(f *testing.F) {
	for _, seed := range []string{
		`{"records":[]}`, `{"records":[{"body":"hi","timestamp":5,"headers":[["a","b"]]}],"match_seq_num":7,"fencing_token":"t"}`,
		`{"records":[{"body":"\u0000\ud83d\ude00\n"}],"x":[1.5e3,{"y":null}]}`, `{"records":[{"body":"AAAA","headers":[["","dHJpbQ=="]]}]}`, `{"records":[{"body":"\ud800"}]}`,
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, b64 bool) {
		format := FormatRaw
		if b64 {
			format = FormatBase64
		}
		in, err := DecodeAppendInputJSON(bytes.Clone(body), format)
		if err != nil {
			return
		}
		if !json.Valid(body) {
			t.Fatalf("encoding/json does not take it for JSON: %q", body)
		}
		var std map[string]json.RawMessage
		if err := json.Unmarshal(body, &std); err != nil {
			t.Fatal(err)
		}
		var records []map[string]json.RawMessage // a struct would fold keys
		if err := json.Unmarshal(std["records"], &records); err != nil || len(records) != len(in.Records) {
			t.Fatalf("got %d records, encoding/json %d: %v", len(in.Records), len(records), err)
		}
		for i, fields := range records {
			text := in.Records[i].Body
			if b64 {
				text = []byte(base64.StdEncoding.EncodeToString(text))
			}
			var want string
			if body, ok := fields["body"]; ok {
				if err := json.Unmarshal(body, &want); err != nil {
					t.Fatal(err)
				}
			}
			if want != string(text) {
				t.Fatalf("record %d: got %q, encoding/json %q", i, text, want)
			}
			var headers []json.RawMessage
			if list, ok := fields["headers"]; ok {
				if err := json.Unmarshal(list, &headers); err != nil || len(headers) != len(in.Records[i].Headers) {
					t.Fatalf("record %d: got %d headers, encoding/json %d: %v", i, len(in.Records[i].Headers), len(headers), err)
				}
			}
		}
		again, err := DecodeAppendInputJSON(EncodeAppendInputJSON(nil, in, format), format)
		if err != nil || !reflect.DeepEqual(again, in) {
			t.Fatalf("got %+v, %v, want %+v", again, err, in)
		}
	})
}

// FuzzJSONValue holds the scanner's grammar against encoding/json's, both ways.
func FuzzJSONValue(f *testing.F) {
	for _, seed := range []string{`1`, `-0.5e+10`, `"a\u00e9"`, `[1,[2],{"a":{}}]`, `{"a":1,"a":2}`, `nulll`, `"\ud800"`, `01`, ` `} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		err := decodeJSON(bytes.Clone(text), (*scanner).skip)
		switch valid := json.Valid(text); {
		case err == nil && !valid:
			t.Fatalf("%q is no JSON and was accepted", text)
		case err != nil && valid && utf8.Valid(text) && !bytes.Contains(bytes.ToLower(text), []byte(`\ud`)) && bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) < NestingMax:
			t.Fatalf("%q is JSON and was refused: %v", text, err)
		}
	})
}

func BenchmarkDecodeAppendInputJSON(b *testing.B) {
	in := AppendInput{Records: make([]AppendRecord, 1000)}
	for i := range in.Records {
		in.Records[i] = AppendRecord{Headers: []Header{{[]byte("k"), []byte("v")}}, Body: bytes.Repeat([]byte("x"), 1000)}
	}
	for _, f := range formats {
		text := EncodeAppendInputJSON(nil, in, f)
		b.Run(f.String(), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			buf := make([]byte, len(text))
			for b.Loop() {
				copy(buf, text)
				if _, err := DecodeAppendInputJSON(buf, f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendReadBatchJSON(b *testing.B) {
	for name, unit := range map[string]string{"ascii": "x", "kana": "か", "quotes": `"a":1,`} {
		records := make([]Record, 1000)
		for i := range records {
			records[i] = Record{SeqNum: uint64(i), Timestamp: 1700000000000, Headers: []Header{{[]byte("k"), []byte("v")}}, Body: []byte(strings.Repeat(unit, 1000/len(unit)))}
		}
		for _, f := range formats {
			b.Run(name+"/"+f.String(), func(b *testing.B) {
				var dst []byte
				b.ReportAllocs()
				for b.Loop() {
					dst = AppendReadBatchJSON(dst[:0], records, nil, f)
				}
				b.SetBytes(int64(len(dst)))
			})
		}
	}
}
