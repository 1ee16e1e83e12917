package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator/internal/hooks"
	"github.com/tailrace-streams/tailrace/segments"
)

// CollectOptions say what one collection of a basin looks at.
type CollectOptions struct {
	// Grace is how old an object must be before it is a candidate. It is economy only: safety rests on the horizons.
	Grace time.Duration
	// Streams calls visit with every stream of the basin that may have data, deleted ones included.
	Streams func(ctx context.Context, visit func(segments.StreamID) error) error
	// MaxObjects bounds the candidates that are held in memory at once; 100,000. A basin that has more is collected
	// in several rounds, one part of its listing after the other.
	MaxObjects int
	// DryRun deletes nothing and raises nothing.
	DryRun bool
}

// CollectReport counts what a collection met.
type CollectReport struct {
	Candidates  int   // objects older than the grace
	Named       int   // of them, reached from a head
	Quarantined int   // kept because they cannot be read, or belong to a stream that is not known
	Deleted     int   // deleted, or to be deleted in a dry run
	Failed      int   // not deleted because the store refused
	Bytes       int64 // size of what was deleted
}

// candidate is an object that may be garbage.
type candidate struct {
	key  string
	id   segments.ObjectID
	page bool
	size int64
}

// Collect deletes the objects of a basin that no head reaches (protocol 7): replaced pages, retired data, and what
// processes that died left behind. It is safe while appenders and movers work, sleep for any time and wake up: before
// an object goes, the horizon of every stream in it is raised to its label, so that nobody can name it any more, and
// only then is it looked for once more.
func (c *Coordinator) Collect(ctx context.Context, basin segments.BasinID, o CollectOptions) (CollectReport, error) {
	orDefault(&o.MaxObjects, 100_000)
	k := &collector{c: c, o: o, basin: basin}
	for after := ""; ; {
		next, err := k.list(ctx, after)
		if err != nil {
			return k.report, err
		}
		if err := k.round(ctx); err != nil || next == "" {
			return k.report, err
		}
		after = next
	}
}

// round is a collection among the candidates that were listed.
func (k *collector) round(ctx context.Context) error {
	candidates, quarantined := len(k.objects), k.report.Quarantined
	if candidates == 0 {
		return nil
	}
	k.report.Candidates += candidates
	err := k.o.Streams(ctx, func(id segments.StreamID) error { return k.dropNamed(ctx, id) })
	if err != nil {
		return fmt.Errorf("collect: look for what is named: %w", err)
	}
	owners, err := k.owners(ctx)
	if err != nil {
		return err
	}
	for _, id := range inOrder(owners) {
		if err := k.exclude(ctx, id, owners); err != nil {
			return fmt.Errorf("collect: %w", err)
		}
	}
	k.report.Named += candidates - len(k.objects) - (k.report.Quarantined - quarantined)
	return k.delete(ctx)
}

// inOrder lists the keys of a map, so that no chance decides the order of store calls.
func inOrder[K ~[16]byte, V any](m map[K]V) []K {
	return slices.SortedFunc(maps.Keys(m), func(a, b K) int {
		x, y := [16]byte(a), [16]byte(b)
		return bytes.Compare(x[:], y[:])
	})
}

// collector is one collection under way. objects are the candidates of a round that are left.
type collector struct {
	c       *Coordinator
	o       CollectOptions
	basin   segments.BasinID
	horizon segments.Label // the largest label among the candidates
	lowest  segments.Label
	objects map[segments.ObjectID]candidate
	report  CollectReport
}

const listPage = 1000

// list gathers the objects older than the grace whose keys lie behind after, as many as may be held. It returns the key
// from which to go on, or "" if that were all.
func (k *collector) list(ctx context.Context, after string) (next string, err error) {
	k.objects, k.horizon, k.lowest = make(map[segments.ObjectID]candidate), 0, segments.MaxLabel
	for len(k.objects) < k.o.MaxObjects {
		if after, err = k.listPage(ctx, after); err != nil {
			return "", fmt.Errorf("collect: list objects: %w", err)
		}
		if after == "" {
			return "", nil
		}
	}
	return after, nil
}

