package tenancy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// Stream is one incarnation of a stream, as Walk shows it.
type Stream struct {
	Ref             coordinator.StreamRef
	BasinName, Name string
	// State is Deleted for an incarnation without a name whose objects may still be there. One that is Creating may
	// have no head.
	State                State
	CreatedAt, DeletedAt time.Time // zero if unknown
}

// Basin is one incarnation of a basin.
type Basin struct {
	ID    segments.BasinID
	Name  string
	State State
}

// Basins calls f for every basin id that there are or may be objects under: living, dying and dead ones until
// ForgetBasin. An id that dies meanwhile can come twice, never not at all.
func (d *Directory) Basins(ctx context.Context, f func(Basin) error) error {
	err := d.each(ctx, basinsPart, "", func(row coordinator.Row) error {
		var b basinRow
		if err := decode(row.Value, &b); err != nil || b.State == Deleted {
			return err
		}
		return f(Basin{b.ID, row.Key.Sort, b.State})
	})
	if err != nil {
		return err
	}
	return d.each(ctx, deadBasinsPart, "", func(row coordinator.Row) error {
		b := Basin{State: Deleted}
		var dead deadBasinRow
		if err := decode(row.Value, &dead); err != nil {
			return err
		}
		b.Name = dead.Name
		if err := b.ID.UnmarshalText([]byte(row.Key.Sort)); err != nil {
			return fmt.Errorf("%w: %w", ErrBadRow, err)
		}
		return f(b)
	})
}

// Walk calls f for every incarnation of every stream that there are or may be objects of: those with a name, and the
// dead until ForgetDead. One that dies meanwhile can come twice, never not at all.
func (d *Directory) Walk(ctx context.Context, f func(Stream) error) error {
	return d.Basins(ctx, func(b Basin) error { return d.WalkBasin(ctx, b, f) })
}

// WalkBasin is Walk for one basin.
func (d *Directory) WalkBasin(ctx context.Context, b Basin, f func(Stream) error) error {
	// Names first: a stream is noted as dead before its name lets go of it.
	err := d.eachStream(ctx, b, func(e *entry) error {
		if e.State == Deleted {
			return nil
		}
		return f(Stream{e.ref(), b.Name, e.name, e.State, toTime(e.CreatedAt), toTime(e.DeletedAt)})
	})
	if err != nil {
		return err
	}
	return d.each(ctx, deadPart(b.ID), "", func(row coordinator.Row) error {
		var dead deadRow
		if err := decode(row.Value, &dead); err != nil {
			return err
		}
		s := Stream{BasinName: b.Name, Name: dead.Name, State: Deleted, DeletedAt: toTime(dead.DeletedAt)}
		s.Ref.Basin = b.ID
		if err := s.Ref.Stream.UnmarshalText([]byte(row.Key.Sort)); err != nil {
			return fmt.Errorf("%w: %w", ErrBadRow, err)
		}
		return f(s)
	})
}

func (d *Directory) eachStream(ctx context.Context, b Basin, f func(*entry) error) error {
	return d.each(ctx, streamsPart(b.ID), "", func(row coordinator.Row) error {
		e := entry{place: place{b.ID, b.Name, row.Key.Sort}, v: row.Version}
		if err := decode(row.Value, &e.streamRow); err != nil {
			return err
		}
		return f(&e)
	})
}

// ForgetDead is collection's word that no object of a deleted stream is left, and that nothing younger than a
// tombstone's age can bring one. It may be repeated. The head's tombstone is not touched.
func (d *Directory) ForgetDead(ctx context.Context, ref coordinator.StreamRef) error {
	return d.forget(ctx, deadKey(ref), &deadRow{}, func() bool { return true })
}

// ForgetBasin is collection's word that no object of a dead basin is left. ErrInUse until walks have found none of
// its rows for as long as a tombstone is kept: until then a creation that was sent before may still arrive.
func (d *Directory) ForgetBasin(ctx context.Context, id segments.BasinID) error {
	var dead deadBasinRow
	return d.forget(ctx, deadBasinKey(id), &dead, func() bool {
		return dead.EmptySince != 0 && d.aged(dead.EmptySince)
	})
}

