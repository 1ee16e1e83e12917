package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// TestCodesGolden pins the table: a change of a status or a flag is a change of the API.
func TestCodesGolden(t *testing.T) {
	t.Parallel()
	names := make([]string, 0, len(codes))
	for code := range codes {
		names = append(names, string(code))
	}
	slices.Sort(names)
	var got strings.Builder
	for _, name := range names {
		c := Code(name)
		fmt.Fprintf(&got, "%s %d retryable=%t no_effect=%t\n", c, c.Status(), c.Retryable(), c.NoEffect())
	}
	want, err := os.ReadFile("testdata/codes.golden")
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

func TestEncodeError(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		err     error
		status  int
		body    string
		session string // empty: as body
	}{
		{
			"code", Errorf(CodeStreamNotFound, "no stream %q", "a"), 404,
			`{"code":"stream_not_found","message":"no stream \"a\""}`,
			`{"code":"stream_not_found","message":"no stream \"a\"","applied":"no"}`,
		},
		{
			"applied overrides", &Error{Code: CodeStorage, Message: "m", Applied: AppliedNo}, 500,
			`{"code":"storage","message":"m"}`, `{"code":"storage","message":"m","applied":"no"}`,
		},
		{
			"wrapped", fmt.Errorf("append: %w", Errorf(CodeRateLimited, "slow")), 429,
			`{"code":"rate_limited","message":"slow"}`, `{"code":"rate_limited","message":"slow","applied":"no"}`,
		},
		{
			"empty message", &Error{Code: CodeHotServer}, 502,
			`{"code":"hot_server","message":"hot_server"}`, `{"code":"hot_server","message":"hot_server","applied":"no"}`,
		},
		{
			"unknown code", &Error{Code: "nonsense", Message: "m"}, 500,
			`{"code":"other","message":"m"}`, `{"code":"other","message":"m","applied":"unknown"}`,
		},
		{
			"unknown error", errors.New("password is 1234"), 500,
			`{"code":"other","message":"internal error"}`, `{"code":"other","message":"internal error","applied":"unknown"}`,
		},
		{
			"cause is not shown", Errorf(CodeUnavailable, "in doubt").Because(context.DeadlineExceeded), 503,
			`{"code":"unavailable","message":"in doubt"}`, `{"code":"unavailable","message":"in doubt","applied":"unknown"}`,
		},
		{"fencing", &FencingTokenMismatch{Installed: "to\"k"}, 412, `{"fencing_token_mismatch":"to\"k"}`, ""},
		{"no fencing token", &FencingTokenMismatch{}, 412, `{"fencing_token_mismatch":""}`, ""},
		{"seq num", fmt.Errorf("x: %w", &SeqNumMismatch{Next: 1<<64 - 1}), 412, `{"seq_num_mismatch":18446744073709551615}`, ""},
		{
			"condition within an error", Errorf(CodeOther, "x").Because(&SeqNumMismatch{Next: 7}), 412,
			`{"seq_num_mismatch":7}`, "",
		},
		{"range", &RangeNotSatisfiable{Tail: StreamPosition{5, 1700}}, 416, `{"tail":{"seq_num":5,"timestamp":1700}}`, ""},
		{"revision", &RevisionNotReached{Current: "b/s@1.2"}, 412, `{"current_revision":"b/s@1.2"}`, ""},
		{"encoding", &UnsupportedEncoding{Encoding: "br"}, 415, "", ""},
		{"nil", nil, 500, `{"code":"other","message":"internal error"}`, `{"code":"other","message":"internal error","applied":"unknown"}`},
		{"typed nil", (*Error)(nil), 500, `{"code":"other","message":"internal error"}`, `{"code":"other","message":"internal error","applied":"unknown"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			status, body := EncodeError(test.err)
			if status != test.status || string(body) != test.body {
				t.Errorf("EncodeError: got %d %s, want %d %s", status, body, test.status, test.body)
			}
			if test.session == "" {
				test.session = test.body
			}
			status, body = EncodeSessionError(test.err)
			if status != test.status || string(body) != test.session {
				t.Errorf("EncodeSessionError: got %d %s, want %d %s", status, body, test.status, test.session)
			}
		})
	}
}

func TestMessageIsCutAtACharacter(t *testing.T) {
	t.Parallel()
	_, body := EncodeError(Errorf(CodeInvalid, "a%s", strings.Repeat("é", MessageSizeMax)))
	if len(body) > MessageSizeMax+64 || !utf8.Valid(body) || !strings.HasSuffix(string(body), `é..."}`) {
		t.Errorf("got %d bytes: %s", len(body), body)
	}
}

// oneWrite fails a second Write.
type oneWrite struct {
	*httptest.ResponseRecorder
	t      *testing.T
	writes int
}

func (w *oneWrite) Write(b []byte) (int, error) {
	if w.writes++; w.writes > 1 {
		w.t.Error("more than one write")
	}
	return w.ResponseRecorder.Write(b)
}

func TestWriteError(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		err  error
		want map[string]string // "" means the header is absent
	}{
		{"definite", Errorf(CodeBadPath, "m"), map[string]string{HeaderApplied: "no", "Retry-After": "", HeaderRetryAfterMs: "", "Content-Type": "application/json"}},
		{"indefinite", Errorf(CodeUnavailable, "m"), map[string]string{HeaderApplied: "unknown", "Retry-After": "1", HeaderRetryAfterMs: "100"}},
		{"rate", &Error{Code: CodeRateLimited, Message: "m", RetryAfter: 1001 * time.Millisecond}, map[string]string{HeaderApplied: "no", "Retry-After": "2", HeaderRetryAfterMs: "1001"}},
		{"part of a millisecond", &Error{Code: CodeHotServer, Message: "m", RetryAfter: time.Microsecond}, map[string]string{"Retry-After": "1", HeaderRetryAfterMs: "1"}},
		{"draining", Errorf(CodeServerDraining, "m"), map[string]string{HeaderApplied: "no", "Retry-After": "1", HeaderRetryAfterMs: "100"}},
		{"500 says no time", Errorf(CodeOther, "m"), map[string]string{HeaderApplied: "unknown", "Retry-After": ""}},
		{"tail", &SeqNumMismatch{Next: 5, Tail: &StreamPosition{5, 17}}, map[string]string{HeaderApplied: "no", HeaderTail: "5,17"}},
		{"416", &RangeNotSatisfiable{}, map[string]string{HeaderApplied: "no"}},
		{"415", &UnsupportedEncoding{}, map[string]string{HeaderApplied: "no", "Accept-Encoding": "zstd, gzip", "Content-Type": "", "Content-Length": "0"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := &oneWrite{ResponseRecorder: httptest.NewRecorder(), t: t}
			WriteError(w, test.err)
			status, body := EncodeError(test.err)
			if w.Code != status || w.Body.String() != string(body) {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
			if got, want := w.Header().Get("Content-Length"), fmt.Sprint(len(body)); got != want {
				t.Errorf("Content-Length: got %q, want %q", got, want)
			}
			for name, want := range test.want {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s: got %q, want %q", name, got, want)
				}
			}
		})
	}
}

