package wire

import (
	"fmt"
	"net/http"
	"time"
)

// Applied says whether a failed request may have changed something. It is the value of the header Tailrace-Applied.
type Applied string

const (
	// AppliedNo is definite: no effect, now or later.
	AppliedNo Applied = "no"
	// AppliedUnknown is indefinite: the effect may be there, or may still appear.
	AppliedUnknown Applied = "unknown"
)

// Error is an S2 error with a code and a message, made by the server or received by the client.
type Error struct {
	// Code is empty or unknown only in an error received from a server.
	Code Code
	// Message is for people. It never holds a record's body, a token, a key or an internal cause.
	Message string
	// RetryAfter is how long a client should wait; 0 leaves it to the default (429, 502 and 503 always say a time).
	RetryAfter time.Duration
	// Applied overrides what the code says; empty means: as the table of codes has it.
	Applied Applied

	status int   // the status received, where no code says it
	cause  error // never on the wire
}

// Errorf makes an error of code. The message goes to the client as it is.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Because returns a copy of e that keeps cause for errors.Is, errors.As and the log. The client does not see it.
func (e *Error) Because(cause error) *Error {
	c := *e
	c.cause = cause
	return &c
}

// Error is the code and the message.
func (e *Error) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("status %d: %s", e.Status(), e.Message)
	}
	return string(e.Code) + ": " + e.Message
}

// Unwrap gives the cause, if there is one. A nil *Error in an error is a mistake that must still get an answer.
func (e *Error) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.cause
}

// Status is the HTTP status of the error.
func (e *Error) Status() int {
	if e.status != 0 {
		return e.status
	}
	return e.Code.Status()
}

// Effect is Applied, or else what the code says; unknown for an unknown code.
func (e *Error) Effect() Applied {
	switch {
	case e.Applied != "":
		return e.Applied
	case e.Code.NoEffect():
		return AppliedNo
	default:
		return AppliedUnknown
	}
}

// Retryable reports whether the request may be sent again: by the code, or by the status where there is no code.
func (e *Error) Retryable() bool {
	if e.Code.Known() {
		return e.Code.Retryable()
	}
	switch e.Status() {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// FencingTokenMismatch refuses an append whose fencing token is not the one in force: 412, never applied.
type FencingTokenMismatch struct {
	// Installed is the token in force; empty when none is.
	Installed string
	// Tail is the position of the tail, which travels as that of a SeqNumMismatch.
	Tail *StreamPosition
}

func (e *FencingTokenMismatch) Error() string {
	return fmt.Sprintf("fencing token mismatch: the token in force has %d bytes", len(e.Installed))
}

// SeqNumMismatch refuses an append whose match_seq_num was missed: 412, never applied.
type SeqNumMismatch struct {
	// Next is the sequence number that the first record would have got.
	Next uint64
	// Tail is the position of the tail, of which the body has no room; it travels in the header Tailrace-Tail.
	// Nil when it is not known.
	Tail *StreamPosition
}

func (e *SeqNumMismatch) Error() string {
	return fmt.Sprintf("sequence number mismatch: the next one is %d", e.Next)
}

// RangeNotSatisfiable refuses a read that starts beyond the tail, or at it without waiting: 416.
type RangeNotSatisfiable struct {
	// Tail is the durable tail.
	Tail StreamPosition
}

func (e *RangeNotSatisfiable) Error() string {
	return fmt.Sprintf("range not satisfiable: the tail is at %d", e.Tail.SeqNum)
}

// RevisionNotReached refuses a read that demands a revision which the server does not reflect in time: 412. Only a
// request with Tailrace-Min-Revision can get it, so its body is not one that S2 clients must know.
type RevisionNotReached struct {
	// Current is the revision that the server reflects; it may be empty.
	Current string
}

func (e *RevisionNotReached) Error() string {
	return fmt.Sprintf("revision not reached: the current one is %q", e.Current)
}

// UnsupportedEncoding refuses a request body with a Content-Encoding other than gzip or zstd: 415 without a body.
type UnsupportedEncoding struct {
	// Encoding is what the request said.
	Encoding string
}

func (e *UnsupportedEncoding) Error() string {
	return fmt.Sprintf("unsupported content encoding %q", e.Encoding)
}
