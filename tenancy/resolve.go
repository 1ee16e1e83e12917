package tenancy

import (
	"context"
	"errors"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// Use is what a stream is resolved for: it decides whether the basin creates one that is absent, and with what settings
// over the basin's defaults. The zero Use never has one created.
type Use struct {
	way      way
	settings Settings
}

// Append and Read are the uses. A check-tail and a following read are reads.
var Append, Read = Use{way: onAppend}, Use{way: onRead}

// way is what a stream is wanted for: 0 to be made, ifAllowed to be made if the basin says so for the use that is added.
type way int

const (
	onAppend way = 1 << iota
	onRead
	ifAllowed
)

// Making is the same use, with settings for a stream that has to be made. One that is there keeps its own.
func (u Use) Making(settings Settings) Use {
	u.settings = settings
	return u
}

// Resolve returns the stream that has the name, from memory if it was seen before. A remembered answer can be old,
// never wrong: it names one incarnation for good, and that incarnation's head refuses whoever comes too late. A
// caller who meets such a head calls ResolveFresh. That a stream is absent is never remembered.
//
// An absent stream is created if the basin says so for the use. Otherwise ErrStreamNotFound, ErrBasinNotFound;
// ErrStreamDeleting; or ErrBasinDeleting for a creation that comes too late.
func (d *Directory) Resolve(ctx context.Context, basin, stream string, use Use) (coordinator.StreamRef, error) {
	account := accountOf(ctx)
	if ref, ok := d.streams.GetIfPresent(names{account, basin, stream}); ok {
		return ref, nil
	}
	return d.resolve(ctx, basin, stream, use)
}

// ResolveFresh is Resolve with every read begun after the call: for when a head turned out to be absent, deleting or
// deleted. It answers why, or the incarnation that has the name now, with a head that was active when it was looked at.
func (d *Directory) ResolveFresh(ctx context.Context, basin, stream string, use Use) (coordinator.StreamRef, error) {
	account := accountOf(ctx)
	d.streams.Invalidate(names{account, basin, stream})
	d.basins.Invalidate(owned{account, basin})
	for n := 0; n < attempts && pause(ctx, n); n++ {
		ref, err := d.resolve(ctx, basin, stream, use)
		if err != nil {
			return ref, err
		}
		h, err := d.Heads.Load(ctx, ref.Stream)
		if err == nil && h.State == coordinator.Active {
			return ref, nil
		}
		if err != nil && !errors.Is(err, coordinator.ErrNotFound) {
			return ref, untouched(err)
		}
		d.streams.Invalidate(names{account, basin, stream})
		e := entry{place: place{ref.Basin, basin, stream}, streamRow: streamRow{ID: ref.Stream}}
		if err := d.closed(ctx, &e); err != nil {
			return coordinator.StreamRef{}, err
		}
	}
	return coordinator.StreamRef{}, exhausted(ctx)
}

func (d *Directory) resolve(ctx context.Context, basin, stream string, use Use) (coordinator.StreamRef, error) {
	if err := checkName("basin", basin); err != nil {
		return coordinator.StreamRef{}, err
	}
	e, err := d.remembered(ctx, basin, stream)
	if err == nil && e.State != Active {
		// Of all who race for the name, whoever makes it, each gets the one stream.
		e, _, _, err = d.provision(ctx, basin, stream, wish{settings: use.settings, auto: use.way | ifAllowed})
	}
	if err != nil {
		return coordinator.StreamRef{}, untouched(err)
	}
	d.streams.Set(names{accountOf(ctx), basin, stream}, e.ref())
	return e.ref(), nil
}
