package fileobjects

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

var errSync = errors.New("sync failed")

// TestGroupShares: what arrives during one sync shares the next, and no call is told of a sync that began before it.
func TestGroupShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g syncGroup
		var changes, covered, runs atomic.Int64
		gate := make(chan struct{})
		do := func() error {
			seen := changes.Load()
			runs.Add(1)
			<-gate
			covered.Store(seen)
			return nil
		}
		for range 50 {
			go func() {
				mine := changes.Add(1)
				if err := g.sync(t.Context(), g.mark(), do); err != nil {
					t.Errorf("sync = %v", err)
				}
				if covered.Load() < mine {
					t.Errorf("change %d is not covered", mine)
				}
			}()
			if changes.Load() == 0 {
				synctest.Wait() // the first runs alone
			}
		}
		synctest.Wait()
		for want := int64(1); want <= 2; want++ {
			if runs.Load() != want {
				t.Errorf("%d syncs have begun, want %d", runs.Load(), want)
			}
			gate <- struct{}{}
			synctest.Wait()
		}
		if runs.Load() != 2 {
			t.Errorf("%d syncs for 50 calls, want 2", runs.Load())
		}
	})
}

// TestGroupFails: a failed sync fails all that shared it, and all whose change it may have swallowed.
func TestGroupFails(t *testing.T) {
	t.Parallel()
	var g syncGroup
	fail := func() error { return errSync }
	succeed := func() error { return nil }
	overtaken := g.mark()
	if err := g.sync(t.Context(), g.mark(), fail); !errors.Is(err, errSync) {
		t.Errorf("failing sync = %v", err)
	}
	for range 2 {
		if err := g.sync(t.Context(), overtaken, succeed); !errors.Is(err, errSync) {
			t.Errorf("sync of a change from before the failure = %v", err)
		}
		if err := g.sync(t.Context(), g.mark(), succeed); err != nil {
			t.Errorf("sync of a change from after the failure = %v", err)
		}
	}
}

// TestGroupGivesUp: who waits for another's sync stops when its context ends; the sync goes on.
func TestGroupGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g syncGroup
		gate := make(chan struct{})
		do := func() error { <-gate; return nil }
		results := make(chan error, 3)
		ctx, cancel := context.WithCancel(t.Context())
		for _, ctx := range []context.Context{t.Context(), t.Context(), ctx} {
			go func() { results <- g.sync(ctx, 0, do) }()
			synctest.Wait()
		}
		cancel()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled sync = %v", err)
		}
		gate <- struct{}{}
		gate <- struct{}{}
		for range 2 {
			if err := <-results; err != nil {
				t.Errorf("sync = %v", err)
			}
		}
	})
}

// slowSync is a file system on which all succeeds, and syncs wait for the gate.
type slowSync struct {
	FS
	gate chan struct{}
}

func (slowSync) Mkdir(string) error       { return nil }
func (s slowSync) SyncDir(string) error   { <-s.gate; return nil }
func (slowSync) Remove(name string) error { return nil }

// TestGivingUpLosesNothing: a call that gives up waiting for a folder's sync does not know that it failed.
func TestGivingUpLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fsys := slowSync{gate: make(chan struct{})}
		f := newFolders(fsys)
		ctx, cancel := context.WithCancel(t.Context())
		results := make(chan error, 3)
		last := f.hold("last")
		go func() { results <- f.make(t.Context(), f.hold("first")) }()
		synctest.Wait()
		go func() { results <- f.make(t.Context(), f.hold("second")) }()
		synctest.Wait()
		go func() { results <- f.make(ctx, last) }()
		synctest.Wait()
		cancel()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("make with a cancelled context = %v", err)
		}
		close(fsys.gate)
		for range 2 {
			if err := <-results; err != nil {
				t.Errorf("make = %v", err)
			}
		}
		if err := f.make(t.Context(), last); err != nil {
			t.Errorf("make of the same folder = %v", err)
		}
	})
}

// TestFoldersForgotten: the memory of folders is bounded, and keeps what matters.
func TestFoldersForgotten(t *testing.T) {
	t.Parallel()
	f := newFolders(nil)
	held := f.hold("in/use")
	lost := f.hold("lost")
	lost.leaf().lost = errSync
	failed := f.hold("failed")
	failed.leaf().group.failures = 1
	for _, c := range []chain{lost[:1], failed} {
		f.release(c) // "lost" stays held: with no file system, it cannot be tried to be removed
	}
	for i := range 3 * minSweep {
		f.release(f.hold("x" + string(rune('a'+i%26)) + "/" + string(rune(0x4e00+i))))
		if len(f.byPath) > minSweep+2 {
			t.Fatalf("%d folders are remembered", len(f.byPath))
		}
	}
	for _, at := range []*folder{held[1], held[2], lost[1], failed[1]} {
		if f.byPath[at.path] != at {
			t.Errorf("%q is forgotten", at.path)
		}
	}
}
