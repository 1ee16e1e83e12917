package tenancy

import (
	"context"
	"fmt"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// ListMax is the number of names in one page, and the default.
const ListMax = 1000

// BasinPage and StreamPage are one page of a listing, in bytewise order. HasMore says, exactly, whether another
// matching name follows.
type BasinPage struct {
	Basins  []BasinInfo
	HasMore bool
}

// StreamPage is one page of a basin's streams, with the basin as it was just before.
type StreamPage struct {
	Basin   BasinInfo
	Streams []StreamInfo
	HasMore bool
}

// ListBasins lists the account's names that start with prefix and sort after startAfter, those being deleted among them. A
// limit outside 1 to ListMax is ListMax.
func (d *Directory) ListBasins(ctx context.Context, prefix, startAfter string, limit int) (BasinPage, error) {
	account := accountOf(ctx)
	items, more, err := page(ctx, d, basinsPart, prefix, startAfter, limit, func(row coordinator.Row) (BasinInfo, bool, error) {
		b := basin{name: row.Key.Sort, v: row.Version}
		err := decode(row.Value, &b.basinRow)
		return b.info(), b.account() == account && (b.State == Active || b.State == Deleting), err
	})
	return BasinPage{items, more}, untouched(err)
}

// ListStreams is ListBasins for the streams of a basin.
func (d *Directory) ListStreams(ctx context.Context, basin, prefix, startAfter string, limit int) (StreamPage, error) {
	b, err := d.basin(ctx, basin)
	if err != nil {
		return StreamPage{}, untouched(err)
	}
	items, more, err := page(ctx, d, streamsPart(b.ID), prefix, startAfter, limit, func(row coordinator.Row) (StreamInfo, bool, error) {
		e := entry{place: place{basin: b.ID, name: row.Key.Sort}, v: row.Version}
		err := decode(row.Value, &e.streamRow)
		return e.info(), e.State == Active || e.State == Deleting, err
	})
	return StreamPage{b.info(), items, more}, untouched(err)
}

// page reads rows until it has one more than it will return, which is what makes more exact. Rows that are not
// listed (tombstones of the last day, creations that are not done) are passed over in steps of at most a page, so
// that memory is bounded whatever lies between two names.
func page[T any](ctx context.Context, d *Directory, part, prefix, after string, limit int, item func(coordinator.Row) (T, bool, error)) (items []T, more bool, err error) {
	if limit < 1 || limit > ListMax {
		limit = ListMax
	}
	for step := limit + 1; ; step = min(2*step, ListMax) {
		rows, err := d.Table.List(ctx, part, prefix, after, step)
		if err != nil {
			return nil, false, fmt.Errorf("list rows of %s: %w", part, err)
		}
		for _, row := range rows {
			it, listed, err := item(row)
			if err != nil {
				return nil, false, err
			}
			if !listed {
				continue
			}
			if len(items) == limit {
				return items, true, nil
			}
			items = append(items, it)
		}
		if len(rows) < step {
			return items, false, nil
		}
		after = rows[len(rows)-1].Key.Sort
	}
}
