package storetest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/memstore"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/memobjects"
)

func TestFaultOutcomes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name             string
		outcome          storetest.Outcome
		want             error
		applied, arrives bool
	}{
		{"pass", storetest.Pass, nil, true, true},
		{"refuse", storetest.Refuse, coordinator.ErrNotApplied, false, false},
		{"drop", storetest.Drop, coordinator.ErrUnknown, false, false},
		{"lose", storetest.Lose, coordinator.ErrUnknown, true, true},
		{"late", storetest.Late, coordinator.ErrUnknown, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			store := memstore.New()
			f := storetest.NewFaults(storetest.Nth("Put", 2, tc.outcome))
			table := f.Table(store)
			for _, sort := range []string{"first", "second"} {
				row := coordinator.Row{Key: coordinator.Key{Part: "p", Sort: sort}}
				_, err := table.Put(t.Context(), row, 0)
				if sort == "second" && !errors.Is(err, tc.want) {
					t.Fatalf("Put answered %v, want %v", err, tc.want)
				}
			}
			key := coordinator.Key{Part: "p", Sort: "second"}
			if _, err := store.Get(t.Context(), key); (err == nil) != tc.applied {
				t.Errorf("after the call: %v, applied should be %v", err, tc.applied)
			}
			for _, err := range f.Deliver() {
				if err != nil {
					t.Errorf("Deliver: %v", err)
				}
			}
			if _, err := store.Get(t.Context(), key); (err == nil) != tc.arrives {
				t.Errorf("after Deliver: %v, applied should be %v", err, tc.arrives)
			}
			if n := f.Counts()["Put"]; n != 2 {
				t.Errorf("%d calls counted", n)
			}
		})
	}
}

func TestFaultsHold(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		outcome storetest.Outcome
		applied bool // while the call is held
		giveUp  bool
	}{
		{"hold", storetest.Hold, false, false},
		{"hold, caller gives up", storetest.Hold, false, true},
		{"hold reply", storetest.HoldReply, true, false},
		{"hold reply, caller gives up", storetest.HoldReply, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				f := storetest.NewFaults(storetest.Always(tc.outcome, "Create"))
				h := storetest.NewHead()
				ctx, cancel := context.WithCancel(t.Context())
				answer := make(chan error, 1)
				go func() { answer <- f.Heads(store).Create(ctx, h) }()
				f.WaitHeld(1)
				synctest.Wait()
				if held := f.Held(); len(held) != 1 || held[0].Stream != h.Stream {
					t.Fatalf("held: %v", held)
				}
				if _, err := store.Load(ctx, h.Stream); (err == nil) != tc.applied {
					t.Errorf("while held: %v, applied should be %v", err, tc.applied)
				}
				if !tc.giveUp {
					f.Release(-1)
					if err := <-answer; err != nil {
						t.Errorf("answer: %v", err)
					}
				}
				cancel()
				if tc.giveUp {
					if err := <-answer; !errors.Is(err, coordinator.ErrUnknown) {
						t.Errorf("answer after giving up: %v", err)
					}
					f.Deliver()
				}
				if _, err := store.Load(t.Context(), h.Stream); err != nil {
					t.Errorf("at the end: %v", err)
				}
			})
		})
	}
}

func TestFaultsOfReads(t *testing.T) {
	t.Parallel()
	for _, o := range []storetest.Outcome{storetest.Refuse, storetest.Drop, storetest.Lose, storetest.Late} {
		f := storetest.NewFaults(storetest.Always(o))
		_, err := f.Heads(memstore.New()).Load(t.Context(), storetest.NewHead().Stream)
		if !errors.Is(err, storetest.ErrInjected) || coordinator.Definite(err) {
			t.Errorf("outcome %d: %v", o, err)
		}
		if late := f.Deliver(); len(late) != 0 {
			t.Errorf("outcome %d: %d late reads", o, len(late))
		}
	}
}

// Objects are put through the same outcomes, and what is late has the bytes of the call.
func TestFaultyObjects(t *testing.T) {
	t.Parallel()
	store := memobjects.New()
	f := storetest.NewFaults(nil)
	objects, ctx := f.Objects(store), t.Context()
	data := []byte("data")
	f.Set(storetest.Always(storetest.Late, storetest.OpPutObject))
	if err := objects.Put(ctx, "k", data); !errors.Is(err, storetest.ErrInjected) {
		t.Fatalf("Put answered %v", err)
	}
	clear(data)
	if _, err := objects.Get(ctx, "k", 0, -1); !errors.Is(err, segments.ErrObjectNotFound) {
		t.Errorf("before Deliver: %v", err)
	}
	f.Deliver()
	if got, err := objects.Get(ctx, "k", 0, -1); err != nil || string(got) != "data" {
		t.Errorf("after Deliver: %q, %v", got, err)
	}
	f.Set(storetest.Always(storetest.Refuse))
	_, getErr := objects.Get(ctx, "k", 0, -1)
	_, listErr := objects.List(ctx, "", "", 10)
	deleteErrs := objects.Delete(ctx, []string{"k", "l"})
	for _, err := range []error{getErr, listErr, deleteErrs["k"], deleteErrs["l"]} {
		if !errors.Is(err, storetest.ErrInjected) || errors.Is(err, segments.ErrObjectNotFound) {
			t.Errorf("a refused call answered %v", err)
		}
	}
	f.Set(nil)
	if failed := objects.Delete(ctx, []string{"k"}); failed != nil {
		t.Errorf("Delete: %v", failed)
	}
	if got, err := objects.List(ctx, "", "", 10); err != nil || len(got) != 0 || f.Counts()[storetest.OpDeleteObjects] != 2 {
		t.Errorf("at the end: %v, %v, %v", got, err, f.Counts())
	}
}
