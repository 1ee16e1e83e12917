package coordinator

import (
	"context"
	"errors"

	"github.com/tailrace-streams/tailrace/segments"
)

// Heads is where the heads live (protocol 3). All methods may be called at once and honour ctx. Heads handed in and
// out share memory with the store, and nobody changes what they lead to.
//
// Errors fall in three kinds. Definite: *Refusal, ErrExists, ErrNotFound and ErrNotApplied say that nothing was
// changed and nothing will be. In doubt: ErrUnknown, and every other error of a method that writes. A failed Load
// decides nothing; it is never "absent".
type Heads interface {
	// Create makes a head that was never there. ErrExists if there is one, even a tombstone.
	Create(ctx context.Context, h Head) error
	// Load reads strongly: what any earlier call was answered is in it. ErrNotFound is an answer.
	Load(ctx context.Context, id segments.StreamID) (Head, error)
	// Commit is Apply, atomically and durably. The head returned is the one after it, seen by nobody in between.
	// It is sent once: an implementation never repeats a commit whose fate it does not know.
	Commit(ctx context.Context, id segments.StreamID, c *Commit) (Head, error)
	// Splice is ApplySplice, likewise.
	Splice(ctx context.Context, id segments.StreamID, s *Splice) (Head, error)
	// Change is ApplyChange, likewise.
	Change(ctx context.Context, id segments.StreamID, c *Change) (Head, error)
}

// Table holds the control records: small rows with a version each, for basins, the stream directory and tokens
// (protocol 9). All methods may be called at once and honour ctx. Errors are as in Heads: *Conflict and
// ErrNotApplied are definite, every other error of Put or Delete is in doubt.
type Table interface {
	// Get reads strongly. ErrNotFound is an answer.
	Get(ctx context.Context, key Key) (Row, error)
	// Put writes the row if its version is still ifVersion (0: if there is no row), durably, and returns it with
	// its new version. A *Conflict carries the row found instead.
	Put(ctx context.Context, row Row, ifVersion uint64) (Row, error)
	// Delete removes the row if its version is still ifVersion, durably. A row that is gone is ErrNotFound.
	Delete(ctx context.Context, key Key, ifVersion uint64) error
	// List returns, strongly, at most limit rows of one part whose sort keys start with prefix and are greater than
	// after, in bytewise order. Fewer than limit means that there are no more.
	List(ctx context.Context, part, prefix, after string, limit int) ([]Row, error)
}

// Key names a row: a part, within which rows are ordered, and the sort key. A part has at most 200 bytes of
// printable ASCII; a sort key has 1 to 1024 bytes of any kind.
type Key struct{ Part, Sort string }

// Row is one control record. Value is at most 64 KiB; Version counts its changes from 1; ID names the last one, so
// that a writer recognises its own after a lost reply.
type Row struct {
	Key     Key
	Value   []byte
	Version uint64
	ID      OpID
}

// The errors of Heads and Table.
var (
	// ErrExists: Create found a head.
	ErrExists = errors.New("head exists")
	// ErrNotFound: the store answered that there is no such head or row.
	ErrNotFound = errors.New("not found")
	// ErrNotApplied: the store did not and will not apply the write, for a reason of its own such as throttling.
	ErrNotApplied = errors.New("not applied by the store")
	// ErrUnknown: the write may have been applied, or may be applied yet.
	ErrUnknown = errors.New("outcome unknown")
)

// Conflict is the error of a Put or Delete that found another version.
type Conflict struct {
	// Found is the row as it is; Version 0 if there is none.
	Found Row
}

func (c *Conflict) Error() string { return "another version of the row is stored" }

// Definite reports whether err says for certain that a write was not and will not be applied.
func Definite(err error) bool {
	var refusal *Refusal
	var conflict *Conflict
	return errors.As(err, &refusal) || errors.As(err, &conflict) || errors.Is(err, ErrExists) ||
		errors.Is(err, ErrNotFound) || errors.Is(err, ErrNotApplied)
}

// Room is how much of a stream a store likes to keep in its head (protocol 3, "room").
type Room struct {
	MoveEntries int    // entries in the log at which a move is owed
	MaxEntries  int    // entries at which a commit is refused
	InlineBatch uint64 // largest chunk to place inline
	MoveInline  uint64 // inline bytes in the log at which a move is owed
	MaxInline   uint64 // inline bytes above which a commit is refused
	// MaxSplice is the most entries that one splice may take out of the log; 0 is any number. A store whose updates
	// name every one of them has a bound.
	MaxSplice int
}

// owesMove reports whether the log is over the mark.
func (r *Room) owesMove(h *Head) bool {
	return len(h.Log) >= r.MoveEntries || h.InlineBytes >= r.MoveInline
}

// crosses reports whether a commit took the log over the mark, or over twice, three times, ... the mark. It owes the
// move (protocol 3): if everybody did who sees a log over its mark, most of their moves would be in vain.
func (r *Room) crosses(after *Head, c *Commit) bool {
	entries, inline := len(after.Log), after.InlineBytes
	return (entries-len(c.Entries))/r.MoveEntries < entries/r.MoveEntries ||
		(inline-c.InlineBytes())/r.MoveInline < inline/r.MoveInline
}

// bounded is the prefix of a log that one splice may take out.
func (r *Room) bounded(log []segments.Entry) []segments.Entry {
	if r.MaxSplice > 0 && len(log) > r.MaxSplice {
		return log[:r.MaxSplice]
	}
	return log
}
