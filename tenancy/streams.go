package tenancy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// StreamInfo is a stream as listings show it. DeletedAt is zero unless it is being deleted; Cipher is empty for none.
type StreamInfo struct {
	Name      string
	Ref       coordinator.StreamRef
	CreatedAt time.Time
	DeletedAt time.Time
	Cipher    string
	// Version is that of the directory's row: it names the revision of a creation. HeadV is the v of the stream's head,
	// where the call has read or changed it, else 0. Heads begin at the version of the row that makes them active, so
	// that a head always includes the revision of its creation.
	Version, HeadV uint64
}

// V is the version that names the state which the call has made or read, in the one order of all states of the stream.
// A deletion is named by the v of the head it closed: by the version of its row it would look older than the appends
// before it.
func (s *StreamInfo) V() uint64 { return max(s.Version, s.HeadV) }

// place is where a stream's name is kept.
type place struct {
	basin     segments.BasinID
	basinName string
	name      string
}

// entry is a stream's row as it was read; without a row, State is empty and v is 0.
type entry struct {
	streamRow
	place
	v uint64
}

func (e *entry) ref() coordinator.StreamRef {
	return coordinator.StreamRef{Basin: e.basin, Stream: e.ID}
}

func (e *entry) info() StreamInfo {
	return StreamInfo{
		Name: e.name, Ref: e.ref(), CreatedAt: toTime(e.CreatedAt), DeletedAt: toTime(e.DeletedAt),
		Cipher: e.Cipher, Version: e.v,
	}
}

func (e *entry) under(h *coordinator.Head) StreamInfo {
	info := e.info()
	info.HeadV = h.V
	return info
}

// CreateStream makes a stream. A non-empty token makes it idempotent, as in CreateBasin.
func (d *Directory) CreateStream(ctx context.Context, basin, name string, settings Settings, token string) (StreamInfo, Outcome, error) {
	request := digest(token, &settings)
	e, _, created, err := d.provision(ctx, basin, name, wish{settings: settings, request: request})
	switch {
	case err != nil:
		return StreamInfo{}, "", err
	case created:
		return e.info(), Created, nil
	case request != "" && request == e.Request:
		return e.info(), Noop, nil
	}
	return StreamInfo{}, "", ErrStreamExists
}

// EnsureStream makes a stream or replaces its config, resolved against the basin's current defaults. What the request
// leaves out is reset, except for fencing. The outcome compares effective configs.
func (d *Directory) EnsureStream(ctx context.Context, basin, name string, settings Settings) (StreamInfo, Outcome, error) {
	for n := 0; n < attempts && pause(ctx, n); n++ {
		e, b, created, err := d.provision(ctx, basin, name, wish{settings: settings})
		if err != nil {
			return StreamInfo{}, "", err
		}
		if created {
			return e.info(), Created, nil
		}
		h, changed, err := d.updateConfig(ctx, &e, func(old coordinator.StreamConfig) coordinator.StreamConfig {
			replaced := b.Config.Effective(settings)
			if settings.Fencing == nil {
				replaced.Fencing = old.Fencing
			}
			return replaced
		})
		switch {
		case errors.Is(err, errGone):
			if err := d.closed(ctx, &e); err != nil {
				return StreamInfo{}, "", err
			}
			continue
		case err != nil:
			return StreamInfo{}, "", err
		case changed:
			return e.under(&h), Updated, nil
		}
		return e.under(&h), Noop, nil
	}
	return StreamInfo{}, "", exhausted(ctx)
}

// ReconfigureStream applies a patch to a stream's config and returns the result. Null takes the basin's current
// default.
func (d *Directory) ReconfigureStream(ctx context.Context, basin, name string, patch Patch) (StreamInfo, coordinator.StreamConfig, error) {
	if err := patch.values().check(); err != nil {
		return StreamInfo{}, coordinator.StreamConfig{}, err
	}
	for n := 0; n < attempts && pause(ctx, n); n++ {
		b, err := d.basin(ctx, basin)
		if err != nil {
			return StreamInfo{}, coordinator.StreamConfig{}, untouched(err)
		}
		e, err := d.findIn(ctx, b.ID, basin, name)
		if err != nil {
			return StreamInfo{}, coordinator.StreamConfig{}, untouched(err)
		}
		h, _, err := d.updateConfig(ctx, &e, func(old coordinator.StreamConfig) coordinator.StreamConfig {
			return patch.onStream(old, b.Config.defaults())
		})
		if !errors.Is(err, errGone) {
			return e.under(&h), h.Config, err
		}
		if err := d.closed(ctx, &e); err != nil {
			return StreamInfo{}, coordinator.StreamConfig{}, err
		}
	}
	return StreamInfo{}, coordinator.StreamConfig{}, exhausted(ctx)
}

