package s3store

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

var headCodec = codec[coordinator.Head]{
	encode: func(h *coordinator.Head) []byte { return coordinator.AppendHead(nil, h, true) },
	decode: func(payload []byte) (*coordinator.Head, error) {
		h, err := coordinator.DecodeHead(payload)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		return &h, nil
	},
	dead: func(*coordinator.Head) bool { return false },
	weigh: func(h *coordinator.Head) int {
		const entryBytes, rootBytes = 160, 180
		return entryBytes*len(h.Log) + rootBytes*len(h.Pages) + int(h.InlineBytes)
	},
}

// Create implements coordinator.Heads.
func (s *Store) Create(ctx context.Context, h coordinator.Head) error {
	_, err := s.heads.update(ctx, headKey(h.Stream), &state[coordinator.Head]{}, func(old *coordinator.Head) (*coordinator.Head, error) {
		if old != nil {
			return nil, coordinator.ErrExists
		}
		return &h, nil
	})
	if err == nil || errors.Is(err, coordinator.ErrExists) {
		return err
	}
	return fmt.Errorf("create head %s: %w", h.Stream, err)
}

// Load implements coordinator.Heads.
func (s *Store) Load(ctx context.Context, id segments.StreamID) (coordinator.Head, error) {
	found, err := s.heads.read(ctx, headKey(id))
	switch {
	case err != nil:
		return coordinator.Head{}, fmt.Errorf("load head %s: %w", id, err)
	case found.absent():
		return coordinator.Head{}, coordinator.ErrNotFound
	case found.value.Stream != id:
		return coordinator.Head{}, fmt.Errorf("load head %s: it is that of %s: %w", id, found.value.Stream, ErrCorrupt)
	}
	return *found.value, nil
}

// Commit implements coordinator.Heads.
func (s *Store) Commit(ctx context.Context, id segments.StreamID, c *coordinator.Commit) (coordinator.Head, error) {
	return s.transition(ctx, id, func(h coordinator.Head) (coordinator.Head, error) { return coordinator.Apply(h, c) })
}

// Splice implements coordinator.Heads.
func (s *Store) Splice(ctx context.Context, id segments.StreamID, p *coordinator.Splice) (coordinator.Head, error) {
	return s.transition(ctx, id, func(h coordinator.Head) (coordinator.Head, error) { return coordinator.ApplySplice(h, p) })
}

// Change implements coordinator.Heads.
func (s *Store) Change(ctx context.Context, id segments.StreamID, c *coordinator.Change) (coordinator.Head, error) {
	return s.transition(ctx, id, func(h coordinator.Head) (coordinator.Head, error) { return coordinator.ApplyChange(h, c) })
}

// transition replaces a head by what the pure function makes of it.
func (s *Store) transition(ctx context.Context, id segments.StreamID, pure func(coordinator.Head) (coordinator.Head, error)) (coordinator.Head, error) {
	next, err := s.heads.update(ctx, headKey(id), nil, func(old *coordinator.Head) (*coordinator.Head, error) {
		switch {
		case old == nil:
			return nil, coordinator.ErrNotFound
		case old.Stream != id:
			return nil, notApplied(fmt.Errorf("it is that of %s: %w", old.Stream, ErrCorrupt))
		}
		h, err := pure(*old)
		return &h, err
	})
	if err == nil {
		return *next, nil
	}
	var refusal *coordinator.Refusal
	if errors.As(err, &refusal) || errors.Is(err, coordinator.ErrNotFound) {
		return coordinator.Head{}, err
	}
	return coordinator.Head{}, fmt.Errorf("update head %s: %w", id, err)
}
