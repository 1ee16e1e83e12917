package faulttest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/tenancy"
)

// allVariable has all cases run, on every pair of stores, however long that takes.
const allVariable = "TAILRACE_FAULTS_ALL"

// fate is what becomes of a call, and when what is late arrives.
type fate struct {
	name    string
	outcome storetest.Outcome
	early   bool // what is late arrives right after the operation, not when everything is over
}

var fates = []fate{
	{"refused", storetest.Refuse, false},
	{"lost on the way", storetest.Drop, false},
	{"done with the answer lost", storetest.Lose, false},
	{"late", storetest.Late, true},
	{"very late", storetest.Late, false},
	{"hanging, then very late", storetest.Hold, false},
	{"done, the answer hanging", storetest.HoldReply, false},
}

// testCase is one operation, broken at one store call in one way. crash: from that call on, no other gets through, and the
// process ends.
type testCase struct {
	*operation
	at    int
	fate  fate
	crash bool
}

func (c *testCase) String() string {
	crash := map[bool]string{true: ", crash"}[c.crash]
	return fmt.Sprintf("%s/call %d %s%s", c.name, c.at, c.fate.name, crash)
}

// TestMatrix is every store call of every operation times every fate, on every pair of stores: as many of the cases, drawn
// anew every time, as a bounded time allows.
func TestMatrix(t *testing.T) {
	t.Parallel()
	full = makeFull(t)
	all := everyCase(t)
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			if k.missing != nil {
				if lacks := k.missing(t); lacks != "" {
					t.Skip(lacks)
				}
			}
			if os.Getenv(allVariable) != "" {
				k.time, k.atLeast = 0, len(all)
			}
			k.run(t, all)
		})
	}
}

// everyCase counts the calls of each operation, in memory, and lists what can become of them.
func everyCase(t *testing.T) (all []testCase) {
	t.Helper()
	memory := kinds()[0]
	for _, op := range operations() {
		calls, c := 0, testCase{operation: &op}
		// Not a test of its own: -run of some cases must not leave it out.
		memory.in(t, func(t *testing.T, k *kind) { calls = c.count(t, k) })
		if calls == 0 {
			t.Errorf("%s makes no store calls", op.name)
		}
		for at := 1; at <= calls; at++ {
			for _, f := range fates {
				all = append(all, testCase{&op, at, f, false}, testCase{&op, at, f, true})
			}
		}
	}
	return all
}

// run runs cases in random order, several at once where they wait for servers, until its time is up.
func (k *kind) run(t *testing.T, all []testCase) {
	workers := 12
	if k.bubble {
		workers = 2
	}
	order, begun := rand.Perm(len(all)), time.Now()
	var next atomic.Int64
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(all) || i >= k.atLeast && time.Since(begun) > k.time {
					return
				}
				c := all[order[i]]
				t.Run(c.String(), func(t *testing.T) { k.in(t, c.play) })
			}
		})
	}
	running.Wait()
	t.Logf("%d of %d cases; %s=1 runs all", min(int(next.Load())-workers, len(all)), len(all), allVariable)
}

// in runs a test in a bubble if the stores allow that.
func (k *kind) in(t *testing.T, test func(*testing.T, *kind)) {
	if k.bubble {
		synctest.Test(t, func(t *testing.T) {
			test(t, k)
			// Data is fetched ahead of a reader though he has gone, for a minute at most.
			time.Sleep(2 * time.Minute)
		})
	} else {
		test(t, k)
	}
}

// count runs the operation unbroken and returns how many store calls it makes.
func (c *testCase) count(t *testing.T, k *kind) int {
	w, calls := newWorld(t, k), 0
	ref := c.setup(w)
	p := w.process(true, room)
	w.faults.Set(func(storetest.Call) storetest.Outcome {
		calls++
		return storetest.Pass
	})
	if err := c.run(t.Context(), w, p, ref); err != nil {
		t.Errorf("unbroken: %v", err)
	}
	w.faults.Set(nil)
	p.Close()
	c.settle(w, ref, nil)
	return calls
}