func (d *Directory) forget(ctx context.Context, key coordinator.Key, r record, may func() bool) error {
	v, err := d.get(ctx, key, r)
	switch {
	case err != nil:
		return untouched(err)
	case v == 0:
		return nil
	case !may():
		return ErrInUse
	}
	return inDoubt(d.drop(ctx, key, v))
}

// Repair walks the whole directory for what no work row led to: creations and deletions left half done, tombstones
// past their age, and names that a late creation left in a dead basin. One bad basin does not end it; the errors are
// joined.
func (d *Directory) Repair(ctx context.Context) error {
	var failed troubles
	failed.add(d.each(ctx, basinsPart, "", func(row coordinator.Row) error {
		b := basin{name: row.Key.Sort, v: row.Version}
		err := decode(row.Value, &b.basinRow)
		if err == nil {
			err = d.repairBasin(ctx, &b)
		}
		failed.add(err)
		return ctx.Err()
	}))
	failed.add(d.each(ctx, deadBasinsPart, "", func(row coordinator.Row) error {
		failed.add(d.repairDead(ctx, row))
		return ctx.Err()
	}))
	return errors.Join(failed...)
}

// troubles gathers the errors of a walk, a few of them.
type troubles []error

func (t *troubles) add(err error) {
	const most = 8
	if err != nil && len(*t) < most {
		*t = append(*t, err)
	}
}

func (d *Directory) repairBasin(ctx context.Context, b *basin) error {
	switch b.State {
	case Deleted:
		_, err := d.purgeBasin(ctx, b)
		return err
	case Deleting:
		if d.now() < b.DeletedAt+patience {
			return nil // its work row is surely there
		}
		return d.putBasinWork(ctx, finishBasin, b, d.now())
	}
	var failed troubles
	failed.add(d.eachStream(ctx, Basin{b.ID, b.name, b.State}, func(e *entry) error {
		failed.add(d.repairStream(ctx, e))
		return ctx.Err()
	}))
	return errors.Join(failed...)
}

func (d *Directory) repairStream(ctx context.Context, e *entry) error {
	switch e.State {
	case Creating:
		if d.now() < e.CreatedAt+patience {
			return nil
		}
		_, err := d.complete(ctx, e)
		if errors.Is(err, ErrBasinDeleting) || errors.Is(err, ErrStreamDeleting) {
			return nil
		}
		return err
	case Deleting:
		_, err := d.advance(ctx, e)
		if errors.Is(err, ErrStreamDeleting) {
			return nil
		}
		return err
	case Deleted:
		_, err := d.purgeStream(ctx, e)
		return err
	}
	return nil
}

// repairDead clears the names under a dead basin's id, and notes since when there are none.
func (d *Directory) repairDead(ctx context.Context, row coordinator.Row) error {
	var dead deadBasinRow
	if err := decode(row.Value, &dead); err != nil {
		return err
	}
	var id segments.BasinID
	if err := id.UnmarshalText([]byte(row.Key.Sort)); err != nil {
		return fmt.Errorf("%w: %w", ErrBadRow, err)
	}
	left, err := d.clearDead(ctx, Basin{id, dead.Name, Deleted})
	if err != nil {
		return err
	}
	switch empty := left == 0; {
	case empty == (dead.EmptySince != 0):
		return nil
	case empty:
		dead.EmptySince = d.now()
	default:
		dead.EmptySince = 0
	}
	_, err = d.put(ctx, row.Key, &dead, row.Version)
	var m *moved
	if errors.As(err, &m) {
		return nil
	}
	return err
}

// clearDead counts the rows that are left under a dead basin's id.
func (d *Directory) clearDead(ctx context.Context, b Basin) (left int, err error) {
	err = d.eachStream(ctx, b, func(e *entry) error {
		if e.State != Deleted {
			left++
			return d.kill(ctx, e)
		}
		purged, err := d.purgeStream(ctx, e)
		if !purged {
			left++
		}
		return err
	})
	if err != nil {
		return left, err
	}
	rows, err := d.Table.List(ctx, deadPart(b.ID), "", "", 1)
	return left + len(rows), err
}
