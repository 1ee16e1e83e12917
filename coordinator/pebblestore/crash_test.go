package pebblestore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"pgregory.net/rapid"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/pebblestore"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
)

// history is every state that one writer tried to give to one head or row, and how far it was answered. What a
// reader was shown counts as answered.
type history[T any] struct {
	mu     sync.Mutex
	states []T
	acked  int // states[:acked] were answered
}

func (h *history[T]) try(s T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.states = append(h.states, s)
}

func (h *history[T]) ack() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked = len(h.states)
}

// shown marks states up to number n (from 1) as seen.
func (h *history[T]) shown(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked = max(h.acked, n)
}

// TestCrash crashes a store again and again while writers run random transitions and readers look on; part of what
// was not synced survives. After each crash every head and row is in a state at or after the last one answered or
// shown, and in none in between.
func TestCrash(t *testing.T) {
	t.Parallel()
	for name, cache := range map[string]uint64{"cached": 0, "uncached": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(1, cache))
			mem := vfs.NewCrashableMem()
			c := newCrasher(t, rng)
			for round := range 8 {
				c.round = round
				mem = c.run(mem, cache, rng)
				if t.Failed() {
					return
				}
			}
		})
	}
}

type crasher struct {
	t     *testing.T
	round int
	heads []*history[coordinator.Head]
	rows  []*history[coordinator.Row] // Version 0: deleted
}

func newCrasher(t *testing.T, rng *rand.Rand) *crasher {
	c := &crasher{t: t}
	for range 6 {
		c.heads = append(c.heads, &history[coordinator.Head]{})
	}
	for range 4 {
		c.rows = append(c.rows, &history[coordinator.Row]{})
	}
	return c
}

// run opens the store on a file system, lets everybody work, takes a copy of the file system as after a crash, and
// checks it.
func (c *crasher) run(mem *vfs.MemFS, cache uint64, rng *rand.Rand) *vfs.MemFS {
	slow := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if isLogSync(op) {
			time.Sleep(100 * time.Microsecond) // as a disk does, so that there is something to lose
		}
		return nil
	}))
	s := openOn(c.t, slow, pebblestore.Options{HeadCacheBytes: cache})
	c.check(s)
	ctx, stop := context.WithCancel(c.t.Context())
	var wg sync.WaitGroup
	var done atomic.Int64
	for i, h := range c.heads {
		wg.Go(func() { c.writeHead(ctx, s, h, c.round*1000+i, &done) })
		wg.Go(func() { c.watchHead(ctx, s, h) })
	}
	for i, r := range c.rows {
		key := coordinator.Key{Part: "p", Sort: fmt.Sprint(i)}
		wg.Go(func() { c.writeRow(ctx, s, r, key, &done) })
	}
	wg.Go(func() { c.watchRows(ctx, s) })
	for until := int64(100 + rng.IntN(300)); done.Load() < until; {
		runtime.Gosched()
		if rng.IntN(2000) == 0 {
			if _, err := s.DB().AsyncFlush(); err != nil {
				c.t.Errorf("flush: %v", err)
			}
		}
	}
	// What counts as answered is read before the crash, what was tried after it.
	heads, rows := acked(c.heads), acked(c.rows)
	crashed := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
	stop()
	wg.Wait()
	if err := s.Close(); err != nil {
		c.t.Errorf("Close: %v", err)
	}
	for i, h := range c.heads {
		h.acked = heads[i]
	}
	for i, r := range c.rows {
		r.acked = rows[i]
	}
	return crashed
}

func acked[T any](list []*history[T]) []int {
	n := make([]int, len(list))
	for i, h := range list {
		h.mu.Lock()
		n[i] = h.acked
		h.mu.Unlock()
	}
	return n
}

