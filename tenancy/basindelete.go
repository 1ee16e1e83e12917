package tenancy

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// DeleteBasin begins the deletion of a basin: no stream is created in it any more. Its streams are deleted in the
// background and then the basin; until the sweep reaches them they go on working. Repeating it succeeds.
func (d *Directory) DeleteBasin(ctx context.Context, name string) (BasinInfo, error) {
	for n := 0; n < attempts && pause(ctx, n); n++ {
		b, err := d.basin(ctx, name)
		switch {
		case err != nil:
			return BasinInfo{}, untouched(err)
		case b.State == Deleting:
			return b.info(), nil
		}
		if err := d.putBasinWork(ctx, finishBasin, &b, d.now()); err != nil {
			return BasinInfo{}, &early{err}
		}
		marked := b
		marked.State, marked.DeletedAt = Deleting, d.now()
		marked.v, err = d.put(ctx, basinKey(name), &marked.basinRow, b.v)
		var m *moved
		if !errors.As(err, &m) {
			return marked.info(), untouched(err)
		}
		var found basinRow
		if m.doubt && m.found.Version != 0 {
			if err := decode(m.found.Value, &found); err != nil {
				return BasinInfo{}, inDoubt(err)
			}
		}
		if m.doubt && found.ID != b.ID {
			return marked.info(), nil // it went all the way; whoever has the name now is not meant
		}
	}
	return BasinInfo{}, exhausted(ctx)
}

func (d *Directory) putBasinWork(ctx context.Context, kind workKind, b *basin, due uint64) error {
	w := workRow{Kind: kind, Due: due, Basin: b.ID, BasinName: b.name}
	return d.putOnce(ctx, w.key(), &w)
}

// sweepPages bounds how many pages of a dying basin's names one sweep goes through.
const sweepPages = 32

// sweepBasin takes a dying basin further: pages of its names, each stream made a tombstone, over and over until one
// whole pass has met only tombstones; then the basin is one itself. The cursor is kept in the work row, so that the
// next sweep, in whatever process, goes on from there.
func (d *Directory) sweepBasin(ctx context.Context, w *work) (bool, error) {
	b, err := d.getBasin(ctx, w.BasinName)
	switch {
	case err != nil:
		return false, err
	case b.ID != w.Basin || b.State == Deleted:
		return true, d.drop(ctx, w.key, w.v)
	case b.State == Active: // the mark may be on its way
		if d.now() > w.Due+patience {
			return true, d.drop(ctx, w.key, w.v)
		}
		return false, nil
	}
	for range sweepPages {
		last, err := d.sweepPage(ctx, w)
		if err != nil {
			return false, err
		}
		// A row put before the mark is seen by any listing begun after it, so one pass would do. The second is the
		// proof, by listing, that the first has left nothing.
		if last && !w.Dirty {
			if err := d.finishBasin(ctx, &b); err != nil {
				return false, err
			}
			return true, d.drop(ctx, w.key, w.v)
		}
		if last {
			w.Cursor, w.Dirty = "", false
		}
		v, err := d.put(ctx, w.key, &w.workRow, w.v)
		var m *moved
		if errors.As(err, &m) {
			return false, nil // another process is at it, and its cursor is as good
		}
		if err != nil {
			return false, err
		}
		w.v = v
	}
	return false, nil
}

// sweepPage deletes the streams of one page and moves the cursor over it; last if no name follows.
func (d *Directory) sweepPage(ctx context.Context, w *work) (last bool, err error) {
	const limit = 1000
	rows, err := d.Table.List(ctx, streamsPart(w.Basin), "", w.Cursor, limit)
	if err != nil {
		return false, fmt.Errorf("list streams of a dying basin: %w", err)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(d.Workers)
	for _, row := range rows {
		e := entry{place: place{w.Basin, w.BasinName, row.Key.Sort}, v: row.Version}
		if err := decode(row.Value, &e.streamRow); err != nil {
			_ = g.Wait()
			return false, err
		}
		if e.State == Deleted {
			continue
		}
		w.Dirty = true
		g.Go(func() error { return d.kill(gctx, &e) })
	}
	if err := g.Wait(); err != nil {
		return false, err
	}
	if len(rows) > 0 {
		w.Cursor = rows[len(rows)-1].Key.Sort
	}
	return len(rows) < limit, nil
}

// kill takes a stream of a dying basin from any state to its tombstone.
func (d *Directory) kill(ctx context.Context, e *entry) error {
	for n := 0; n < attempts && pause(ctx, n); n++ {
		if e.State == Deleting || e.State == Deleted {
			return d.finish(ctx, e, false)
		}
		if err := d.markDeleting(ctx, e); err != nil {
			return err
		}
	}
	return exhausted(ctx)
}

// finishBasin frees the name of a basin without streams. Its id is noted first: rows of creations that came too
// late, and objects, are found by it.
func (d *Directory) finishBasin(ctx context.Context, b *basin) error {
	now := d.now()
	if err := d.putOnce(ctx, deadBasinKey(b.ID), &deadBasinRow{Name: b.name, DeletedAt: now}); err != nil {
		return err
	}
	if err := d.putBasinWork(ctx, purgeBasin, b, now+uint64(d.TombstoneAge.Milliseconds())); err != nil {
		return err
	}
	d.basins.Invalidate(owned{b.account(), b.name})
	grave := basinRow{State: Deleted, ID: b.ID, CreatedAt: b.CreatedAt, DeletedAt: now}
	_, err := d.put(ctx, basinKey(b.name), &grave, b.v)
	var m *moved
	if errors.As(err, &m) {
		return nil // from deleting there is only one way on
	}
	return err
}
