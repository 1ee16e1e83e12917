package pebblestore_test

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/pebblestore"
	"github.com/tailrace-streams/tailrace/segments"
)

// A commit writes as much when the log is long as when it is short.
func TestCostOfACommit(t *testing.T) {
	t.Parallel()
	s := open(t, pebblestore.Options{FS: vfs.NewMem()})
	h := create(t, s)
	var short, long uint64
	for i := range pebblestore.Room.MaxEntries {
		before := s.DB().Metrics().WAL.BytesIn
		if _, err := s.Commit(t.Context(), h.Stream, record(segments.Label(i+1), 100)); err != nil {
			t.Fatal(err)
		}
		n := s.DB().Metrics().WAL.BytesIn - before
		switch {
		case i < 10:
			short = max(short, n)
		case i > pebblestore.Room.MaxEntries-10:
			long = max(long, n)
		}
	}
	// Numbers in the head grow by a byte or two.
	if long > short+16 || long > 1000 {
		t.Errorf("a commit wrote %d bytes to a short log and %d to a long one", short, long)
	}
}

// A commit to a hot head reads nothing: all that is stored may be gone, and it does not notice.
func TestHotCommitReadsNothing(t *testing.T) {
	t.Parallel()
	s := open(t, pebblestore.Options{FS: vfs.NewMem()})
	h := create(t, s)
	for i := range 3 {
		if _, err := s.Commit(t.Context(), h.Stream, record(segments.Label(i+1), 100)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.DB().DeleteRange([]byte("a"), []byte("z"), pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	next, err := s.Commit(t.Context(), h.Stream, record(4, 100))
	if err != nil || len(next.Log) != 4 || next.Tail != 4 {
		t.Errorf("commit: %v, %d entries", err, len(next.Log))
	}
	if n := entries(t, s); n != 1 {
		t.Errorf("it stored %d entries", n)
	}
}

// A move deletes what it takes, without writing anything else of the log again.
func TestCostOfAMove(t *testing.T) {
	t.Parallel()
	s := open(t, pebblestore.Options{FS: vfs.NewMem()})
	h := create(t, s)
	var err error
	for i := range 400 {
		if h, err = s.Commit(t.Context(), h.Stream, record(segments.Label(i+1), 1000)); err != nil {
			t.Fatal(err)
		}
	}
	const k = 256
	before := s.DB().Metrics().WAL.BytesIn
	page := coordinator.Root{Page: segments.Row{N: k, Child: segments.NewObjectID(500), ChildBytes: 9}}
	h, err = s.Splice(t.Context(), h.Stream, &coordinator.Splice{Move: &coordinator.Move{
		Old: h.Log[:k], Pages: []coordinator.Root{page}, NewBase: k, MinLabel: 500,
	}})
	if err != nil || len(h.Log) != 400-k {
		t.Fatalf("move: %v", err)
	}
	if n := s.DB().Metrics().WAL.BytesIn - before; n > k*32+1000 {
		t.Errorf("the move of %d entries wrote %d bytes", k, n)
	}
	if n := entries(t, s); n != 400-k {
		t.Errorf("%d entries are stored for a log of %d", n, 400-k)
	}
}

// entries counts the entries of all streams that are in the database.
func entries(t *testing.T, s *pebblestore.Store) (n int) {
	t.Helper()
	it, err := s.DB().NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for it.First(); it.Valid(); it.Next() {
		if it.Key()[0] == 'e' {
			n++
		}
	}
	return n
}

// A head that is not hot takes no memory: the cache is bounded.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	s := open(t, pebblestore.Options{FS: vfs.NewMem(), HeadCacheBytes: 20_000})
	ids := make([]segments.StreamID, 200)
	for i := range ids {
		ids[i] = create(t, s).Stream
	}
	s.CleanUpCache()
	cached := 0
	for _, id := range ids {
		if s.InCache(id) {
			cached++
		}
	}
	if cached > 40 {
		t.Errorf("%d of %d heads are cached", cached, len(ids))
	}
	for _, id := range ids {
		if h, err := s.Load(t.Context(), id); err != nil || h.Stream != id {
			t.Fatalf("Load: %v", err)
		}
	}
}

// Nothing of an idle stream stays in memory: a head that was looked at once is gone soon, one in use is not.
func TestCacheForgetsIdleHeads(t *testing.T) {
	t.Parallel()
	s := open(t, pebblestore.Options{FS: vfs.NewMem()})
	idle, used := create(t, s).Stream, create(t, s).Stream
	if _, err := s.Load(t.Context(), used); err != nil {
		t.Fatal(err)
	}
	if !s.InCache(idle) || !s.InCache(used) {
		t.Fatal("a head just made is not cached")
	}
	for deadline := time.Now().Add(10 * time.Second); s.InCache(idle); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a head that nobody asked for is still cached")
		}
	}
	if !s.InCache(used) {
		t.Error("a head went although it was asked for again")
	}
}
