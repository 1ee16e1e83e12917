// Package coordinator is the commit protocol: heads and their pure transitions, and what is built on them to append
// to, read and follow streams. README.md tells the life of an append and of a read.
package coordinator

import (
	"errors"
	"fmt"
	"time"

	"github.com/tailrace-streams/tailrace/segments"
)

// StreamRef names one incarnation of a stream.
type StreamRef struct {
	Basin  segments.BasinID
	Stream segments.StreamID
}

// Batch is what a client appends: all of its records or none.
type Batch struct {
	// Records are owned by the coordinator from the call on. segments.ValidateBatch has passed on them.
	Records []segments.Record
	// Token is the fencing token the batch presents; nil presents none, which is not the empty token.
	Token *string
	// Match is the sequence number that the first record must get.
	Match *uint64
	// Key seals the records of an encrypted stream; other streams ignore it. It is kept for as long as the batch is.
	Key []byte
}

// Ack says where a batch went. Start is the position of its first record; End the sequence number after its last
// one, with the last one's timestamp; Tail the durable tail at the time of the acknowledgement.
type Ack struct {
	Start, End, Tail Position
	// V is that of a head which has the batch: the state that a later read has to include.
	V uint64
}

// The errors of appends and reads. Unless a failure is Indefinite, it is definite: nothing was appended, and nothing
// of it will be.
var (
	// ErrStreamNotFound: no head, or a tombstone. The caller resolves the name again, strongly, before it believes it.
	ErrStreamNotFound = errors.New("stream not found")
	// ErrStreamDeleting: the stream's deletion is pending.
	ErrStreamDeleting = errors.New("stream is being deleted")
	// ErrTimestampRequired: a record lacks the timestamp that the stream's config requires.
	ErrTimestampRequired = errors.New("the stream requires a timestamp on every record")
	// ErrOverloaded: the bound on bytes in flight is reached, or the store sheds load. Try again shortly.
	ErrOverloaded = errors.New("overloaded")
	// ErrDraining: the process is shutting down. Try again elsewhere.
	ErrDraining = errors.New("draining")
	// ErrUnavailable: a store was out of reach before anything was sent. Try again.
	ErrUnavailable = errors.New("store unavailable")
	// ErrPoisoned: an earlier batch of the same session failed, or the session was superseded.
	ErrPoisoned = errors.New("an earlier batch of the session failed")
	// ErrStorage: stored data is missing or damaged.
	ErrStorage = errors.New("stored data is missing or damaged")
	// ErrStreamGone: the stream was deleted under a follower.
	ErrStreamGone = errors.New("the stream went away under a follower")
)

// FencingMismatch refuses a batch, or ends a session: another token is installed. Tail is the committed tail at that time.
type FencingMismatch struct {
	Installed string
	Tail      Position
}

func (e *FencingMismatch) Error() string { return "another fencing token is installed" }

// MatchMismatch refuses a batch: its first record would have got Next. Tail is the committed tail that says so.
type MatchMismatch struct {
	Next uint64
	Tail Position
}

func (e *MatchMismatch) Error() string {
	return fmt.Sprintf("the next sequence number is %d", e.Next)
}

// OutOfRange refuses a read that starts at or beyond the tail and may not follow. V and AsOf are of the state that says
// so (see View).
type OutOfRange struct {
	Tail Position
	V    uint64
	AsOf time.Time
}

func (e *OutOfRange) Error() string {
	return fmt.Sprintf("the read starts beyond the tail %d", e.Tail.SeqNum)
}

// KeyRequired refuses an append to or a read of an encrypted stream without a key of the right size.
type KeyRequired struct{ Cipher string }

func (e *KeyRequired) Error() string {
	return fmt.Sprintf("the stream is encrypted with %s and needs a key of %d bytes", e.Cipher, segments.SealKeyBytes)
}

// ErrCipherExhausted: an encrypted stream takes no more records, because its cipher may not be used that often.
var ErrCipherExhausted = errors.New("the stream's cipher allows no more records")

// ErrNotOpened: a stored record was sealed with another key.
var ErrNotOpened = segments.ErrNotOpened

// Indefinite wraps the reason why it is not known whether a batch or a verb was applied: it may take effect, now or later.
type Indefinite struct{ Err error }

func (e *Indefinite) Error() string {
	return "the outcome is not known: " + e.Err.Error()
}
func (e *Indefinite) Unwrap() error { return e.Err }
