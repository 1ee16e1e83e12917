package tenancy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
)

// operation is one call to break at every store call it makes. after says, from what is seen before and after, what
// a success must show; nil says that a success shows no difference.
type operation struct {
	name  string
	setup func(ctx context.Context, w *world, d *Directory) error
	run   func(ctx context.Context, d *Directory) error
	after func(before, after view) error
}

func operations() []operation {
	one := func(ctx context.Context, _ *world, d *Directory) error {
		_, _, err := d.CreateStream(ctx, theBasin, "one", Settings{Fencing: ptr(coordinator.Exclusive)}, "")
		return err
	}
	onePending := func(ctx context.Context, w *world, d *Directory) error {
		if err := one(ctx, w, d); err != nil {
			return err
		}
		_, err := d.DeleteStream(ctx, theBasin, "one")
		w.pass(d.DeleteLinger)
		return err
	}
	oneDead := func(ctx context.Context, w *world, d *Directory) error {
		if err := onePending(ctx, w, d); err != nil {
			return err
		}
		_, err := d.Sweep(ctx)
		return err
	}
	basinPending := func(ctx context.Context, w *world, d *Directory) error {
		if err := one(ctx, w, d); err != nil {
			return err
		}
		_, err := d.DeleteBasin(ctx, theBasin)
		return err
	}
	shows := func(key, part string) func(before, after view) error {
		return func(_, after view) error {
			if !strings.Contains(after[key], part) {
				return fmt.Errorf("%s is %q, without %q", key, after[key], part)
			}
			return nil
		}
	}
	gone := func(key string) func(before, after view) error {
		return func(_, after view) error {
			if after[key] != "" {
				return fmt.Errorf("%s is still there: %s", key, after[key])
			}
			return nil
		}
	}
	create := func(ctx context.Context, d *Directory) error {
		_, _, err := d.CreateStream(ctx, theBasin, "one", Settings{Retention: &Retention{Age: 60}}, "")
		return err
	}
	resolve := func(ctx context.Context, d *Directory) error {
		_, err := d.Resolve(ctx, theBasin, "one", Append)
		return err
	}
	sweep := func(ctx context.Context, d *Directory) error {
		s, err := d.Sweep(ctx)
		if err != nil || s.Failed > 0 {
			return errSweep
		}
		return nil
	}
	return []operation{
		{"create stream", nil, create, shows("s/the-basin/one", `"retention_age":60`)},
		{"create stream over a tombstone", oneDead, create, shows("s/the-basin/one", `"retention_age":60`)},
		{"create stream over a pending deletion", onePending, create, shows("s/the-basin/one", `"retention_age":60`)},
		{"resolve and create", nil, resolve, shows("s/the-basin/one", "active")},
		{"resolve", one, resolve, nil},
		{"ensure new stream", nil, func(ctx context.Context, d *Directory) error {
			_, _, err := d.EnsureStream(ctx, theBasin, "one", Settings{Uncapped: ptr(true)})
			return err
		}, shows("s/the-basin/one", `"timestamping_uncapped":true`)},
		{"ensure stream", one, func(ctx context.Context, d *Directory) error {
			_, _, err := d.EnsureStream(ctx, theBasin, "one", Settings{Uncapped: ptr(true)})
			return err
		}, shows("s/the-basin/one", `"timestamping_uncapped":true,"fencing":"exclusive"`)},
		{"reconfigure stream", one, func(ctx context.Context, d *Directory) error {
			_, _, err := d.ReconfigureStream(ctx, theBasin, "one", Patch{Uncapped: Value(true)})
			return err
		}, shows("s/the-basin/one", `"timestamping_uncapped":true,"fencing":"exclusive"`)},
		{"get stream", one, func(ctx context.Context, d *Directory) error {
			_, _, err := d.GetStream(ctx, theBasin, "one")
			return err
		}, nil},
		{"delete stream", one, func(ctx context.Context, d *Directory) error {
			_, err := d.DeleteStream(ctx, theBasin, "one")
			return err
		}, gone("s/the-basin/one")},
		{"finish stream", onePending, sweep, gone("s/the-basin/one")},
		{"purge stream", func(ctx context.Context, w *world, d *Directory) error {
			err := oneDead(ctx, w, d)
			w.pass(25 * time.Hour)
			return err
		}, sweep, gone("s/the-basin/one")},
		{"create basin", nil, func(ctx context.Context, d *Directory) error {
			_, _, err := d.CreateBasin(ctx, "new-basin", "", BasinConfig{CreateOnRead: true}, "token")
			return err
		}, shows("b/new-basin", `"create_on_read":true`)},
		{"ensure basin", nil, func(ctx context.Context, d *Directory) error {
			_, _, err := d.EnsureBasin(ctx, theBasin, "", BasinConfig{CreateOnRead: true})
			return err
		}, shows("b/the-basin", `"create_on_read":true`)},
		{"reconfigure basin", nil, func(ctx context.Context, d *Directory) error {
			_, _, err := d.ReconfigureBasin(ctx, theBasin, BasinPatch{CreateOnRead: ptr(true)})
			return err
		}, shows("b/the-basin", `"create_on_read":true`)},
		{"delete basin", one, func(ctx context.Context, d *Directory) error {
			_, err := d.DeleteBasin(ctx, theBasin)
			return err
		}, gone("b/the-basin")},
		{"finish basin", basinPending, sweep, gone("b/the-basin")},
		{"purge basin", func(ctx context.Context, w *world, d *Directory) error {
			if err := basinPending(ctx, w, d); err != nil {
				return err
			}
			_, err := d.Sweep(ctx)
			w.pass(25 * time.Hour)
			return err
		}, sweep, gone("b/the-basin")},
	}
}

