package coordinator_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
)

func TestChangeProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := storetest.NewGen(t)
		h := g.Head()
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			c := g.Change(&h)
			next, err := transition(t, h, storetest.Step{Change: c})
			if err != nil {
				continue
			}
			checkChanged(t, &h, &next, c)
			h = next
		}
	})
}

// checkChanged expects exactly the change: undoing what it sets gives the old head back.
func checkChanged(t *rapid.T, h, next *coordinator.Head, c *coordinator.Change) {
	undone := *next
	undone.V = h.V
	ok := true
	switch {
	case c.Fence != nil:
		ok = next.Token == c.Fence.Token && next.TokenID == c.ID && next.TokenV == c.Fence.IfV+1
		undone.Token, undone.TokenID, undone.TokenV = h.Token, h.TokenID, c.Fence.IfV
	case c.Config != nil:
		ok = next.Config == c.Config.Config && next.ConfigID == c.ID && next.ConfigV == c.Config.IfV+1
		undone.Config, undone.ConfigID, undone.ConfigV = h.Config, h.ConfigID, c.Config.IfV
	case c.Bump != nil && c.Bump.Fence:
		ok = next.TokenV == c.Bump.IfV+1
		undone.TokenV--
	case c.Bump != nil:
		ok = next.ConfigV == c.Bump.IfV+1
		undone.ConfigV--
	case c.State != 0:
		ok = next.State == max(h.State, c.State) && (next.StateID == c.ID) == (c.State > h.State)
		undone.State, undone.StateID = h.State, h.StateID
	case c.Trim != nil:
		ok = next.Trim == max(h.Trim, min(c.Trim.To, h.Tail))
		undone.Trim, undone.TrimTime = h.Trim, h.TrimTime
	case c.RaiseFloor != 0:
		ok = next.Floor == max(h.Floor, min(c.RaiseFloor, h.Tail))
		undone.Floor = h.Floor
	case c.RaiseHorizon != 0:
		ok = next.Horizon == max(h.Horizon, c.RaiseHorizon)
		undone.Horizon = h.Horizon
	case len(c.Cancel) > 0:
		ok = !slices.ContainsFunc(slices.Concat(c.Cancel, h.Cancelled), func(id segments.EntryID) bool {
			return !slices.Contains(next.Cancelled, id)
		}) && len(next.Cancelled) <= len(h.Cancelled)+len(c.Cancel)
		undone.Cancelled = h.Cancelled
	case c.Clear != nil:
		ok = !slices.ContainsFunc(h.Cancelled, func(id segments.EntryID) bool {
			return slices.Contains(next.Cancelled, id) == slices.Contains(c.Clear.Seen, id)
		}) && next.Horizon == c.Clear.Horizon
		undone.Cancelled, undone.Horizon = h.Cancelled, h.Horizon
	case c.Lease != nil:
		ok = next.Lease == c.Lease.Lease
		undone.Lease = h.Lease
	}
	if !ok || !storetest.Equal(undone, *h) {
		t.Fatalf("change %+v made of\n%+v\nthis:\n%+v", c, *h, *next)
	}
}

// Whatever was cancelled stays out, whether its id is still in the head or was cleared below the horizon.
func TestCancelledNeverEnters(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := storetest.NewGen(t)
		h := g.Head()
		h.State = coordinator.Active
		sent := g.Commit(&h)
		ids := make([]segments.EntryID, len(sent.Entries))
		for i := range sent.Entries {
			ids[i] = sent.Entries[i].ID
		}
		given := ids[rapid.IntRange(0, len(ids)-1).Draw(t, "given up on")]
		h, err := coordinator.ApplyChange(h, &coordinator.Change{Cancel: []segments.EntryID{given}})
		if err != nil {
			t.Fatalf("cancel: %v", err)
		}
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			if next, err := transition(t, h, g.Step(&h)); err == nil {
				h = next
			}
			// Nothing else is in its way.
			again := coordinator.Commit{
				Entries: sent.Entries, Exclusive: h.Exclusive(), ConfigV: h.ConfigV, MaxEntries: 1 << 20, MaxInline: 1 << 30,
			}
			if _, err := transition(t, h, storetest.Step{Commit: &again}); err == nil {
				t.Fatalf("id %v entered after it was cancelled", given)
			}
		}
	})
}

// Every counter in doubt can be settled: after a bump the verb that was on its way is refused.
func TestBumpSettlesVerbs(t *testing.T) {
	t.Parallel()
	h := storetest.NewHead()
	h.TokenV, h.ConfigV = 4, 5
	for _, fence := range []bool{true, false} {
		verb := &coordinator.Change{ID: coordinator.NewOpID(), Config: &coordinator.ConfigChange{IfV: 5}}
		bump := &coordinator.Change{Bump: &coordinator.BumpChange{IfV: 5}}
		if fence {
			verb = &coordinator.Change{ID: coordinator.NewOpID(), Fence: &coordinator.FenceChange{Token: "t", IfV: 4}}
			bump = &coordinator.Change{Bump: &coordinator.BumpChange{Fence: true, IfV: 4}}
		}
		bumped, err := coordinator.ApplyChange(h, bump)
		if err != nil || bumped.TokenID != h.TokenID || bumped.ConfigID != h.ConfigID {
			t.Fatalf("bump: %v, ids %v %v", err, bumped.TokenID, bumped.ConfigID)
		}
		if reason, _ := storetest.RefusedFor(second(coordinator.ApplyChange(bumped, verb))); reason != coordinator.RefusedChanged {
			t.Errorf("verb after the bump: reason %d", reason)
		}
	}
}

// A stream that is going away takes no verbs, but what collection and doubt need.
func TestChangeOfDeletedStream(t *testing.T) {
	t.Parallel()
	h := storetest.NewHead()
	h.State, h.Tail, h.Base, h.Horizon = coordinator.Deleted, 9, 9, 3
	for name, tc := range map[string]struct {
		c    coordinator.Change
		want coordinator.Reason
	}{
		"fence":   {coordinator.Change{Fence: &coordinator.FenceChange{}}, coordinator.RefusedState},
		"config":  {coordinator.Change{Config: &coordinator.ConfigChange{}}, coordinator.RefusedState},
		"trim":    {coordinator.Change{Trim: &coordinator.TrimChange{To: 5}}, coordinator.RefusedState},
		"bump":    {coordinator.Change{Bump: &coordinator.BumpChange{}}, 0},
		"state":   {coordinator.Change{State: coordinator.Deleting}, 0},
		"floor":   {coordinator.Change{RaiseFloor: 5}, 0},
		"horizon": {coordinator.Change{RaiseHorizon: 5}, 0},
		"cancel":  {coordinator.Change{Cancel: []segments.EntryID{{Attempt: 1}}}, 0},
		"clear":   {coordinator.Change{Clear: &coordinator.ClearChange{Horizon: 3}}, 0},
	} {
		next, err := coordinator.ApplyChange(h, &tc.c)
		if got, _ := storetest.RefusedFor(err); got != tc.want {
			t.Errorf("%s: reason %d, want %d", name, got, tc.want)
		}
		if next.State != coordinator.Deleted {
			t.Errorf("%s: state %v", name, next.State)
		}
	}
}
