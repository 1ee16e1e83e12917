package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace-streams/tailrace/segments"
)

// Maintain does for one stream what is due and nobody else does: it raises the floor to what is trimmed or expired,
// retires what lies wholly below it, and moves a log that was left over its mark (protocol 8). It returns the head
// after it. What it finds done already costs one load.
func (c *Coordinator) Maintain(ctx context.Context, ref StreamRef) (Head, error) {
	h, err := c.loadRetrying(ctx, ref.Stream)
	if err != nil || h.State != Active {
		c.upkeep.forget(ref.Stream)
		return h, err
	}
	floor, err := c.readableFrom(ctx, &view{Head: h})
	if err != nil {
		return h, fmt.Errorf("maintain: %w", err)
	}
	floor = max(floor, c.upkeep.trimmed(&h))
	if floor > h.Floor {
		if h, err = c.change(ctx, ref.Stream, &Change{ID: NewOpID(), RaiseFloor: floor}); err != nil {
			return h, fmt.Errorf("maintain: raise floor: %w", err)
		}
	}
	if h, err = c.retire(ctx, h); err != nil {
		return h, fmt.Errorf("maintain: %w", err)
	}
	h, _, err = c.move(ctx, ref, &h)
	return h, err
}

// retire drops what lies wholly below the floor out of the head. One that is overtaken starts again.
func (c *Coordinator) retire(ctx context.Context, h Head) (Head, error) {
	var refusal *Refusal
	for attempt := 0; attempt < maxMoveAttempts; attempt++ {
		r, b, err := c.buildRetire(ctx, &h)
		if err != nil || r == nil {
			return h, err
		}
		if err := b.put(ctx); err != nil {
			return h, fmt.Errorf("retire: %w", err)
		}
		next, err := c.splice(ctx, h.Stream, &Splice{Retire: r})
		switch {
		case err == nil:
			return next, nil
		case errors.As(err, &refusal):
			h = refusal.Head
		default:
			// In doubt or refused by the store: what it replaces is matched exactly, so at most one attempt is applied.
			if h, err = c.loadRetrying(ctx, h.Stream); err != nil {
				return h, fmt.Errorf("retire: %w", err)
			}
		}
		if h.State != Active {
			return h, nil
		}
	}
	return h, nil // somebody else is at work on it; the next maintenance comes again
}

// buildRetire plans a retirement, or returns nil if there is nothing to drop.
func (c *Coordinator) buildRetire(ctx context.Context, h *Head) (*Retire, *objects, error) {
	r := &Retire{Base: h.Base, OldPages: h.Pages, NewBase: h.Base, NewTime: h.BaseTime, Horizon: h.Horizon, MinLabel: segments.MaxLabel}
	b := c.newObjects(h)
	var dropped segments.LabelRange
	for i := range h.Pages {
		root := h.Pages[i]
		if len(r.Pages) == 0 {
			keep, ids, err := b.trim(ctx, &root.Page, root.Level, h.Floor)
			if err != nil {
				return nil, nil, fmt.Errorf("retire: %w", err)
			}
			dropped = dropped.Union(ids)
			if keep == nil {
				continue
			}
			root.Page = *keep
		}
		r.Pages = append(r.Pages, root)
	}
	if len(r.Pages) == 0 {
		for _, row := range FoldRows(c.o.Room.bounded(h.Log), h.Base, h.BaseTime) {
			if row.End() > h.Floor {
				break
			}
			r.Old = append(r.Old, *row.Entry)
			r.NewBase, r.NewTime = row.End(), row.TimeAfter
			dropped = dropped.Union(row.IDs)
		}
	}
	if len(r.Old) == 0 && RootsEqual(r.Pages, h.Pages) {
		return nil, nil, nil
	}
	r.Horizon = max(r.Horizon, dropped.Max)
	r.MinLabel = b.minLabel
	if r.MinLabel <= h.Horizon {
		return nil, nil, errors.New("retire: a new page has a label at or below the horizon")
	}
	return r, b, nil
}

// trim drops the rows of a page that lie wholly below the floor, rewriting the path to the first row that stays. It
// returns the row for what is left, the page's own if it is not worth a rewrite, nil if nothing is left; and the
// range of the ids dropped.
func (b *objects) trim(ctx context.Context, row *segments.Row, level uint8, floor uint64) (*segments.Row, segments.LabelRange, error) {
	if row.End() <= floor {
		return nil, row.IDs, nil
	}
	if row.Start >= floor {
		return row, segments.LabelRange{}, nil
	}
	p, err := b.c.reader.Page(ctx, b.h.Basin, b.h.Stream, row.Child)
	if err != nil {
		return nil, segments.LabelRange{}, err
	}
	var ids segments.LabelRange
	n := 0
	for n < len(p.Rows) && p.Rows[n].End() <= floor {
		ids = ids.Union(p.Rows[n].IDs)
		n++
	}
	rows := append([]segments.Row(nil), p.Rows[n:]...)
	changed := n > 0
	if level > 1 {
		first, below, err := b.trim(ctx, &rows[0], level-1, floor)
		if err != nil {
			return nil, ids, err
		}
		changed = changed || *first != rows[0]
		rows[0], ids = *first, ids.Union(below)
	}
	if !changed || (level == 0 && n*retireShare < len(p.Rows)) {
		return row, segments.LabelRange{}, nil
	}
	left, err := b.page(level, rows)
	return &left, ids, err
}

// retireShare is the part of a lowest page's rows, one in so many, that must go before it is rewritten: below it the
// new page would cost more than it frees. A lowest page below a higher one goes as a whole.
const retireShare = 8