// errSweep: a sweep promises nothing but that the next one goes on.
var errSweep = fmt.Errorf("sweep: %w", coordinator.ErrUnknown)

// TestFaults breaks every store call of every operation in each way, once or from there on, and holds what is seen
// afterwards against what the operation said of itself.
func TestFaults(t *testing.T) {
	t.Parallel()
	outcomes := map[string]storetest.Outcome{
		"refused": storetest.Refuse, "dropped": storetest.Drop, "lost": storetest.Lose, "late": storetest.Late,
	}
	for _, op := range operations() {
		t.Run(op.name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			synctest.Test(t, func(t *testing.T) { calls = op.breakAt(t, 0, storetest.Pass, false, false) })
			if calls == 0 {
				t.Fatal("no store calls")
			}
			for name, o := range outcomes {
				for at := 1; at <= calls; at++ {
					for mode := range 4 {
						crash, early := mode&1 != 0, mode&2 != 0
						if early && o != storetest.Late {
							continue
						}
						t.Run(fmt.Sprintf("%s at %d crash %v early %v", name, at, crash, early), func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) { op.breakAt(t, at, o, crash, early) })
						})
					}
				}
			}
		})
	}
}

// breakAt runs the operation with outcome o at call at, and at every call from there on with crash. What is late comes
// in right after the operation, or else after everything was put right. It returns the number of store calls.
func (op *operation) breakAt(t *testing.T, at int, o storetest.Outcome, crash, early bool) int {
	w, d := withBasin(t, BasinConfig{CreateOnAppend: true})
	if op.setup != nil {
		must(t, op.setup(t.Context(), w, d))
	}
	before := w.view()
	calls := 0
	w.faults.Set(func(c storetest.Call) storetest.Outcome {
		calls++
		switch {
		case calls == at:
			return o
		case crash && at > 0 && calls > at:
			return storetest.Drop
		}
		return storetest.Pass
	})
	err := op.run(t.Context(), d)
	w.faults.Set(nil)
	if !crash && !errors.Is(err, errSweep) && err != nil && !Definite(err) {
		t.Errorf("a single fault left it in doubt: %v", err)
	}
	if early {
		w.faults.Deliver()
	}
	w.settle()
	w.check()
	op.judge(t, before, w.view(), err)
	if !early {
		// Later than everything, yet within the life of a tombstone.
		w.faults.Deliver()
		w.settle()
		w.check()
		op.judge(t, before, w.view(), err)
	}
	if err := op.run(t.Context(), w.directory()); err != nil && !Definite(err) {
		t.Errorf("afterwards: %v", err)
	}
	w.settle()
	w.check()
	return calls
}

// judge holds what is seen at rest against what the operation said.
func (op *operation) judge(t *testing.T, before, after view, err error) {
	t.Helper()
	// What was being deleted before is gone at rest, whatever the operation did.
	rest := maps.Clone(before)
	for key, text := range before {
		if strings.HasPrefix(text, "deleting") {
			delete(rest, key)
			for k := range rest {
				if strings.HasPrefix(k, "s"+strings.TrimPrefix(key, "b")+"/") {
					delete(rest, k)
				}
			}
		}
	}
	untouched := maps.Equal(rest, after)
	shown := op.after == nil && untouched
	var missing error
	if op.after != nil {
		missing = op.after(before, after)
		shown = missing == nil
	}
	switch {
	case err == nil && !shown:
		t.Errorf("succeeded, but: %v", missing)
	case err != nil && Definite(err) && !untouched:
		t.Errorf("definitely failed (%v), but %v became %v", err, rest, after)
	case err != nil && !Definite(err) && !errors.Is(err, coordinator.ErrUnknown):
		t.Errorf("neither definite nor in doubt: %v", err)
	case !shown && !untouched:
		t.Errorf("neither done nor left alone: %v became %v", rest, after)
	}
}
