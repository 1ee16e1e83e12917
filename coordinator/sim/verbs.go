package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// verb does what is done to a stream other than appending.
func (c *client) verb() bool {
	ref, slot := c.target()
	ctx, cancel := context.WithTimeout(c.p.life, 30*time.Second)
	defer cancel()
	switch k := c.rng.IntN(100); {
	case k < 40:
		c.fence(ctx, ref, slot)
	case k < 70:
		c.configure(ctx, ref, slot)
	case k < 70+c.w.cfg.DeletePercent:
		c.recreate(ctx, ref, slot)
	default:
		trim := &coordinator.TrimChange{To: uint64(c.rng.IntN(int(c.tail) + 4)), Now: uint64(c.p.now().UnixMilli())}
		_ = c.insist(ctx, func() error {
			_, err := c.change(ctx, ref.Stream, &coordinator.Change{ID: coordinator.NewOpID(), Trim: trim})
			return err
		})
	}
	return true
}

func (c *client) fence(ctx context.Context, ref coordinator.StreamRef, slot int) {
	o := c.w.begin(&op{kind: fenceOp, p: c.p, stream: ref.Stream, slot: slot, token: c.someToken()})
	c.w.end(o, c.counted(ctx, ref.Stream, o, true))
}

func (c *client) configure(ctx context.Context, ref coordinator.StreamRef, slot int) {
	cfg := c.w.streamConfig()
	if c.rng.IntN(2) == 0 {
		cfg.Fencing = coordinator.Exclusive
	}
	if c.rng.IntN(8) == 0 {
		cfg.Timestamping = coordinator.ClientRequire
	}
	o := c.w.begin(&op{kind: configOp, p: c.p, stream: ref.Stream, slot: slot, config: cfg})
	c.w.end(o, c.counted(ctx, ref.Stream, o, false))
}

// counted carries out a verb that has a counter, by the rule for verbs in doubt (protocol 4): look; if the counter
// moved and the id is as it was, it was not applied and will not be; else move the counter.
func (c *client) counted(ctx context.Context, id segments.StreamID, o *op, fence bool) error {
	before, err := c.load(ctx, id)
	if err != nil {
		return err
	}
	change := &coordinator.Change{ID: coordinator.NewOpID()}
	counter := func(h *coordinator.Head) (uint64, coordinator.OpID) { return h.ConfigV, h.ConfigID }
	if fence {
		counter = func(h *coordinator.Head) (uint64, coordinator.OpID) { return h.TokenV, h.TokenID }
	}
	ifV, firstID := counter(&before)
	if fence {
		change.Fence = &coordinator.FenceChange{Token: o.token, IfV: ifV}
	} else {
		change.Config = &coordinator.ConfigChange{Config: o.config, IfV: ifV}
	}
	c.w.mu.Lock()
	c.w.truth.verbs[change.ID] = o
	c.w.mu.Unlock()
	_, err = c.change(ctx, id, change)
	if err == nil || coordinator.Definite(err) {
		return err
	}
	for ctx.Err() == nil {
		h, err := c.load(ctx, id)
		if err != nil {
			break
		}
		v, last := counter(&h)
		switch {
		case last == change.ID:
			return nil
		case v > ifV && last == firstID:
			return errors.New("not applied")
		case v > ifV:
			return &coordinator.Indefinite{Err: errors.New("another verb came in between")}
		}
		_, _ = c.change(ctx, id, &coordinator.Change{ID: coordinator.NewOpID(), Bump: &coordinator.BumpChange{Fence: fence, IfV: ifV}})
		if !c.nap(ctx) {
			break
		}
	}
	return &coordinator.Indefinite{Err: errors.New("in doubt")}
}

// recreate deletes a stream and makes a new one under its name.
func (c *client) recreate(ctx context.Context, ref coordinator.StreamRef, slot int) {
	for _, state := range []coordinator.State{coordinator.Deleting, coordinator.Deleted} {
		o := c.w.begin(&op{kind: deleteOp, p: c.p, stream: ref.Stream, slot: slot, state: state})
		id := coordinator.NewOpID()
		c.w.mu.Lock()
		c.w.truth.verbs[id] = o
		c.w.mu.Unlock()
		err := c.insist(ctx, func() error {
			_, err := c.change(ctx, ref.Stream, &coordinator.Change{ID: id, State: state})
			return err
		})
		if err != nil {
			err = &coordinator.Indefinite{Err: err}
		}
		c.w.end(o, err)
		if err != nil || c.rng.IntN(5) == 0 {
			return // whoever comes next completes it
		}
	}
	h := c.w.newHead(c.p.now())
	err := c.insist(ctx, func() error {
		call, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if err := c.heads().Create(call, h); !errors.Is(err, coordinator.ErrExists) {
			return err
		}
		return nil
	})
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if s := c.w.slots[slot]; err == nil && s.current == ref.Stream && !c.p.gone {
		s.current = h.Stream
	}
}

// insist repeats what may be repeated, until it is answered.
func (c *client) insist(ctx context.Context, f func() error) error {
	for {
		err := f()
		var refusal *coordinator.Refusal
		if err == nil || errors.As(err, &refusal) || errors.Is(err, coordinator.ErrNotFound) {
			return err
		}
		if !c.nap(ctx) {
			return fmt.Errorf("gave up: %w", err)
		}
	}
}

func (c *client) nap(ctx context.Context) bool {
	select {
	case <-time.After(time.Duration(1+c.rng.IntN(1_000_000)) * time.Microsecond):
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *client) load(ctx context.Context, id segments.StreamID) (coordinator.Head, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return c.heads().Load(ctx, id)
}

func (c *client) change(ctx context.Context, id segments.StreamID, ch *coordinator.Change) (coordinator.Head, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return c.heads().Change(ctx, id, ch)
}

// heads is the store as the client calls it, without the coordinator.
func (c *client) heads() *heads { return &heads{c.p, fmt.Sprintf("client %d ", c.n)} }
