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

// fence installs a token by the coordinator's own verb. Sessions of the process that present another end with it.
func (c *client) fence(ctx context.Context, ref coordinator.StreamRef, slot int) {
	o := c.w.begin(&op{kind: fenceOp, p: c.p, stream: ref.Stream, slot: slot, token: c.someToken()})
	fenced, err := c.p.Fence(context.WithValue(ctx, opOfContext{}, o), ref, o.token)
	o.fenced = fenced
	c.w.end(o, err)
}

// opOfContext is the key under which a call's context has the operation that it is made for.
type opOfContext struct{}

func (c *client) configure(ctx context.Context, ref coordinator.StreamRef, slot int) {
	cfg := c.w.streamConfig()
	if c.rng.IntN(2) == 0 {
		cfg.Fencing = coordinator.Exclusive
	}
	if c.rng.IntN(8) == 0 {
		cfg.Timestamping = coordinator.ClientRequire
	}
	o := c.w.begin(&op{kind: configOp, p: c.p, stream: ref.Stream, slot: slot, config: cfg})
	c.w.end(o, c.changeConfig(ctx, ref.Stream, o))
}

// changeConfig carries out a change of a config, by the rule for verbs in doubt (protocol 4): look; if the counter moved and
// the id is as it was, it was not applied and will not be; else move the counter.
func (c *client) changeConfig(ctx context.Context, id segments.StreamID, o *op) error {
	before, err := c.load(ctx, id)
	if err != nil {
		return err
	}
	change := &coordinator.Change{ID: coordinator.NewOpID(), Config: &coordinator.ConfigChange{Config: o.config, IfV: before.ConfigV}}
	_, err = c.change(context.WithValue(ctx, opOfContext{}, o), id, change)
	if err == nil || coordinator.Definite(err) {
		return err
	}
	for ctx.Err() == nil {
		h, err := c.load(ctx, id)
		if err != nil {
			break
		}
		switch {
		case h.ConfigID == change.ID:
			return nil
		case h.ConfigV > before.ConfigV && h.ConfigID == before.ConfigID:
			return errors.New("not applied")
		case h.ConfigV > before.ConfigV:
			return &coordinator.Indefinite{Err: errors.New("another change came in between")}
		}
		_, _ = c.change(ctx, id, &coordinator.Change{ID: coordinator.NewOpID(), Bump: &coordinator.BumpChange{IfV: before.ConfigV}})
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
		err := c.insist(ctx, func() error {
			_, err := c.change(context.WithValue(ctx, opOfContext{}, o), ref.Stream, &coordinator.Change{ID: id, State: state})
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
