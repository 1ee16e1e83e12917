// Package memstore keeps heads and control records in memory: for tests, and for a server that may forget.
package memstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// Room is how much of a stream stays in its head. It is pebblestore's, so that what runs on one runs alike on the
// other.
var Room = coordinator.Room{
	MoveEntries: 256, MaxEntries: 1024,
	InlineBatch: 16 << 10, MoveInline: 128 << 10, MaxInline: 4 << 20,
}

// Store is a coordinator.Heads and a coordinator.Table. It never answers ErrUnknown: a call whose context has ended
// before it begins is not applied, any other one is.
type Store struct {
	heads sync.Map // segments.StreamID to *cell; cells are never removed, since a deleted head is a tombstone

	mu    sync.RWMutex
	parts map[string]*part
}

// cell is one head under the lock of its stream.
type cell struct {
	mu   sync.Mutex
	head coordinator.Head
}

var (
	_ coordinator.Heads = (*Store)(nil)
	_ coordinator.Table = (*Store)(nil)
)

// New makes an empty store.
func New() *Store { return &Store{parts: map[string]*part{}} }

// Create implements coordinator.Heads.
func (s *Store) Create(ctx context.Context, h coordinator.Head) error {
	if err := begun(ctx); err != nil {
		return fmt.Errorf("create head: %w", err)
	}
	if _, there := s.heads.LoadOrStore(h.Stream, &cell{head: h}); there {
		return coordinator.ErrExists
	}
	return nil
}

// Load implements coordinator.Heads.
func (s *Store) Load(ctx context.Context, id segments.StreamID) (coordinator.Head, error) {
	if err := ctx.Err(); err != nil {
		return coordinator.Head{}, fmt.Errorf("load head: %w", err)
	}
	c, ok := s.cell(id)
	if !ok {
		return coordinator.Head{}, coordinator.ErrNotFound
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.head, nil
}

// Commit implements coordinator.Heads.
func (s *Store) Commit(ctx context.Context, id segments.StreamID, c *coordinator.Commit) (coordinator.Head, error) {
	return s.update(ctx, id, func(h coordinator.Head) (coordinator.Head, error) { return coordinator.Apply(h, c) })
}

// Splice implements coordinator.Heads.
func (s *Store) Splice(ctx context.Context, id segments.StreamID, p *coordinator.Splice) (coordinator.Head, error) {
	return s.update(ctx, id, func(h coordinator.Head) (coordinator.Head, error) { return coordinator.ApplySplice(h, p) })
}

// Change implements coordinator.Heads.
func (s *Store) Change(ctx context.Context, id segments.StreamID, c *coordinator.Change) (coordinator.Head, error) {
	return s.update(ctx, id, func(h coordinator.Head) (coordinator.Head, error) { return coordinator.ApplyChange(h, c) })
}

// update replaces a head by what the transition makes of it.
func (s *Store) update(ctx context.Context, id segments.StreamID, transition func(coordinator.Head) (coordinator.Head, error)) (coordinator.Head, error) {
	if err := begun(ctx); err != nil {
		return coordinator.Head{}, fmt.Errorf("update head: %w", err)
	}
	c, ok := s.cell(id)
	if !ok {
		return coordinator.Head{}, coordinator.ErrNotFound
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	next, err := transition(c.head)
	if err != nil {
		return coordinator.Head{}, err
	}
	c.head = next
	return next, nil
}

func (s *Store) cell(id segments.StreamID) (*cell, bool) {
	c, ok := s.heads.Load(id)
	if !ok {
		return nil, false
	}
	return c.(*cell), true
}

// begun refuses a write whose context is over already; from there on it is not interrupted.
func begun(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", coordinator.ErrNotApplied, err)
	}
	return nil
}
