package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tailrace-streams/tailrace/wire"
)

// Sentinels for errors.Is: one for each thing that a caller may do differently.
var (
	// ErrFenced: another fencing token is installed; see [FenceError].
	ErrFenced = errors.New("fenced: another fencing token is installed")
	// ErrSequence: the append's match_seq_num was missed; see [SequenceError].
	ErrSequence = errors.New("sequence mismatch")
	// ErrOutOfRange: the read starts beyond the tail; see [RangeError].
	ErrOutOfRange = errors.New("out of range")
	// ErrRevision: the server does not reflect the revision demanded; see [RevisionError].
	ErrRevision = errors.New("revision not reached")
	// ErrNotFound: the basin, stream or access token does not exist.
	ErrNotFound = errors.New("not found")
	// ErrAlreadyExists: what was to be created is there.
	ErrAlreadyExists = errors.New("already exists")
	// ErrDeletionPending: the basin or stream is being deleted; its name is free later.
	ErrDeletionPending = errors.New("deletion pending")
	// ErrPermission: the access token is not accepted, or does not permit this.
	ErrPermission = errors.New("not permitted")
	// ErrRateLimited: too much at the moment; [Error.RetryAfter] says when to come again.
	ErrRateLimited = errors.New("rate limited")
	// ErrUnavailable: the server could not serve this, or not be reached; another try may succeed.
	ErrUnavailable = errors.New("unavailable")
	// ErrSkipped: an earlier batch of the session or producer failed, so this one was not applied by it.
	ErrSkipped = errors.New("an earlier batch failed")
	// ErrClosed: the session or producer is closed.
	ErrClosed = errors.New("closed")
)

// Code is the code of an S2 error, such as "stream_not_found".
type Code = wire.Code

// Error is a failure that has no type of its own.
type Error struct {
	// Op is what was to be done: "append", "create stream".
	Op string
	// Code and Status are what the server answered; no Code if its answer had none that is known, no Status if there was
	// no answer.
	Code   Code
	Status int
	// Message is the server's, for people.
	Message string
	// RetryAfter is how long the server asks to wait before another try; 0 if it did not say.
	RetryAfter time.Duration
	// Indefinite says that what was to be done may have been, or may still be. Never set for what changes nothing.
	Indefinite bool

	retryable bool
	resent    bool // an earlier attempt of unknown outcome may be the reason for what the last one was told
	cause     error
}

// Error says what failed and why, and if the outcome is unknown.
func (e *Error) Error() string {
	text := e.Op
	switch {
	case e.Code != "":
		text += ": " + string(e.Code) + ": " + e.Message
	case e.Status != 0:
		text += fmt.Sprintf(": status %d: %s", e.Status, e.Message)
	case e.Message != "":
		text += ": " + e.Message
	}
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	if e.Indefinite {
		text += " (it may have been applied)"
	}
	return text
}

// Unwrap gives the cause: a transport's error, or the context's.
func (e *Error) Unwrap() error { return e.cause }

// Is matches the sentinels of this package.
func (e *Error) Is(target error) bool { return target != nil && target == e.sentinel() }

// sentinel is what the code says, or the status where there is no code, or that there was no answer.
func (e *Error) sentinel() error {
	switch e.Code {
	case wire.CodeStreamNotFound, wire.CodeBasinNotFound, wire.CodeAccessTokenNotFound:
		return ErrNotFound
	case wire.CodeResourceAlreadyExists:
		return ErrAlreadyExists
	case wire.CodeStreamDeletionPending, wire.CodeBasinDeletionPending:
		return ErrDeletionPending
	case wire.CodeAuthn, wire.CodePermissionDenied:
		return ErrPermission
	case wire.CodeRateLimited:
		return ErrRateLimited
	case wire.CodeHotServer, wire.CodeServerDraining, wire.CodeUnavailable, wire.CodeUpstreamTimeout, wire.CodeRequestTimeout:
		return ErrUnavailable
	case "":
		return e.statusSentinel()
	}
	return nil
}

func (e *Error) statusSentinel() error {
	switch e.Status {
	case 0:
		if e.retryable {
			return ErrUnavailable
		}
	case http.StatusNotFound:
		return ErrNotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return ErrPermission
	case http.StatusTooManyRequests:
		return ErrRateLimited
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusRequestTimeout:
		return ErrUnavailable
	}
	return nil
}

// SequenceError refuses an append whose match_seq_num is not the next sequence number.
type SequenceError struct {
	// Tail is the committed tail: the sequence number that the append would have got, and the next to try.
	Tail uint64
	// Resent says that the batch had been sent before, with unknown outcome. Nothing was appended by the last attempt, but
	// an earlier one may have landed, and be the reason for the miss: read back to decide. Without it the miss proves that
	// nothing was appended.
	Resent bool
}

func (e *SequenceError) Error() string {
	text := fmt.Sprintf("append: sequence mismatch: the tail is %d", e.Tail)
	if e.Resent {
		text += " (sent again: an earlier attempt may have been applied)"
	}
	return text
}

