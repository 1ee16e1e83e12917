package tenancy

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// updateConfig replaces the config in a stream's head by what change makes of it, and tells whether that differs.
// The head is the truth about a stream's config; the directory has no copy. errGone if the stream is not active.
func (d *Directory) updateConfig(ctx context.Context, e *entry, change func(coordinator.StreamConfig) coordinator.StreamConfig) (coordinator.Head, bool, error) {
	for n := 0; n < attempts && pause(ctx, n); n++ {
		h, err := d.Heads.Load(ctx, e.ID)
		switch {
		case errors.Is(err, coordinator.ErrNotFound) || err == nil && h.State != coordinator.Active:
			return h, false, errGone
		case err != nil:
			return h, false, untouched(fmt.Errorf("load head: %w", err))
		}
		next := change(h.Config)
		if next == h.Config {
			return h, false, nil
		}
		h, err = d.casConfig(ctx, &h, next)
		if !isRefused(err, coordinator.RefusedChanged) {
			return h, true, err
		}
	}
	return coordinator.Head{}, false, exhausted(ctx)
}

// casConfig installs a config over the one in h. A *Refusal with RefusedChanged says that it was not and will not be
// installed and that another try may succeed.
func (d *Directory) casConfig(ctx context.Context, h *coordinator.Head, next coordinator.StreamConfig) (coordinator.Head, error) {
	op := coordinator.NewOpID()
	after, err := d.Heads.Change(ctx, h.Stream, &coordinator.Change{
		ID: op, Config: &coordinator.ConfigChange{Config: next, IfV: h.ConfigV},
	})
	switch {
	case err == nil:
		return after, nil
	case isRefused(err, coordinator.RefusedState), errors.Is(err, coordinator.ErrNotFound):
		return after, errGone
	case isRefused(err, coordinator.RefusedChanged):
		return after, err
	case coordinator.Definite(err):
		return after, untouched(err)
	}
	return d.settleConfig(ctx, h, op, err)
}

// settleConfig finds out what became of a config change in doubt (protocol 4, "verbs"): our id is there, or the
// counter moved without it, or the counter is moved so that the change can never come.
func (d *Directory) settleConfig(ctx context.Context, before *coordinator.Head, op coordinator.OpID, cause error) (coordinator.Head, error) {
	ctx, cancel := d.settle(ctx)
	defer cancel()
	for n := 0; n < attempts && pause(ctx, n); n++ {
		h, err := d.Heads.Load(ctx, before.Stream)
		if err != nil {
			continue
		}
		if h.ConfigV == before.ConfigV {
			// Should the bump be refused or in doubt, the next load tells why.
			h, err = d.Heads.Change(ctx, before.Stream, &coordinator.Change{
				ID: coordinator.NewOpID(), Bump: &coordinator.BumpChange{IfV: before.ConfigV},
			})
			if err != nil {
				continue
			}
		}
		switch {
		case h.ConfigID == op:
			return h, nil
		case h.ConfigID == before.ConfigID || h.ConfigV == before.ConfigV+1:
			return h, &coordinator.Refusal{Reason: coordinator.RefusedChanged, Head: h}
		}
		return h, &doubt{cause} // somebody else's change lies over what may have been ours
	}
	return coordinator.Head{}, &doubt{cause}
}

// forwardHead moves a stream's head to Deleting or Deleted. It may be repeated. A stream that never got a head gets a
// tombstone, so that a creator who was asleep cannot make it any more. It returns the v of the head that it left.
func (d *Directory) forwardHead(ctx context.Context, e *entry, to coordinator.State) (v uint64, err error) {
	for n := 0; n < attempts && pause(ctx, n); n++ {
		op := coordinator.NewOpID()
		// States only go forward, so a lost reply needs no finding out: the same again is right either way.
		var h coordinator.Head
		if h, err = d.Heads.Change(ctx, e.ID, &coordinator.Change{ID: op, State: to}); err == nil {
			return h.V, nil
		}
		if !errors.Is(err, coordinator.ErrNotFound) {
			continue
		}
		err = d.Heads.Create(ctx, coordinator.Head{
			V: 1, Basin: e.basin, Stream: e.ID, State: to, StateID: op,
			Config: coordinator.DefaultStreamConfig(), ConfigV: 1, CreatedAt: e.CreatedAt,
		})
		// ErrExists: the creator was faster, and the next round moves its head.
		if err == nil {
			return 1, nil
		}
	}
	if err == nil {
		err = ctx.Err()
	}
	return 0, fmt.Errorf("change head to %s: %w", to, err)
}

func isRefused(err error, r coordinator.Reason) bool {
	var refusal *coordinator.Refusal
	return errors.As(err, &refusal) && refusal.Reason == r
}
