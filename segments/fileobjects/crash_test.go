package fileobjects_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/fileobjects"
	"github.com/tailrace-streams/tailrace/segments/fileobjects/crashfs"
)

// dataOf is what every test stores under a key.
func dataOf(key string) []byte { return bytes.Repeat([]byte(key+"|"), 50) }

// known is what the answers so far say of a key.
type known int

const (
	absent known = iota
	present
	unknown
)

// history does work on a store and notes what it was told, until the power fails. Several goroutines may work, on keys
// of their own.
type history struct {
	store *fileobjects.Store
	tries int // how often a call is made until it succeeds; at least once

	mu     sync.Mutex
	keys   map[string]known
	gaveUp int  // puts of which all tries failed
	dead   bool // the power has failed: what is called now does nothing, and says nothing of earlier answers
}

func newHistory(tries int) *history { return &history{tries: tries, keys: map[string]known{}} }

// begin notes a call whose outcome is open, unless it would not reach the disk.
func (h *history) begin(keys []string, change func(known) known) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range keys {
		if !h.dead {
			h.keys[key] = change(h.keys[key])
		}
	}
	return !h.dead
}

func (h *history) end(key string, k known, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.keys[key] = k
	}
	h.dead = h.dead || errors.Is(err, crashfs.ErrPowerOff)
}

func (h *history) put(key string) {
	begun := h.begin([]string{key}, func(was known) known {
		if was == present {
			return present // the same bytes again: whether it succeeds or not, they stay
		}
		return unknown
	})
	for try := 0; begun && try < h.tries; try++ {
		err := h.store.Put(context.Background(), key, dataOf(key))
		h.end(key, present, err)
		if err == nil {
			return
		}
	}
	h.mu.Lock()
	h.gaveUp++
	h.mu.Unlock()
}

// delete counts only an answer to the first try: after a sync that failed, no later one can tell that a name is gone.
func (h *history) delete(keys ...string) {
	begun := h.begin(keys, func(was known) known {
		if was == absent {
			return absent
		}
		return unknown
	})
	for try := 0; begun && try < h.tries; try++ {
		failed := h.store.Delete(context.Background(), keys)
		for _, key := range keys {
			if try == 0 || failed[key] != nil {
				h.end(key, absent, failed[key])
			}
		}
		if failed == nil {
			return
		}
	}
}

// work stores, repeats, deletes and stores anew, in folders that come, go and come back.
func (h *history) work() {
	a, b, c := "b/1/s/a", "b/1/s/b", "b/1/p/c"
	h.put(a)
	h.put(b)
	h.put(a)
	h.put(c)
	h.put("top")
	h.delete(a, c)
	h.put("b/2/s/a")
	h.delete(b, "none/at/all")
	h.put("b/1/s/d")
	h.put("b/2/s/a")
	h.delete("b/2/s/a", "top")
}

// run opens the store on a disk that may fail, and works if it can.
func (h *history) run(disk *crashfs.FS, work func()) {
	h.dead = false
	for range h.tries {
		store, err := fileobjects.OpenFS(disk)
		if err == nil {
			h.store = store
			work()
			return
		}
	}
}

// check holds a disk against a history: what was acknowledged is there or gone, the rest is whole or absent.
func (h *history) check(t *testing.T, disk *crashfs.FS, when string) {
	t.Helper()
	s := openFS(t, disk)
	var there []string
	for key, k := range h.keys {
		data, err := s.Get(t.Context(), key, 0, -1)
		switch {
		case errors.Is(err, segments.ErrObjectNotFound):
			if k == present {
				t.Errorf("%s: %q was acknowledged and is lost", when, key)
			}
			continue
		case err != nil:
			t.Errorf("%s: Get(%q) = %v", when, key, err)
		case k == absent:
			t.Errorf("%s: %q was deleted and is back", when, key)
		case !bytes.Equal(data, dataOf(key)):
			t.Errorf("%s: %q is not what was put", when, key)
		}
		there = append(there, key)
	}
	slices.Sort(there)
	infos, err := s.List(t.Context(), "", "", len(h.keys)+1)
	same := func(info segments.ObjectInfo, key string) bool {
		return info.Key == key && info.Size == int64(len(dataOf(key)))
	}
	if err != nil || !slices.EqualFunc(infos, there, same) {
		t.Errorf("%s: List = %v, %v; but there are %q", when, infos, err, there)
	}
	if err := disk.ReadDir("~staging", func(fs.DirEntry) error { return errors.New("it is not empty") }); err != nil {
		t.Errorf("%s: staging: %v", when, err)
	}
}

// losses are the ways to lose what was not synced that each crash point is tried with.
func losses() map[string]crashfs.Loss {
	all := map[string]crashfs.Loss{"all": crashfs.LoseAll()}
	for seed := range uint64(12) {
		all[fmt.Sprint("some by seed ", seed)] = crashfs.LoseSome(seed)
	}
	return all
}