// play runs the operation broken.
func (c *testCase) play(t *testing.T, k *kind) {
	w, calls := newWorld(t, k), 0
	ref := c.setup(w)
	p := w.process(true, room)
	w.faults.Set(func(storetest.Call) storetest.Outcome {
		calls++
		switch {
		case calls == c.at:
			return c.fate.outcome
		case c.crash && calls > c.at:
			return storetest.Drop
		}
		return storetest.Pass
	})
	patience := 20 * time.Second
	if !w.bubble && (c.crash || c.hangs()) {
		patience = 3 * time.Second // what has no time-out of its own goes on for as long as its caller waits
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := c.run(ctx, w, p, ref)
	if c.crash {
		p.Close()
	}
	w.faults.Set(nil)
	c.judge(t, err)
	if err == nil && c.after != nil {
		if err := c.after(w, ref); err != nil {
			t.Errorf("it succeeded, but %v", err)
		}
	}
	if c.fate.early {
		w.faults.Deliver()
	}
	if !c.crash {
		// The process that met the fault goes on.
		c.goOn(w, p, ref, "in the same process")
		p.Close()
	}
	w.faults.Release(-1) // of what was met in the background
	c.settle(w, ref, err)
}

// judge looks at what the operation said of itself.
func (c *testCase) judge(t *testing.T, err error) {
	t.Helper()
	var indefinite *coordinator.Indefinite
	doubt := errors.As(err, &indefinite) || errors.Is(err, coordinator.ErrUnknown)
	switch {
	case errors.Is(err, errWrong):
		t.Error(err)
	case doubt && !c.crash && !c.hangs():
		t.Errorf("a single fault left it in doubt: %v", err)
	}
}

func (c *testCase) hangs() bool {
	return c.fate.outcome == storetest.Hold || c.fate.outcome == storetest.HoldReply
}

// settle verifies everything: right after the operation, after others have gone on, after everything late has arrived, and
// after the upkeep that follows.
func (c *testCase) settle(w *world, ref coordinator.StreamRef, err error) {
	w.t.Helper()
	w.verify("after the operation")
	p := w.process(false, room)
	defer p.Close()
	c.goOn(w, p, ref, "in another process")
	w.verify("after others went on")
	w.faults.Deliver()
	w.verify("after all that is late")
	for ref, l := range w.streams {
		if l.doomed {
			continue
		}
		if _, err := p.Maintain(w.t.Context(), ref); err != nil && !errors.Is(err, coordinator.ErrNotFound) {
			w.t.Errorf("maintain: %v", err)
		}
		// The directory does not know the stream that was copied, so nobody would visit it.
		if c.name != "page fold" {
			if _, err := p.collect(w.t.Context(), ref); err != nil {
				w.t.Errorf("collect: %v", err)
			}
		}
	}
	w.verify("after upkeep")
	// Appends since then may have left new garbage.
	if err == nil && c.after != nil && c.name != "collect" {
		if err := c.after(w, ref); err != nil {
			w.t.Errorf("it succeeded, but in the end %v", err)
		}
	}
}

// goOn appends to the stream that the operation was about, and to the one that has the name now.
func (c *testCase) goOn(w *world, p *process, ref coordinator.StreamRef, where string) {
	w.t.Helper()
	ctx := w.t.Context()
	if l := w.streams[ref]; l != nil && !l.doomed {
		if err := w.append(ctx, p, ref, records("goes on "+where)); err != nil {
			w.t.Errorf("an append %s: %v", where, err)
		}
	}
	w.pass(time.Minute) // beyond every linger
	if _, err := p.dir.Sweep(ctx); err != nil {
		w.t.Errorf("sweep %s: %v", where, err)
	}
	now, err := p.dir.ResolveFresh(ctx, basin, stream, tenancy.Append)
	if err != nil {
		if !errors.Is(err, tenancy.ErrBasinNotFound) && !errors.Is(err, tenancy.ErrBasinDeleting) {
			w.t.Errorf("resolve %s: %v", where, err)
		}
		return
	}
	if now != ref {
		if err := w.append(ctx, p, now, records("goes on by name "+where)); err != nil {
			w.t.Errorf("an append by name %s: %v", where, err)
		}
	}
}
