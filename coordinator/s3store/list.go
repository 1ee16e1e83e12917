package s3store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

const (
	// readsAtOnce bounds the GETs of one listing.
	readsAtOnce = 16
	// spareNames is how many names more are asked for than rows are wanted: some may be tombstones.
	spareNames = 8
	mostNames  = 1000
	// buryAfter is how old a tombstone is that a listing removes: its own deletion has long been tried.
	buryAfter = time.Minute
)

// List implements coordinator.Table. A listing of the bucket gives the keys, in order, and a GET each the rows; what has the
// size of a tombstone is not read. Keys too long to be read off a name are read together with all that begin like them.
func (s *Store) List(ctx context.Context, part, prefix, after string, limit int) ([]coordinator.Row, error) {
	if err := coordinator.ValidatePart(part); err != nil {
		return nil, fmt.Errorf("list rows: %w", err)
	}
	start, any := startOf(prefix, after)
	if !any || limit <= 0 {
		return nil, ctx.Err()
	}
	l := &listing{store: s, part: part, prefix: prefix, folder: partFolder(part), page: min(limit+spareNames, mostNames)}
	if start != "" {
		l.last = l.folder + start
	}
	var rows []coordinator.Row
	for len(rows) < limit {
		paths, err := l.next(ctx, limit-len(rows))
		if err != nil {
			return nil, fmt.Errorf("list rows: %w", err)
		}
		if len(paths) == 0 {
			break
		}
		found, err := s.readRows(ctx, paths)
		if err != nil {
			return nil, fmt.Errorf("list rows: %w", err)
		}
		for _, row := range found {
			if row.Key.Part == part && row.Key.Sort > after && strings.HasPrefix(row.Key.Sort, prefix) {
				rows = append(rows, row)
			}
		}
	}
	if len(l.tombs) > 0 {
		s.bury(ctx, l.tombs)
	}
	return rows[:min(limit, len(rows))], nil
}

// readRows reads the rows at some paths, leaves out what is gone by now, and sorts them by key.
func (s *Store) readRows(ctx context.Context, paths []string) ([]coordinator.Row, error) {
	found := make([]*state[storedRow], len(paths))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readsAtOnce)
	for i, path := range paths {
		g.Go(func() (err error) {
			found[i], err = s.rows.read(ctx, path)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	rows := make([]coordinator.Row, 0, len(found))
	for i, f := range found {
		if f.value.version() == 0 {
			continue
		}
		if rowKey(f.value.Key) != paths[i] {
			return nil, mustBe(f.value, coordinator.Key{})
		}
		rows = append(rows, owned(f.value.Row))
	}
	slices.SortFunc(rows, func(a, b coordinator.Row) int { return strings.Compare(a.Key.Sort, b.Key.Sort) })
	return rows, nil
}

// listing walks the names of a part.
type listing struct {
	store                *Store
	part, prefix, folder string
	last                 string // the last path seen, or where to start
	page                 int    // how many names the next request asks for
	names                []segments.ObjectInfo
	complete             bool
	tombs                []string
}

// next returns the paths of the next rows, about n of them; none if there are no more. Keys that are not whole in a path come
// with all others that begin alike, and with those alone, since only what they hold tells their order.
func (l *listing) next(ctx context.Context, n int) (paths []string, err error) {
	run := "" // what the keys begin with that are being taken together
	for {
		info, ok, err := l.peek(ctx)
		if err != nil || !ok {
			return paths, err
		}
		sort, whole, err := parsePath(strings.TrimPrefix(info.Key, l.folder))
		if err != nil {
			return nil, fmt.Errorf("%q is not a row's: %w", info.Key, ErrCorrupt)
		}
		begins := strings.HasPrefix(sort, l.prefix) || !whole && strings.HasPrefix(l.prefix, sort)
		another := run != "" && (whole || sort != run) || run == "" && !whole
		if !begins || len(paths) > 0 && (another || run == "" && len(paths) >= n) {
			return paths, nil
		}
		run = ""
		if !whole {
			run = sort
		}
		l.names = l.names[1:]
		if info.Size >= liveBytes {
			paths = append(paths, info.Key)
		} else {
			l.tombstone(info)
		}
	}
}

func (l *listing) tombstone(info segments.ObjectInfo) {
	now := time.Now().Add(l.store.objects.Clock().Offset)
	if len(l.tombs) < mostNames && l.store.usedOnce(l.part) && now.Sub(info.Modified) > buryAfter {
		l.tombs = append(l.tombs, info.Key)
	}
}

// peek returns the next name, which stays the next until it is taken off names.
func (l *listing) peek(ctx context.Context) (info segments.ObjectInfo, ok bool, err error) {
	if len(l.names) == 0 && !l.complete {
		l.names, err = l.store.objects.List(ctx, l.folder, l.last, l.page)
		if err != nil {
			return info, false, err
		}
		l.complete = len(l.names) < l.page
		l.page = mostNames
		if len(l.names) > 0 {
			l.last = l.names[len(l.names)-1].Key
		}
	}
	if len(l.names) == 0 {
		return info, false, nil
	}
	return l.names[0], true, nil
}
