package tenancy

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// moved is the error of put when the row has another version than the one it was to replace. If doubt is set, an
// earlier send of the same put may have been applied before what was found: only the content can tell.
type moved struct {
	found coordinator.Row
	doubt bool
}

func (e *moved) Error() string { return "the row has changed meanwhile" }

// get reads a row strongly into r and returns its version, 0 if there is none.
func (d *Directory) get(ctx context.Context, key coordinator.Key, r record) (uint64, error) {
	row, err := d.Table.Get(ctx, key)
	if errors.Is(err, coordinator.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("get row of %s: %w", key.Part, err)
	}
	return row.Version, decode(row.Value, r)
}

// put replaces version ifVersion of a row. It returns the new version, or *moved, or a definite error of the store
// (coordinator.ErrNotApplied), or a *doubt.
func (d *Directory) put(ctx context.Context, key coordinator.Key, r record, ifVersion uint64) (uint64, error) {
	row := coordinator.Row{Key: key, Value: encode(r), ID: coordinator.NewOpID()}
	got, err := d.Table.Put(ctx, row, ifVersion)
	var conflict *coordinator.Conflict
	switch {
	case err == nil:
		return got.Version, nil
	// A store that repeats requests by itself may answer the second with the first one's effect.
	case errors.As(err, &conflict) && conflict.Found.ID == row.ID:
		return conflict.Found.Version, nil
	case errors.As(err, &conflict):
		return 0, &moved{found: conflict.Found}
	case coordinator.Definite(err):
		return 0, fmt.Errorf("put row of %s: %w", key.Part, err)
	}
	return d.putAgain(ctx, row, ifVersion, err)
}

// putAgain settles a put in doubt by sending it again, with the same id and condition: at most one of the two can be
// applied, and whichever it is answers for both (protocol 4, "table records").
func (d *Directory) putAgain(ctx context.Context, row coordinator.Row, ifVersion uint64, cause error) (uint64, error) {
	ctx, cancel := d.settle(ctx)
	defer cancel()
	for n := range attempts {
		if !pause(ctx, n) {
			break
		}
		got, err := d.Table.Put(ctx, row, ifVersion)
		var conflict *coordinator.Conflict
		switch {
		case err == nil:
			return got.Version, nil
		case errors.As(err, &conflict) && conflict.Found.ID == row.ID:
			return conflict.Found.Version, nil
		case errors.As(err, &conflict):
			// The version after ours-to-be carries the id of whoever made it. Any later one hides it.
			return 0, &moved{conflict.Found, conflict.Found.Version != ifVersion+1}
		}
	}
	return 0, &doubt{cause}
}

// putOnce writes a row whose content follows from its key, so that it does not matter who wrote it.
func (d *Directory) putOnce(ctx context.Context, key coordinator.Key, r record) error {
	_, err := d.put(ctx, key, r, 0)
	var m *moved
	if errors.As(err, &m) && m.found.Version != 0 {
		return nil
	}
	return err
}

// drop removes a row that nothing will ever write again under the same key and version, so that neither a lost reply
// nor a delayed delivery matters. A row that has moved or is gone is left alone.
func (d *Directory) drop(ctx context.Context, key coordinator.Key, version uint64) error {
	err := d.Table.Delete(ctx, key, version)
	var conflict *coordinator.Conflict
	if err == nil || errors.Is(err, coordinator.ErrNotFound) || errors.As(err, &conflict) {
		return nil
	}
	return fmt.Errorf("delete row of %s: %w", key.Part, err)
}

// each calls f for every row of a part, in order, in pages.
func (d *Directory) each(ctx context.Context, part, after string, f func(coordinator.Row) error) error {
	return d.eachFrom(ctx, part, after, 1000, f)
}

// eachFrom is each with a first page of another size, for those who mostly end at once: a store may have to fetch every row
// that it lists.
func (d *Directory) eachFrom(ctx context.Context, part, after string, page int, f func(coordinator.Row) error) error {
	for ; ; page = min(8*page, 1000) {
		rows, err := d.Table.List(ctx, part, "", after, page)
		if err != nil {
			return fmt.Errorf("list rows of %s: %w", part, err)
		}
		for _, row := range rows {
			if err := f(row); err != nil {
				return err
			}
		}
		if len(rows) < page {
			return nil
		}
		after = rows[len(rows)-1].Key.Sort
	}
}
