package tenancy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
)

// overtaken is a store whose first conditional write gives no answer, applied or not; before its caller can look,
// others have been there.
type overtaken struct {
	applied bool
	others  func() // nil from then on
}

// lose runs the first write and hides its answer, and runs the others.
func (o *overtaken) lose(write func()) bool {
	others := o.others
	if others == nil {
		return false
	}
	o.others = nil
	if o.applied {
		write()
	}
	others()
	return true
}

type overtakenTable struct {
	coordinator.Table
	*overtaken
}

func (s overtakenTable) Put(ctx context.Context, row coordinator.Row, ifVersion uint64) (coordinator.Row, error) {
	if s.lose(func() { _, _ = s.Table.Put(ctx, row, ifVersion) }) {
		return coordinator.Row{}, coordinator.ErrUnknown
	}
	return s.Table.Put(ctx, row, ifVersion)
}

type overtakenHeads struct {
	coordinator.Heads
	*overtaken
}

func (s overtakenHeads) Change(ctx context.Context, id segments.StreamID, c *coordinator.Change) (coordinator.Head, error) {
	if s.lose(func() { _, _ = s.Heads.Change(ctx, id, c) }) {
		return coordinator.Head{}, coordinator.ErrUnknown
	}
	return s.Heads.Change(ctx, id, c)
}

// TestOvertaken: a lost change with one other on top of it is told apart from one that was never applied; with more
// on top it is in doubt, and is not done twice.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	for _, applied := range []bool{false, true} {
		for others := range 3 {
			t.Run(fmt.Sprintf("applied %v others %d", applied, others), func(t *testing.T) {
				t.Parallel()
				w, d := withBasin(t, BasinConfig{})
				w.streams(d, "one")
				ctx := t.Context()
				// An own change that was applied shows uncapped; another's has an age that rises.
				age := uint64(0)
				by := func() {
					for range others {
						age++
						_, _, err := d.ReconfigureBasin(ctx, theBasin, BasinPatch{DefaultStream: Patch{DeleteOnEmptyMinAge: Value(age)}})
						must(t, err)
						_, _, err = d.ReconfigureStream(ctx, theBasin, "one", Patch{DeleteOnEmptyMinAge: Value(age)})
						must(t, err)
					}
				}
				lossy := func() *Directory {
					s := &overtaken{applied, by}
					o, err := New(Options{Table: overtakenTable{w.store, s}, Heads: overtakenHeads{w.store, s}})
					must(t, err)
					return o
				}
				want := func(err error) {
					t.Helper()
					// One version on top of the one read can be told apart, whoever it is by.
					if doubt := applied && others > 0 || others > 1; doubt != (err != nil) {
						t.Errorf("got %v, want doubt: %v", err, doubt)
					}
					if err != nil && (Definite(err) || !errors.Is(err, coordinator.ErrUnknown)) {
						t.Errorf("%v is not in doubt", err)
					}
				}
				_, _, err := lossy().ReconfigureBasin(ctx, theBasin, BasinPatch{DefaultStream: Patch{Uncapped: Value(true)}})
				want(err)
				_, _, err = lossy().ReconfigureStream(ctx, theBasin, "one", Patch{Uncapped: Value(true)})
				want(err)
			})
		}
	}
}

// TestLateConfig: a config change that is late, followed by a failure, comes to nothing once the failure was called
// definite.
func TestLateConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, d := withBasin(t, BasinConfig{})
		w.streams(d, "one")
		loads := 0
		w.faults.Set(func(c storetest.Call) storetest.Outcome {
			switch c.Op {
			case "Change":
				if c.Change.Config != nil {
					return storetest.Late
				}
			case "Load": // the first judges, the second looks after the change; the third is another try
				if loads++; loads == 3 {
					return storetest.Refuse
				}
			}
			return storetest.Pass
		})
		before := w.view()
		loads = 0
		_, _, err := d.ReconfigureStream(t.Context(), theBasin, "one", Patch{Uncapped: Value(true)})
		wantErr(t, err, coordinator.ErrUnavailable)
		for _, err := range w.faults.Deliver() {
			if err == nil {
				t.Error("the late change was applied")
			}
		}
		w.faults.Set(nil)
		if after := w.view(); !maps.Equal(before, after) {
			t.Errorf("%v became %v", before, after)
		}
	})
}

// TestTombstone: a freed name keeps its version, a day long, and delayed writes of its life miss.
func TestTombstone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, d := withBasin(t, BasinConfig{})
		ctx := t.Context()
		w.streams(d, "one")
		e, err := d.find(ctx, theBasin, "one")
		must(t, err)
		delayed := e // as a creator, or a deleter, who sent it long ago
		_, err = d.DeleteStream(ctx, theBasin, "one")
		must(t, err)
		w.sweep(d)
		at := func() uint64 {
			t.Helper()
			e, err := d.getStream(ctx, e.place)
			must(t, err)
			return e.v
		}
		w.pass(23 * time.Hour)
		must(t, d.Repair(ctx))
		w.sweep(d)
		if at() != 4 {
			t.Fatalf("the tombstone's version is %d", at())
		}
		var m *moved
		for v := range uint64(4) {
			if _, err := d.put(ctx, streamKey(e.basin, e.name), &delayed.streamRow, v); !errors.As(err, &m) {
				t.Errorf("a write over version %d: %v", v, err)
			}
		}

		// A removal without an answer moves the tombstone on, so that it can never come true over a new row.
		w.pass(2 * time.Hour)
		w.faults.Set(storetest.Nth("Delete", w.faults.Counts()["Delete"]+1, storetest.Late))
		w.sweep(d)
		w.faults.Set(nil)
		if at() != 5 {
			t.Fatalf("the tombstone's version is %d", at())
		}
		w.faults.Deliver()
		w.pass(23 * time.Hour)
		w.sweep(d)
		if at() != 5 {
			t.Fatalf("the tombstone's version is %d", at())
		}
		w.pass(2 * time.Hour)
		w.sweep(d)
		if at() != 0 {
			t.Fatalf("the tombstone is kept at version %d", at())
		}
	})
}

// TestHalfMade: a creation that is not done is not listed, and whoever asks for it by name completes it.
func TestHalfMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, d := withBasin(t, BasinConfig{})
		w.faults.Set(storetest.Nth("Create", 1, storetest.Hold))
		result := make(chan error, 1)
		go func() {
			_, _, err := d.CreateStream(t.Context(), theBasin, "one", Settings{}, "token")
			result <- err
		}()
		synctest.Wait()
		other := w.directory()
		page, err := other.ListStreams(t.Context(), theBasin, "", "", 0)
		must(t, err)
		if len(page.Streams) != 0 {
			t.Errorf("listed %+v", page.Streams)
		}
		_, outcome, err := other.CreateStream(t.Context(), theBasin, "one", Settings{}, "token")
		if err != nil || outcome != Noop {
			t.Errorf("the repetition: %q, %v", outcome, err)
		}
		w.faults.Release(-1)
		must(t, <-result)
		w.settle()
		w.check()
	})
}