// countCalls returns how many calls the work makes when nothing fails.
func countCalls(t *testing.T) int {
	t.Helper()
	disk, h := crashfs.New(), newHistory(1)
	h.run(disk, h.work)
	for key, k := range h.keys {
		if k == unknown {
			t.Fatalf("without faults, %q is unknown", key)
		}
	}
	return disk.Calls()
}

// TestPowerFails cuts the power at every call of the work.
func TestPowerFails(t *testing.T) {
	t.Parallel()
	for n := range countCalls(t) + 1 {
		for name, loss := range losses() {
			disk, h := crashfs.New(), newHistory(1)
			disk.StopAt(n + 1)
			h.run(disk, h.work)
			h.check(t, disk.Crash(loss), fmt.Sprintf("power fails at call %d, losing %s", n+1, name))
		}
	}
}

// TestProcessDies kills the process at every call, works on in a new one, which finds what was not synced as if it were,
// and cuts the power somewhere in the second work.
func TestProcessDies(t *testing.T) {
	t.Parallel()
	const step = 7
	total := countCalls(t)
	for n := range total {
		for m := n % step; m < total; m += step {
			disk, h := crashfs.New(), newHistory(1)
			disk.StopAt(n + 1)
			h.run(disk, h.work)
			disk.StopAt(disk.Calls() + 1 + m)
			h.run(disk, h.work)
			loss := crashfs.LoseAll()
			if m/step%3 == 2 {
				loss = crashfs.LoseSome(uint64(n))
			}
			h.check(t, disk.Crash(loss), fmt.Sprintf("process dies at call %d, power fails %d calls later", n+1, m))
		}
	}
}

// TestCallFails lets every call fail once and the caller repeat what failed. The disk forgets, without a word, what a
// failed sync covered.
func TestCallFails(t *testing.T) {
	t.Parallel()
	for n := range countCalls(t) {
		for name, loss := range losses() {
			disk, h := crashfs.New(), newHistory(3)
			disk.FailAt(n+1, syscall.EIO)
			h.run(disk, h.work)
			if h.gaveUp > 0 {
				t.Errorf("call %d fails, and %d puts fail however often they are repeated", n+1, h.gaveUp)
			}
			h.check(t, disk.Crash(loss), fmt.Sprintf("call %d fails, then losing %s", n+1, name))
		}
	}
}

// TestManyAtOnceFail has many calls share folders and syncs while calls fail and the power goes.
func TestManyAtOnceFail(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		disk, h := crashfs.New(), newHistory(2)
		for range rng.IntN(4) {
			disk.FailAt(3+rng.IntN(300), syscall.EIO)
		}
		disk.StopAt(3 + rng.IntN(600))
		h.run(disk, func() {
			var all sync.WaitGroup
			for w := range 6 {
				all.Go(func() {
					for r := range 8 {
						key := fmt.Sprintf("b/%d/%d-%d", (w+r)%3, w, r)
						h.put(key)
						if (w+r)%3 > 0 {
							h.delete(key)
						}
					}
				})
			}
			all.Wait()
		})
		h.check(t, disk.Crash(crashfs.LoseSome(seed)), fmt.Sprint("seed ", seed))
	}
}

// TestFolderLost: the name of a folder that a failed sync covered is not trusted again.
func TestFolderLost(t *testing.T) {
	t.Parallel()
	disk := crashfs.New()
	put(t, openFS(t, disk), "b/old")
	again := openFS(t, disk)
	const mkdirAndSync = 2
	disk.FailAt(disk.Calls()+mkdirAndSync, syscall.EIO)
	if err := again.Put(t.Context(), "b/new", nil); !errors.Is(err, syscall.EIO) {
		t.Errorf("Put while the folder's sync fails = %v", err)
	}
	if err := again.Put(t.Context(), "b/new", nil); !errors.Is(err, fileobjects.ErrFolderLost) {
		t.Errorf("Put after that = %v, want ErrFolderLost", err)
	}
	put(t, again, "c/new")
	if failed := again.Delete(t.Context(), []string{"b/old"}); failed != nil {
		t.Errorf("Delete = %v", failed)
	}
	put(t, again, "b/new") // into a new folder: the old one could be removed
	put(t, openFS(t, disk.Crash(crashfs.LoseAll())), "b/new", "c/new")
}

// TestFolderSwallowed: a process dies before it syncs a folder it made, and a sync for another object fails and takes
// the folder's name with it. What is acknowledged in the folder afterwards must survive nevertheless.
func TestFolderSwallowed(t *testing.T) {
	t.Parallel()
	disk, h := crashfs.New(), newHistory(3)
	h.store = openFS(t, disk)
	if err := disk.Mkdir("b"); err != nil {
		t.Fatal(err)
	}
	const createWriteSyncRenameSync = 5
	disk.FailAt(disk.Calls()+createWriteSyncRenameSync, syscall.EIO)
	h.put("top")
	h.put("b/x")
	if h.keys["top"] != present || h.keys["b/x"] != present {
		t.Errorf("after retries, the objects are %v", h.keys)
	}
	h.check(t, disk.Crash(crashfs.LoseAll()), "a failed sync took a folder")
}
