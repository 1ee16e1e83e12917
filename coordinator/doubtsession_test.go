package coordinator_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/memstore"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
)

// TestSessionInDoubt: when a commit stays in doubt, every batch in it is in doubt, also the second of a session; what
// the session queued behind them fails definitely.
func TestSessionInDoubt(t *testing.T) {
	t.Parallel()
	faults := storetest.NewFaults(nil)
	r := newRig(t, func(o *coordinator.Options) {
		o.Heads = faults.Heads(memstore.New())
		o.StoreTimeout, o.DoubtTimeout = time.Second, 300*time.Millisecond
	})
	session := r.session(t, coordinator.SessionOptions{})
	faults.Set(func(c storetest.Call) storetest.Outcome {
		switch c.Op {
		case "Load", "Commit":
			return storetest.Hold
		case "Change":
			return storetest.Drop
		}
		return storetest.Pass
	})
	submit := func(text string) *coordinator.Pending {
		p, err := session.Submit(t.Context(), bodies(text))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first, second := submit("first"), submit("second")
	faults.WaitHeld(1)
	faults.Release(-1) // the load: now both go, in one commit, which is held until its time is over
	faults.WaitHeld(1)
	third := submit("third")
	for _, p := range []*coordinator.Pending{first, second} {
		var indefinite *coordinator.Indefinite
		if _, err := p.Wait(t.Context()); !errors.As(err, &indefinite) {
			t.Errorf("a batch of a commit in doubt: %v", err)
		}
	}
	if _, err := third.Wait(t.Context()); !errors.Is(err, coordinator.ErrPoisoned) {
		t.Errorf("a batch behind them: %v", err)
	}
	faults.Set(nil)
	faults.Deliver()
	if got := len(r.readAll(t, 0)); got != 2 {
		t.Errorf("%d records, two were in doubt and then arrived", got)
	}
}
