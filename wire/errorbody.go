package wire

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// messageOther is what the world learns of an error that this package does not know.
const messageOther = "internal error"

// retryAfterDefault is said with 429, 502 and 503 when the error names no time: long enough for a client's second
// attempt to meet another state, short enough for its five-second budget.
const retryAfterDefault = 100 * time.Millisecond

// EncodeError gives the status and the body of a unary error response. An error it does not know, or a nil one,
// becomes 500 `other` with a message that tells nothing. The body is empty for a 415 only.
func EncodeError(err error) (status int, body []byte) {
	a := answerOf(err)
	return a.status, a.appendBody(nil, false)
}

// EncodeSessionError is EncodeError for an error after the 200 of a session or event stream, where no header can say
// whether the request was applied: a body with code and message says it, in the key "applied".
func EncodeSessionError(err error) (status int, body []byte) {
	a := answerOf(err)
	return a.status, a.appendBody(nil, true)
}

// WriteError answers a request with err: in one write, with Content-Length and uncompressed, because a client may look
// at the first chunk only. It must be the first thing written to w.
func WriteError(w http.ResponseWriter, err error) {
	a := answerOf(err)
	body := a.appendBody(nil, false)
	h := w.Header()
	h.Del("Content-Encoding")
	h.Set(HeaderApplied, string(a.applied))
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if len(body) > 0 {
		h.Set("Content-Type", MediaJSON)
	}
	if a.tail != nil {
		h.Set(HeaderTail, FormatTail(*a.tail))
	}
	switch a.status {
	case http.StatusUnsupportedMediaType:
		h.Set("Accept-Encoding", "zstd, gzip")
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable:
		setRetryAfter(h, a.retryAfter)
	default:
		if a.retryAfter > 0 {
			setRetryAfter(h, a.retryAfter)
		}
	}
	w.WriteHeader(a.status)
	if len(body) > 0 {
		_, _ = w.Write(body) // a client that is gone has no use for the error of telling it so
	}
}

// setRetryAfter says d in both forms. Retry-After has whole seconds and rounds up: a client that only knows seconds
// must not come too early.
func setRetryAfter(h http.Header, d time.Duration) {
	if d <= 0 {
		d = retryAfterDefault
	}
	ms := max((d+time.Millisecond-1)/time.Millisecond, 1)
	h.Set("Retry-After", strconv.FormatInt(int64(max((d+time.Second-1)/time.Second, 1)), 10))
	h.Set(HeaderRetryAfterMs, strconv.FormatInt(int64(ms), 10))
}

// answer is an error as the wire says it: with a code and a message, or with a body of its own.
type answer struct {
	status        int
	code, message string
	own           []byte // the whole body where code is empty
	applied       Applied
	retryAfter    time.Duration
	tail          *StreamPosition
}

func answerOf(err error) answer {
	var (
		e        *Error
		fenced   *FencingTokenMismatch
		mismatch *SeqNumMismatch
		beyond   *RangeNotSatisfiable
		revision *RevisionNotReached
		encoding *UnsupportedEncoding
	)
	// A condition that failed is more than its wrapping, so the typed errors come before the general one.
	switch {
	case errors.As(err, &fenced):
		body := appendString([]byte(`{"fencing_token_mismatch":`), fenced.Installed)
		return answer{status: http.StatusPreconditionFailed, own: append(body, '}'), applied: AppliedNo, tail: fenced.Tail}
	case errors.As(err, &mismatch):
		body := strconv.AppendUint([]byte(`{"seq_num_mismatch":`), mismatch.Next, 10)
		return answer{status: http.StatusPreconditionFailed, own: append(body, '}'), applied: AppliedNo, tail: mismatch.Tail}
	case errors.As(err, &beyond):
		body := AppendTailJSON(nil, beyond.Tail)
		return answer{status: http.StatusRequestedRangeNotSatisfiable, own: body, applied: AppliedNo, tail: &beyond.Tail}
	case errors.As(err, &revision):
		body := appendString([]byte(`{"current_revision":`), revision.Current)
		return answer{status: http.StatusPreconditionFailed, own: append(body, '}'), applied: AppliedNo}
	case errors.As(err, &encoding):
		return answer{status: http.StatusUnsupportedMediaType, applied: AppliedNo}
	case errors.As(err, &e) && e != nil:
		return e.answer()
	}
	return (&Error{Code: CodeOther, Message: messageOther}).answer()
}

// answer keeps the pair of code and status exact: an error without a known code is sent as `other`.
func (e *Error) answer() answer {
	code := e.Code
	if !code.Known() {
		code = CodeOther
	}
	message := cutMessage(e.Message)
	if message == "" {
		message = string(code) // clients read no code where the message is empty
	}
	return answer{
		status: code.Status(), code: string(code), message: message,
		applied: e.Effect(), retryAfter: e.RetryAfter,
	}
}

// cutMessage bounds a message, without cutting a character in two.
func cutMessage(m string) string {
	if len(m) <= MessageSizeMax {
		return m
	}
	cut := MessageSizeMax
	for cut > 0 && !utf8.RuneStart(m[cut]) {
		cut--
	}
	return strings.TrimSpace(m[:cut]) + "..."
}

func (a answer) appendBody(dst []byte, withApplied bool) []byte {
	if a.code == "" {
		return append(dst, a.own...)
	}
	dst = appendString(append(dst, `{"code":`...), a.code)
	dst = appendString(append(dst, `,"message":`...), a.message)
	if withApplied {
		dst = appendString(append(dst, `,"applied":`...), string(a.applied))
	}
	return append(dst, '}')
}
