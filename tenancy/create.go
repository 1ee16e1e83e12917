package tenancy

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// wish is what a stream is to be if it has to be made.
type wish struct {
	settings Settings
	request  string // digest of the creating request, if it can be repeated
	auto     way    // makes it only if the basin allows that for the use; 0 always
}

// allowed says whether the basin lets the stream be made.
func (w *wish) allowed(b *basin) error {
	switch {
	case w.auto != 0 && !(w.auto&onAppend != 0 && b.Config.CreateOnAppend) && !(w.auto&onRead != 0 && b.Config.CreateOnRead):
		return ErrStreamNotFound
	case b.State == Deleting:
		return ErrBasinDeleting
	}
	return nil
}

// provision makes a stream unless there is one, and tells which. The basin is as it was read before.
func (d *Directory) provision(ctx context.Context, basinName, name string, w wish) (entry, basin, bool, error) {
	if err := w.settings.check(); err != nil {
		return entry{}, basin{}, false, err
	}
	for n := 0; n < attempts && pause(ctx, n); n++ {
		b, err := d.basin(ctx, basinName)
		if err == nil && w.auto == 0 {
			err = w.allowed(&b)
		}
		if err != nil {
			return entry{}, b, false, untouched(err)
		}
		e, err := d.getStream(ctx, place{b.ID, basinName, name})
		if err != nil || e.State == Active {
			return e, b, false, untouched(err)
		}
		// Half made or half gone by somebody else: on with that, and look again. Nothing of this call is written yet.
		again, err := d.advance(ctx, &e)
		if err == nil && !again {
			err = w.allowed(&b)
		}
		if err != nil {
			return e, b, false, untouched(err)
		}
		if again {
			continue
		}
		e, err = d.create(ctx, &b, e, &w)
		if !errors.Is(err, errGone) {
			return e, b, err == nil, err
		}
	}
	return entry{}, basin{}, false, exhausted(ctx)
}

// errGone: what was to be changed is no longer what it was. Nothing was changed, and the caller looks again.
var errGone = errors.New("changed meanwhile")

// create takes a free name through the three steps of protocol 9: the entry, the head, the entry active. Errors other
// than answers and errGone are in doubt once the entry may be there, since anyone who meets it completes it.
func (d *Directory) create(ctx context.Context, b *basin, free entry, w *wish) (entry, error) {
	config := b.Config.Effective(w.settings)
	e := entry{place: free.place, streamRow: streamRow{
		State: Creating, ID: segments.NewStreamID(), CreatedAt: d.now(),
		Cipher: b.Config.StreamCipher, Request: w.request, Config: &config,
	}}
	v, err := d.put(ctx, streamKey(e.basin, e.name), &e.streamRow, free.v)
	var m *moved
	switch {
	case errors.As(err, &m):
		found := streamRow{}
		if derr := decode(m.found.Value, &found); derr != nil || found.ID != e.ID {
			if m.doubt {
				return e, inDoubt(err)
			}
			return e, errGone
		}
		// Ours was there, and somebody has already taken it further.
		e.streamRow, v = found, m.found.Version
	case err != nil:
		return e, untouched(err)
	}
	e.v = v
	// From here on others may complete it, so that giving up could only be called in doubt.
	ctx, cancel := d.settle(ctx)
	defer cancel()
	made, err := d.complete(ctx, &e)
	return made, inDoubt(err)
}

// complete is what is left of a creation once the entry is there: whoever meets the entry does the same. It returns
// the active entry; ErrStreamDeleting if it was made and is being deleted again; ErrBasinDeleting or ErrBasinNotFound
// if the creation came too late, when it has been undone.
func (d *Directory) complete(ctx context.Context, e *entry) (entry, error) {
	var err error
	for n := 0; n < attempts && pause(ctx, n); n++ {
		switch e.State {
		case Active:
			return *e, nil
		case Creating:
		default:
			return *e, ErrStreamDeleting
		}
		var next entry
		if next, err = d.step(ctx, e); err == nil {
			return next, nil
		}
		if errors.Is(err, ErrBasinDeleting) || errors.Is(err, ErrBasinNotFound) {
			return *e, err
		}
		// Read what is there before the next attempt: others may be completing it too.
		now, rerr := d.getStream(ctx, e.place)
		if rerr != nil {
			continue
		}
		if now.ID != e.ID {
			return *e, ErrStreamDeleting // made, deleted and gone: the entry never leaves otherwise
		}
		*e = now
	}
	if err == nil {
		err = ctx.Err()
	}
	return *e, fmt.Errorf("complete creation: %w", err)
}

// step tries the rest of a creation once.
func (d *Directory) step(ctx context.Context, e *entry) (entry, error) {
	// The entry is there, so a deletion of the basin that this read does not see yet will find the entry.
	b, err := d.anyBasin(ctx, e.basinName)
	switch {
	case err != nil:
	case b.ID != e.basin:
		err = ErrBasinNotFound
	case b.State == Deleting:
		err = ErrBasinDeleting
	}
	if errors.Is(err, ErrBasinDeleting) || errors.Is(err, ErrBasinNotFound) {
		return d.abandon(ctx, e, err)
	}
	if err != nil {
		return *e, err
	}
	if err := d.createHead(ctx, e); err != nil {
		return *e, err
	}
	next := *e
	next.State, next.Config = Active, nil
	next.v, err = d.put(ctx, streamKey(e.basin, e.name), &next.streamRow, e.v)
	return next, err
}

// abandon undoes a creation in a basin that gets no new streams, and returns reason; unless the entry was completed
// before the deletion began, which is a success.
func (d *Directory) abandon(ctx context.Context, e *entry, reason error) (entry, error) {
	dying := *e
	err := d.markDeleting(ctx, &dying)
	switch {
	case err != nil:
		return *e, err
	case dying.State == Active:
		return dying, nil
	}
	if err := d.finish(ctx, &dying, false); err != nil {
		// The mark is enough: no creation gets past it, and the basin's sweep does the rest.
		d.Log.Warn().Err(err).Stringer("stream", e.ID).Msg("abandoned creation is left to the sweep")
	}
	return *e, reason
}

// createHead makes the head that the entry asks for, at the version that the entry will have when it is active. One that is there is this one: ids are never reused. It may be a
// tombstone, if the entry was marked meanwhile; then the entry has moved, and nobody makes it active.
func (d *Directory) createHead(ctx context.Context, e *entry) error {
	err := d.Heads.Create(ctx, coordinator.Head{
		V: e.v + 1, Basin: e.basin, Stream: e.ID, State: coordinator.Active, StateID: coordinator.NewOpID(),
		Config: *e.Config, ConfigV: 1, CreatedAt: e.CreatedAt, Cipher: e.Cipher,
	})
	if errors.Is(err, coordinator.ErrExists) {
		return nil
	}
	return err
}
