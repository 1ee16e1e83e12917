package storetest

import (
	"errors"
	"sync"
	"testing"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// race runs n calls at once and returns when all have.
func race(n int, call func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			call(i)
		})
	}
	close(start)
	wg.Wait()
}

// persist repeats what the store says it did not apply for a reason of its own, such as contention.
func persist[T any](call func() (T, error)) (T, error) {
	for {
		v, err := call()
		if !errors.Is(err, coordinator.ErrNotApplied) {
			return v, err
		}
	}
}

func headsRacingCreates(t *testing.T, heads coordinator.Heads) {
	h := NewHead()
	errs := make([]error, 20)
	race(len(errs), func(i int) {
		mine := h
		mine.CreatedAt = uint64(i) + 1
		_, errs[i] = persist(func() (struct{}, error) { return struct{}{}, heads.Create(t.Context(), mine) })
	})
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner >= 0:
			t.Fatalf("creators %d and %d both won", winner, i)
		case err == nil:
			winner = i
		case !errors.Is(err, coordinator.ErrExists):
			t.Errorf("a losing Create: %v", err)
		}
	}
	h.CreatedAt = uint64(winner) + 1
	mustLoad(t, t.Context(), heads, h)
}

func headsRacingConditional(t *testing.T, heads coordinator.Heads) {
	h := NewHead()
	if err := heads.Create(t.Context(), h); err != nil {
		t.Fatalf("Create: %v", err)
	}
	for round := range uint64(3) {
		answers := make([]coordinator.Head, 50)
		errs := make([]error, len(answers))
		race(len(errs), func(i int) {
			c := plainCommit(segments.Label(i) + 1)
			c.Match = &round
			answers[i], errs[i] = persist(func() (coordinator.Head, error) {
				return heads.Commit(t.Context(), h.Stream, c)
			})
		})
		var winners []coordinator.Head
		for i, err := range errs {
			reason, refused := RefusedFor(err)
			switch {
			case err == nil:
				winners = append(winners, answers[i])
			case reason != coordinator.RefusedMatch || refused.Tail != round+1:
				t.Errorf("a losing commit: %v at tail %d", err, refused.Tail)
			}
		}
		if len(winners) != 1 {
			t.Fatalf("%d winners", len(winners))
		}
		mustLoad(t, t.Context(), heads, winners[0])
	}
}

func headsRacingCommits(t *testing.T, heads coordinator.Heads) {
	h := NewHead()
	if err := heads.Create(t.Context(), h); err != nil {
		t.Fatalf("Create: %v", err)
	}
	answers := make([]coordinator.Head, 200)
	race(len(answers), func(i int) {
		c := plainCommit(segments.Label(i) + 1)
		got, err := persist(func() (coordinator.Head, error) { return heads.Commit(t.Context(), h.Stream, c) })
		if err != nil {
			t.Errorf("commit %d: %v", i, err)
			return
		}
		// The head right after this commit and no other: its own entry is the last.
		if last := got.Log[len(got.Log)-1]; last.ID != c.Entries[0].ID {
			t.Errorf("commit %d was answered with a later head", i)
		}
		answers[i] = got
	})
	end, err := heads.Load(t.Context(), h.Stream)
	if err != nil || t.Failed() {
		t.Fatalf("Load: %v", err)
	}
	if problem := Check(&end); problem != "" || end.Tail != uint64(len(answers)) || end.V != h.V+uint64(len(answers)) {
		t.Fatalf("after %d commits: tail %d, V %d, %s", len(answers), end.Tail, end.V, problem)
	}
	for i := range answers {
		a := &answers[i]
		if problem := Check(a); problem != "" || !coordinator.EntriesEqual(a.Log, end.Log[:len(a.Log)]) {
			t.Fatalf("answer %d is no prefix of the end: %s", i, problem)
		}
	}
}

