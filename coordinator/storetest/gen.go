package storetest

import (
	"encoding/binary"

	"pgregory.net/rapid"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// NewHead is the head of a new stream with ids of its own: active and empty, with the default config.
func NewHead() coordinator.Head {
	return coordinator.Head{
		V: 1, Basin: segments.NewBasinID(), Stream: segments.NewStreamID(),
		State: coordinator.Active, StateID: coordinator.NewOpID(),
		Config:    coordinator.DefaultStreamConfig(),
		CreatedAt: 1,
	}
}

// Gen draws heads, and transitions that a given head mostly, but not always, applies. Labels, tokens and counters
// come from so small ranges that every reason for a refusal comes up. No id is drawn twice unless on purpose.
type Gen struct {
	t   *rapid.T
	ids uint32
}

// NewGen makes a Gen for one check.
func NewGen(t *rapid.T) *Gen { return &Gen{t: t} }

func (g *Gen) num(low, high int, label string) int { return rapid.IntRange(low, high).Draw(g.t, label) }

func (g *Gen) u64(low, high uint64, label string) uint64 {
	return rapid.Uint64Range(low, high).Draw(g.t, label)
}

// rarely is true one time in n.
func (g *Gen) rarely(n int, label string) bool { return g.num(1, n, label) == n }

func (g *Gen) object(l segments.Label) (id segments.ObjectID) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(l))
	copy(id[:], b[2:])
	g.ids++
	binary.BigEndian.PutUint32(id[12:], g.ids)
	return id
}

// fresh is a label above the head's horizon, as a writer takes it.
func (g *Gen) fresh(h *coordinator.Head) segments.Label {
	return h.Horizon + segments.Label(g.u64(1, 20, "label above the horizon"))
}

// label is mostly fresh, and else at or below the horizon.
func (g *Gen) label(h *coordinator.Head) segments.Label {
	if h.Horizon > 0 && g.rarely(8, "stale label") {
		return segments.Label(g.u64(0, uint64(h.Horizon), "label"))
	}
	return g.fresh(h)
}

// entry is inline or names an object, with a new id of the label.
func (g *Gen) entry(l segments.Label) segments.Entry {
	id := segments.EntryID{Object: g.object(l), Attempt: uint16(g.num(0, 3, "attempt"))}
	e := segments.Entry{
		ID: id, N: uint32(g.num(1, 9, "n")), Skip: uint32(g.num(0, 2, "skip")),
		MaxTime: g.u64(0, 99, "time"), Arrival: g.u64(0, 99, "arrival"), Bytes: g.u64(8, 999, "bytes"),
	}
	if rapid.Bool().Draw(g.t, "inline") {
		e.Data = rapid.SliceOfN(rapid.Byte(), 1, 24).Draw(g.t, "data")
		return e
	}
	e.Object, e.Offset, e.Length = id.Object, g.u64(0, 1<<20, "offset"), uint32(g.num(1, 1<<16, "length"))
	return e
}

func (g *Gen) entries(low, high int, label func() segments.Label) []segments.Entry {
	list := make([]segments.Entry, g.num(low, high, "entries"))
	for i := range list {
		list[i] = g.entry(label())
	}
	return list
}

// root is a page with a new id of the label over the n records from start on.
func (g *Gen) root(level uint8, l segments.Label, start, n, before, after uint64) coordinator.Root {
	id := g.object(l)
	return coordinator.Root{Level: level, Page: segments.Row{
		Start: start, N: n, TimeBefore: before, TimeAfter: after,
		ArrivalMin: g.u64(0, 40, "arrival min"), ArrivalMax: g.u64(40, 99, "arrival max"),
		Bytes: g.u64(8, 1<<20, "page bytes"),
		IDs:   segments.LabelRange{Min: 1, Max: l}, Objects: segments.LabelRange{Min: 1, Max: l},
		Child: id, ChildBytes: uint32(g.num(1, 1<<16, "size")),
	}}
}

// Head draws a head of a new stream in any state of its life: dense, with what it counts in agreement.
func (g *Gen) Head() coordinator.Head {
	h := NewHead()
	h.V = g.u64(1, 1<<40, "v")
	h.Horizon = segments.Label(g.u64(0, 30, "horizon"))
	if g.rarely(10, "not active") {
		h.State = rapid.SampledFrom([]coordinator.State{coordinator.Deleting, coordinator.Deleted}).Draw(g.t, "state")
	}
	h.Config = g.config()
	h.ConfigV = g.u64(0, 2, "config counter")
	h.Token, h.TokenV = g.token(), g.u64(0, 2, "token counter")
	if rapid.Bool().Draw(g.t, "token and config were changed") {
		h.TokenID, h.ConfigID = coordinator.NewOpID(), coordinator.NewOpID()
	}
	old := func() segments.Label { return segments.Label(g.u64(1, 40, "old label")) }
	g.tree(&h, old)
	h.Log = g.entries(0, 6, old)
	h.Tail = h.Base
	for i := range h.Log {
		h.Tail += uint64(h.Log[i].N)
		h.InlineBytes += uint64(len(h.Log[i].Data))
	}
	h.Trim = g.u64(0, h.Tail, "trim")
	h.Floor = g.u64(0, h.Trim, "floor")
	h.TrimTime = g.u64(0, 99, "trim time")
	for range max(0, g.num(-3, 2, "cancelled")) {
		h.Cancelled = append(h.Cancelled, segments.EntryID{Object: g.object(old()), Attempt: uint16(g.num(0, 1, "attempt"))})
	}
	h.Cipher = rapid.SampledFrom([]string{"", segments.CipherAES256GCM}).Draw(g.t, "cipher")
	if rapid.Bool().Draw(g.t, "leased") {
		h.Lease = g.lease()
	}
	return h
}

// tree draws roots from a random start, and sets the base behind them.
func (g *Gen) tree(h *coordinator.Head, label func() segments.Label) {
	h.Base, h.BaseTime = g.u64(0, 1000, "first"), g.u64(0, 20, "time before")
	for level := segments.PageLevels - 1; level >= 0; level-- {
		if !g.rarely(3, "has level") {
			continue
		}
		n, after := g.u64(1, 1000, "page records"), h.BaseTime+g.u64(0, 20, "page time")
		h.Pages = append(h.Pages, g.root(uint8(level), label(), h.Base, n, h.BaseTime, after))
		h.Base, h.BaseTime = h.Base+n, after
	}
}

func (g *Gen) token() string {
	return rapid.SampledFrom([]string{"", "a", "ä\x00\xff"}).Draw(g.t, "token")
}

func (g *Gen) config() coordinator.StreamConfig {
	c := coordinator.DefaultStreamConfig()
	c.RetentionAge = g.u64(0, 3, "retention")
	c.Timestamping = rapid.SampledFrom([]coordinator.TimestampingMode{
		coordinator.ClientPrefer, coordinator.ClientRequire, coordinator.ArrivalTime,
	}).Draw(g.t, "timestamping")
	if g.rarely(4, "exclusive") {
		c.Fencing = coordinator.Exclusive
	}
	if rapid.Bool().Draw(g.t, "uncapped and delete on empty") {
		c.Uncapped, c.DeleteOnEmptyMinAge, c.StorageClass = true, 60, coordinator.Standard
	}
	return c
}

func (g *Gen) lease() coordinator.Lease {
	return coordinator.Lease{
		Node: rapid.SampledFrom([]string{"n1", "n2"}).Draw(g.t, "node"), Address: "10.0.0.1:80",
		Term: g.u64(1, 3, "term"), Expiry: g.u64(1, 99, "expiry"),
	}
}
