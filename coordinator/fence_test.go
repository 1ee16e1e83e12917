package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/memstore"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
)

func fenceCommand(token string) coordinator.Batch {
	return coordinator.Batch{Records: []segments.Record{{Headers: []segments.Header{{Value: []byte("fence")}}, Body: []byte(token)}}}
}

func (r *rig) mustFence(t testing.TB, token string) coordinator.Fenced {
	t.Helper()
	f, err := r.Fence(t.Context(), r.ref, token)
	if err != nil {
		t.Fatalf("fence %q: %v", token, err)
	}
	return f
}

func (r *rig) mustAppend(t testing.TB, b coordinator.Batch) coordinator.Ack {
	t.Helper()
	ack, err := r.Append(t.Context(), r.ref, b)
	if err != nil {
		t.Fatal(err)
	}
	return ack
}

func presenting(token string, texts ...string) coordinator.Batch {
	b := bodies(texts...)
	b.Token = &token
	return b
}

func (r *rig) wantMismatch(t testing.TB, err error, installed string) {
	t.Helper()
	var fenced *coordinator.FencingMismatch
	if !errors.As(err, &fenced) || fenced.Installed != installed {
		t.Fatalf("error is %v, want a mismatch that names %q", err, installed)
	}
	if tail, _ := r.CheckTail(t.Context(), r.ref); fenced.Tail != tail {
		t.Fatalf("the mismatch says the tail is %v, it is %v", fenced.Tail, tail)
	}
}

// nthFromNow is Nth that counts from now.
func nthFromNow(f *storetest.Faults, op string, n int, o storetest.Outcome) func(storetest.Call) storetest.Outcome {
	return storetest.Nth(op, f.Counts()[op]+n, o)
}

// TestFence: the verb and the command record see each other's tokens, and the verb appends nothing.
func TestFence(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	ack := r.mustAppend(t, bodies("a", "b"))
	first := r.mustFence(t, "one")
	if want := (coordinator.Fenced{Token: "one", Tail: ack.Tail, V: first.V}); first != want {
		t.Fatalf("fenced %+v, want %+v", first, want)
	}
	again := r.mustFence(t, "one")
	if want := (coordinator.Fenced{Token: "one", Previous: "one", Tail: ack.Tail, V: first.V}); again != want {
		t.Fatalf("fenced again: %+v, want %+v", again, want)
	}
	_, err := r.Append(t.Context(), r.ref, presenting("zero", "c"))
	r.wantMismatch(t, err, "one")
	r.mustAppend(t, presenting("one", "c"))
	r.mustAppend(t, fenceCommand("two"))
	if token, err := r.Token(t.Context(), r.ref); err != nil || token != "two" {
		t.Fatalf("the token is %q, %v", token, err)
	}
	cleared := r.mustFence(t, "")
	if cleared.Token != "" || cleared.Previous != "two" || cleared.Tail.SeqNum != 4 || cleared.V <= first.V {
		t.Fatalf("cleared: %+v", cleared)
	}
	_, err = r.Append(t.Context(), r.ref, presenting("two", "d"))
	r.wantMismatch(t, err, "")
	r.mustAppend(t, presenting("", "d"))
	for _, bad := range []string{strings.Repeat("x", 37), "\xff"} {
		if _, err := r.Fence(t.Context(), r.ref, bad); !errors.Is(err, segments.ErrInvalid) {
			t.Errorf("fence %q: %v", bad, err)
		}
	}
	for _, state := range []coordinator.State{coordinator.Deleting, coordinator.Deleted} {
		if _, err := r.heads.Change(t.Context(), r.ref.Stream, &coordinator.Change{ID: coordinator.NewOpID(), State: state}); err != nil {
			t.Fatal(err)
		}
		want := map[coordinator.State]error{coordinator.Deleting: coordinator.ErrStreamDeleting, coordinator.Deleted: coordinator.ErrStreamNotFound}[state]
		if _, err := r.Fence(t.Context(), r.ref, "late"); !errors.Is(err, want) {
			t.Errorf("fence of a stream that is %s: %v", state, err)
		}
	}
}

