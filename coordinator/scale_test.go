package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/pebblestore"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/memobjects"
)

// scaleSize is how much of something a test of scale does: usually what takes seconds, with TAILRACE_SCALE=full what
// docs/results.md has figures of.
func scaleSize(usual, full uint64) uint64 {
	if os.Getenv("TAILRACE_SCALE") == "full" {
		return full
	}
	return usual
}

// countingObjects counts the calls to an object store.
type countingObjects struct {
	segments.Objects
	gets, puts atomic.Int64
}

func (o *countingObjects) Get(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	o.gets.Add(1)
	return o.Objects.Get(ctx, key, offset, length)
}

func (o *countingObjects) Put(ctx context.Context, key string, data []byte) error {
	o.puts.Add(1)
	return o.Objects.Put(ctx, key, data)
}

// longRig is a stream of many single records, each with a time of its own, on the embedded store without its disk.
type longRig struct {
	*rig
	counts *countingObjects
	room   coordinator.Room
	first  uint64 // timestamp of record 0; record i has the one i later
	n      uint64
}

func longBody(i uint64) string {
	return fmt.Sprintf("record %d %s", i, strings.Repeat(".", int(i%100)))
}

func newLongRig(t *testing.T, room coordinator.Room) *longRig {
	t.Helper()
	l := &longRig{counts: &countingObjects{Objects: memobjects.New()}, room: room}
	store, err := pebblestore.Open("db", pebblestore.Options{FS: pebblestore.MemFS(), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	l.rig = newRig(t, func(o *coordinator.Options) { o.Heads, o.Objects, o.Room = store, l.counts, room })
	return l
}

// fill appends n records, one an append, and watches the head.
func (l *longRig) fill(t *testing.T, n uint64) {
	t.Helper()
	l.first, l.n = uint64(time.Now().Add(-24*time.Hour).UnixMilli()), n
	var largest, entries int
	for i := range n {
		record := segments.Record{Body: []byte(longBody(i)), Timestamp: l.first + i, HasTimestamp: true}
		ack, err := l.Append(t.Context(), l.ref, coordinator.Batch{Records: []segments.Record{record}})
		if err != nil || ack.Start.SeqNum != i {
			t.Fatalf("append %d: %+v, %v", i, ack, err)
		}
		if i%500 == 0 || i+1 == n {
			h := l.head(t)
			largest, entries = max(largest, len(coordinator.AppendHead(nil, &h, true))), max(entries, len(h.Log))
		}
	}
	t.Logf("%d appends: the head had at most %d entries and %d bytes; %d PUTs", n, entries, largest, l.counts.puts.Load())
	if entries > l.room.MaxEntries || largest > 400*l.room.MaxEntries {
		t.Errorf("the head grew to %d entries and %d bytes", entries, largest)
	}
}

func (l *longRig) head(t *testing.T) coordinator.Head {
	t.Helper()
	h, err := l.heads.Load(t.Context(), l.ref.Stream)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// cold is a coordinator on the same stores that has seen nothing yet.
func (l *longRig) cold(t *testing.T) *coordinator.Coordinator {
	t.Helper()
	c, err := coordinator.New(coordinator.Options{
		Heads: l.heads, Objects: l.counts, Room: l.room, Exclusive: true, Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// readOne reads one record by a coordinator without any cache, and returns how many objects it read for that.
func (l *longRig) readOne(t *testing.T, o coordinator.ReadOptions, want uint64) (gets int64) {
	t.Helper()
	c := l.cold(t)
	o.Unary, o.Count = true, ptr(uint64(1))
	before := l.counts.gets.Load()
	rd, err := c.OpenReader(t.Context(), l.ref, o)
	if err != nil {
		t.Fatal(err)
	}
	e, err := rd.Next(t.Context())
	if err != nil || len(e.Records) != 1 || e.Start != want || string(e.Records[0].Body) != longBody(want) ||
		e.Records[0].Timestamp != l.first+want {
		t.Fatalf("a read of record %d gave %+v, %v", want, e, err)
	}
	c.Close() // waits for what it fetches ahead
	return l.counts.gets.Load() - before
}

// A stream of thousands of single-record appends, a million with TAILRACE_SCALE=full, is read at any place, and by time, with one
// object for each level of its pages and one for the records; its head stays small; moves cost what protocol 10 says;
// and what they replaced is collected.
func TestBL116ReadsOfALongStreamAreBounded(t *testing.T) {
	t.Parallel()
	l := newLongRig(t, pebblestore.Room)
	n := scaleSize(8000, 1_000_000)
	l.fill(t, n)
	// A page and a segment a move, and once in 1024 rows a second page and one of the level above.
	if most := int64(2*n/uint64(l.room.MoveEntries)+2*n/segments.MaxPageRows+4) * 11 / 10; l.counts.puts.Load() > most {
		t.Errorf("%d appends took %d PUTs, want at most %d", n, l.counts.puts.Load(), most)
	}
	l.readEverywhere(t, 300)
	l.collectAndCheck(t)
	l.readEverywhere(t, 50)
}

// readEverywhere reads so many records by number and as many by time, at random.
func (l *longRig) readEverywhere(t *testing.T, reads int) {
	t.Helper()
	h := l.head(t)
	levels := int64(0)
	if len(h.Pages) > 0 {
		levels = int64(h.Pages[0].Level) + 1
	}
	var most int64
	for i := range reads {
		seq := rand.Uint64N(l.n)
		if i < 2 {
			seq = uint64(i) * (l.n - 1)
		}
		most = max(most, l.readOne(t, coordinator.ReadOptions{SeqNum: &seq}, seq))
		most = max(most, l.readOne(t, coordinator.ReadOptions{Timestamp: ptr(l.first + seq)}, seq))
	}
	t.Logf("a read took at most %d objects, the pages have %d levels", most, levels)
	if most > levels+1 {
		t.Errorf("a read of one record took %d objects, want at most %d levels of pages and 1", most, levels)
	}
}

// collectAndCheck collects twice and verifies the stream: afterwards every object is one that the stream needs.
func (l *longRig) collectAndCheck(t *testing.T) {
	t.Helper()
	before := l.objectCount(t)
	first := l.collect(t)
	if again := l.collect(t); again.Deleted != 0 || again.Named != again.Candidates {
		t.Errorf("a second collection found %+v", again)
	}
	report, err := l.Check(t.Context(), l.ref)
	if err != nil || report.Records != int(l.n) {
		t.Fatalf("check: %+v, %v", report, err)
	}
	t.Logf("%d objects, %d collected; what is left holds %d entries in %d pages", before, first.Deleted, report.Entries, report.Pages)
	if left := l.objectCount(t); left != before-first.Deleted || first.Deleted == 0 {
		t.Errorf("%d objects are left of %d after %+v", left, before, first)
	}
}

// BL-116 as it was met: no batch is inline, so that each append names an object of its own, and nothing is ever
// trimmed. The head stays small, appends go on, and reads at the start, in the middle and at the end are right.
func TestBL116ManySegments(t *testing.T) {
	t.Parallel()
	room := pebblestore.Room
	room.InlineBatch = 0
	l := newLongRig(t, room)
	l.fill(t, scaleSize(3000, 100_000))
	l.readEverywhere(t, 20)
	if report, err := l.Check(t.Context(), l.ref); err != nil || report.Entries != int(l.n) {
		t.Errorf("check: %+v, %v", report, err)
	}
}

// An idle stream costs no memory and no goroutine in the coordinator, however many there were (BL-140).
func TestBL140IdleStreamsHoldNothing(t *testing.T) {
	// Not parallel: it measures the process.
	const streams = 3000
	r := newRig(t, func(o *coordinator.Options) { o.IdleAfter = time.Second })
	goroutines := runtime.NumGoroutine()
	refs := make([]coordinator.StreamRef, streams)
	for i := range refs {
		refs[i] = r.create(t, coordinator.DefaultStreamConfig())
		if _, err := r.Append(t.Context(), refs[i], bodies("one record")); err != nil {
			t.Fatal(err)
		}
	}
	bytes := whenIdle(t, goroutines)
	for _, ref := range refs {
		// A refused append stores nothing, so that all that grows is the coordinator.
		batch := bodies("a second one")
		batch.Match = ptr(uint64(0))
		var refused *coordinator.MatchMismatch
		if _, err := r.Append(t.Context(), ref, batch); !errors.As(err, &refused) {
			t.Fatalf("append behind the tail: %v", err)
		}
		r.readRecord(t, ref)
	}
	active := heapBytes() - bytes
	idle := whenIdle(t, goroutines) - bytes
	t.Logf("a stream takes %d bytes when it was just used, %d when it is idle", active/streams, idle/streams)
	if active < streams*100 || idle > streams*50 {
		t.Errorf("%d streams take %d bytes when they were just used, %d when they are idle", streams, active, idle)
	}
}

// whenIdle is the size of the heap once the coordinator runs nothing any more: no more goroutines than there were
// before it was used.
func whenIdle(t *testing.T, goroutines int) int64 {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > goroutines; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines run, there were %d before", runtime.NumGoroutine(), goroutines)
		}
	}
	return heapBytes()
}

// readRecord reads the only record of a stream, to the end.
func (r *rig) readRecord(t *testing.T, ref coordinator.StreamRef) {
	t.Helper()
	wait := time.Duration(0)
	rd, err := r.OpenReader(t.Context(), ref, coordinator.ReadOptions{SeqNum: ptr(uint64(0)), Wait: &wait})
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	if e, err := rd.Next(t.Context()); err != nil || len(e.Records) != 1 {
		t.Fatalf("read: %+v, %v", e, err)
	}
	if _, err := rd.Next(t.Context()); err != io.EOF {
		t.Fatalf("end of the read: %v", err)
	}
}

func heapBytes() int64 {
	var m runtime.MemStats
	for range 2 { // the second finishes what the first only marked
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