// GetStream returns a stream with its effective config, strongly.
func (d *Directory) GetStream(ctx context.Context, basin, name string) (StreamInfo, coordinator.StreamConfig, error) {
	for n := 0; n < attempts && pause(ctx, n); n++ {
		e, err := d.find(ctx, basin, name)
		if err != nil {
			return StreamInfo{}, coordinator.StreamConfig{}, untouched(err)
		}
		h, err := d.Heads.Load(ctx, e.ID)
		switch {
		case err == nil && h.State == coordinator.Active:
			return e.under(&h), h.Config, nil
		case err != nil && !errors.Is(err, coordinator.ErrNotFound):
			return StreamInfo{}, coordinator.StreamConfig{}, untouched(err)
		}
		if err := d.closed(ctx, &e); err != nil {
			return StreamInfo{}, coordinator.StreamConfig{}, err
		}
	}
	return StreamInfo{}, coordinator.StreamConfig{}, exhausted(ctx)
}

// closed is for a stream whose row was active and whose head was not. Mostly it has been deleted between the two
// reads, and the caller looks again. But a stream that is deleted for being empty has its head closed first, under the
// condition that it is empty: should that deletion have stopped there, this goes on with it.
func (d *Directory) closed(ctx context.Context, e *entry) error {
	now, err := d.getStream(ctx, e.place)
	if err != nil || now.State != Active || now.ID != e.ID {
		return untouched(err)
	}
	h, err := d.Heads.Load(ctx, e.ID)
	switch {
	case errors.Is(err, coordinator.ErrNotFound):
		return untouched(fmt.Errorf("%w: the head of an active stream", coordinator.ErrStorage))
	case err != nil || h.State == coordinator.Active:
		return untouched(err)
	}
	if _, err := d.beginDelete(ctx, &now); err != nil {
		return onlooker(err)
	}
	return ErrStreamDeleting
}

// getStream reads a name strongly, whatever its state.
func (d *Directory) getStream(ctx context.Context, p place) (entry, error) {
	e := entry{place: p}
	if err := checkName("stream", p.name); err != nil {
		return e, err
	}
	v, err := d.get(ctx, streamKey(p.basin, p.name), &e.streamRow)
	e.v = v
	return e, err
}

// find returns an active stream, strongly. It completes what it meets half done.
func (d *Directory) find(ctx context.Context, basin, name string) (entry, error) {
	if err := checkName("basin", basin); err != nil {
		return entry{}, err
	}
	if e, err := d.remembered(ctx, basin, name); err != nil || e.State == Active {
		return e, err
	}
	b, err := d.basin(ctx, basin)
	if err != nil {
		return entry{}, err
	}
	return d.findIn(ctx, b.ID, basin, name)
}

// remembered looks a name up under the basin id that was seen last, if there is one. A basin's id is never reused,
// and its streams are all tombstones before its name is freed: an active row under a remembered id is as good as under
// a fresh one. Anything else decides nothing.
func (d *Directory) remembered(ctx context.Context, basin, name string) (entry, error) {
	id, ok := d.basins.GetIfPresent(owned{accountOf(ctx), basin})
	if !ok {
		return entry{}, nil
	}
	return d.getStream(ctx, place{id, basin, name})
}

// findIn is find in a basin whose row was just read.
func (d *Directory) findIn(ctx context.Context, id segments.BasinID, basin, name string) (entry, error) {
	for n := 0; n < attempts && pause(ctx, n); n++ {
		e, err := d.getStream(ctx, place{id, basin, name})
		if err != nil || e.State == Active {
			return e, err
		}
		again, err := d.advance(ctx, &e)
		switch {
		case errors.Is(err, ErrBasinDeleting):
			return e, ErrStreamNotFound // it never came to be
		case err != nil:
			return e, err
		case !again:
			return e, ErrStreamNotFound
		}
	}
	return entry{}, exhausted(ctx)
}

// advance takes an entry that somebody left half done on to where it was going, and reports whether it is to be read
// again. Without a row, or with a tombstone, there is nothing to do.
func (d *Directory) advance(ctx context.Context, e *entry) (again bool, err error) {
	switch e.State {
	case Creating:
		_, err := d.complete(ctx, e)
		return true, onlooker(err)
	case Deleting:
		if d.now() < e.DeletedAt+uint64(d.DeleteLinger.Milliseconds()) {
			return false, ErrStreamDeleting
		}
		return true, onlooker(d.finish(ctx, e, true))
	}
	return false, nil
}