// Is matches ErrSequence.
func (e *SequenceError) Is(target error) bool { return target == ErrSequence }

// FenceError refuses an append that does not present the installed fencing token. It is permanent for who presents the
// other one: only another Fence changes it.
type FenceError struct {
	// Installed is the token in force; empty when there is none.
	Installed string
	// Resent is as in [SequenceError].
	Resent bool
}

func (e *FenceError) Error() string {
	text := fmt.Sprintf("append: %v, of %d bytes", ErrFenced, len(e.Installed))
	if e.Resent {
		text += " (sent again: an earlier attempt may have been applied)"
	}
	return text
}

// Is matches ErrFenced.
func (e *FenceError) Is(target error) bool { return target == ErrFenced }

// RangeError refuses a read that starts beyond the tail. A stream that was deleted and made anew is a usual reason.
type RangeError struct {
	// Tail is the tail.
	Tail Position
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("read: out of range: the tail is %d", e.Tail.SeqNum)
}

// Is matches ErrOutOfRange.
func (e *RangeError) Is(target error) bool { return target == ErrOutOfRange }

// RevisionError refuses a read that demands a revision which the server did not come to reflect in time, or which is of
// an earlier life of the stream's name.
type RevisionError struct {
	// Current is the revision that the server does reflect; it may be empty.
	Current Revision
}

func (e *RevisionError) Error() string {
	return fmt.Sprintf("%v: the current one is %q", ErrRevision, string(e.Current))
}

// Is matches ErrRevision.
func (e *RevisionError) Is(target error) bool { return target == ErrRevision }

// Indefinite reports whether the write that failed with err may have been applied, or may still be. False says that it
// was not and will not be. An error that is not of this package counts as indefinite; nil and failed reads do not.
func Indefinite(err error) bool {
	if err == nil {
		return false
	}
	var (
		general  *Error
		sequence *SequenceError
		fence    *FenceError
		beyond   *RangeError
		revision *RevisionError
	)
	switch {
	case errors.As(err, &general): // first, for it may have one of the others as its cause
		return general.Indefinite
	case errors.As(err, &sequence):
		return sequence.Resent
	case errors.As(err, &fence):
		return fence.Resent
	case errors.As(err, &beyond), errors.As(err, &revision):
		return false
	}
	return true
}

// fromWire turns what the server answered into this package's types. changes says that what failed would have changed
// something.
func fromWire(op string, err error, changes bool) error {
	var (
		fenced   *wire.FencingTokenMismatch
		mismatch *wire.SeqNumMismatch
		beyond   *wire.RangeNotSatisfiable
		revision *wire.RevisionNotReached
		answer   *wire.Error
	)
	switch {
	case errors.As(err, &fenced):
		return &FenceError{Installed: fenced.Installed}
	case errors.As(err, &mismatch):
		return &SequenceError{Tail: mismatch.Next}
	case errors.As(err, &beyond):
		return &RangeError{Tail: beyond.Tail}
	case errors.As(err, &revision):
		return &RevisionError{Current: Revision(revision.Current)}
	case errors.As(err, &answer):
		return &Error{
			Op: op, Code: answer.Code, Status: answer.Status(), Message: answer.Message, RetryAfter: answer.RetryAfter,
			Indefinite: changes && answer.Effect() != wire.AppliedNo, retryable: answer.Retryable(),
		}
	}
	return &Error{Op: op, Message: "unexpected answer", Indefinite: changes, cause: err}
}

// unsent is a failure before anything was sent: definite.
func unsent(op string, cause error) *Error {
	return &Error{Op: op, Message: "not sent", retryable: mayPass(cause), cause: cause}
}

// unanswered is a failure with nothing known of what the server made of it.
func unanswered(op string, cause error, changes bool) *Error {
	return &Error{Op: op, Message: "no answer", Indefinite: changes, retryable: mayPass(cause), cause: cause}
}

// refused is a mistake of the caller, found before anything was sent.
func refused(op, format string, args ...any) *Error {
	return &Error{Op: op, Message: fmt.Sprintf(format, args...)}
}

// RetryAfterOf is how long the server asked to wait before another try; 0 if it did not.
func RetryAfterOf(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

func retryable(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.retryable
}

// doubted is err of a request that was sent before with unknown outcome: whatever the last attempt was told, an earlier
// one may have landed.
func doubted(err error) error {
	switch e := err.(type) {
	case *SequenceError:
		return &SequenceError{Tail: e.Tail, Resent: true}
	case *FenceError:
		return &FenceError{Installed: e.Installed, Resent: true}
	case *Error:
		c := *e
		c.Indefinite, c.resent = true, true
		return &c
	}
	return err
}

// given is err with the reason why there is no further attempt: the context.
func given(ctx context.Context, err error) error {
	var e *Error
	if ctx.Err() == nil || errors.Is(err, ctx.Err()) || !errors.As(err, &e) {
		return err
	}
	c := *e
	c.cause = errors.Join(e.cause, ctx.Err())
	return &c
}
