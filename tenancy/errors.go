package tenancy

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// The answers of a Directory that are not success. Each is definite: the call changed nothing, and nothing of it will
// be applied later.
var (
	ErrBasinNotFound = errors.New("basin not found")
	ErrBasinExists   = errors.New("basin already exists")
	ErrBasinDeleting = errors.New("basin is being deleted")
	ErrStreamExists  = errors.New("stream already exists")

	// ErrStreamNotFound and ErrStreamDeleting are the coordinator's, so that a caller tests for one error wherever
	// the answer came from.
	ErrStreamNotFound = coordinator.ErrStreamNotFound
	ErrStreamDeleting = coordinator.ErrStreamDeleting

	// ErrConflict: other changes of the same name won every race that this call was willing to run. Try again.
	ErrConflict = errors.New("concurrent changes collided")

	// ErrUnauthenticated: a bearer token is not one, or is not known, or was revoked, or has expired. Which of them is
	// nobody's business.
	ErrUnauthenticated = errors.New("access token is not valid")
	// ErrDenied: the principal may not do this, or not to this.
	ErrDenied          = errors.New("not permitted")
	ErrTokenExists     = errors.New("access token already exists")
	ErrTokenNotFound   = errors.New("access token not found")
	ErrAccountNotFound = errors.New("account not found")

	// ErrInUse: ForgetBasin was called for a basin that is not dead or was not empty for long enough.
	ErrInUse = errors.New("basin id is still in use")
	// ErrBadRow is wrapped by every error about a row that does not decode.
	ErrBadRow = errors.New("directory row does not decode")
)

// InvalidError refuses a request for what it asks. Text is meant for the user.
type InvalidError struct{ Text string }

func (e *InvalidError) Error() string { return e.Text }

// Definite reports whether err says for certain that the call changed nothing and never will. Every other error of a
// call that writes is in doubt; errors.Is(err, coordinator.ErrUnknown) then holds.
func Definite(err error) bool {
	if errors.Is(err, coordinator.ErrUnknown) {
		return false
	}
	if isSentinel(err) {
		return true
	}
	var invalid *InvalidError
	return errors.As(err, &invalid) || coordinator.Definite(err)
}

// doubt is the error of a call that may have been applied or may be yet. It hides the chain of its cause, which can
// be definite about one step of several.
type doubt struct{ cause error }

func (e *doubt) Error() string {
	return "it is not known whether the change was applied: " + e.cause.Error()
}

func (e *doubt) Unwrap() []error {
	chain := []error{coordinator.ErrUnknown}
	for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(e.cause, end) {
			chain = append(chain, end)
		}
	}
	return chain
}

// inDoubt marks the failure of a call that has begun to write. Answers and doubts pass unchanged.
func inDoubt(err error) error {
	if err == nil || isAnswer(err) {
		return err
	}
	return &doubt{err}
}

// untouched marks a failure before anything of the call was written: definite, and worth trying again.
func untouched(err error) error {
	if err == nil || isAnswer(err) {
		return err
	}
	return &early{err}
}

// early is the error of a call that wrote nothing of its own.
type early struct{ cause error }

func (e *early) Error() string { return "nothing was changed: " + e.cause.Error() }

func (e *early) Unwrap() []error {
	chain := []error{coordinator.ErrUnavailable, coordinator.ErrNotApplied}
	for _, known := range []error{context.Canceled, context.DeadlineExceeded, ErrBadRow, coordinator.ErrStorage} {
		if errors.Is(e.cause, known) {
			chain = append(chain, known)
		}
	}
	return chain
}

// isAnswer reports whether err is already in the terms of the caller.
func isAnswer(err error) bool {
	var d *doubt
	var e *early
	var invalid *InvalidError
	if errors.As(err, &d) || errors.As(err, &e) || errors.As(err, &invalid) {
		return true
	}
	return isSentinel(err)
}

func isSentinel(err error) bool {
	for _, answer := range []error{
		ErrBasinNotFound, ErrBasinExists, ErrBasinDeleting, ErrStreamNotFound, ErrStreamExists, ErrStreamDeleting,
		ErrConflict, ErrInUse, ErrUnauthenticated, ErrDenied, ErrTokenExists, ErrTokenNotFound, ErrAccountNotFound,
	} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}

// onlooker marks the failure of finishing what somebody else began: whatever is in doubt is not this call's.
func onlooker(err error) error {
	if err == nil || isSentinel(err) {
		return err
	}
	return &early{err}
}

func invalid(format string, args ...any) error { return &InvalidError{fmt.Sprintf(format, args...)} }
