package s3store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments/s3objects"
)

// fate is what the failure of a conditional PUT says.
type fate uint8

const (
	// unknown: it may have been applied, or may be applied yet.
	unknown fate = iota
	// lost: the state that it was for is no more. It may have been this very write that ended it.
	lost
	// postponed: it was not applied, and the same request may be.
	postponed
	// refused: it was not applied, and somebody has to change something, or to wait.
	refused
)

// postponing are the store's words for "not now", whatever status they come with: the request was turned away before it was
// looked at. MinIO's SlowDownWrite is none of them: it is said when too few drives took the write, and some may have. The
// last ones are about the signature, which is a new one the next time.
var postponing = map[string]bool{
	"SlowDown": true, "Throttling": true, "ThrottlingException": true, "RequestLimitExceeded": true, "RequestThrottled": true,
	"TooManyRequests": true, "ConditionalRequestConflict": true, "OperationAborted": true,
	"RequestTimeTooSkewed": true, "ExpiredToken": true, "ExpiredTokenException": true, "InvalidToken": true,
}

// judge reads the error of a conditional PUT. Only the store's own word makes it definite: an answer without one of its codes
// may come from something in between, that has passed the request on.
func judge(err error) fate {
	e, ok := errors.AsType[*s3objects.Error](err)
	switch {
	case !ok || !e.Sent:
		return refused // nothing has left
	case e.Status == http.StatusPreconditionFailed, isMissing(err):
		return lost
	case e.Status == http.StatusConflict && e.Code != "", postponing[e.Code]:
		return postponed // a conflict with a request under way decides nothing (BL-093)
	case e.Status < 400 || e.Status >= 500 || e.Code == "" || e.Code == "RequestTimeout" || e.Status == http.StatusRequestTimeout:
		return unknown
	}
	return refused
}

// isMissing reports whether the store has said that there is no object to be replaced.
func isMissing(err error) bool {
	e, ok := errors.AsType[*s3objects.Error](err)
	return ok && e.Status == http.StatusNotFound && e.Code == "NoSuchKey"
}

// notApplied marks an error after which the write is definitely not applied, whatever became of what failed.
func notApplied(err error) error {
	if err == nil || errors.Is(err, coordinator.ErrNotFound) {
		return err
	}
	return fmt.Errorf("%w: %w", coordinator.ErrNotApplied, err)
}

func inDoubt(err error) error { return fmt.Errorf("%w: %w", coordinator.ErrUnknown, err) }

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// jitter is a random time up to d, and at least a moment.
func jitter(d time.Duration) time.Duration { return rand.N(max(d, time.Millisecond)) }
