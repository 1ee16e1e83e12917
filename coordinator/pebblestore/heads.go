package pebblestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// Create implements coordinator.Heads.
func (s *Store) Create(ctx context.Context, h coordinator.Head) error {
	if err := s.begin(ctx); err != nil {
		return fmt.Errorf("create head: %w", notApplied(err))
	}
	defer s.calls.Done()
	unlock, err := s.lock(ctx, s.headLocks, h.Stream[:])
	if err != nil {
		return fmt.Errorf("create head: %w", notApplied(err))
	}
	_, err = s.current(h.Stream)
	if !errors.Is(err, coordinator.ErrNotFound) {
		unlock()
		if err == nil {
			return coordinator.ErrExists
		}
		return fmt.Errorf("create head: %w", notApplied(err))
	}
	_, err = s.replace(ctx, &cell{}, h, write{add: h.Log}, unlock)
	return err
}

// Load implements coordinator.Heads.
func (s *Store) Load(ctx context.Context, id segments.StreamID) (coordinator.Head, error) {
	if err := s.begin(ctx); err != nil {
		return coordinator.Head{}, fmt.Errorf("load head: %w", err)
	}
	defer s.calls.Done()
	// What is in the cache is durable, and no answer was given for anything later.
	if c, ok := s.hot.GetIfPresent(id); ok {
		return c.head, nil
	}
	// Pebble shows what is being synced: the lock waits for it.
	unlock, err := s.lock(ctx, s.headLocks, id[:])
	if err != nil {
		return coordinator.Head{}, fmt.Errorf("load head: %w", err)
	}
	defer unlock()
	c, err := s.current(id)
	if err != nil {
		return coordinator.Head{}, err
	}
	return c.head, nil
}

// Commit implements coordinator.Heads.
func (s *Store) Commit(ctx context.Context, id segments.StreamID, c *coordinator.Commit) (coordinator.Head, error) {
	return s.update(ctx, id, func(h coordinator.Head) (coordinator.Head, write, error) {
		next, err := coordinator.Apply(h, c)
		return next, write{at: len(h.Log), add: c.Entries}, err
	})
}

// Splice implements coordinator.Heads.
func (s *Store) Splice(ctx context.Context, id segments.StreamID, p *coordinator.Splice) (coordinator.Head, error) {
	return s.update(ctx, id, func(h coordinator.Head) (coordinator.Head, write, error) {
		next, err := coordinator.ApplySplice(h, p)
		var w write
		switch {
		case p.Exchange != nil:
			w = write{p.Exchange.Index, len(p.Exchange.Old), p.Exchange.New}
		case p.Move != nil:
			w.drop = len(p.Move.Old)
		case p.Retire != nil:
			w.drop = len(p.Retire.Old)
		}
		return next, w, err
	})
}

// Change implements coordinator.Heads.
func (s *Store) Change(ctx context.Context, id segments.StreamID, c *coordinator.Change) (coordinator.Head, error) {
	return s.update(ctx, id, func(h coordinator.Head) (coordinator.Head, write, error) {
		next, err := coordinator.ApplyChange(h, c)
		return next, write{}, err
	})
}

// update makes one transition under the stream's lock, which it keeps until the outcome is durable: nobody builds on
// a head that a crash could take back. Streams do not wait for each other, so their batches share an fsync.
func (s *Store) update(ctx context.Context, id segments.StreamID, transition func(coordinator.Head) (coordinator.Head, write, error)) (coordinator.Head, error) {
	if err := s.begin(ctx); err != nil {
		return coordinator.Head{}, fmt.Errorf("update head: %w", notApplied(err))
	}
	defer s.calls.Done()
	unlock, err := s.lock(ctx, s.headLocks, id[:])
	if err != nil {
		return coordinator.Head{}, fmt.Errorf("update head: %w", notApplied(err))
	}
	c, err := s.current(id)
	if err != nil {
		unlock()
		if errors.Is(err, coordinator.ErrNotFound) {
			return coordinator.Head{}, err
		}
		return coordinator.Head{}, fmt.Errorf("update head: %w", notApplied(err))
	}
	head, w, err := transition(c.head)
	if err != nil {
		unlock()
		return coordinator.Head{}, err
	}
	return s.replace(ctx, c, head, w, unlock)
}

// replace writes the head that follows c, and unlocks when its fate is known.
func (s *Store) replace(ctx context.Context, c *cell, head coordinator.Head, w write, unlock func()) (coordinator.Head, error) {
	b := s.db.NewBatch()
	next, err := c.advance(b, head, w)
	if err != nil {
		unlock()
		_ = b.Close()
		return coordinator.Head{}, fmt.Errorf("write head: %w", notApplied(err))
	}
	if err := s.commit(ctx, b, func() { s.hot.Set(head.Stream, next) }, unlock); err != nil {
		return coordinator.Head{}, fmt.Errorf("write head: %w", err)
	}
	return head, nil
}

// current is the durable state of a head. The caller holds its lock.
func (s *Store) current(id segments.StreamID) (*cell, error) {
	if c, ok := s.hot.GetIfPresent(id); ok {
		return c, nil
	}
	c, err := s.read(id)
	if err != nil {
		return nil, err
	}
	// How often a head is asked for decides whether it stays: a walk over all heads does not push out the hot ones.
	s.hot.Set(id, c)
	return c, nil
}