// headsRacingMoves has appenders against a mover and a compactor, which each build on a loaded head and lose to
// nobody but each other.
func headsRacingMoves(t *testing.T, heads coordinator.Heads) {
	const appenders, each = 6, 15
	h := NewHead()
	if err := heads.Create(t.Context(), h); err != nil {
		t.Fatalf("Create: %v", err)
	}
	race(appenders+2, func(i int) {
		if i < appenders {
			for k := range each {
				c := plainCommit(segments.Label(i*each+k) + 1)
				if _, err := persist(func() (coordinator.Head, error) { return heads.Commit(t.Context(), h.Stream, c) }); err != nil {
					t.Errorf("commit: %v", err)
				}
			}
			return
		}
		for range each {
			from, err := heads.Load(t.Context(), h.Stream)
			if err != nil {
				t.Errorf("Load: %v", err)
				return
			}
			if len(from.Log) < 2 {
				continue
			}
			s := exchangeAll(&from)
			if i == appenders {
				s = moveAll(&from)
			}
			_, err = persist(func() (coordinator.Head, error) { return heads.Splice(t.Context(), h.Stream, s) })
			if reason, _ := RefusedFor(err); err != nil && reason != coordinator.RefusedChanged {
				t.Errorf("splice: %v", err)
			}
		}
	})
	end, err := heads.Load(t.Context(), h.Stream)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	if problem := Check(&end); problem != "" || end.Tail != appenders*each {
		t.Fatalf("tail %d after %d records: %s", end.Tail, appenders*each, problem)
	}
}

func moveAll(h *coordinator.Head) *coordinator.Splice {
	n, _, after := sums(h.Log, h.BaseTime)
	start := h.First()
	return &coordinator.Splice{Move: &coordinator.Move{
		Base: h.Base, Old: h.Log, OldPages: h.Pages, NewBase: h.Base + n, NewTime: after, MinLabel: segments.MaxLabel,
		Pages: []coordinator.Root{{Page: segments.Row{
			Start: start, N: h.Base + n - start, TimeAfter: after, Child: segments.NewObjectID(segments.MaxLabel),
		}}},
	}}
}

func exchangeAll(h *coordinator.Head) *coordinator.Splice {
	n, _, after := sums(h.Log, 0)
	object := segments.NewObjectID(segments.MaxLabel)
	return &coordinator.Splice{Exchange: &coordinator.Exchange{
		Old: h.Log, MinLabel: segments.MaxLabel,
		New: []segments.Entry{{
			ID: segments.EntryID{Object: object}, N: uint32(n), MaxTime: after, Object: object, Length: 1,
		}},
	}}
}

// headsRacingVerbs has compare-and-set verbs race commits: of those built on one counter, one wins.
func headsRacingVerbs(t *testing.T, heads coordinator.Heads) {
	h := NewHead()
	if err := heads.Create(t.Context(), h); err != nil {
		t.Fatalf("Create: %v", err)
	}
	var mu sync.Mutex
	won := 0
	race(24, func(i int) {
		if i%3 == 0 {
			c := plainCommit(segments.Label(i) + 1)
			if _, err := persist(func() (coordinator.Head, error) { return heads.Commit(t.Context(), h.Stream, c) }); err != nil {
				t.Errorf("commit: %v", err)
			}
			return
		}
		c := &coordinator.Change{ID: coordinator.NewOpID(), Fence: &coordinator.FenceChange{Token: "t"}}
		_, err := persist(func() (coordinator.Head, error) { return heads.Change(t.Context(), h.Stream, c) })
		reason, _ := RefusedFor(err)
		if err != nil && reason != coordinator.RefusedChanged {
			t.Errorf("fence: %v", err)
		}
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			won++
		}
	})
	end, err := heads.Load(t.Context(), h.Stream)
	if err != nil || won != 1 || end.TokenV != 1 || end.Tail != 8 {
		t.Errorf("%d fences won; counter %d, tail %d, %v", won, end.TokenV, end.Tail, err)
	}
}

// headsReadYourWrites loads after each answer, while others write.
func headsReadYourWrites(t *testing.T, heads coordinator.Heads) {
	h := NewHead()
	if err := heads.Create(t.Context(), h); err != nil {
		t.Fatalf("Create: %v", err)
	}
	race(8, func(i int) {
		var last coordinator.Head
		for k := range 6 {
			c := plainCommit(segments.Label(8*i+k) + 1)
			wrote, err := persist(func() (coordinator.Head, error) { return heads.Commit(t.Context(), h.Stream, c) })
			if err != nil {
				t.Errorf("commit: %v", err)
				return
			}
			read, err := heads.Load(t.Context(), h.Stream)
			if err != nil || read.V < wrote.V || read.V < last.V ||
				!coordinator.EntriesEqual(wrote.Log, read.Log[:min(len(wrote.Log), len(read.Log))]) {
				t.Errorf("after the answer at V %d, Load gave V %d, %v", wrote.V, read.V, err)
			}
			last = read
		}
	})
}