func (c *crasher) writeHead(ctx context.Context, s *pebblestore.Store, h *history[coordinator.Head], seed int, done *atomic.Int64) {
	var last coordinator.Head
	if len(h.states) == 0 {
		last = storetest.NewHead()
		h.try(last)
		if err := s.Create(ctx, last); err != nil {
			return
		}
		h.ack()
	} else {
		last = h.states[len(h.states)-1]
	}
	for ; ctx.Err() == nil; seed++ {
		step := rapid.Custom(func(t *rapid.T) storetest.Step {
			return storetest.NewGen(t).Step(&last)
		}).Example(seed)
		next, err := step.Apply(last)
		if err != nil || next.State != coordinator.Active {
			continue
		}
		h.try(next)
		if _, err := step.Send(ctx, s, last.Stream); err != nil {
			return
		}
		h.ack()
		done.Add(1)
		last = next
	}
}

func (c *crasher) watchHead(ctx context.Context, s *pebblestore.Store, h *history[coordinator.Head]) {
	for ctx.Err() == nil {
		h.mu.Lock()
		var first coordinator.Head
		if len(h.states) > 0 {
			first = h.states[0]
		}
		h.mu.Unlock()
		if got, err := s.Load(ctx, first.Stream); err == nil {
			h.shown(int(got.V - first.V + 1))
		}
		runtime.Gosched()
	}
}

func (c *crasher) writeRow(ctx context.Context, s *pebblestore.Store, r *history[coordinator.Row], key coordinator.Key, done *atomic.Int64) {
	last := coordinator.Row{Key: key}
	if len(r.states) > 0 {
		last = r.states[len(r.states)-1]
	}
	for ctx.Err() == nil {
		// The value says which state it is, for readers.
		next := coordinator.Row{Key: key, Value: fmt.Append(nil, len(r.states)+1), Version: last.Version + 1}
		var err error
		if len(r.states)%5 == 4 && last.Version > 0 {
			next = coordinator.Row{Key: key}
			r.try(next)
			err = s.Delete(ctx, key, last.Version)
		} else {
			r.try(next)
			_, err = s.Put(ctx, next, last.Version)
		}
		if err != nil {
			return
		}
		r.ack()
		done.Add(1)
		last = next
	}
}

func (c *crasher) watchRows(ctx context.Context, s *pebblestore.Store) {
	for ctx.Err() == nil {
		rows, _ := s.List(ctx, "p", "", "", 10)
		for _, row := range rows {
			var i, n int
			_, _ = fmt.Sscan(row.Key.Sort, &i)
			_, _ = fmt.Sscan(string(row.Value), &n)
			c.rows[i].shown(n)
			if got, err := s.Get(ctx, row.Key); err == nil {
				_, _ = fmt.Sscan(string(got.Value), &n)
				c.rows[i].shown(n)
			}
		}
		runtime.Gosched()
	}
}

// check finds each history at a state it may be at after the crash, and goes on from there.
func (c *crasher) check(s *pebblestore.Store) {
	for i, h := range c.heads {
		if len(h.states) == 0 {
			continue
		}
		got, err := s.Load(c.t.Context(), h.states[0].Stream)
		if err != nil {
			if h.acked > 0 {
				c.t.Errorf("round %d: head %d: %v", c.round, i, err)
			}
			h.states = nil
			continue
		}
		if problem := storetest.Check(&got); problem != "" {
			c.t.Errorf("round %d: head %d: %s", c.round, i, problem)
		}
		c.settle(i, "head", h.acked, len(h.states), func(k int) bool { return storetest.Equal(got, h.states[k]) },
			func(k int) { h.states, h.acked = h.states[:k+1], k+1 })
	}
	for i, r := range c.rows {
		if len(r.states) == 0 {
			continue
		}
		got, err := s.Get(c.t.Context(), r.states[0].Key)
		same := func(k int) bool {
			w := r.states[k]
			return got.Version == w.Version && string(got.Value) == string(w.Value)
		}
		if err != nil && r.acked == 0 && got.Version == 0 {
			r.states = nil
			continue
		}
		c.settle(i, "row", r.acked, len(r.states), same, func(k int) { r.states, r.acked = r.states[:k+1], k+1 })
	}
}

func (c *crasher) settle(i int, what string, acked, tried int, same func(int) bool, keep func(int)) {
	for k := max(acked-1, 0); k < tried; k++ {
		if same(k) {
			keep(k)
			return
		}
	}
	c.t.Errorf("round %d: %s %d is in none of the states %d to %d", c.round, what, i, acked, tried)
}