// listPage adds the candidates of one page of the listing. It returns the last key of the page, or "" if there is
// nothing behind it.
func (k *collector) listPage(ctx context.Context, after string) (last string, err error) {
	prefix, old := segments.BasinPrefix(k.basin), k.c.o.Now().Add(-k.o.Grace)
	page, err := k.c.o.Objects.List(ctx, prefix, after, listPage)
	if err != nil {
		return "", err
	}
	for _, info := range page {
		kind, name, _ := strings.Cut(strings.TrimPrefix(info.Key, prefix), "/")
		id, err := segments.ParseObjectID(name)
		if err != nil || (kind != "segments" && kind != "pages") || info.Modified.After(old) {
			continue // not ours to judge, or too young
		}
		k.objects[id] = candidate{info.Key, id, kind == "pages", info.Size}
		k.horizon, k.lowest = max(k.horizon, id.Label()), min(k.lowest, id.Label())
	}
	if len(page) < listPage {
		return "", nil
	}
	return page[len(page)-1].Key, nil
}

// dropNamed takes off the list what a stream's head reaches. Of a deleted stream that is nothing: its state keeps
// every commit and splice out for good.
func (k *collector) dropNamed(ctx context.Context, id segments.StreamID) error {
	for attempt := 0; ; attempt++ {
		h, err := k.c.loadRetrying(ctx, id)
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.State == Deleted {
			return nil
		}
		err = k.dropReached(ctx, &h)
		if err == nil || attempt == maxMoveAttempts || !pause(ctx, k.c.backoff(attempt)) {
			return err
		}
		// A page is missing: it was replaced meanwhile. Start over from a fresh head; nothing has been deleted.
	}
}

func (k *collector) dropReached(ctx context.Context, h *Head) error {
	for i := range h.Log {
		delete(k.objects, h.Log[i].Object)
	}
	for i := range h.Pages {
		if err := k.dropPage(ctx, h, &h.Pages[i].Page); err != nil {
			return err
		}
	}
	return nil
}

