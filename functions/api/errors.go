package api

import (
	"context"
	"errors"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/functions/audit"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/tenancy"
	"github.com/tailrace-streams/tailrace/wire"
)

// unapplied marks an error of which it is known that the request changed nothing and never will, whatever its kind
// says by itself: a time-out is in doubt, unless nothing was sent.
type unapplied struct{ error }

func (e unapplied) Unwrap() error { return e.error }

// wireError says what an error of the packages below means to a client. It is the only place that does, for unary
// answers, event streams and sessions alike. An error that nobody below promised is `other`, and in doubt.
func wireError(err error) error {
	if inDoubt(err) {
		// Typed causes inside a doubt are about one step of several; what counts is the doubt.
		e := wire.Errorf(wire.CodeUnavailable, "the outcome is not known: the request may have been applied, now or later")
		e.Applied = wire.AppliedUnknown
		return e.Because(err)
	}
	answer := describe(err)
	var e *wire.Error
	var definite unapplied
	if errors.As(answer, &e) && errors.As(err, &definite) && e.Applied == "" {
		c := *e
		c.Applied = wire.AppliedNo
		return &c
	}
	return answer
}

func inDoubt(err error) bool {
	var indefinite *coordinator.Indefinite
	return errors.As(err, &indefinite) || errors.Is(err, coordinator.ErrUnknown)
}

// describe translates an error that is not in doubt.
func describe(err error) error {
	if answer := describeCondition(err); answer != nil {
		return answer
	}
	var given *wire.Error
	if errors.As(err, &given) {
		return given
	}
	var encoding *wire.UnsupportedEncoding
	if errors.As(err, &encoding) {
		return encoding
	}
	var invalid *tenancy.InvalidError
	if errors.As(err, &invalid) {
		return wire.Errorf(wire.CodeInvalid, "%s", invalid.Text)
	}
	if errors.Is(err, segments.ErrInvalid) {
		return wire.Errorf(wire.CodeInvalid, "%s", err)
	}
	for _, row := range table {
		if errors.Is(err, row.cause) {
			e := &wire.Error{Code: row.code, Message: row.message, Applied: row.applied}
			return e.Because(err)
		}
	}
	return wire.Errorf(wire.CodeOther, "internal error").Because(err)
}

// describeCondition translates the failures that have a body of their own.
func describeCondition(err error) error {
	var (
		fenced   *coordinator.FencingMismatch
		mismatch *coordinator.MatchMismatch
		beyond   *coordinator.OutOfRange
		keyless  *coordinator.KeyRequired
		behind   *wire.RevisionNotReached
	)
	switch {
	case errors.As(err, &fenced):
		tail := position(fenced.Tail)
		return &wire.FencingTokenMismatch{Installed: fenced.Installed, Tail: &tail}
	case errors.As(err, &mismatch):
		tail := position(mismatch.Tail)
		return &wire.SeqNumMismatch{Next: mismatch.Next, Tail: &tail}
	case errors.As(err, &keyless):
		return wire.Errorf(wire.CodeBadHeader, "the stream is encrypted with %s: give s2-encryption-key, %d bytes in base64",
			keyless.Cipher, segments.SealKeyBytes)
	case errors.As(err, &behind):
		return behind
	case errors.As(err, &beyond):
		return &wire.RangeNotSatisfiable{Tail: position(beyond.Tail)}
	}
	return nil
}

// table maps the sentinels of the packages below. An error may wrap several: the first row that fits counts, so what a
// user can act on stands before what has merely happened. `unavailable` is kept for doubt (design 5): a store that
// could not be reached before anything was sent is `hot_server`, which clients may always repeat.
var table = []struct {
	cause   error
	code    wire.Code
	message string
	applied wire.Applied // where it is more than the code says
}{
	{tenancy.ErrUnauthenticated, wire.CodeAuthn, "the access token is missing or not valid", ""},
	{tenancy.ErrDenied, wire.CodePermissionDenied, "the access token does not permit this", ""},
	{tenancy.ErrTokenExists, wire.CodeResourceAlreadyExists, "an access token with this id already exists", ""},
	{tenancy.ErrTokenNotFound, wire.CodeAccessTokenNotFound, "the access token does not exist", ""},
	{tenancy.ErrBasinNotFound, wire.CodeBasinNotFound, "the basin does not exist", ""},
	{tenancy.ErrBasinDeleting, wire.CodeBasinDeletionPending, "the basin is being deleted", ""},
	{tenancy.ErrBasinExists, wire.CodeResourceAlreadyExists, "the basin already exists", ""},
	{tenancy.ErrStreamExists, wire.CodeResourceAlreadyExists, "the stream already exists", ""},
	{tenancy.ErrConflict, wire.CodeTransactionConflict, "concurrent changes collided; try again", ""},
	{coordinator.ErrStreamNotFound, wire.CodeStreamNotFound, "the stream does not exist", ""},
	{coordinator.ErrStreamDeleting, wire.CodeStreamDeletionPending, "the stream is being deleted", ""},
	{coordinator.ErrStreamGone, wire.CodeUnavailable, "the stream was deleted under its reader", wire.AppliedNo},
	{coordinator.ErrTimestampRequired, wire.CodeInvalid, "the stream requires a timestamp on every record", ""},
	{coordinator.ErrCipherExhausted, wire.CodeInvalid, "an encrypted stream takes no more than 4294967296 records", ""},
	{coordinator.ErrNotOpened, wire.CodeDecryptionFailed, "the key does not open the record", ""},
	{coordinator.ErrPoisoned, wire.CodeUnavailable, "an earlier batch of the session failed", wire.AppliedNo},
	{coordinator.ErrDraining, wire.CodeServerDraining, "the server is shutting down; try again elsewhere", ""},
	{coordinator.ErrOverloaded, wire.CodeHotServer, "the server is overloaded; try again shortly", ""},
	{coordinator.ErrStorage, wire.CodeStorage, "stored data is missing or damaged", wire.AppliedNo},
	{context.Canceled, wire.CodeClientHangup, "the client went away", ""},
	{errHangup, wire.CodeClientHangup, "the client went away", ""},
	{audit.ErrNotWritten, wire.CodeHotServer, "the audit log cannot be written; nothing was changed, try again", wire.AppliedNo},
	{segments.ErrNoRoom, wire.CodeHotServer, "the store has no room left; nothing was changed", ""},
	{coordinator.ErrUnavailable, wire.CodeHotServer, "a store is out of reach; nothing was changed, try again", ""},
	{context.DeadlineExceeded, wire.CodeRequestTimeout, "the request took too long", ""},
	{errPanic, wire.CodeOther, "internal error", ""},
}

func position(p coordinator.Position) wire.StreamPosition {
	return wire.StreamPosition{SeqNum: p.SeqNum, Timestamp: p.Timestamp}
}
