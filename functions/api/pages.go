package api

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/recall"
	"github.com/tailrace-streams/tailrace/tenancy"
	"github.com/tailrace-streams/tailrace/wire"
)

// pages remembers what the directory answered for reads that need not be fresh: configs of basins and listings. What a
// request through this handler changes in a basin drops what is remembered of it.
type pages struct {
	cache *recall.Cache[string, pageKey, page]
	// waits bounds the reads that wait for a revision of a basin.
	waits *semaphore.Weighted
}

// pageKey names a config (without a kind of names) or a page of a listing, and for whom it is.
type pageKey struct {
	viewer             string
	kind               wire.NameKind
	listing            bool
	prefix, startAfter string
	limit              int
}

// page is one of three things the directory answered, with a moment before it was asked.
type page struct {
	asOf    time.Time
	basin   tenancy.BasinInfo // of config and streams
	config  tenancy.BasinConfig
	streams tenancy.StreamPage
	basins  tenancy.BasinPage
}

// maxPageWaits bounds the reads that wait at once for a revision of a basin that a fresh read did not have.
const maxPageWaits = 64

// allBasins is the group of the listings of basins, whose names are never empty.
const allBasins = ""

func newPages(bytes int64) *pages {
	return &pages{cache: recall.New[string, pageKey](bytes, bytes/4, pageBytes), waits: semaphore.NewWeighted(maxPageWaits)}
}

// pageBytes is about what a page takes in memory.
func pageBytes(p page) int64 {
	const fixed, perName = 1024, 224
	n := fixed
	for i := range p.streams.Streams {
		n += perName + len(p.streams.Streams[i].Name)
	}
	for i := range p.basins.Basins {
		n += perName + len(p.basins.Basins[i].Name) + len(p.basins.Basins[i].Location)
	}
	return int64(n)
}

// includes says whether a page includes the revision demanded. A fresh page that shows another life of the name than the
// revision's is an error: that will never change.
type includes func(p *page, fresh bool) (bool, error)

// get answers a read of a basin or a listing: from memory if its terms allow that and what is remembered includes what
// they demand, else from the directory.
func (h *handler) get(ctx context.Context, x *exchange, group string, key pageKey, t *terms, ask func(context.Context) (page, error), has includes) (page, error) {
	key.viewer = t.viewer
	if t.maxAge > 0 {
		if p, ok := h.pages.cache.Get(group, key); ok && recall.Age(p.asOf) <= t.maxAge {
			if ok, _ := has(&p, false); ok {
				return p, nil
			}
		}
	}
	look := func() (p page, ok bool, err error) {
		asOf := time.Now()
		if p, err = ask(ctx); err == nil {
			p.asOf = asOf
			ok, err = has(&p, true)
		}
		return p, ok, err
	}
	p, ok, err := look()
	if err == nil && !ok {
		p, err = h.lookUntil(ctx, x, t, p, look)
	}
	if err == nil && t.maxAge > 0 {
		h.pages.cache.Change(group, key, func(old page, ok bool) (page, bool) {
			if ok && old.asOf.After(p.asOf) {
				return old, true
			}
			return p, true
		})
	}
	return p, err
}

// lookUntil looks again, ever less often, until a page includes the revision demanded. Rows of the directory are read
// strongly, so a revision that anybody was told needs no second look.
func (h *handler) lookUntil(ctx context.Context, x *exchange, t *terms, p page, look func() (page, bool, error)) (page, error) {
	if t.Timeout > 0 {
		if !h.pages.waits.TryAcquire(1) {
			return page{}, fmt.Errorf("wait for a revision: too many wait: %w", coordinator.ErrOverloaded)
		}
		defer h.pages.waits.Release(1)
	}
	over := time.Now().Add(t.Timeout)
	for gap := 10 * time.Millisecond; ; gap = min(2*gap, 250*time.Millisecond) {
		left := time.Until(over)
		if left <= 0 {
			shown := &p.basin
			if b := p.listed(t.Min, everyName); b != nil {
				shown = b // to the caller as well: what does not show it was good enough
			}
			return page{}, &wire.RevisionNotReached{Current: h.told(x, basinRevision(shown))}
		}
		t := time.NewTimer(min(gap, left))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return page{}, ctx.Err()
		case <-h.o.Streams.Draining():
			t.Stop()
			return page{}, coordinator.ErrDraining
		}
		var ok bool
		var err error
		if p, ok, err = look(); err != nil || ok {
			return p, err
		}
	}
}

// hasBasin is includes for what shows the basin itself.
func (h *handler) hasBasin(x *exchange, t *terms) includes {
	return func(p *page, fresh bool) (bool, error) {
		switch {
		case t.Min == nil:
			return true, nil
		case p.basin.ID.String() == t.Min.Incarnation:
			return p.basin.Version >= t.Min.Version, nil
		case !fresh:
			return false, nil
		}
		return false, &wire.RevisionNotReached{Current: h.told(x, basinRevision(&p.basin))}
	}
}

// hasName is includes for a listing of streams, with a revision of one of them. A fresh listing has whatever anybody was
// told before; of a name that it does not show, too. One that is remembered has a creation or deletion if its row says so.
func (h *handler) hasName(x *exchange, t *terms, in view) includes {
	return func(p *page, fresh bool) (bool, error) {
		i := slices.IndexFunc(p.streams.Streams, func(s tenancy.StreamInfo) bool { return s.Name == t.Min.Stream && in.shows(s.Name) })
		if i < 0 {
			return fresh, nil
		}
		s := &p.streams.Streams[i]
		switch {
		case s.Ref.Stream.String() == t.Min.Incarnation:
			return fresh || s.Version >= t.Min.Version || !s.DeletedAt.IsZero(), nil
		case !fresh:
			return false, nil
		}
		return false, &wire.RevisionNotReached{Current: h.told(x, streamRevision(p.basin.Name, s))}
	}
}

// listed is the basin whose revision is demanded, as a listing shows it to the caller; nil if it does not.
func (p *page) listed(demanded *wire.Revision, in view) *tenancy.BasinInfo {
	if demanded == nil {
		return nil
	}
	i := slices.IndexFunc(p.basins.Basins, func(b tenancy.BasinInfo) bool { return b.Name == demanded.Basin && in.shows(b.Name) })
	if i < 0 {
		return nil
	}
	return &p.basins.Basins[i]
}

// everyName is a view without bounds.
var everyName = view{set: tenancy.AllNames}

// hasListed is includes for a listing of basins, with a revision of one of them. A fresh listing that does not show the
// name is as good as one that does, and so tells nothing of names that the caller may not read. Which basin it was that
// somebody demanded stays out of the page: others are shown it from memory.
func (h *handler) hasListed(x *exchange, t *terms, in view) includes {
	return func(p *page, fresh bool) (bool, error) {
		b := p.listed(t.Min, in)
		if b == nil {
			return fresh || t.Min == nil, nil
		}
		return h.hasBasin(x, t)(&page{basin: *b}, fresh)
	}
}

// changed drops what is remembered of a basin that a request has changed something in, and the listings of basins if
// that was the basin itself.
func (s *pages) changed(basin string, itself bool) {
	s.cache.Drop(basin)
	if itself {
		s.cache.Drop(allBasins)
	}
}