func (k *collector) dropPage(ctx context.Context, h *Head, row *segments.Row) error {
	if row.Objects.Max < k.lowest || row.Objects.Min > k.horizon {
		return nil // nothing at or below it is a candidate
	}
	delete(k.objects, row.Child)
	p, err := k.c.reader.Page(ctx, h.Basin, h.Stream, row.Child)
	if err != nil {
		return err
	}
	for i := range p.Rows {
		if e := p.Rows[i].Entry; e != nil {
			delete(k.objects, e.Object)
		} else if err := k.dropPage(ctx, h, &p.Rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// owners reads whose data is in the objects that are left. What cannot be read is quarantined.
func (k *collector) owners(ctx context.Context) (map[segments.StreamID][]segments.ObjectID, error) {
	owners := make(map[segments.StreamID][]segments.ObjectID)
	for _, id := range inOrder(k.objects) {
		o := k.objects[id]
		streams, err := k.streamsOf(ctx, o)
		switch {
		case errors.Is(err, segments.ErrObjectNotFound):
			delete(k.objects, id) // somebody else collected it
		case errors.Is(err, segments.ErrCorrupt):
			k.quarantine(id, err)
		case err != nil:
			return nil, fmt.Errorf("collect: read %s: %w", o.key, err)
		}
		for _, s := range streams {
			owners[s] = append(owners[s], id)
		}
	}
	return owners, nil
}

func (k *collector) streamsOf(ctx context.Context, o candidate) ([]segments.StreamID, error) {
	if o.page {
		data, err := k.c.o.Objects.Get(ctx, o.key, 0, segments.MaxObjectBytes)
		if err != nil {
			return nil, err
		}
		p, err := segments.DecodePage(data)
		if err != nil {
			return nil, err
		}
		return []segments.StreamID{p.Stream}, nil
	}
	f, err := segments.ReadFooter(ctx, k.c.o.Objects, k.basin, o.id, o.size)
	if err != nil {
		return nil, err
	}
	var streams []segments.StreamID
	for i := range f.Chunks {
		if s := f.Chunks[i].Stream; !slices.Contains(streams, s) {
			streams = append(streams, s)
		}
	}
	return streams, nil
}

func (k *collector) quarantine(id segments.ObjectID, cause error) {
	if o, ok := k.objects[id]; ok {
		k.c.o.Log.Error().Err(cause).Str("object", o.key).Msg("object is quarantined: kept, though no stream reaches it")
		delete(k.objects, id)
		k.report.Quarantined++
	}
}

// exclude raises a stream's horizon over all candidates, then looks once more at what its head reaches.
func (k *collector) exclude(ctx context.Context, id segments.StreamID, owners map[segments.StreamID][]segments.ObjectID) error {
	if !slices.ContainsFunc(owners[id], func(o segments.ObjectID) bool { _, left := k.objects[o]; return left }) {
		return nil
	}
	if k.c.o.Hooks.Breaks(hooks.ReadBeforeRaise) {
		if err := k.dropNamed(ctx, id); err != nil {
			return err
		}
		return k.raise(ctx, id)
	}
	h, err := k.c.loadRetrying(ctx, id)
	if err == nil && h.Horizon < k.horizon && h.State != Deleted && !k.o.DryRun {
		err = k.raise(ctx, id)
	}
	switch {
	case errors.Is(err, ErrNotFound):
		for _, o := range owners[id] {
			k.quarantine(o, fmt.Errorf("stream %s is not known", id))
		}
		return nil
	case err != nil:
		return fmt.Errorf("raise horizon: %w", err)
	}
	return k.dropNamed(ctx, id)
}

// raise is sent until it is answered: the horizon only rises.
func (k *collector) raise(ctx context.Context, id segments.StreamID) error {
	for attempt := 0; ; attempt++ {
		_, err := k.c.change(ctx, id, &Change{ID: NewOpID(), RaiseHorizon: k.horizon})
		if err == nil || errors.Is(err, ErrNotFound) || !pause(ctx, k.c.backoff(attempt)) {
			return err
		}
	}
}

// delete removes what is left. What the store refuses comes up again at the next collection.
func (k *collector) delete(ctx context.Context) error {
	for ids := range slices.Chunk(inOrder(k.objects), listPage) {
		var keys []string
		for _, id := range ids {
			keys = append(keys, k.objects[id].key)
		}
		var failed map[string]error
		if !k.o.DryRun {
			failed = k.c.o.Objects.Delete(ctx, keys)
		}
		for _, id := range ids {
			if err := failed[k.objects[id].key]; err != nil {
				k.report.Failed++
				k.c.o.Log.Warn().Err(err).Str("object", k.objects[id].key).Msg("object could not be deleted")
				continue
			}
			k.report.Deleted++
			k.report.Bytes += k.objects[id].size
		}
	}
	return ctx.Err()
}

// Holding reports which of the given streams still have data in an object of the basin, reachable or not. It reads
// the footer of every segment and every page, so it is for rare questions: whether a deleted stream may be forgotten.
func (c *Coordinator) Holding(ctx context.Context, basin segments.BasinID, ids map[segments.StreamID]bool) (map[segments.StreamID]bool, error) {
	k := &collector{c: c, o: CollectOptions{Grace: -MaxClockError}, basin: basin}
	held := make(map[segments.StreamID]bool)
	for after := ""; ; {
		k.objects = make(map[segments.ObjectID]candidate)
		last, err := k.listPage(ctx, after)
		if err != nil {
			return nil, fmt.Errorf("look for data of deleted streams: %w", err)
		}
		for _, o := range k.objects {
			streams, err := k.streamsOf(ctx, o)
			switch {
			case errors.Is(err, segments.ErrObjectNotFound):
			case errors.Is(err, segments.ErrCorrupt):
				return ids, nil // it could be anybody's
			case err != nil:
				return nil, fmt.Errorf("look for data of deleted streams: read %s: %w", o.key, err)
			}
			for _, s := range streams {
				if ids[s] {
					held[s] = true
				}
			}
		}
		if last == "" {
			return held, nil
		}
		after = last
	}
}

// MaxClockError is how far a store's clock is allowed to run ahead of this process's where that matters: an object
// that seems to be from the future is still listed.
const MaxClockError = 24 * time.Hour
