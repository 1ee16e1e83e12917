package tenancy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// rowVersion is the version of every row kind below. A row of another version, or with a field that this version
// does not have, is refused: rewriting it would drop what is not understood.
const rowVersion = 1

// State is where a name is in its life; it only goes forward within one incarnation.
type State string

// A row is a tombstone once deleted: it keeps its version, so that a delayed write of an earlier state misses.
const (
	Creating State = "creating"
	Active   State = "active"
	Deleting State = "deleting"
	Deleted  State = "deleted"
)

// basinRow is a basin's name: part "basins", sorted by name.
type basinRow struct {
	versioned
	State State            `json:"state"`
	ID    segments.BasinID `json:"id"`
	// Account is whose it is; empty for the default account, as in rows from before there were accounts.
	Account   AccountID   `json:"account,omitempty"`
	CreatedAt uint64      `json:"created_at"` // ms, as all times in rows
	DeletedAt uint64      `json:"deleted_at,omitempty"`
	Location  string      `json:"location,omitempty"`
	Config    BasinConfig `json:"config"`
	// Request is the digest of the token and config it was created with; empty if there was no token.
	Request string `json:"request,omitempty"`
}

// account is whose the basin is.
func (r *basinRow) account() AccountID { return orDefaultAccount(r.Account) }

// streamRow is a stream's name: part "streams/BASIN-ID", sorted by name.
type streamRow struct {
	versioned
	State     State             `json:"state"`
	ID        segments.StreamID `json:"id"`
	CreatedAt uint64            `json:"created_at"`
	DeletedAt uint64            `json:"deleted_at,omitempty"`
	Cipher    string            `json:"cipher,omitempty"`
	Request   string            `json:"request,omitempty"`
	// Config is what the head is to be created with, for whoever completes the creation; nil from then on, since
	// the head alone knows the current one.
	Config *coordinator.StreamConfig `json:"config,omitempty"`
}

// workRow is something to be done when it is due: part "work/SHARD", sorted by due time and id.
type workRow struct {
	versioned
	Kind      workKind          `json:"kind"`
	Due       uint64            `json:"due"`
	Basin     segments.BasinID  `json:"basin"`
	Stream    segments.StreamID `json:"stream,omitzero"` // zero for a basin
	BasinName string            `json:"basin_name"`
	Name      string            `json:"name,omitempty"` // of the stream
	// Cursor and Dirty are how far a basin's sweep got: the last stream name done, and whether the pass over its
	// streams has met any that was not yet a tombstone.
	Cursor string `json:"cursor,omitempty"`
	Dirty  bool   `json:"dirty,omitempty"`
}

type workKind string

const (
	finishStream workKind = "finish_stream" // from deleting to deleted
	finishBasin  workKind = "finish_basin"
	purgeStream  workKind = "purge_stream" // remove the tombstone
	purgeBasin   workKind = "purge_basin"
)

// deadRow is a deleted stream whose objects may not be collected yet: part "dead/BASIN-ID", sorted by stream id.
type deadRow struct {
	versioned
	Name      string `json:"name"`
	DeletedAt uint64 `json:"deleted_at"`
}

// deadBasinRow is a deleted basin's id: part "dead-basins", sorted by it.
type deadBasinRow struct {
	versioned
	Name      string `json:"name"`
	DeletedAt uint64 `json:"deleted_at"`
	// EmptySince is when a walk first found no row of the basin left; 0 while there are some.
	EmptySince uint64 `json:"empty_since,omitempty"`
}

const (
	basinsPart     = "basins"
	deadBasinsPart = "dead-basins"
	// shards spreads the work over parts, since a store may bound the rate of one.
	shards = 8
)

// UsedOnce reports whether the rows of a part have keys that are used once: work by its due time and id, and what is dead by
// its id. A store may forget such a row for good when it is deleted. Should a late delivery bring one back, or take one
// away, then work is done twice, or found again by the walk.
func UsedOnce(part string) bool {
	return part == deadBasinsPart || strings.HasPrefix(part, "dead/") || strings.HasPrefix(part, "work/")
}

