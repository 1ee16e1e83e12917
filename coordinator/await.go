package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailrace-streams/tailrace/segments"
)

// waits are the reads that wait for a state which a load did not bring. A revision that somebody was told is in every
// later load, so whoever waits here demands a revision that was made up, or that went with a lost store: it must cost
// little. One goroutine a stream looks for all who wait for it, ever less often, through the shared loads; what this
// process commits or loads for others wakes them too.
type waits struct {
	c *Coordinator

	all atomic.Int64 // reads that wait; changed under mu

	mu      sync.Mutex
	streams map[segments.StreamID]*watch
	basins  map[segments.BasinID]int
}

// watch is one stream that is waited for.
type watch struct {
	newest  View
	err     error         // why the stream is not to be had
	changed chan struct{} // closed when newest or err has changed
	waiting int
	stop    context.CancelFunc
}

// The most reads that wait at once, in the process and for streams of one basin.
const (
	maxWaits      = 4096
	maxBasinWaits = maxWaits / 4
)

func newWaits(c *Coordinator) *waits {
	return &waits{c: c, streams: map[segments.StreamID]*watch{}, basins: map[segments.BasinID]int{}}
}

// until waits for a state of at least f.MinV, beyond the one that was just loaded. It returns *Behind when f.Patience is
// over, ErrOverloaded if too many wait already, ErrDraining, and the errors of a load that are answers.
func (w *waits) until(ctx context.Context, ref StreamRef, have View, f *Freshness) (View, error) {
	if f.Patience <= 0 {
		return View{}, &Behind{have.Head.V}
	}
	watch, err := w.enter(ref, have)
	if err != nil {
		return View{}, err
	}
	defer w.leave(ref, watch)
	t := time.NewTimer(f.Patience)
	defer t.Stop()
	for {
		w.mu.Lock()
		v, err, changed := watch.newest, watch.err, watch.changed
		w.mu.Unlock()
		if err != nil || v.Head.V >= f.MinV {
			return v, err
		}
		select {
		case <-changed:
		case <-t.C:
			return View{}, &Behind{v.Head.V}
		case <-ctx.Done():
			return View{}, ctx.Err()
		case <-w.c.draining:
			return View{}, ErrDraining
		}
	}
}

func (w *waits) enter(ref StreamRef, have View) (*watch, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all.Load() >= maxWaits || w.basins[ref.Basin] >= maxBasinWaits {
		return nil, fmt.Errorf("wait for a revision: too many wait: %w", ErrOverloaded)
	}
	s := w.streams[ref.Stream]
	if s == nil || s.err != nil {
		ctx, cancel := context.WithCancel(w.c.life)
		s = &watch{newest: have, changed: make(chan struct{}), stop: cancel}
		if !w.c.background.start(func() { w.look(ctx, ref, s) }) {
			cancel()
			return nil, ErrDraining
		}
		w.streams[ref.Stream] = s
	}
	s.waiting++
	w.basins[ref.Basin]++
	w.all.Add(1)
	return s, nil
}

func (w *waits) leave(ref StreamRef, s *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all.Add(-1)
	if w.basins[ref.Basin]--; w.basins[ref.Basin] == 0 {
		delete(w.basins, ref.Basin)
	}
	if s.waiting--; s.waiting > 0 {
		return
	}
	s.stop()
	if w.streams[ref.Stream] == s {
		delete(w.streams, ref.Stream)
	}
}

// look loads the head of a watched stream from time to time, until nobody waits or the stream turns out to be gone.
func (w *waits) look(ctx context.Context, ref StreamRef, s *watch) {
	for attempt := 1; pause(ctx, w.gap(attempt)); attempt++ {
		_, err := w.c.loads.active(ctx, ref.Stream) // the loader tells learn what it brought
		if errors.Is(err, ErrStreamNotFound) || errors.Is(err, ErrStreamDeleting) {
			w.mu.Lock()
			s.err = err
			close(s.changed)
			w.mu.Unlock()
			return
		}
	}
}

// gap is the pause before the n-th look: 10 ms doubling, at most the interval of followers' polls.
func (w *waits) gap(n int) time.Duration {
	return min(5*time.Millisecond<<min(n, 10), w.c.o.PollInterval)
}

// learn wakes those who wait for a stream when it has changed.
func (w *waits) learn(v View) {
	if w.all.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.streams[v.Head.Stream]
	if s == nil || s.err != nil || v.Head.State != Active || v.Head.V <= s.newest.Head.V {
		return
	}
	s.newest = newer(s.newest, v)
	close(s.changed)
	s.changed = make(chan struct{})
}
