package coordinator

import (
	"github.com/google/uuid"

	"github.com/tailrace-streams/tailrace/segments"
)

// OpID names one change, so that its sender can recognise it after a lost reply.
type OpID uuid.UUID

// NewOpID makes an id that no other call returns.
func NewOpID() OpID { return OpID(uuid.Must(uuid.NewV7())) }

// IsZero reports whether the id is unset.
func (id OpID) IsZero() bool { return id == OpID{} }

func (id OpID) String() string { return uuid.UUID(id).String() }

// MarshalText writes the canonical UUID form.
func (id OpID) MarshalText() ([]byte, error) { return uuid.UUID(id).MarshalText() }

// UnmarshalText reads the canonical UUID form.
func (id *OpID) UnmarshalText(b []byte) error { return (*uuid.UUID)(id).UnmarshalText(b) }

// State is where a stream is in its life; it only goes forward.
type State uint8

// A stream is appendable only while active. Deleted heads are tombstones.
const (
	Active State = iota + 1
	Deleting
	Deleted
)

func (s State) String() string {
	switch s {
	case Active:
		return "active"
	case Deleting:
		return "deleting"
	case Deleted:
		return "deleted"
	}
	return "unknown"
}

// Position is a sequence number and a timestamp in milliseconds. A tail is the next sequence number and the
// effective timestamp of the last record.
type Position struct {
	SeqNum    uint64
	Timestamp uint64
}

// Lease is a hint saying which node to route appends to (design 6). No safety rests on it.
type Lease struct {
	Node    string
	Address string
	Term    uint64
	Expiry  uint64 // milliseconds since the Unix epoch, by the holder's clock
}

// Head is the one small mutable item of a stream (protocol 1). Heads are values that share memory: whoever gets one
// must not change what its slices and pointers lead to; the transitions in this package make new slices.
type Head struct {
	// V rises by one at every change: it names revisions, and no two states of a head are equal.
	V      uint64
	Basin  segments.BasinID
	Stream segments.StreamID

	State   State
	StateID OpID // id of the last change of State

	Config   StreamConfig
	ConfigV  uint64 // change counter of Config
	ConfigID OpID   // id of its last change

	// Tail is the next sequence number.
	Tail uint64
	// Log lists, in commit order, the entries that are in no page yet.
	Log []segments.Entry
	// Base is the sequence number of Log[0], or Tail if the log is empty; BaseTime the effective timestamp before it.
	Base     uint64
	BaseTime uint64
	// Pages are the roots of the page tree, at most one a level, highest level first. A root's Level is its place
	// in the tree, its row what the page holds.
	Pages []Root
	// InlineBytes is the sum of len(Data) over the log.
	InlineBytes uint64

	Token   string // installed fencing token; empty is none
	TokenV  uint64
	TokenID OpID

	// Trim is the first sequence number to keep, TrimTime when it last moved (ms); Floor is where reads start:
	// Floor <= Trim, except that retention may raise it alone.
	Trim     uint64
	TrimTime uint64
	Floor    uint64

	// Horizon is the label at or below which nothing new may be named. It only rises.
	Horizon segments.Label
	// Cancelled holds ids that were given up on; it is nearly always empty.
	Cancelled []segments.EntryID

	Lease Lease
	// CreatedAt is the arrival time of the stream itself, in milliseconds.
	CreatedAt uint64
	// Cipher names what the stream's records are sealed with, empty for none. It never changes.
	Cipher string
}

// Root is the top page of one level of the tree.
type Root struct {
	Level uint8
	Page  segments.Row // with Child set
}

// TailPosition is the tail with the effective timestamp of the last record; (0, 0) for a stream that never had one.
func (h *Head) TailPosition() Position {
	t := h.BaseTime
	for i := range h.Log {
		t = max(t, h.Log[i].MaxTime)
	}
	return Position{h.Tail, t}
}

// First is the sequence number of the oldest record that the head still reaches, or Tail if there is none.
func (h *Head) First() uint64 {
	if len(h.Pages) > 0 {
		return h.Pages[0].Page.Start
	}
	return h.Base
}

// Exclusive reports whether every append is checked against the installed token.
func (h *Head) Exclusive() bool { return h.Config.Fencing == Exclusive }

// ReadFloor is where reads start at the given time: the floor, or the trim point once that is delay old
// (protocol 8). Both in milliseconds.
func (h *Head) ReadFloor(now, delay uint64) uint64 {
	if h.Trim > h.Floor && now >= h.TrimTime && now-h.TrimTime >= delay {
		return h.Trim
	}
	return h.Floor
}

// Rows lists the log as page rows: the fold of protocol 1.
func (h *Head) Rows() []segments.Row { return FoldRows(h.Log, h.Base, h.BaseTime) }

// FoldRows gives each entry its start and effective times, from the sequence number and timestamp before the first.
func FoldRows(log []segments.Entry, base, baseTime uint64) []segments.Row {
	rows := make([]segments.Row, len(log))
	for i := range log {
		rows[i] = segments.EntryRow(base, baseTime, &log[i])
		base, baseTime = rows[i].End(), rows[i].TimeAfter
	}
	return rows
}
