package storetest

import (
	"context"
	"slices"

	"pgregory.net/rapid"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// Step is one transition of a head: one of the three is set.
type Step struct {
	Commit *coordinator.Commit
	Splice *coordinator.Splice
	Change *coordinator.Change
}

// Apply is the pure function of the step.
func (s Step) Apply(h coordinator.Head) (coordinator.Head, error) {
	switch {
	case s.Commit != nil:
		return coordinator.Apply(h, s.Commit)
	case s.Splice != nil:
		return coordinator.ApplySplice(h, s.Splice)
	}
	return coordinator.ApplyChange(h, s.Change)
}

// Send is the step on a store.
func (s Step) Send(ctx context.Context, heads coordinator.Heads, id segments.StreamID) (coordinator.Head, error) {
	switch {
	case s.Commit != nil:
		return heads.Commit(ctx, id, s.Commit)
	case s.Splice != nil:
		return heads.Splice(ctx, id, s.Splice)
	}
	return heads.Change(ctx, id, s.Change)
}

// Step draws a transition for h.
func (g *Gen) Step(h *coordinator.Head) Step {
	switch g.num(0, 5, "kind of step") {
	case 0, 1, 2:
		return Step{Commit: g.Commit(h)}
	case 3, 4:
		return Step{Splice: g.Splice(h)}
	}
	return Step{Change: g.Change(h)}
}

// Commit draws a commit for h.
func (g *Gen) Commit(h *coordinator.Head) *coordinator.Commit {
	c := &coordinator.Commit{
		Entries:   g.entries(1, 3, func() segments.Label { return g.label(h) }),
		Exclusive: h.Exclusive() != g.rarely(12, "judged under another mode"),
		ConfigV:   h.ConfigV,
		Now:       g.u64(1, 99, "now"),
	}
	if g.rarely(12, "judged under another config") {
		c.ConfigV++
	}
	if n := len(h.Cancelled); n > 0 && g.rarely(4, "cancelled id") {
		c.Entries[0].ID = h.Cancelled[g.num(0, n-1, "which")]
	}
	g.preconditions(h, c)
	if g.rarely(5, "fence command") {
		token := g.token()
		c.SetToken, c.TokenID = &token, coordinator.NewOpID()
	}
	for range max(0, g.num(-3, 2, "trims")) {
		to := rapid.OneOf(rapid.Uint64Range(0, h.Tail+40), rapid.Just[uint64](1<<64-1)).Draw(g.t, "trim to")
		c.Trims = append(c.Trims, coordinator.CommitTrim{Offset: g.u64(0, c.Records()-1, "offset"), To: to})
	}
	if g.rarely(6, "takes the lease") {
		lease := g.lease()
		c.Lease = &lease
	}
	return c
}

// preconditions draws token, tail and room, each failing now and then, the room also by exactly one.
func (g *Gen) preconditions(h *coordinator.Head, c *coordinator.Commit) {
	if rapid.Bool().Draw(g.t, "presents a token") {
		token := h.Token
		if g.rarely(6, "another token") {
			token = g.token()
		}
		c.Token = &token
	}
	if rapid.Bool().Draw(g.t, "conditional") {
		match := h.Tail
		if g.rarely(5, "another tail") {
			match = g.u64(0, h.Tail+2, "match")
		}
		c.Match = &match
	}
	c.MaxEntries = len(h.Log) + g.num(1, 3, "room for entries")
	if g.rarely(12, "no room for entries") {
		c.MaxEntries = g.num(0, len(h.Log), "max entries")
	}
	c.MaxInline = h.InlineBytes + c.InlineBytes() + g.u64(0, 9, "room for bytes")
	if g.rarely(8, "little room for bytes") {
		c.MaxInline = g.u64(0, h.InlineBytes+c.InlineBytes(), "max inline")
	}
}

// Splice draws a splice for h. It keeps the records that there are, whether it is refused or not.
func (g *Gen) Splice(h *coordinator.Head) *coordinator.Splice {
	kinds := []string{"retire"}
	if len(h.Log) > 0 {
		kinds = append(kinds, "exchange", "move", "move")
	}
	if len(h.Pages) > 0 {
		kinds = append(kinds, "repage")
	}
	switch rapid.SampledFrom(kinds).Draw(g.t, "kind of splice") {
	case "exchange":
		return g.exchange(h)
	case "move":
		return g.move(h)
	case "repage":
		return g.repage(h)
	}
	return g.retire(h)
}

func (g *Gen) exchange(h *coordinator.Head) *coordinator.Splice {
	i := g.num(0, len(h.Log)-1, "from")
	j := g.num(i+1, len(h.Log), "to")
	l := g.label(h)
	x := &coordinator.Exchange{Index: i, Old: g.asRead(h.Log[i:j]), MinLabel: l}
	n, _, maxTime := sums(h.Log[i:j], 0)
	for n > 0 {
		e := g.entry(l)
		e.ID = h.Log[g.num(i, j-1, "id kept")].ID
		e.N = uint32(g.u64(1, n, "n kept"))
		e.MaxTime = g.u64(0, maxTime, "time kept")
		x.New = append(x.New, e)
		n -= uint64(e.N)
	}
	x.New[g.num(0, len(x.New)-1, "latest")].MaxTime = maxTime
	if g.rarely(10, "wrong index") {
		x.Index = g.num(-1, len(h.Log)+1, "index")
	}
	return &coordinator.Splice{Exchange: x}
}

// move takes a prefix into a level-0 root, which stays the last root, and sometimes grows to the next free level.
func (g *Gen) move(h *coordinator.Head) *coordinator.Splice {
	old := h.Log[:g.num(1, len(h.Log), "moved")]
	l := g.label(h)
	n, _, maxTime := sums(old, h.BaseTime)
	m := &coordinator.Move{
		Base: h.Base, Old: g.asRead(old), OldPages: g.pagesAsRead(h.Pages),
		NewBase: h.Base + n, NewTime: maxTime, MinLabel: l,
	}
	if g.rarely(12, "another base") {
		m.Base++
	}
	m.Pages = slices.Clone(h.Pages)
	last := len(m.Pages) - 1
	start, before := h.Base, h.BaseTime
	if last >= 0 && m.Pages[last].Level == 0 {
		start, before = m.Pages[last].Page.Start, m.Pages[last].Page.TimeBefore
		m.Pages = m.Pages[:last]
	}
	level := uint8(0)
	if k := len(m.Pages); (k == 0 || m.Pages[k-1].Level > 1) && g.rarely(4, "grows a level") {
		level = 1
	}
	m.Pages = append(m.Pages, g.root(level, l, start, m.NewBase-start, before, maxTime))
	return &coordinator.Splice{Move: m}
}

// repage merges a run of roots into one of the highest level among them.
func (g *Gen) repage(h *coordinator.Head) *coordinator.Splice {
	i := g.num(0, len(h.Pages)-1, "from root")
	j := g.num(i+1, len(h.Pages), "to root")
	l := g.label(h)
	first, last := &h.Pages[i], &h.Pages[j-1]
	merged := g.root(first.Level, l, first.Page.Start, last.Page.End()-first.Page.Start,
		first.Page.TimeBefore, last.Page.TimeAfter)
	r := &coordinator.Repage{OldPages: g.pagesAsRead(h.Pages), MinLabel: l}
	r.Pages = append(append(slices.Clone(h.Pages[:i]), merged), h.Pages[j:]...)
	return &coordinator.Splice{Repage: r}
}

// retire drops leading roots whole, or records of the one after them; after the last root, leading entries.
func (g *Gen) retire(h *coordinator.Head) *coordinator.Splice {
	r := &coordinator.Retire{
		Base: h.Base, OldPages: g.pagesAsRead(h.Pages), NewBase: h.Base, NewTime: h.BaseTime,
		Horizon: h.Horizon + segments.Label(g.u64(0, 5, "horizon raised")), MinLabel: segments.MaxLabel,
	}
	if h.Horizon > 0 && g.rarely(8, "horizon behind") {
		r.Horizon = h.Horizon - 1
	}
	drop := g.num(0, len(h.Pages), "roots dropped")
	r.Pages = slices.Clone(h.Pages[drop:])
	if len(r.Pages) == 0 {
		old := h.Log[:g.num(0, len(h.Log), "entries dropped")]
		n, _, maxTime := sums(old, h.BaseTime)
		r.Old, r.NewBase, r.NewTime = g.asRead(old), h.Base+n, maxTime
		if r.Horizon >= h.Horizon {
			for i := range old {
				r.Horizon = max(r.Horizon, old[i].ID.Label())
			}
		}
	} else if p := r.Pages[0].Page; p.N > 1 && rapid.Bool().Draw(g.t, "cut a root") {
		r.MinLabel = g.label(h)
		cut := g.u64(1, p.N-1, "records cut")
		r.Pages[0] = g.root(r.Pages[0].Level, r.MinLabel, p.Start+cut, p.N-cut, p.TimeBefore, p.TimeAfter)
	}
	return &coordinator.Splice{Retire: r}
}

// sums folds a run of entries: records, inline bytes, and the effective time after it.
func sums(run []segments.Entry, before uint64) (n, inline, after uint64) {
	after = before
	for i := range run {
		n += uint64(run[i].N)
		inline += uint64(len(run[i].Data))
		after = max(after, run[i].MaxTime)
	}
	return n, inline, after
}

// asRead is a copy of entries as a mover read them, which is now and then not how they are: one field is off.
func (g *Gen) asRead(run []segments.Entry) []segments.Entry {
	run = slices.Clone(run)
	if len(run) == 0 || !g.rarely(10, "entries changed") {
		return run
	}
	e := &run[g.num(0, len(run)-1, "changed entry")]
	switch g.num(0, 5, "changed field") {
	case 0:
		e.ID.Attempt++
	case 1:
		e.N++
	case 2:
		e.Skip++
	case 3:
		e.MaxTime++
	case 4:
		e.Bytes++
	case 5:
		if e.Offset++; e.Inline() {
			e.Offset, e.Data = 0, append(slices.Clone(e.Data), 0)
		}
	}
	return run
}

func (g *Gen) pagesAsRead(roots []coordinator.Root) []coordinator.Root {
	roots = slices.Clone(roots)
	if len(roots) == 0 || !g.rarely(10, "roots changed") {
		return roots
	}
	r := &roots[g.num(0, len(roots)-1, "changed root")]
	r.Page.Child = g.object(r.Page.Child.Label())
	return roots
}

// Change draws a change for h. Those that end the stream are rare.
func (g *Gen) Change(h *coordinator.Head) *coordinator.Change {
	c := &coordinator.Change{ID: coordinator.NewOpID()}
	counter := func(v uint64) uint64 {
		if g.rarely(6, "another counter") {
			return v + 1
		}
		return v
	}
	switch g.num(0, 10, "kind of change") {
	case 0:
		c.Fence = &coordinator.FenceChange{Token: g.token(), IfV: counter(h.TokenV)}
	case 1:
		c.Config = &coordinator.ConfigChange{Config: g.config(), IfV: counter(h.ConfigV)}
	case 2:
		c.Bump = &coordinator.BumpChange{Fence: true, IfV: counter(h.TokenV)}
	case 3:
		c.Bump = &coordinator.BumpChange{IfV: counter(h.ConfigV)}
	case 4:
		c.Trim = &coordinator.TrimChange{To: g.u64(0, h.Tail+20, "trim to"), Now: g.u64(1, 99, "now")}
	case 5:
		c.RaiseFloor = g.u64(1, h.Tail+20, "floor")
	case 6:
		c.RaiseHorizon = segments.Label(g.u64(1, uint64(h.Horizon)+10, "horizon"))
	case 7:
		for range g.num(1, 3, "ids") {
			c.Cancel = append(c.Cancel, g.knownID(h))
		}
	case 8:
		g.clear(h, c)
	case 9:
		lease := &coordinator.LeaseChange{OldNode: h.Lease.Node, OldTerm: counter(h.Lease.Term), Lease: g.lease()}
		c.Lease = lease
	case 10:
		c.State = coordinator.Active
		if g.rarely(4, "ends") {
			c.State = rapid.SampledFrom([]coordinator.State{coordinator.Deleting, coordinator.Deleted}).Draw(g.t, "state")
		}
	}
	return c
}

// knownID is an id to cancel: of the log, cancelled already, or of a commit that is on its way.
func (g *Gen) knownID(h *coordinator.Head) segments.EntryID {
	switch k := g.num(0, 3, "whose id"); {
	case k == 0 && len(h.Log) > 0:
		return h.Log[g.num(0, len(h.Log)-1, "which entry")].ID
	case k == 1 && len(h.Cancelled) > 0:
		return h.Cancelled[g.num(0, len(h.Cancelled)-1, "which id")]
	}
	return segments.EntryID{Object: g.object(g.fresh(h)), Attempt: uint16(g.num(0, 2, "attempt"))}
}

func (g *Gen) clear(h *coordinator.Head, c *coordinator.Change) {
	seen := slices.Clone(h.Cancelled[:g.num(0, len(h.Cancelled), "ids seen")])
	seen = append(seen, g.knownID(h))
	c.Clear = &coordinator.ClearChange{Seen: seen, Horizon: h.Horizon}
	for _, id := range seen {
		c.Clear.Horizon = max(c.Clear.Horizon, id.Label())
	}
	if h.Horizon > 0 && g.rarely(6, "horizon behind") {
		c.Clear.Horizon = h.Horizon - 1
	}
}
