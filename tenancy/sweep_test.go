package tenancy

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
)

// TestBurst is BL-146: 5000 deletions while nobody sweeps are all done within two sweeps, by another process.
func TestBurst(t *testing.T) {
	t.Parallel()
	w, d := withBasin(t, BasinConfig{CreateOnAppend: true})
	ctx := t.Context()
	const burst = 5000
	for i := range burst {
		name := fmt.Sprintf("s%04d", i)
		_, err := d.Resolve(ctx, theBasin, name, Append)
		must(t, err)
		_, err = d.DeleteStream(ctx, theBasin, name)
		must(t, err)
	}
	other := w.directory()
	var told atomic.Int64
	other.OnDeleted = func(coordinator.StreamRef) { told.Add(1) }
	w.sweep(other)
	w.sweep(other)
	page, err := d.ListStreams(ctx, theBasin, "", "", 0)
	must(t, err)
	if len(page.Streams) != 0 || told.Load() != burst {
		t.Errorf("%d streams are left on the first page; %d deletions were told", len(page.Streams), told.Load())
	}
	if s := w.sweep(other); s != (Swept{}) {
		t.Errorf("a third sweep did %+v", s)
	}
	w.check()
}

// TestCost pins the store calls of the operations that matter: the first append to a new name, and to a known one.
func TestCost(t *testing.T) {
	t.Parallel()
	w, d := withBasin(t, BasinConfig{CreateOnAppend: true})
	for _, c := range []struct {
		what string
		do   func() error
		want string
	}{
		{"new name", func() error { _, err := d.Resolve(t.Context(), theBasin, "one", Append); return err }, "map[Create:1 Get:3 Put:2]"},
		{"known name", func() error { _, err := d.Resolve(t.Context(), theBasin, "one", Append); return err }, "map[]"},
		{"name known elsewhere", func() error { _, err := w.directory().Resolve(t.Context(), theBasin, "one", Append); return err }, "map[Get:2]"},
		{"get", func() error { _, _, err := d.GetStream(t.Context(), theBasin, "one"); return err }, "map[Get:1 Load:1]"},
		{"delete", func() error { _, err := d.DeleteStream(t.Context(), theBasin, "one"); return err }, "map[Change:1 Get:2 Put:2]"},
		{"finish", func() error { w.sweep(d); return nil }, "map[Change:1 Delete:1 Get:1 List:8 Put:3]"},
		{"nothing to do", func() error { w.sweep(d); return nil }, "map[List:8]"},
	} {
		before := w.faults.Counts()
		must(t, c.do())
		spent := map[string]int{}
		for op, n := range w.faults.Counts() {
			if n -= before[op]; n > 0 {
				spent[op] = n
			}
		}
		if got := fmt.Sprint(spent); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// TestRun: the loop frees names by itself, once its stores allow it, and ends with its context.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, d := withBasin(t, BasinConfig{})
		d.Clock = time.Now
		ctx := t.Context()
		running := make(chan struct{})
		go func() {
			d.Run(ctx)
			close(running)
		}()
		w.streams(d, "one", "two")
		_, err := d.DeleteStream(ctx, theBasin, "one")
		must(t, err)
		w.faults.Set(storetest.Always(storetest.Refuse, "Change"))
		time.Sleep(time.Minute)
		synctest.Wait()
		_, _, err = d.GetStream(ctx, theBasin, "one")
		if !errors.Is(err, coordinator.ErrUnavailable) && !errors.Is(err, ErrStreamDeleting) {
			t.Errorf("got %v", err)
		}
		w.faults.Set(nil)
		time.Sleep(d.SweepPeriod + time.Second)
		synctest.Wait()
		_, _, err = d.GetStream(ctx, theBasin, "one")
		wantErr(t, err, ErrStreamNotFound)

		_, err = d.DeleteBasin(ctx, theBasin)
		must(t, err)
		time.Sleep(d.SweepPeriod + time.Second)
		synctest.Wait()
		_, _, err = d.GetBasin(ctx, theBasin)
		wantErr(t, err, ErrBasinNotFound)

		time.Sleep(72 * time.Hour)
		synctest.Wait()
		for _, part := range []string{basinsPart, workPart(0), workPart(1), workPart(2), workPart(3), workPart(4), workPart(5), workPart(6), workPart(7)} {
			rows, err := w.store.List(ctx, part, "", "", 10)
			must(t, err)
			if len(rows) > 0 {
				t.Errorf("%s still has %d rows", part, len(rows))
			}
		}
	})
}

// TestLargeBasin: the sweep of a basin of several pages, whose streams' stores fail at first, goes on where it was.
func TestLargeBasin(t *testing.T) {
	t.Parallel()
	w, d := withBasin(t, BasinConfig{CreateOnAppend: true})
	ctx := t.Context()
	const n = 2500
	for i := range n {
		_, err := d.Resolve(ctx, theBasin, fmt.Sprintf("s%04d", i), Append)
		must(t, err)
	}
	_, err := d.DeleteBasin(ctx, theBasin)
	must(t, err)
	var changes atomic.Int64
	w.faults.Set(func(c storetest.Call) storetest.Outcome {
		if c.Op == "Change" && changes.Add(1) > 1500 {
			return storetest.Refuse
		}
		return storetest.Pass
	})
	s, err := d.Sweep(ctx)
	must(t, err)
	if s.Failed != 1 {
		t.Errorf("swept %+v", s)
	}
	w.faults.Set(nil)
	work, err := listWork(w)
	must(t, err)
	if len(work) != 1 || work[0].Cursor != "s0999" || !work[0].Dirty {
		t.Errorf("the work is %+v", work)
	}
	w.sweep(w.directory())
	_, _, err = d.GetBasin(ctx, theBasin)
	wantErr(t, err, ErrBasinNotFound)
	dead := 0
	must(t, d.Walk(ctx, func(s Stream) error {
		if s.State == Deleted {
			dead++
		}
		return nil
	}))
	if dead != n {
		t.Errorf("%d streams are noted as dead", dead)
	}
	w.check()
}

