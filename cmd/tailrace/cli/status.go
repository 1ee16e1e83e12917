package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/tailrace-streams/tailrace/client"
)

// The exit statuses of the verbs, for scripts to tell apart.
const (
	StatusOK          = 0
	StatusFailed      = 1 // anything without a status of its own
	StatusUsage       = 2 // called wrongly, or the server calls the request wrong
	StatusConflict    = 3 // match_seq_num was missed; what was to be made is there, or being deleted; a revision of an earlier life
	StatusFenced      = 4 // another fencing token is installed
	StatusNotFound    = 5 // no such basin, stream or token
	StatusUnavailable = 6 // not reached, overloaded or rate limited, and certainly not applied: try again later
	StatusUnknown     = 7 // a write that may or may not have been applied: read back to decide
	StatusRefused     = 8 // the access token is not accepted, or does not permit this
	StatusOutOfRange  = 9 // the read starts beyond the tail
	StatusInterrupted = 130
)

// statusHelp is what `tailrace help exit-status` prints.
const statusHelp = `The verbs that use streams end with one of these exit statuses:

  0    done
  1    failed in a way that has no status of its own
  2    called wrongly, or the server says that the request is wrong
  3    conflict: the match_seq_num was missed, or what was to be made is there already or still being deleted
  4    fenced: another fencing token is installed
  5    not found: no such basin, stream or access token
  6    unavailable: not reached, overloaded or rate limited; nothing was changed, try again later
  7    unknown: the write may or may not have been applied; read back to decide
  8    refused: the access token is not accepted, or does not permit this
  9    out of range: the read starts beyond the tail
  130  interrupted`

// errUsage marks an error of whoever called the program.
var errUsage = errors.New("see --help")

func usagef(format string, args ...any) error {
	return fmt.Errorf("%s; %w", fmt.Sprintf(format, args...), errUsage)
}

// errInterrupted ends a verb that a signal ended.
var errInterrupted = errors.New("interrupted")

// writeError marks the failure of something that changes a stream, whose outcome may be unknown.
type writeError struct{ error }

func (e writeError) Unwrap() error { return e.error }

// wrote marks err, if there is one, as that of a write.
func wrote(err error) error {
	if err == nil {
		return nil
	}
	return writeError{err}
}

// Status is the exit status that an error of a verb means.
func Status(err error) int {
	var answer *client.Error
	var write writeError
	switch {
	case err == nil:
		return StatusOK
	case errors.Is(err, errUsage):
		return StatusUsage
	case errors.As(err, &write) && client.Indefinite(write.error):
		return StatusUnknown
	case errors.Is(err, client.ErrFenced):
		return StatusFenced
	case errors.Is(err, errInterrupted), errors.Is(err, context.Canceled):
		return StatusInterrupted
	case errors.Is(err, client.ErrSequence), errors.Is(err, client.ErrAlreadyExists),
		errors.Is(err, client.ErrDeletionPending), errors.Is(err, client.ErrRevision):
		return StatusConflict
	case errors.Is(err, client.ErrNotFound):
		return StatusNotFound
	case errors.Is(err, client.ErrOutOfRange):
		return StatusOutOfRange
	case errors.Is(err, client.ErrPermission):
		return StatusRefused
	case errors.Is(err, client.ErrUnavailable), errors.Is(err, client.ErrRateLimited), errors.Is(err, context.DeadlineExceeded):
		return StatusUnavailable
	case errors.As(err, &answer) && (answer.Status == http.StatusBadRequest || answer.Status == http.StatusUnprocessableEntity):
		return StatusUsage
	}
	return StatusFailed
}
