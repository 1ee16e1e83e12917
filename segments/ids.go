package segments

import (
	"cmp"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// BasinID names one incarnation of a basin: deleting and re-creating a name gives a new id (UUIDv7).
type BasinID uuid.UUID

// StreamID names one incarnation of a stream (UUIDv7).
type StreamID uuid.UUID

// NewBasinID makes an id that no other call returns.
func NewBasinID() BasinID { return BasinID(newUUID()) }

// NewStreamID makes an id that no other call returns.
func NewStreamID() StreamID { return StreamID(newUUID()) }

func newUUID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

func (id BasinID) String() string  { return uuid.UUID(id).String() }
func (id StreamID) String() string { return uuid.UUID(id).String() }

// IsZero reports whether the id is unset.
func (id BasinID) IsZero() bool { return id == BasinID{} }

// IsZero reports whether the id is unset.
func (id StreamID) IsZero() bool { return id == StreamID{} }

// MarshalText writes the canonical UUID form.
func (id BasinID) MarshalText() ([]byte, error) { return uuid.UUID(id).MarshalText() }

// UnmarshalText reads the canonical UUID form.
func (id *BasinID) UnmarshalText(b []byte) error { return (*uuid.UUID)(id).UnmarshalText(b) }

// MarshalText writes the canonical UUID form.
func (id StreamID) MarshalText() ([]byte, error) { return uuid.UUID(id).MarshalText() }

// UnmarshalText reads the canonical UUID form.
func (id *StreamID) UnmarshalText(b []byte) error { return (*uuid.UUID)(id).UnmarshalText(b) }

// Label is the time part of an object's or entry's id: milliseconds since the Unix epoch in 48 bits (protocol 1).
// It orders objects against horizons; it is never trusted as a clock.
type Label uint64

// MaxLabel is the largest label an id can carry.
const MaxLabel Label = 1<<48 - 1

// ObjectID names one segment or page: the label in 6 bytes, then 10 random ones. It is never reused (protocol 2).
type ObjectID [16]byte

// NewObjectID makes an id with the given label. It panics on a label above MaxLabel, which no clock reaches before
// the year 10889.
func NewObjectID(label Label) ObjectID {
	if label > MaxLabel {
		panic("segments: label out of range")
	}
	id := objectID(label)
	rand.Read(id[6:])
	return id
}

// objectID is the id with that label and no random part.
func objectID(label Label) ObjectID {
	var id ObjectID
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(label))
	copy(id[:6], b[2:])
	return id
}

// Label returns the label the id was made with.
func (id ObjectID) Label() Label {
	var b [8]byte
	copy(b[2:], id[:6])
	return Label(binary.BigEndian.Uint64(b[:]))
}

// IsZero reports whether the id is unset.
func (id ObjectID) IsZero() bool { return id == ObjectID{} }

var base32hex = base32.HexEncoding.WithPadding(base32.NoPadding)

// String is the id's form in object keys: base32hex, which keeps the order of the bytes.
func (id ObjectID) String() string { return base32hex.EncodeToString(id[:]) }

// ErrBadID is returned for text or bytes that are not an id.
var ErrBadID = errors.New("segments: not an id")

// ParseObjectID reads the form String writes.
func ParseObjectID(s string) (ObjectID, error) {
	b, err := base32hex.DecodeString(s)
	if err != nil || len(b) != len(ObjectID{}) || base32hex.EncodeToString(b) != s {
		return ObjectID{}, fmt.Errorf("parse object id: %w", ErrBadID)
	}
	return ObjectID(b), nil
}

// EntryID names one commit attempt: an object's id (for inline data one of its own, that names no object) and an
// attempt number. A retry takes the next attempt, never a new label over old bytes (protocol 1).
type EntryID struct {
	Object  ObjectID
	Attempt uint16
}

// Label returns the label of the id.
func (id EntryID) Label() Label { return id.Object.Label() }

// Compare orders ids by label first.
func (id EntryID) Compare(o EntryID) int {
	if c := cmp.Compare(string(id.Object[:]), string(o.Object[:])); c != 0 {
		return c
	}
	return cmp.Compare(id.Attempt, o.Attempt)
}

func (id EntryID) String() string { return fmt.Sprintf("%s.%d", id.Object, id.Attempt) }

// Bytes is the id in 18 bytes, in the order of Compare.
func (id EntryID) Bytes() []byte {
	return binary.BigEndian.AppendUint16(append(make([]byte, 0, 18), id.Object[:]...), id.Attempt)
}

// EntryIDFromBytes reads what Bytes writes.
func EntryIDFromBytes(b []byte) (EntryID, error) {
	if len(b) != 18 {
		return EntryID{}, fmt.Errorf("parse entry id: %w", ErrBadID)
	}
	return EntryID{ObjectID(b[:16]), binary.BigEndian.Uint16(b[16:])}, nil
}

// LabelRange is a closed range of labels; the zero value is empty.
type LabelRange struct{ Min, Max Label }

// Add widens the range to hold l.
func (r LabelRange) Add(l Label) LabelRange { return r.Union(LabelRange{l, l}) }

// Union widens the range to hold all of o.
func (r LabelRange) Union(o LabelRange) LabelRange {
	switch {
	case o == LabelRange{}:
		return r
	case r == LabelRange{}:
		return o
	}
	return LabelRange{min(r.Min, o.Min), max(r.Max, o.Max)}
}

// Contains reports whether l lies in the range.
func (r LabelRange) Contains(l Label) bool {
	return r != LabelRange{} && r.Min <= l && l <= r.Max
}