func listWork(w *world) (work []workRow, err error) {
	for shard := range shards {
		rows, err := w.store.List(w.t.Context(), workPart(shard), "", "", 1000)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			var r workRow
			if err := decode(row.Value, &r); err != nil {
				return nil, err
			}
			work = append(work, r)
		}
	}
	return work, nil
}

// TestForget: dead ids are shown to collection until it says they are empty; a basin's not before its rows have been
// gone for a tombstone's age.
func TestForget(t *testing.T) {
	t.Parallel()
	w, d := withBasin(t, BasinConfig{})
	ctx := t.Context()
	w.streams(d, "one", "two")
	_, err := d.DeleteStream(ctx, theBasin, "one")
	must(t, err)
	w.sweep(d)
	seen := func() (states []State, refs []coordinator.StreamRef) {
		must(t, d.Walk(ctx, func(s Stream) error {
			states, refs = append(states, s.State), append(refs, s.Ref)
			return nil
		}))
		return states, refs
	}
	states, refs := seen()
	if fmt.Sprint(states) != "[active deleted]" {
		t.Fatalf("states %v", states)
	}
	must(t, d.ForgetDead(ctx, refs[1]))
	must(t, d.ForgetDead(ctx, refs[1]))
	if states, _ = seen(); fmt.Sprint(states) != "[active]" {
		t.Fatalf("states %v", states)
	}
	_, err = d.DeleteBasin(ctx, theBasin)
	must(t, err)
	w.sweep(d)
	var basin segments.BasinID
	must(t, d.Basins(ctx, func(b Basin) error { basin = b.ID; return nil }))
	wantErr(t, d.ForgetBasin(ctx, basin), ErrInUse)
	for range 3 {
		w.pass(25 * time.Hour)
		must(t, d.Repair(ctx))
		wantErr(t, d.ForgetBasin(ctx, basin), ErrInUse) // "two" is not forgotten
	}
	must(t, d.ForgetDead(ctx, refs[0]))
	must(t, d.Repair(ctx))
	wantErr(t, d.ForgetBasin(ctx, basin), ErrInUse)
	w.pass(24 * time.Hour)

	// A creation that was on its way all that time arrives: the id is not empty after all.
	late := streamRow{State: Creating, ID: segments.NewStreamID(), Config: ptr(coordinator.DefaultStreamConfig())}
	must(t, d.putOnce(ctx, streamKey(basin, "late"), &late))
	must(t, d.Repair(ctx))
	wantErr(t, d.ForgetBasin(ctx, basin), ErrInUse)
	h, err := w.store.Load(ctx, late.ID)
	must(t, err)
	if h.State != coordinator.Deleted {
		t.Errorf("the late stream is %s", h.State)
	}
	w.pass(25 * time.Hour)
	must(t, d.ForgetDead(ctx, coordinator.StreamRef{Basin: basin, Stream: late.ID}))
	must(t, d.Repair(ctx))
	w.pass(25 * time.Hour)
	must(t, d.ForgetBasin(ctx, basin))
	must(t, d.Basins(ctx, func(b Basin) error { return fmt.Errorf("basin %v is still known", b) }))
}

// TestRepair: what no work row leads to is found by the walk.
func TestRepair(t *testing.T) {
	t.Parallel()
	w, d := withBasin(t, BasinConfig{})
	ctx := t.Context()
	b, err := d.basin(ctx, theBasin)
	must(t, err)
	id := segments.NewStreamID()
	config := coordinator.DefaultStreamConfig()
	must(t, d.putOnce(ctx, streamKey(b.ID, "half-made"), &streamRow{State: Creating, ID: id, CreatedAt: 1, Config: &config}))
	w.streams(d, "half-gone", "gone")
	_, err = d.DeleteStream(ctx, theBasin, "half-gone")
	must(t, err)
	_, err = d.DeleteStream(ctx, theBasin, "gone")
	must(t, err)
	_, _, err = d.CreateBasin(ctx, "dying-basin", "", BasinConfig{}, "")
	must(t, err)
	_, err = d.DeleteBasin(ctx, "dying-basin")
	must(t, err)
	e, err := d.getStream(ctx, place{b.ID, theBasin, "gone"})
	must(t, err)
	must(t, d.finish(ctx, &e, true))
	for shard := range shards {
		must(t, d.each(ctx, workPart(shard), "", func(row coordinator.Row) error {
			return d.drop(ctx, row.Key, row.Version)
		}))
	}
	w.pass(25 * time.Hour)
	must(t, d.Repair(ctx))
	w.sweep(d)
	if v := w.view(); len(v) != 2 || v["s/the-basin/half-made"] == "" {
		t.Errorf("left: %v", v)
	}
	e, err = d.getStream(ctx, place{b.ID, theBasin, "gone"})
	must(t, err)
	if e.v != 0 {
		t.Errorf("the tombstone is still there: %+v", e)
	}
	w.settle()
	w.check()
}
