package coordinator_test

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
)

// transition runs a step on h and checks what holds for every transition: neither input is changed, nor what lies
// behind the head's log in memory; a refusal returns the head as it was; a success counts V and keeps the head
// consistent and what only rises from falling.
func transition(t *rapid.T, h coordinator.Head, step storetest.Step) (coordinator.Head, error) {
	spare := segments.Entry{N: 77, Data: []byte("spare")}
	h.Log = append(slices.Clone(h.Log), spare)[:len(h.Log)]
	h.Cancelled = append(slices.Clone(h.Cancelled), segments.EntryID{Attempt: 77})[:len(h.Cancelled)]
	before, sent := storetest.Canonical(h), describe(step)

	next, err := step.Apply(h)

	if !bytes.Equal(before, storetest.Canonical(h)) {
		t.Fatal("the head passed in was changed")
	}
	if sent != describe(step) {
		t.Fatal("the transition passed in was changed")
	}
	if e := h.Log[:len(h.Log)+1][len(h.Log)]; e.N != 77 || h.Cancelled[:len(h.Cancelled)+1][len(h.Cancelled)].Attempt != 77 {
		t.Fatal("memory behind the head passed in was written")
	}
	if err != nil {
		reason, refused := storetest.RefusedFor(err)
		if reason == 0 || !storetest.Equal(refused, h) || !storetest.Equal(next, h) {
			t.Fatalf("a refusal without its head: %v", err)
		}
		return next, err
	}
	checkSuccess(t, &h, &next)
	return next, nil
}

func checkSuccess(t *rapid.T, h, next *coordinator.Head) {
	if problem := storetest.Check(next); problem != "" {
		t.Fatalf("%s:\n%+v\nbecame\n%+v", problem, *h, *next)
	}
	if next.V != h.V+1 || next.Basin != h.Basin || next.Stream != h.Stream || next.CreatedAt != h.CreatedAt {
		t.Fatalf("V %d became %d, or an id changed", h.V, next.V)
	}
	if next.Tail < h.Tail || next.Trim < h.Trim || next.Floor < h.Floor || next.Horizon < h.Horizon ||
		next.State < h.State || next.TokenV < h.TokenV || next.ConfigV < h.ConfigV || next.First() < h.First() {
		t.Fatalf("something fell:\n%+v\nbecame\n%+v", *h, *next)
	}
	if next.TailPosition().Timestamp < h.TailPosition().Timestamp {
		t.Fatalf("the tail's timestamp fell from %v to %v", h.TailPosition(), next.TailPosition())
	}
}

// describe is a step in full, to see whether it was changed.
func describe(s storetest.Step) string {
	var b []byte
	list := func(run []segments.Entry) {
		for i := range run {
			b = append(coordinator.AppendEntry(b, &run[i]), '|')
		}
	}
	if s.Commit != nil {
		list(s.Commit.Entries)
	}
	if p := s.Splice; p != nil && p.Exchange != nil {
		list(p.Exchange.Old)
		list(p.Exchange.New)
	}
	if p := s.Splice; p != nil && p.Move != nil {
		list(p.Move.Old)
		b = coordinator.AppendHead(b, &coordinator.Head{Pages: p.Move.Pages}, true)
	}
	if s.Change != nil {
		b = coordinator.AppendHead(b, &coordinator.Head{Cancelled: s.Change.Cancel}, true)
	}
	return string(b)
}

func TestApplyProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := storetest.NewGen(t)
		h := g.Head()
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			c := g.Commit(&h)
			next, err := transition(t, h, storetest.Step{Commit: c})
			if err == nil {
				checkCommitted(t, &h, &next, c)
			} else {
				checkRefused(t, &h, c, err)
			}
			h = next
			if next, err := transition(t, h, storetest.Step{Change: g.Change(&h)}); err == nil {
				h = next
			}
		}
	})
}

func checkCommitted(t *rapid.T, h, next *coordinator.Head, c *coordinator.Commit) {
	if next.Tail != h.Tail+c.Records() || next.Base != h.Base || !coordinator.RootsEqual(next.Pages, h.Pages) {
		t.Fatalf("%d records moved the tail from %d to %d", c.Records(), h.Tail, next.Tail)
	}
	if !coordinator.EntriesEqual(next.Log, slices.Concat(h.Log, c.Entries)) {
		t.Fatal("the log is not the old one and the new entries")
	}
	for i := range c.Entries {
		if id := c.Entries[i].ID; slices.Contains(h.Cancelled, id) {
			t.Fatalf("cancelled id %v entered", id)
		} else if id.Label() <= h.Horizon {
			t.Fatalf("label %d entered at horizon %d", id.Label(), h.Horizon)
		}
	}
	if c.Match != nil && *c.Match != h.Tail || c.Token != nil && *c.Token != h.Token ||
		c.Exclusive != h.Exclusive() || c.ConfigV != h.ConfigV || h.State != coordinator.Active {
		t.Fatal("a precondition did not hold")
	}
	if len(h.Log) >= c.MaxEntries || c.InlineBytes() > 0 && next.InlineBytes > c.MaxInline {
		t.Fatalf("there was no room: %d entries, %d bytes", len(h.Log), next.InlineBytes)
	}
	if c.SetToken != nil != (next.TokenV == h.TokenV+1) || c.SetToken != nil && next.Token != *c.SetToken {
		t.Fatalf("token %q at %d", next.Token, next.TokenV)
	}
	trim := h.Trim
	for _, tr := range c.Trims {
		// Compared without a sum: the largest number asks for everything.
		trim = max(trim, min(tr.To, h.Tail+tr.Offset+1))
	}
	if next.Trim != trim || (trim != h.Trim && next.TrimTime != c.Now) {
		t.Fatalf("trim point %d at %d, want %d", next.Trim, next.TrimTime, trim)
	}
}

