package wire

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// DecodeError gives the error that an answer with a status of 400 or more means, for a client: a typed error for 412
// and 416, else an *Error. It never fails: an answer that is not S2's becomes an *Error without a code, with the
// status and as much of the body as is fit to show. It may overwrite body.
func DecodeError(status int, body []byte, h http.Header) error {
	if len(body) > ErrorBodySizeMax {
		body = body[:ErrorBodySizeMax]
	}
	text := string(body)
	p, err := decodeAs(body, readErrorBody)
	if err == nil {
		if typed := p.typed(status); typed != nil {
			switch refused := typed.(type) {
			case *SeqNumMismatch:
				refused.Tail = tailOf(h)
			case *FencingTokenMismatch:
				refused.Tail = tailOf(h)
			}
			return typed
		}
	}
	e := &Error{Code: p.code, Message: cutMessage(p.message), RetryAfter: retryAfterOf(h), Applied: p.applied, status: status}
	// A known code with another status is none, by the rule of the official clients.
	if e.Code.Known() && e.Code.Status() != status {
		e.Code = ""
	}
	if e.Message == "" {
		e.Message = cutMessage(strings.ToValidUTF8(strings.TrimSpace(text), "\ufffd"))
	}
	if e.Message == "" {
		e.Message = http.StatusText(status)
	}
	if applied := parseApplied(h.Get(HeaderApplied)); applied != "" {
		e.Applied = applied
	}
	return e
}

// decodeEventError gives the error in an SSE event, where no status comes along: the shape or the code implies it.
func decodeEventError(body []byte) error {
	status := http.StatusInternalServerError
	p, err := decodeAs([]byte(string(body)), readErrorBody)
	switch {
	case err != nil:
	case p.fencing != nil || p.seqNum != nil || p.revision != nil:
		status = http.StatusPreconditionFailed
	case p.tail != nil:
		status = http.StatusRequestedRangeNotSatisfiable
	case p.code.Known():
		status = p.code.Status()
	}
	return DecodeError(status, body, nil)
}

// errorBody is every shape of an error's body at once.
type errorBody struct {
	code     Code
	message  string
	applied  Applied
	fencing  *string
	seqNum   *uint64
	revision *string
	tail     *StreamPosition
}

func readErrorBody(s *scanner) (p errorBody, err error) {
	var code, applied string
	err = s.fields(map[string]field{
		"code":                   plainField(&code, readString),
		"message":                plainField(&p.message, readString),
		"applied":                plainField(&applied, readString),
		"fencing_token_mismatch": nullableField(&p.fencing, readString),
		"seq_num_mismatch":       nullableField(&p.seqNum, (*scanner).u64),
		"current_revision":       nullableField(&p.revision, readString),
		"tail":                   nullableField(&p.tail, readPosition),
	})
	p.code, p.applied = Code(code), parseApplied(applied)
	return p, err
}

// typed gives the error of a 412 or 416 body, or nil.
func (p errorBody) typed(status int) error {
	switch {
	case status == http.StatusPreconditionFailed && p.fencing != nil:
		return &FencingTokenMismatch{Installed: *p.fencing}
	case status == http.StatusPreconditionFailed && p.seqNum != nil:
		return &SeqNumMismatch{Next: *p.seqNum}
	case status == http.StatusPreconditionFailed && p.revision != nil:
		return &RevisionNotReached{Current: *p.revision}
	case status == http.StatusRequestedRangeNotSatisfiable && p.tail != nil:
		return &RangeNotSatisfiable{Tail: *p.tail}
	}
	return nil
}

func parseApplied(text string) Applied {
	switch a := Applied(text); a {
	case AppliedNo, AppliedUnknown:
		return a
	}
	return ""
}

func tailOf(h http.Header) *StreamPosition {
	if tail, err := ParseTail(h.Get(HeaderTail)); err == nil {
		return &tail
	}
	return nil
}

// retryAfterOf prefers the milliseconds; the date form of Retry-After is not used by any S2 server.
func retryAfterOf(h http.Header) time.Duration {
	const most = uint64(24 * time.Hour / time.Millisecond)
	if ms, err := parseU64(h.Get(HeaderRetryAfterMs)); err == nil {
		return time.Duration(min(ms, most)) * time.Millisecond
	}
	if s, err := strconv.ParseUint(h.Get("Retry-After"), 10, 32); err == nil {
		return time.Duration(min(s*1000, most)) * time.Millisecond
	}
	return 0
}
