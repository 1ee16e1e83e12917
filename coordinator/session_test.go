package coordinator_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/memstore"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
)

func submit(t *testing.T, s *coordinator.Session, b coordinator.Batch) *coordinator.Pending {
	t.Helper()
	p, err := s.Submit(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func wantSuperseded(t *testing.T, s *coordinator.Session, installed string) {
	t.Helper()
	var fenced *coordinator.FencingMismatch
	select {
	case <-s.Superseded():
	case <-time.After(10 * time.Second):
		t.Fatal("the session goes on")
	}
	if !errors.As(s.Err(), &fenced) || fenced.Installed != installed {
		t.Fatalf("the session ended with %v, want a mismatch that names %q", s.Err(), installed)
	}
}

// TestSessionIsSuperseded: by the verb, by a command record, and by any load of a head that another process fenced; not by
// the token it presents, nor by one that it installs itself.
func TestSessionIsSuperseded(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	other := newRig(t, func(o *coordinator.Options) { o.Heads, o.Objects = r.heads, r.objects })
	other.ref = r.ref
	take := map[string]func(token string){
		"verb":   func(token string) { r.mustFence(t, token) },
		"record": func(token string) { r.mustAppend(t, fenceCommand(token)) },
		"elsewhere": func(token string) {
			other.mustFence(t, token)
			if _, err := r.CheckTail(t.Context(), r.ref); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, fence := range take {
		r.mustFence(t, name)
		s := r.session(t, coordinator.SessionOptions{Token: &name})
		r.mustFence(t, name)
		r.mustAppend(t, bodies("nothing new"))
		if s.Err() != nil {
			t.Fatalf("%s: superseded by its own token: %v", name, s.Err())
		}
		if _, err := submit(t, s, fenceCommand("own")).Wait(t.Context()); err != nil || s.Err() != nil {
			t.Fatalf("%s: its own fence: %v, %v", name, err, s.Err())
		}
		fence("other")
		wantSuperseded(t, s, "other")
		if _, err := submit(t, s, bodies("late")).Wait(t.Context()); !errors.Is(err, coordinator.ErrPoisoned) {
			t.Fatalf("%s: an append behind it: %v", name, err)
		}
		s.Close()
		s.Close() // does nothing
	}
	name := "verb"
	if _, err := r.OpenSession(t.Context(), r.ref, coordinator.SessionOptions{Token: &name}); err == nil {
		t.Fatal("opened with a token that is not installed")
	} else {
		r.wantMismatch(t, err, "other")
	}
	silent := r.session(t, coordinator.SessionOptions{})
	r.mustFence(t, "last")
	if silent.Superseded() != nil || silent.Err() != nil {
		t.Error("a session that presents none was superseded")
	}
	if _, err := submit(t, silent, bodies("goes on")).Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestOldHeadsSupersedeNobody: the late answer of a load that began before the fence says nothing of who took over since.
func TestOldHeadsSupersedeNobody(t *testing.T) {
	t.Parallel()
	faults := storetest.NewFaults(nil)
	store := memstore.New()
	r := newRig(t, func(o *coordinator.Options) { o.Heads = faults.Heads(store) })
	other := newRig(t, func(o *coordinator.Options) { o.Heads, o.Objects = store, r.objects })
	other.ref = r.ref
	faults.Set(storetest.Always(storetest.HoldReply, "Load")) // what it has read is old when it comes
	late := make(chan error, 1)
	go func() {
		_, err := r.CheckTail(t.Context(), r.ref)
		late <- err
	}()
	faults.WaitHeld(1)
	faults.Set(nil)
	other.mustFence(t, "new")
	opened := make(chan *coordinator.Session, 1)
	go func() { // its load waits behind the one that is held
		token := "new"
		s, err := r.OpenSession(t.Context(), r.ref, coordinator.SessionOptions{Token: &token})
		if err != nil {
			t.Error(err)
		}
		opened <- s
	}()
	faults.Release(-1)
	if err := <-late; err != nil {
		t.Fatal(err)
	}
	s := <-opened
	if s == nil || s.Err() != nil {
		t.Fatal("an old head ended the session")
	}
	defer s.Close()
	if _, err := submit(t, s, bodies("a")).Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSessionOutlivesConflicts: where it asked for that, and nothing else.
func TestSessionOutlivesConflicts(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.session(t, coordinator.SessionOptions{PerBatch: true})
	var pending []*coordinator.Pending
	next := uint64(0)
	var want []bool
	for i := range 200 {
		b := bodies("x")
		hit := i%3 != 1
		match := next
		if !hit {
			match = next + 7
		}
		if i%5 != 0 || !hit {
			b.Match = &match
		}
		if hit {
			next++
		}
		pending, want = append(pending, submit(t, s, b)), append(want, hit)
	}
	at := uint64(0)
	for i, p := range pending {
		ack, err := p.Wait(t.Context())
		var miss *coordinator.MatchMismatch
		switch {
		case want[i] && (err != nil || ack.Start.SeqNum != at):
			t.Fatalf("batch %d: %+v, %v; want %d", i, ack, err, at)
		case want[i]:
			at++
		case !errors.As(err, &miss) || miss.Next != at || miss.Tail.SeqNum != at:
			t.Fatalf("batch %d: %v; want a miss at %d", i, err, at)
		}
	}
	wrong := presenting("none", "y")
	wrong.Match = &at
	_, err := submit(t, s, wrong).Wait(t.Context())
	r.wantMismatch(t, err, "")
	if _, err := submit(t, s, bodies("z")).Wait(t.Context()); !errors.Is(err, coordinator.ErrPoisoned) {
		t.Errorf("behind a mismatch: %v", err)
	}
}
