package tenancy

import (
	"context"
	"errors"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// DeleteStream begins the deletion of a stream: when it returns, no append to it can succeed any more, anywhere. The
// name is freed in the background. Repeating it while the deletion is pending succeeds.
func (d *Directory) DeleteStream(ctx context.Context, basin, name string) (StreamInfo, error) {
	return d.deleteStream(ctx, basin, name, segments.StreamID{})
}

// DeleteIncarnation is DeleteStream for one incarnation: ErrStreamNotFound if the name belongs to another by now.
func (d *Directory) DeleteIncarnation(ctx context.Context, basin, name string, id segments.StreamID) (StreamInfo, error) {
	return d.deleteStream(ctx, basin, name, id)
}

func (d *Directory) deleteStream(ctx context.Context, basin, name string, only segments.StreamID) (StreamInfo, error) {
	find := d.basin
	if !only.IsZero() {
		find = d.anyBasin // who knows the id acts for the store, not for an account
	}
	for n := 0; n < attempts && pause(ctx, n); n++ {
		b, err := find(ctx, basin)
		if err != nil {
			return StreamInfo{}, untouched(err)
		}
		e, err := d.getStream(ctx, place{b.ID, basin, name})
		switch {
		case err != nil:
			return StreamInfo{}, untouched(err)
		case e.State == "" || e.State == Deleted || !only.IsZero() && e.ID != only:
			return StreamInfo{}, ErrStreamNotFound
		case e.State == Creating:
			if _, err := d.advance(ctx, &e); err != nil && !errors.Is(err, ErrBasinDeleting) {
				return StreamInfo{}, untouched(err)
			}
			continue
		}
		v, err := d.beginDelete(ctx, &e)
		if err != nil {
			return StreamInfo{}, err
		}
		d.streams.Invalidate(names{b.account(), basin, name})
		info := e.info()
		info.HeadV = v
		return info, nil
	}
	return StreamInfo{}, exhausted(ctx)
}

// beginDelete takes an active or deleting stream to where its head refuses appends. The work row comes first: should
// everything after it be lost, the sweep finds a stream that is deleting, or one that is still active. It returns the v
// of the closed head, 0 if others had closed it.
func (d *Directory) beginDelete(ctx context.Context, e *entry) (v uint64, err error) {
	if e.State == Active {
		if err := d.putWork(ctx, finishStream, e, d.DeleteLinger); err != nil {
			return 0, &early{err} // even if the row is there: it does nothing by itself
		}
		if err := d.markDeleting(ctx, e); err != nil {
			return 0, untouched(err)
		}
	}
	if e.State == Deleted {
		return 0, nil
	}
	ctx, cancel := d.settle(ctx)
	defer cancel()
	v, err = d.forwardHead(ctx, e, coordinator.Deleting)
	return v, inDoubt(err)
}

// markDeleting marks an entry that is not deleting yet. On success e is what was found or made: deleting or deleted;
// or active, if the entry was creating and somebody completed it first.
func (d *Directory) markDeleting(ctx context.Context, e *entry) error {
	marked := *e
	marked.State, marked.DeletedAt, marked.Config = Deleting, d.now(), nil
	v, err := d.put(ctx, streamKey(e.basin, e.name), &marked.streamRow, e.v)
	var m *moved
	switch {
	case err == nil:
		marked.v = v
		*e = marked
		return nil
	case !errors.As(err, &m):
		return err
	}
	found := entry{place: e.place, v: m.found.Version}
	if m.found.Version != 0 {
		if err := decode(m.found.Value, &found.streamRow); err != nil {
			return err
		}
	}
	if found.ID != e.ID {
		// It went all the way meanwhile; its name is free or somebody else's.
		e.State = Deleted
		return nil
	}
	*e = found
	return nil
}

// finish makes a deleting stream deleted and frees its name. It may be repeated at any time, since it touches nothing
// but this incarnation: its head, its rows by id, and the name's row only in the version that is this one's. With
// keep, the tombstone gets a work row of its own; in a dying basin it goes with the rest.
func (d *Directory) finish(ctx context.Context, e *entry, keep bool) error {
	if e.State != Deleting {
		return nil
	}
	if _, err := d.forwardHead(ctx, e, coordinator.Deleted); err != nil {
		return err
	}
	if d.OnDeleted != nil {
		d.OnDeleted(e.ref())
	}
	// Both rows are there before the name stops leading to the id: a walk always finds it in one place or the other.
	now := d.now()
	if err := d.putOnce(ctx, deadKey(e.ref()), &deadRow{Name: e.name, DeletedAt: now}); err != nil {
		return err
	}
	if keep {
		if err := d.putWork(ctx, purgeStream, e, d.TombstoneAge); err != nil {
			return err
		}
	}
	grave := entry{place: e.place, streamRow: streamRow{
		State: Deleted, ID: e.ID, CreatedAt: e.CreatedAt, DeletedAt: now,
	}}
	_, err := d.put(ctx, streamKey(e.basin, e.name), &grave.streamRow, e.v)
	var m *moved
	if errors.As(err, &m) {
		return nil // from deleting there is only one way on, and somebody else has taken it
	}
	return err
}

// putWork notes work on a stream for when delay has passed.
func (d *Directory) putWork(ctx context.Context, kind workKind, e *entry, delay time.Duration) error {
	w := workRow{
		Kind: kind, Due: d.now() + uint64(delay.Milliseconds()), Basin: e.basin, Stream: e.ID, BasinName: e.basinName, Name: e.name,
	}
	return d.putOnce(ctx, w.key(), &w)
}

// purge removes the tombstone of a name. A removal whose reply is lost may come late, and finds the version that it
// names again only in a row that began anew: so then the tombstone moves on to the next version and is kept as long
// as any other; again notes the work for then.
func (d *Directory) purge(ctx context.Context, key coordinator.Key, grave record, version uint64, again func() error) error {
	err := d.drop(ctx, key, version)
	if err == nil || coordinator.Definite(err) {
		return err
	}
	if err := again(); err != nil {
		return err
	}
	_, err = d.put(ctx, key, grave, version)
	var m *moved
	if errors.As(err, &m) {
		return nil // the removal took place, or another process is at it
	}
	return err
}