// TestFenceRacesAppends: what the verb says is the boundary is one: every record of the old token lies below it.
func TestFenceRacesAppends(t *testing.T) {
	t.Parallel()
	for _, exclusive := range []bool{false, true} {
		t.Run(fmt.Sprint("exclusive ", exclusive), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			if exclusive {
				cfg := coordinator.DefaultStreamConfig()
				cfg.Fencing = coordinator.Exclusive
				r.ref = r.create(t, cfg)
			}
			token := ""
			for round := range 20 {
				next := fmt.Sprint("token ", round)
				var mu sync.Mutex
				var acked []uint64
				var writers sync.WaitGroup
				begun := make(chan struct{}, 4)
				for w := range 4 {
					writers.Go(func() {
						for n := 0; ; n++ {
							b := presenting(token, fmt.Sprint(round, " ", w, " ", n))
							if exclusive && token == "" && w%2 == 0 {
								b.Token = nil // which is the empty one
							}
							ack, err := r.Append(t.Context(), r.ref, b)
							if n == 0 {
								begun <- struct{}{}
							}
							var fenced *coordinator.FencingMismatch
							switch {
							case err == nil:
								mu.Lock()
								acked = append(acked, ack.Start.SeqNum)
								mu.Unlock()
								continue
							case !errors.As(err, &fenced) || fenced.Installed != next:
								t.Errorf("round %d: %v", round, err)
							}
							return
						}
					})
				}
				<-begun
				f := r.mustFence(t, next)
				after := r.mustAppend(t, presenting(next, "after"))
				writers.Wait()
				for _, seq := range acked {
					if seq >= f.Tail.SeqNum {
						t.Fatalf("round %d: %d was admitted under the old token, the boundary is %d", round, seq, f.Tail.SeqNum)
					}
				}
				if after.Start.SeqNum != f.Tail.SeqNum || f.Previous != token {
					t.Fatalf("round %d: %+v, and the next record is %d", round, f, after.Start.SeqNum)
				}
				token = next
			}
		})
	}
}

// TestFaultAtEveryCallOfFence gives each store call of the verb each outcome. What the caller is told is true: a definite
// failure never takes effect, and an answer is what is stored.
func TestFaultAtEveryCallOfFence(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]storetest.Outcome{
		"refuse": storetest.Refuse, "drop": storetest.Drop, "lose": storetest.Lose, "late": storetest.Late,
	} {
		for _, op := range []string{"Load", "Change"} {
			for n := 1; n <= 4; n++ {
				t.Run(fmt.Sprint(name, " ", op, " ", n), func(t *testing.T) {
					t.Parallel()
					faults := storetest.NewFaults(nil)
					r := newRig(t, func(o *coordinator.Options) {
						quickFaults(o)
						o.Heads = faults.Heads(memstore.New())
					})
					ack := r.mustAppend(t, bodies("a"))
					hit := nthFromNow(faults, op, n, outcome)
					if n > 1 {
						// The verb makes that call only if its change is in doubt.
						doubt := []storetest.Outcome{storetest.Drop, storetest.Lose}[n%2]
						hit = also(nthFromNow(faults, "Change", 1, doubt), hit)
					}
					faults.Set(hit)
					f, err := r.Fence(t.Context(), r.ref, "mine")
					faults.Set(nil)
					for _, late := range faults.Deliver() {
						if late == nil && op == "Change" && n == 1 {
							t.Error("a change that was made impossible was applied late")
						}
					}
					token, tokenErr := r.Token(t.Context(), r.ref)
					switch {
					case tokenErr != nil:
						t.Fatal(tokenErr)
					case err == nil && (token != "mine" || f.Token != "mine" || f.Previous != "" || f.Tail != ack.Tail):
						t.Errorf("answered %+v; installed is %q", f, token)
					case err != nil && (op != "Load" || coordinator.Definite(err) || token == "mine"):
						// A change that fails is outlived, and a load that settles it; the loads before it are not.
						t.Errorf("failed with %v; installed is %q", err, token)
					}
					r.mustAppend(t, presenting(token, "b"))
				})
			}
		}
	}
}

