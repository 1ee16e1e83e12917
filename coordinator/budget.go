package coordinator

import (
	"context"
	"fmt"
	"sync"

	"github.com/tailrace-streams/tailrace/segments"
)

// budget bounds the bytes of batches in flight: in the process, and so that no basin takes more than half of it and
// no stream more than a quarter. Store calls that free room (moves, cancels, loads) take nothing from it, so a full
// house can always be emptied (protocol 5).
type budget struct {
	max uint64

	mu       sync.Mutex
	used     uint64
	basins   map[segments.BasinID]uint64
	streams  map[segments.StreamID]uint64
	freed    chan struct{} // closed and replaced when something is released
	draining bool
}

func newBudget(limit int64) *budget {
	return &budget{
		max:     uint64(max(limit, 4*segments.MaxBatchBytes)),
		basins:  make(map[segments.BasinID]uint64),
		streams: make(map[segments.StreamID]uint64),
		freed:   make(chan struct{}),
	}
}

// acquire waits until n bytes fit, or ctx ends. ErrDraining once the budget drains.
func (b *budget) acquire(ctx context.Context, ref StreamRef, n uint64) error {
	for {
		b.mu.Lock()
		if b.draining {
			b.mu.Unlock()
			return ErrDraining
		}
		if b.used+n <= b.max && b.basins[ref.Basin]+n <= b.max/2 && b.streams[ref.Stream]+n <= b.max/4 {
			b.used += n
			b.basins[ref.Basin] += n
			b.streams[ref.Stream] += n
			b.mu.Unlock()
			return nil
		}
		freed := b.freed
		b.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return fmt.Errorf("wait for room in flight: %w", ctx.Err())
		}
	}
}

func (b *budget) release(ref StreamRef, n uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.basins[ref.Basin] -= n; b.basins[ref.Basin] == 0 {
		delete(b.basins, ref.Basin)
	}
	if b.streams[ref.Stream] -= n; b.streams[ref.Stream] == 0 {
		delete(b.streams, ref.Stream)
	}
	close(b.freed)
	b.freed = make(chan struct{})
}

// drain refuses what is not admitted yet and waits until nothing is in flight.
func (b *budget) drain(ctx context.Context) error {
	for {
		b.mu.Lock()
		b.draining = true
		used, freed := b.used, b.freed
		b.mu.Unlock()
		if used == 0 {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return fmt.Errorf("drain: %d bytes of appends are unanswered: %w", used, ctx.Err())
		}
	}
}
