package pebblestore_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/pebblestore"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
)

// openOn opens a store that a test lets fail: it is not closed at the end.
func openOn(t *testing.T, fs vfs.FS, opts pebblestore.Options) *pebblestore.Store {
	t.Helper()
	opts.FS = fs
	s, err := pebblestore.Open("db", opts)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return s
}

// When the log cannot be synced no commit is acknowledged, then or later, and what was acknowledged before is there
// after a restart.
func TestFailedSyncPoisons(t *testing.T) {
	t.Parallel()
	mem, g := vfs.NewCrashableMem(), &gate{}
	s := openOn(t, g.wrap(mem), pebblestore.Options{})
	h := create(t, s)
	good, err := s.Commit(t.Context(), h.Stream, record(1, 10))
	if err != nil {
		t.Fatal(err)
	}
	others := make([]coordinator.Head, 8)
	for i := range others {
		others[i] = create(t, s)
	}
	broken := errors.New("input/output error")
	g.err.Store(&broken)
	var wg sync.WaitGroup
	for i := range others {
		wg.Go(func() {
			_, err := s.Commit(t.Context(), others[i].Stream, record(2, 10))
			if errors.Is(err, coordinator.ErrNotApplied) == errors.Is(err, coordinator.ErrUnknown) {
				t.Errorf("a commit during the fault: %v", err)
			}
		})
	}
	wg.Wait()
	<-s.Failed()
	g.err.Store(nil) // the disk is back, the store is not
	checkFailed(t, s, h)
	if err := s.Close(); !errors.Is(err, pebblestore.ErrFailed) {
		t.Errorf("Close: %v", err)
	}
	again := openOn(t, mem.CrashClone(vfs.CrashCloneCfg{}), pebblestore.Options{})
	defer again.Close()
	if got, err := again.Load(t.Context(), h.Stream); err != nil || !storetest.Equal(got, good) {
		t.Errorf("after a restart: %v\n%+v, want\n%+v", err, got, good)
	}
}

func checkFailed(t *testing.T, s *pebblestore.Store, h coordinator.Head) {
	t.Helper()
	key := coordinator.Key{Part: "p", Sort: "s"}
	_, load := s.Load(t.Context(), h.Stream)
	_, commit := s.Commit(t.Context(), h.Stream, record(3, 10))
	_, change := s.Change(t.Context(), h.Stream, &coordinator.Change{RaiseFloor: 1})
	_, put := s.Put(t.Context(), coordinator.Row{Key: key}, 0)
	_, get := s.Get(t.Context(), key)
	_, list := s.List(t.Context(), "p", "", "", 1)
	create := s.Create(t.Context(), storetest.NewHead())
	for name, err := range map[string]error{
		"Load": load, "Commit": commit, "Change": change, "Put": put, "Get": get, "List": list, "Create": create,
	} {
		if !errors.Is(err, pebblestore.ErrFailed) {
			t.Errorf("%s on a failed store: %v", name, err)
		}
		if name == "Commit" && !errors.Is(err, coordinator.ErrNotApplied) {
			t.Errorf("a commit that was never begun is in doubt: %v", err)
		}
	}
}

// Readers that waited for a commit which then failed are not shown what it wrote.
func TestFailedSyncIsNotShown(t *testing.T) {
	t.Parallel()
	g := &gate{}
	s := openOn(t, g.wrap(vfs.NewMem()), pebblestore.Options{HeadCacheBytes: 1})
	h := create(t, s)
	logged := s.DB().Metrics().WAL.BytesIn
	g.mu.Lock()
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.Commit(t.Context(), h.Stream, record(1, 100)); !errors.Is(err, coordinator.ErrUnknown) {
			t.Errorf("Commit: %v", err)
		}
	})
	waitLogged(s, logged, 100)
	for range 32 {
		wg.Go(func() {
			if got, err := s.Load(t.Context(), h.Stream); err == nil {
				t.Errorf("Load shows a tail of %d", got.Tail)
			}
		})
	}
	for range 1000 {
		runtime.Gosched() // the readers come to wait
	}
	broken := errors.New("input/output error")
	g.err.Store(&broken)
	g.mu.Unlock()
	wg.Wait()
}

// A store that fails for another reason answers at once also those whose commit hangs, and can be closed.
func TestFailureDoesNotHang(t *testing.T) {
	t.Parallel()
	g := &gate{}
	s := openOn(t, g.wrap(vfs.NewMem()), pebblestore.Options{})
	h := create(t, s)
	logged := s.DB().Metrics().WAL.BytesIn
	g.mu.Lock()
	defer g.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.Commit(t.Context(), h.Stream, record(1, 100)); !errors.Is(err, coordinator.ErrUnknown) {
			t.Errorf("Commit: %v", err)
		}
	})
	waitLogged(s, logged, 100)
	wg.Go(func() {
		if _, err := s.Commit(t.Context(), h.Stream, record(2, 100)); !errors.Is(err, coordinator.ErrNotApplied) {
			t.Errorf("the commit behind it: %v", err)
		}
	})
	reason := errors.New("a bad block")
	s.Fail(reason)
	wg.Wait()
	if err := s.Close(); !errors.Is(err, pebblestore.ErrFailed) || !errors.Is(err, reason) {
		t.Errorf("Close: %v", err)
	}
}

// One operation on the log fails, at any point, while many streams commit: nobody hangs, nothing acknowledged is
// lost.
func TestLogFaultsUnderLoad(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 0))
		failing := &nthLogWrite{at: 30 + rng.Int64N(200)}
		mem := vfs.NewCrashableMem()
		s := openOn(t, errorfs.Wrap(mem, failing), pebblestore.Options{})
		var mu sync.Mutex
		acked := map[[16]byte]uint64{}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				h := storetest.NewHead()
				if s.Create(t.Context(), h) != nil {
					return
				}
				for {
					next, err := s.Commit(t.Context(), h.Stream, record(1, 800))
					if err != nil {
						return
					}
					mu.Lock()
					acked[h.Stream] = next.Tail
					mu.Unlock()
					if next.Tail >= 300 {
						t.Errorf("seed %d: the fault never came", seed)
						return
					}
				}
			})
		}
		wg.Wait()
		again := openOn(t, mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}), pebblestore.Options{})
		for id, tail := range acked {
			if got, err := again.Load(t.Context(), id); err != nil || got.Tail < tail || storetest.Check(&got) != "" {
				t.Errorf("seed %d: acknowledged to %d, found %d, %v", seed, tail, got.Tail, err)
			}
		}
		if err := again.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

// nthLogWrite fails the write or sync of a log with the given number, and all after it.
type nthLogWrite struct {
	mu sync.Mutex
	at int64
}

func (*nthLogWrite) String() string { return "" }

func (f *nthLogWrite) MaybeError(op errorfs.Op) error {
	if !isLogSync(op) && !isLogWrite(op) {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at--; f.at < 0 {
		return errors.New("input/output error")
	}
	return nil
}

func isLogWrite(op errorfs.Op) bool {
	return op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".log")
}
