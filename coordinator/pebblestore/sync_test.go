package pebblestore_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/pebblestore"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
)

// gate is a file system whose log is synced only while it is open.
type gate struct {
	mu    sync.RWMutex
	syncs atomic.Int64
	err   atomic.Pointer[error]
}

func (g *gate) wrap(fs vfs.FS) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !isLogSync(op) {
			return nil
		}
		g.mu.RLock()
		defer g.mu.RUnlock()
		g.syncs.Add(1)
		if err := g.err.Load(); err != nil {
			return *err
		}
		return nil
	}))
}

func isLogSync(op errorfs.Op) bool {
	switch op.Kind {
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
		return strings.HasSuffix(op.Path, ".log")
	}
	return false
}

func openGated(t *testing.T, opts pebblestore.Options) (*pebblestore.Store, *gate) {
	g := &gate{}
	opts.FS = g.wrap(vfs.NewMem())
	return open(t, opts), g
}

func create(t *testing.T, s *pebblestore.Store) coordinator.Head {
	t.Helper()
	h := storetest.NewHead()
	if err := s.Create(t.Context(), h); err != nil {
		t.Fatalf("Create: %v", err)
	}
	return h
}

// record is a commit of one inline record of size bytes.
func record(label segments.Label, size int) *coordinator.Commit {
	return &coordinator.Commit{
		Entries: []segments.Entry{{
			ID: segments.EntryID{Object: segments.NewObjectID(label)}, N: 1, Bytes: uint64(size), Data: make([]byte, size),
		}},
		MaxEntries: pebblestore.Room.MaxEntries, MaxInline: pebblestore.Room.MaxInline,
	}
}

// waitLogged waits until the log holds n bytes more than from: commits that wait for their sync.
func waitLogged(s *pebblestore.Store, from uint64, n uint64) {
	for s.DB().Metrics().WAL.BytesIn < from+n {
		runtime.Gosched()
	}
}

// Commits of different streams that come while an fsync is under way share the next one.
func TestStreamsShareSyncs(t *testing.T) {
	t.Parallel()
	s, g := openGated(t, pebblestore.Options{})
	streams := make([]coordinator.Head, 40)
	for i := range streams {
		streams[i] = create(t, s)
	}
	one, logged := create(t, s), s.DB().Metrics().WAL.BytesIn
	if _, err := s.Commit(t.Context(), one.Stream, record(1, 100)); err != nil {
		t.Fatal(err)
	}
	each := s.DB().Metrics().WAL.BytesIn - logged
	logged, before := s.DB().Metrics().WAL.BytesIn, g.syncs.Load()
	g.mu.Lock()
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			if _, err := s.Commit(t.Context(), streams[i].Stream, record(1, 100)); err != nil {
				t.Errorf("Commit: %v", err)
			}
		})
	}
	// All but those that share a stripe with another, and wait for its lock.
	waitLogged(s, logged, uint64(len(streams)-5)*each)
	g.mu.Unlock()
	wg.Wait()
	if n := g.syncs.Load() - before; n > 10 {
		t.Errorf("%d commits took %d syncs", len(streams), n)
	}
}

// Nothing that is being synced can be seen, neither by Load, with and without the cache, nor by Get and List.
func TestNobodySeesWhatIsNotDurable(t *testing.T) {
	t.Parallel()
	for name, cache := range map[string]uint64{"cached": 0, "uncached": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, g := openGated(t, pebblestore.Options{HeadCacheBytes: cache})
			h := create(t, s)
			row := coordinator.Row{Key: coordinator.Key{Part: "p", Sort: "s"}}
			logged := s.DB().Metrics().WAL.BytesIn
			g.mu.Lock()
			open := sync.OnceFunc(g.mu.Unlock)
			defer open()
			var durable atomic.Bool
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := s.Commit(t.Context(), h.Stream, record(1, 100)); err != nil {
					t.Errorf("Commit: %v", err)
				}
			})
			wg.Go(func() {
				if _, err := s.Put(t.Context(), row, 0); err != nil {
					t.Errorf("Put: %v", err)
				}
			})
			waitLogged(s, logged, 140)
			// Readers may answer with the state before, or not before the sync.
			early := func(what string, seen bool) {
				if seen && !durable.Load() {
					t.Errorf("%s shows what is not durable", what)
				}
			}
			wg.Go(func() {
				got, err := s.Load(t.Context(), h.Stream)
				early("Load", err == nil && got.Tail != 0)
			})
			wg.Go(func() {
				_, err := s.Get(t.Context(), row.Key)
				early("Get", err == nil)
			})
			wg.Go(func() {
				rows, err := s.List(t.Context(), "p", "", "", 9)
				early("List", err == nil && len(rows) > 0)
			})
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := s.List(ctx, "p", "", "", 9); err == nil {
				t.Error("List with an ended context answered")
			}
			for range 1000 {
				runtime.Gosched() // whoever answers too early does it now
			}
			durable.Store(true)
			open()
			wg.Wait()
			if got, err := s.Load(t.Context(), h.Stream); err != nil || got.Tail != 1 {
				t.Errorf("Load after the sync: tail %d, %v", got.Tail, err)
			}
		})
	}
}

// A caller whose context ends during the sync does not know; the write happens all the same, and before the next.
func TestContextEndsDuringSync(t *testing.T) {
	t.Parallel()
	s, g := openGated(t, pebblestore.Options{})
	h := create(t, s)
	logged := s.DB().Metrics().WAL.BytesIn
	g.mu.Lock()
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error)
	go func() {
		_, err := s.Commit(ctx, h.Stream, record(1, 100))
		answer <- err
	}()
	waitLogged(s, logged, 100)
	cancel()
	if err := <-answer; !errors.Is(err, coordinator.ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("the commit in doubt: %v", err)
	}
	// The next one waits for the first, so while it waits nothing of it is done.
	short, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := s.Commit(short, h.Stream, record(2, 100))
		answer <- err
	}()
	cancel()
	if err := <-answer; !errors.Is(err, coordinator.ErrNotApplied) {
		t.Errorf("the commit that waited: %v", err)
	}
	g.mu.Unlock()
	next, err := s.Commit(t.Context(), h.Stream, record(3, 100))
	if err != nil || next.Tail != 2 {
		t.Errorf("the next commit: tail %d, %v", next.Tail, err)
	}
}
