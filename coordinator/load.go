package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tailrace-streams/tailrace/segments"
)

// loader shares strong loads: whoever asks gets a load that began after it asked, and all who wait for the same
// stream meanwhile get the same one (design 8). So a crowd costs two loads, not one each.
type loader struct {
	c *Coordinator

	mu      sync.Mutex
	streams map[segments.StreamID]*streamLoads
}

// streamLoads is the load under way and the one that will follow it, for those who came too late for it.
type streamLoads struct {
	next *load
}

type load struct {
	done chan struct{}
	head Head
	err  error
}

func newLoader(c *Coordinator) *loader {
	return &loader{c: c, streams: make(map[segments.StreamID]*streamLoads)}
}

// load returns the head as of a moment after the call began.
func (l *loader) load(ctx context.Context, id segments.StreamID) (Head, error) {
	l.mu.Lock()
	var mine *load
	if st := l.streams[id]; st == nil {
		mine = &load{done: make(chan struct{})}
		if !l.c.background.start(func() { l.run(id, mine) }) {
			l.mu.Unlock()
			return Head{}, ErrDraining
		}
		l.streams[id] = &streamLoads{}
	} else {
		if st.next == nil {
			st.next = &load{done: make(chan struct{})}
		}
		mine = st.next
	}
	l.mu.Unlock()
	select {
	case <-mine.done:
		return mine.head, mine.err
	case <-ctx.Done():
		return Head{}, ctx.Err()
	}
}

// run carries out loads of one stream, one after another, until nobody waits. The calls are detached from the
// callers' contexts: several callers share each.
func (l *loader) run(id segments.StreamID, current *load) {
	for current != nil {
		asOf := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), l.c.o.StoreTimeout)
		current.head, current.err = l.c.o.Heads.Load(ctx, id)
		cancel()
		if current.err == nil {
			l.c.presenters.look(&current.head)
			l.c.saw(current.head, asOf)
		}

		l.mu.Lock()
		st, answered := l.streams[id], current
		current, st.next = st.next, nil
		if current == nil {
			delete(l.streams, id)
		}
		l.mu.Unlock()
		close(answered.done) // last, so that whoever asks again for what it got finds the loader as it stays
	}
}

// active loads a head and answers for its state: ErrStreamNotFound, ErrStreamDeleting, or ErrUnavailable if the
// store could not be read.
func (l *loader) active(ctx context.Context, id segments.StreamID) (Head, error) {
	h, err := l.load(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return Head{}, ErrStreamNotFound
	case ctx.Err() != nil && err != nil:
		return Head{}, ctx.Err()
	case errors.Is(err, ErrDraining):
		return Head{}, err
	case err != nil:
		return Head{}, fmt.Errorf("load head: %w: %w", ErrUnavailable, err)
	}
	return h, stateError(h.State)
}