// TestErrorRoundTrip sends every kind of error through a recorder to a client.
func TestErrorRoundTrip(t *testing.T) {
	t.Parallel()
	all := []error{
		&FencingTokenMismatch{Installed: "t"}, &FencingTokenMismatch{}, &RevisionNotReached{Current: "r"},
		&SeqNumMismatch{Next: 7, Tail: &StreamPosition{7, 8}}, &SeqNumMismatch{Next: 7}, &RangeNotSatisfiable{Tail: StreamPosition{1, 2}},
	}
	for code := range codes {
		all = append(all, Errorf(code, "message"), &Error{Code: code, Message: "m", Applied: AppliedUnknown, RetryAfter: 1500 * time.Millisecond})
	}
	for _, err := range all {
		w := httptest.NewRecorder()
		WriteError(w, err)
		got := DecodeError(w.Code, w.Body.Bytes(), w.Header())
		want, ok := err.(*Error)
		if !ok {
			if fmt.Sprintf("%#v", answerOf(got)) != fmt.Sprintf("%#v", answerOf(err)) && got.Error() != err.Error() {
				t.Errorf("got %#v, want %#v", got, err)
			}
			continue
		}
		e, ok := got.(*Error)
		if !ok || e.Code != want.Code || e.Message != want.Message || e.Effect() != want.Effect() || e.Retryable() != want.Code.Retryable() || e.Status() != want.Status() {
			t.Errorf("got %#v, want %#v", got, want)
		}
		if want.RetryAfter > 0 && e.RetryAfter != want.RetryAfter {
			t.Errorf("%s: retry after %v, want %v", e.Code, e.RetryAfter, want.RetryAfter)
		}
	}
}

func TestDecodeForeignError(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		status  int
		body    string
		code    Code
		message string
		retry   bool
	}{
		{"no body", 404, "", "", "Not Found", false},
		{"text", 502, " bad gateway\n", "", "bad gateway", true},
		{"not UTF-8", 503, "\xff", "", "\ufffd", true},
		{"new code", 429, `{"code":"later","message":"m"}`, "later", "m", true},
		{"code of another status", 400, `{"code":"storage","message":"m"}`, "", "m", false},
		{"412 without a condition", 412, `{"code":"invalid","message":"m"}`, "", "m", false},
		{"condition with another status", 400, `{"seq_num_mismatch":7}`, "", `{"seq_num_mismatch":7}`, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e, ok := DecodeError(test.status, []byte(test.body), http.Header{}).(*Error)
			if !ok || e.Code != test.code || e.Message != test.message || e.Retryable() != test.retry || e.Status() != test.status || e.Effect() != AppliedUnknown {
				t.Errorf("got %#v", e)
			}
		})
	}
}

func FuzzDecodeError(f *testing.F) {
	for _, seed := range []string{
		"", "null", `{"code":"storage","message":"m","applied":"no"}`, `{"seq_num_mismatch":7}`,
		`{"fencing_token_mismatch":""}`, `{"tail":{"seq_num":1,"timestamp":2}}`, `{"current_revision":"r"}`, `{"code":"\ud800"}`,
	} {
		for _, status := range []int{400, 412, 416, 500, 503} {
			f.Add(status, []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		err := DecodeError(status, append([]byte(nil), body...), nil)
		if err == nil || !utf8.ValidString(err.Error()) {
			t.Fatalf("got %v", err)
		}
		// What was understood is said again in the same words.
		status, again := EncodeError(err)
		if second := DecodeError(status, append([]byte(nil), again...), nil); status != 500 && second.Error() != err.Error() {
			t.Fatalf("%v became %v", err, second)
		}
		_ = decodeEventError(body)
	})
}