func streamsPart(b segments.BasinID) string { return "streams/" + b.String() }
func deadPart(b segments.BasinID) string    { return "dead/" + b.String() }
func workPart(shard int) string             { return fmt.Sprintf("work/%02x", shard) }

func basinKey(name string) coordinator.Key { return coordinator.Key{Part: basinsPart, Sort: name} }
func streamKey(b segments.BasinID, name string) coordinator.Key {
	return coordinator.Key{Part: streamsPart(b), Sort: name}
}
func deadKey(r coordinator.StreamRef) coordinator.Key {
	return coordinator.Key{Part: deadPart(r.Basin), Sort: r.Stream.String()}
}
func deadBasinKey(b segments.BasinID) coordinator.Key {
	return coordinator.Key{Part: deadBasinsPart, Sort: b.String()}
}

// key orders work by due time: 12 hex digits hold 48 bits of milliseconds, as labels do.
func (w *workRow) key() coordinator.Key {
	id, last := w.Basin.String(), w.Basin[len(w.Basin)-1]
	if !w.Stream.IsZero() {
		id, last = w.Stream.String(), w.Stream[len(w.Stream)-1]
	}
	return coordinator.Key{
		Part: workPart(int(last) % shards),
		Sort: fmt.Sprintf("%s/%s/%s", dueKey(w.Due), w.Kind, id),
	}
}

// dueKey sorts after every work that is due before ms, and before all others.
func dueKey(ms uint64) string { return fmt.Sprintf("%012x", ms) }

// record is a row kind; check refuses what this version never writes.
type record interface {
	check() error
	stamp()
}

// versioned is the first field of every row.
type versioned struct {
	V int `json:"v"`
}

func (v *versioned) stamp() { v.V = rowVersion }

func (r *basinRow) check() error {
	if r.ID.IsZero() || (r.State != Active && r.State != Deleting && r.State != Deleted) {
		return fmt.Errorf("basin without id or state: %w", ErrBadRow)
	}
	return nil
}

func (r *streamRow) check() error {
	known := r.State == Creating || r.State == Active || r.State == Deleting || r.State == Deleted
	if r.ID.IsZero() || !known || (r.State == Creating) != (r.Config != nil) {
		return fmt.Errorf("stream without id, state or config: %w", ErrBadRow)
	}
	return nil
}

func (r *workRow) check() error {
	stream := r.Kind == finishStream || r.Kind == purgeStream
	basin := r.Kind == finishBasin || r.Kind == purgeBasin
	if r.Basin.IsZero() || r.BasinName == "" || !stream && !basin || stream == r.Stream.IsZero() || stream == (r.Name == "") {
		return fmt.Errorf("work without kind or names: %w", ErrBadRow)
	}
	return nil
}

func (r *deadRow) check() error      { return nil }
func (r *deadBasinRow) check() error { return nil }

func encode(r record) []byte {
	r.stamp()
	b, err := json.Marshal(r)
	if err != nil {
		panic("tenancy: row does not encode: " + err.Error()) // the types above cannot fail
	}
	return b
}

// decode reads a row's value strictly into one of the types above.
func decode(value []byte, r record) error {
	// The version first: a later one may have other fields, and the error should name the reason.
	var head struct {
		versioned
	}
	if err := json.Unmarshal(value, &head); err != nil {
		return fmt.Errorf("%w: %w", ErrBadRow, err)
	}
	if head.V != rowVersion {
		return fmt.Errorf("%w: version %d, not %d", ErrBadRow, head.V, rowVersion)
	}
	if err := strictly(value, r); err != nil {
		return err
	}
	return r.check()
}

// strictly decodes one JSON value that has no field that v has not.
func strictly(value []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: %w", ErrBadRow, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("%w: more than one value", ErrBadRow)
	}
	return nil
}

func toMillis(t time.Time) uint64 { return uint64(max(0, t.UnixMilli())) }

// toTime is the zero time for 0.
func toTime(ms uint64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(ms)).UTC()
}