// checkRefused holds a refusal against what protocol 2 says of each reason.
func checkRefused(t *rapid.T, h *coordinator.Head, c *coordinator.Commit, err error) {
	reason, _ := storetest.RefusedFor(err)
	room := len(h.Log) >= c.MaxEntries || h.InlineBytes+c.InlineBytes() > c.MaxInline
	for _, r := range []struct {
		reason coordinator.Reason
		holds  bool
	}{
		{coordinator.RefusedState, h.State != coordinator.Active},
		{coordinator.RefusedFencing, c.Token != nil && *c.Token != h.Token},
		{coordinator.RefusedMatch, c.Match != nil && *c.Match != h.Tail},
		{coordinator.RefusedMode, c.Exclusive != h.Exclusive()},
		{coordinator.RefusedConfig, c.ConfigV != h.ConfigV},
		{coordinator.RefusedHorizon, c.MinLabel() <= h.Horizon},
		{coordinator.RefusedRoom, room},
	} {
		if r.reason == reason && !r.holds {
			t.Fatalf("refused without cause: %v", err)
		}
	}
}

// Two commits on one head must not see each other through the memory of its log.
func TestApplyDoesNotAlias(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := storetest.NewGen(t)
		h := g.Head()
		h.Log = slices.Grow(slices.Clone(h.Log), 16)
		a, errA := transition(t, h, storetest.Step{Commit: g.Commit(&h)})
		seen := storetest.Canonical(a)
		b, errB := transition(t, h, storetest.Step{Commit: g.Commit(&h)})
		if errA == nil && errB == nil && storetest.Equal(a, b) {
			t.Fatal("two commits gave one head")
		}
		if !bytes.Equal(seen, storetest.Canonical(a)) {
			t.Fatal("the first commit's head changed with the second")
		}
	})
}

// The order of the answers: a commit with several things wrong is refused for the first (protocol 2).
func TestApplyOrderOfAnswers(t *testing.T) {
	t.Parallel()
	h := storetest.NewHead()
	h.Horizon = 50
	id := segments.EntryID{Object: segments.NewObjectID(50)}
	h.Cancelled = []segments.EntryID{id}
	h.State = coordinator.Deleting
	other, far := "other", uint64(9)
	c := &coordinator.Commit{
		Entries: []segments.Entry{{ID: id, N: 1, Data: []byte("x")}},
		Token:   &other, Match: &far, Exclusive: true, ConfigV: 7,
	}
	for _, fix := range []struct {
		want   coordinator.Reason
		repair func()
	}{
		{coordinator.RefusedState, func() { h.State = coordinator.Active }},
		{coordinator.RefusedFencing, func() { c.Token = nil }},
		{coordinator.RefusedMatch, func() { c.Match = nil }},
		{coordinator.RefusedMode, func() { c.Exclusive = false }},
		{coordinator.RefusedConfig, func() { c.ConfigV = 0 }},
		{coordinator.RefusedCancelled, func() { h.Cancelled = nil }},
		{coordinator.RefusedHorizon, func() { h.Horizon = 49 }},
		{coordinator.RefusedRoom, func() { c.MaxEntries = 1 }},
		{coordinator.RefusedRoom, func() { c.MaxInline = 1 }},
	} {
		if got, _ := storetest.RefusedFor(second(coordinator.Apply(h, c))); got != fix.want {
			t.Fatalf("refused for %q, want %q", got, fix.want)
		}
		fix.repair()
	}
	if _, err := coordinator.Apply(h, c); err != nil {
		t.Fatalf("with all repaired: %v", err)
	}
}

// A full log of inline bytes takes entries that bring none.
func TestApplyFullOfInlineBytes(t *testing.T) {
	t.Parallel()
	h := storetest.NewHead()
	h.Log = []segments.Entry{{ID: segments.EntryID{Object: segments.NewObjectID(1)}, N: 1, Data: make([]byte, 20)}}
	h.Tail, h.InlineBytes = 1, 20
	id := segments.EntryID{Object: segments.NewObjectID(2)}
	c := &coordinator.Commit{
		Entries:    []segments.Entry{{ID: id, N: 1, Object: id.Object, Length: 5}},
		MaxEntries: 9, MaxInline: 10,
	}
	if _, err := coordinator.Apply(h, c); err != nil {
		t.Error(err)
	}
}

func second[A any](_ A, err error) error { return err }