// TestFenceWhileStoreIsGone: the verb gives up in time, and says whether it may have taken effect.
func TestFenceWhileStoreIsGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		outcome    storetest.Outcome
		ops        []string
		indefinite bool
	}{
		"loads fail":             {storetest.Drop, []string{"Load"}, false},
		"changes are refused":    {storetest.Refuse, []string{"Change"}, false},
		"changes get lost":       {storetest.Drop, []string{"Change"}, true},
		"replies get lost":       {storetest.Lose, []string{"Change", "Load"}, false},
		"changes come very late": {storetest.Late, []string{"Change"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults := storetest.NewFaults(nil)
			r := newRig(t, func(o *coordinator.Options) {
				o.Heads = faults.Heads(memstore.New())
				o.StoreTimeout, o.DoubtTimeout = 50*time.Millisecond, 300*time.Millisecond
			})
			faults.Set(storetest.Always(c.outcome, c.ops...))
			_, err := r.Fence(t.Context(), r.ref, "mine")
			var indefinite *coordinator.Indefinite
			if err == nil || errors.As(err, &indefinite) != c.indefinite {
				t.Errorf("failed with %v", err)
			}
			faults.Set(nil)
			faults.Deliver()
			if token, err := r.Token(t.Context(), r.ref); err != nil || token != "" && !c.indefinite {
				t.Errorf("afterwards %q is installed, %v", token, err)
			}
		})
	}
}

// TestFenceUnderAnother: when the reply of a fence is lost and another one lies over it, nobody can tell any more; when
// only the other one can have been applied, it is tried again.
func TestFenceUnderAnother(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first      storetest.Outcome
		indefinite bool
	}{"applied": {storetest.Lose, true}, "dropped": {storetest.Drop, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults := storetest.NewFaults(nil)
			r := newRig(t, func(o *coordinator.Options) {
				quickFaults(o)
				o.Heads = faults.Heads(memstore.New())
			})
			faults.Set(also(nthFromNow(faults, "Change", 1, c.first), nthFromNow(faults, "Load", 2, storetest.Hold)))
			type told struct {
				f   coordinator.Fenced
				err error
			}
			mine := make(chan told, 1)
			go func() {
				f, err := r.Fence(context.Background(), r.ref, "mine")
				mine <- told{f, err}
			}()
			faults.WaitHeld(1)
			if _, err := r.Append(t.Context(), r.ref, fenceCommand("other")); err != nil {
				t.Fatal(err)
			}
			faults.Set(nil)
			faults.Release(-1)
			got := <-mine
			var indefinite *coordinator.Indefinite
			token, _ := r.Token(t.Context(), r.ref)
			switch {
			case c.indefinite && (!errors.As(got.err, &indefinite) || token != "other"):
				t.Errorf("told %+v, %v; installed is %q", got.f, got.err, token)
			case !c.indefinite && (got.err != nil || got.f.Previous != "other" || token != "mine"):
				t.Errorf("told %+v, %v; installed is %q", got.f, got.err, token)
			}
		})
	}
}

// TestFenceCosts: a fence is a load and an update, an equal one a load; what is queued under the old token is refused by
// what the fence brought, and idle sessions cost no call at all.
func TestFenceCosts(t *testing.T) {
	t.Parallel()
	faults := storetest.NewFaults(nil)
	r := newRig(t, func(o *coordinator.Options) { o.Heads = faults.Heads(memstore.New()) })
	r.mustFence(t, "old")
	r.mustAppend(t, presenting("old", "a"))
	for range 3 {
		r.session(t, coordinator.SessionOptions{Token: ptr("old")})
	}
	before := faults.Counts()
	cost := func(op string) int { return faults.Counts()[op] - before[op] }
	r.mustFence(t, "old")
	if cost("Load") != 1 || cost("Change") != 0 {
		t.Errorf("an equal token takes %d loads and %d changes", cost("Load"), cost("Change"))
	}
	faults.Set(storetest.Always(storetest.Hold, "Commit"))
	queued := make(chan error, 2)
	for _, text := range []string{"b", "c"} {
		go func() {
			_, err := r.Append(t.Context(), r.ref, presenting("old", text))
			queued <- err
		}()
		faults.WaitHeld(1) // the second waits behind the first
	}
	r.mustFence(t, "new")
	if cost("Load") != 2 || cost("Change") != 1 {
		t.Errorf("the two take %d loads and %d changes", cost("Load"), cost("Change"))
	}
	faults.Set(nil)
	faults.Release(-1)
	for range 2 {
		r.wantMismatch(t, <-queued, "new")
	}
	if commits := cost("Commit"); commits != 1 {
		t.Errorf("%d commits were sent", commits)
	}
}
