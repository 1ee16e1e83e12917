package coordinator_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
)

// TestCloseEndsFetches: a fetch whose reader gave up goes on for others, but not beyond Close: the stores may be closed then.
func TestCloseEndsFetches(t *testing.T) {
	t.Parallel()
	faults := storetest.NewFaults(nil)
	r := newRig(t, func(o *coordinator.Options) { o.Objects, o.CacheBytes = faults.Objects(o.Objects), 1 })
	for range 4 {
		r.mustAppend(t, bodies(strings.Repeat("x", 4<<10)))
	}
	rd, err := r.OpenReader(t.Context(), r.ref, coordinator.ReadOptions{SeqNum: ptr(uint64(0))})
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	faults.Set(storetest.Always(storetest.Hold, storetest.OpGetObject))
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := rd.Next(ctx)
		left <- err
	}()
	faults.WaitHeld(1)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if len(faults.Held()) == 0 {
		t.Fatal("the fetch ended with its reader")
	}
	r.Close()
	if held := faults.Held(); len(held) > 0 {
		t.Errorf("after Close %d calls are under way: %v", len(held), held)
	}
}
