package segments

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// mapObjects is the least that a Reader needs. Its hook, if any, runs before each Get and may fail it.
type mapObjects struct {
	mu   sync.Mutex
	data map[string][]byte
	gets []string
	hook func() error
}

func newMapObjects() *mapObjects { return &mapObjects{data: map[string][]byte{}} }

func (m *mapObjects) Put(_ context.Context, key string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data[key] = bytes.Clone(data)
	return nil
}

func (m *mapObjects) Get(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	m.mu.Lock()
	m.gets = append(m.gets, fmt.Sprintf("%s %d+%d", key, offset, length))
	data, ok := m.data[key]
	hook := m.hook
	m.mu.Unlock()
	if hook != nil {
		if err := hook(); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !ok {
		return nil, ErrObjectNotFound
	}
	offset = min(offset, int64(len(data)))
	if length < 0 || length > int64(len(data))-offset {
		length = int64(len(data)) - offset
	}
	return bytes.Clone(data[offset : offset+length]), nil
}

func (m *mapObjects) List(context.Context, string, string, int) ([]ObjectInfo, error) {
	return nil, errors.ErrUnsupported
}

func (m *mapObjects) Delete(_ context.Context, keys []string) map[string]error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range keys {
		delete(m.data, k)
	}
	return nil
}

func (m *mapObjects) change(key string, f func([]byte) []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data[key] = f(bytes.Clone(m.data[key]))
}

var testSegmentKey = SegmentKey(testBasin, testSegmentID)

// stored is one segment and an entry for each of its chunks; chunk i is testStream's for even i.
func stored(t testing.TB, chunks ...[]StoredBatch) (*mapObjects, []*Entry) {
	t.Helper()
	objects := newMapObjects()
	data, infos := buildSegment(t, chunks...)
	_ = objects.Put(t.Context(), testSegmentKey, data)
	var entries []*Entry
	for i, info := range infos {
		e := &Entry{
			ID: EntryID{testSegmentID, uint16(i)}, N: info.Records, Object: testSegmentID, Offset: info.Offset, Length: info.Length,
		}
		for _, r := range flatten(chunks[i]) {
			e.Bytes += r.MeteredSize()
			e.MaxTime, e.Arrival = max(e.MaxTime, r.Timestamp), max(e.Arrival, r.Arrival)
		}
		entries = append(entries, e)
	}
	return objects, entries
}

// readAll reads an entry of testStream from record `from` to its end, and returns what Read gave each time.
func readAll(t testing.TB, r *Reader, e *Entry, from uint32, maxBytes int) []StoredRecord {
	t.Helper()
	var all []StoredRecord
	for from < e.N {
		records, err := r.Read(t.Context(), testBasin, testStream, e, from, maxBytes)
		if err != nil || len(records) == 0 {
			t.Fatalf("read from %d: %d records, %v", from, len(records), err)
		}
		all = append(all, records...)
		from += uint32(len(records))
	}
	return all
}

// TestReadFromEveryRecord (BL-041): whatever the start, the first record is the one asked for.
func TestReadFromEveryRecord(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"whole chunk": 100, "by blocks": 4000} {
		batches := numbered(500, size)
		want := flatten(batches)
		objects, entries := stored(t, batches)
		r := NewReader(objects, 64<<20)
		part := *entries[0]
		part.Skip, part.N = 123, 300
		for from := range part.N {
			records, err := r.Read(t.Context(), testBasin, testStream, &part, from, 1)
			if err != nil || len(records) == 0 || len(records) > int(part.N-from) {
				t.Fatalf("%s: from %d: %d records, %v", name, from, len(records), err)
			}
			if at := part.Skip + from; !sameRecords(records, want[at:at+uint32(len(records))]) {
				t.Fatalf("%s: from %d: other records", name, from)
			}
		}
		if _, err := r.Read(t.Context(), testBasin, testStream, &part, part.N, 1); err == nil {
			t.Fatal("read a record behind the entry")
		}
	}
}

func TestReadInline(t *testing.T) {
	t.Parallel()
	objects := newMapObjects()
	r := NewReader(objects, 0)
	batches := numbered(20, 50)
	e := &Entry{ID: EntryID{testSegmentID, 1}, N: 15, Skip: 3, Data: AppendChunk(nil, testStream, batches...)}
	if got := readAll(t, r, e, 2, 1<<20); !sameRecords(got, flatten(batches)[5:18]) {
		t.Fatal("other records")
	}
	e.N = 18
	if got, err := r.Read(t.Context(), testBasin, testStream, e, 16, 1); err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	var damage *CorruptError
	if _, err := r.Read(t.Context(), testBasin, testStream, e, 17, 1); !errors.As(err, &damage) || damage.First != 17 || damage.N != 1 {
		t.Fatalf("an entry longer than its chunk: %v", err)
	}
	if len(objects.gets) != 0 {
		t.Fatal(objects.gets)
	}
}

// TestReadCost counts GETs: one for a chunk up to a MiB however it is read, none for what is cached.
func TestReadCost(t *testing.T) {
	t.Parallel()
	small, large := numbered(200, 4000), numbered(1000, 4000)
	objects, entries := stored(t, small, numbered(1, 10), large)
	gets := func(r *Reader, want uint64, what string) {
		t.Helper()
		if got := r.Stats().Gets; got != want {
			t.Fatalf("%s: %d GETs, want %d", what, got, want)
		}
	}
	r := NewReader(objects, 64<<20)
	readAll(t, r, entries[0], 150, 1)
	readAll(t, r, entries[0], 0, 1)
	gets(r, 1, "a small chunk, twice")

	r = NewReader(objects, 64<<20)
	if got := readAll(t, r, entries[2], 0, 8<<20); !sameRecords(got, flatten(large)) {
		t.Fatal("other records")
	}
	gets(r, 1, "a large chunk at once")
	readAll(t, r, entries[2], 500, 1)
	gets(r, 1, "part of it afterwards")

	r = NewReader(objects, 64<<20)
	if _, err := r.Read(t.Context(), testBasin, testStream, entries[2], 500, 1); err != nil {
		t.Fatal(err)
	}
	gets(r, 3, "one block of a large chunk: header, footer, block")
	if n := r.Stats().GetBytes; n > BlockBytes+4096 {
		t.Fatalf("one block cost %d bytes", n)
	}
	if got := readAll(t, r, entries[2], 501, 1<<20); !sameRecords(got, flatten(large)[501:]) {
		t.Fatal("other records")
	}
	gets(r, 5, "the rest: the block is cached, then two GETs of a MiB")
	readAll(t, r, entries[2], 500, 1<<19)
	gets(r, 5, "once more with other limits: the blocks are cached")

	r = NewReader(objects, 0)
	readAll(t, r, entries[0], 0, 8<<20)
	readAll(t, r, entries[0], 0, 8<<20)
	gets(r, 2, "without a cache")
}

func TestReadBudget(t *testing.T) {
	t.Parallel()
	objects, entries := stored(t, numbered(1000, 4000))
	r := NewReader(objects, 0) // with a cache, it may return less: what is cached
	for _, maxBytes := range []int{-1, 0, 1, 100_000, 300_000, 1 << 20} {
		records, err := r.Read(t.Context(), testBasin, testStream, entries[0], 10, maxBytes)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(records) * 4000; got < maxBytes-BlockBytes || got > max(0, maxBytes)+BlockBytes {
			t.Errorf("asked for %d bytes and got %d", maxBytes, got)
		}
	}
}

// TestReadMisplaced: what lies under a key but does not belong there is never served.
func TestReadMisplaced(t *testing.T) {
	t.Parallel()
	batches := numbered(900, 4000)
	objects, entries := stored(t, batches, numbered(3, 10))
	id := NewObjectID(testSegmentID.Label())
	_ = objects.Put(t.Context(), SegmentKey(testBasin, id), objects.data[testSegmentKey])
	moved := *entries[0]
	moved.Object = id
	for _, maxBytes := range []int{1, 8 << 20} {
		r := NewReader(objects, 64<<20)
		if _, err := r.Read(t.Context(), testBasin, otherStream, entries[0], 5, maxBytes); !errors.Is(err, ErrCorrupt) {
			t.Errorf("another stream's chunk: %v", err)
		}
		if _, err := ReadFooter(t.Context(), objects, testBasin, id, 0); !errors.Is(err, ErrCorrupt) {
			t.Errorf("the footer of a segment under another's key: %v", err)
		}
	}
	longer := *entries[0]
	longer.Skip, longer.N = 890, 11
	r := NewReader(objects, 64<<20)
	for _, maxBytes := range []int{1, 8 << 20} {
		records, err := r.Read(t.Context(), testBasin, testStream, &longer, 0, maxBytes)
		if err != nil || len(records) != 10 {
			t.Fatalf("%d records, %v", len(records), err)
		}
		var damage *CorruptError
		if _, err := r.Read(t.Context(), testBasin, testStream, &longer, 10, maxBytes); !errors.As(err, &damage) || damage.First != 10 || damage.N != 1 {
			t.Fatalf("an entry longer than its chunk: %v", err)
		}
	}
}

func TestReadMissing(t *testing.T) {
	t.Parallel()
	objects, entries := stored(t, numbered(900, 4000))
	objects.Delete(t.Context(), []string{testSegmentKey})
	r := NewReader(objects, 64<<20)
	for _, maxBytes := range []int{1, 8 << 20} {
		if _, err := r.Read(t.Context(), testBasin, testStream, entries[0], 5, maxBytes); !errors.Is(err, ErrObjectNotFound) || errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
	}
	if _, err := r.Page(t.Context(), testBasin, testStream, testSegmentID); !errors.Is(err, ErrObjectNotFound) {
		t.Fatal(err)
	}
	if gets := r.Stats().Gets; gets != 3 {
		t.Fatalf("%d GETs for three failures", gets)
	}
}

// TestReadBehindDamage (BL-064): bytes of a committed chunk are flipped, in a header and in a payload, and the segment
// is cut, through the trailer, the footer and the last blocks. Records are lost only in the block that was hit; the others read as they were written.
func TestReadBehindDamage(t *testing.T) {
	t.Parallel()
	t.Run("read by blocks", func(t *testing.T) { t.Parallel(); testReadBehindDamage(t, numbered(120, 20_000), 10) })
	t.Run("read whole", func(t *testing.T) { t.Parallel(); testReadBehindDamage(t, numbered(45, 20_000), 4) })
}

func testReadBehindDamage(t *testing.T, batches []StoredBatch, wantBlocks int) {
	want := flatten(batches)
	objects, entries := stored(t, numbered(2, 10), numbered(2, 10), batches)
	e, sound := entries[2], objects.data[testSegmentKey]
	f, err := ParseFooter(sound)
	if err != nil {
		t.Fatal(err)
	}
	blocks := f.Chunks[2].Blocks
	if len(blocks) != wantBlocks || (e.Length <= wholeChunkBytes) != (wantBlocks == 4) {
		t.Fatalf("%d bytes in %d blocks", e.Length, len(blocks))
	}
	check := func(t *testing.T, maxBytes int, hit func(i int, start, end uint64) bool) {
		t.Helper()
		r := NewReader(objects, 0)
		offset, first := e.Offset, uint32(0)
		for i, b := range blocks {
			lost := hit(i, offset, offset+uint64(b.Length))
			from := first + b.Records/2
			records, err := r.Read(t.Context(), testBasin, testStream, e, from, maxBytes)
			var damage *CorruptError
			switch {
			case !lost && (err != nil || !sameRecords(records, want[from:from+uint32(len(records))])):
				t.Fatalf("block %d is sound: %v", i, err)
			case lost && !errors.As(err, &damage):
				t.Fatalf("block %d is damaged: %d records, %v", i, len(records), err)
			case lost && hit(i+1, offset+uint64(b.Length), math.MaxUint64):
				// Cut off together with all behind it, footer included: nothing says where it would have ended.
			case lost && (damage.First != from || damage.End() != first+b.Records):
				t.Fatalf("block %d: lost %d to %d, want %d to %d", i, damage.First, damage.End(), from, first+b.Records)
			}
			offset, first = offset+uint64(b.Length), first+b.Records
		}
	}
	start := e.Offset + uint64(blocks[0].Length+blocks[1].Length) // of block 2
	for _, at := range []uint64{0, 1, 2, 3, 6, 7, 10, 11, 12, 16, 20, 1000} {
		at += start
		objects.data[testSegmentKey] = bytes.Clone(sound)
		objects.data[testSegmentKey][at] ^= 0x02
		for _, maxBytes := range []int{1, 1 << 19} {
			check(t, maxBytes, func(i int, _, _ uint64) bool { return i == 2 })
		}
	}
	for _, cut := range []int{1, 17, 18, 100, 199, 200, 250_000} {
		objects.data[testSegmentKey] = sound[:len(sound)-cut]
		check(t, 1, func(_ int, _, end uint64) bool { return end > uint64(len(sound)-cut) })
	}
}

// TestSmallChunkDamage flips every byte of a small chunk: an error, or the records exactly.
func TestSmallChunkDamage(t *testing.T) {
	t.Parallel()
	objects, entries := stored(t, goldenBatches())
	want := flatten(goldenBatches())
	sound, e := objects.data[testSegmentKey], entries[0]
	r := NewReader(objects, 0)
	for i := range sound {
		objects.data[testSegmentKey] = bytes.Clone(sound)
		objects.data[testSegmentKey][i] ^= 0x81
		got, err := r.Read(t.Context(), testBasin, testStream, e, 0, 1<<20)
		hit := uint64(i) >= e.Offset && uint64(i) < e.Offset+uint64(e.Length)
		if hit != errors.Is(err, ErrCorrupt) || !hit && !sameRecords(got, want) {
			t.Fatalf("byte %d: %v", i, err)
		}
	}
	for cut := 1; cut <= min(200, len(sound)); cut++ {
		objects.data[testSegmentKey] = sound[:len(sound)-cut]
		got, err := r.Read(t.Context(), testBasin, testStream, e, 0, 1<<20)
		hit := uint64(len(sound)-cut) < e.Offset+uint64(e.Length)
		if hit != errors.Is(err, ErrCorrupt) || !hit && !sameRecords(got, want) {
			t.Fatalf("cut by %d: %v", cut, err)
		}
	}
}

// TestDamageIsNotCached: bytes damaged on the way are fetched again by the next reader.
func TestDamageIsNotCached(t *testing.T) {
	t.Parallel()
	for _, maxBytes := range []int{1, 8 << 20} {
		objects, entries := stored(t, numbered(900, 4000))
		flip := func(b []byte) []byte { b[entries[0].Offset+100] ^= 1; return b }
		objects.change(testSegmentKey, flip)
		r := NewReader(objects, 64<<20)
		if _, err := r.Read(t.Context(), testBasin, testStream, entries[0], 0, maxBytes); !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		objects.change(testSegmentKey, flip)
		if _, err := r.Read(t.Context(), testBasin, testStream, entries[0], 0, maxBytes); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadsShareOneFetch: of many readers of a chunk one fetches, and when it gives up the others still get theirs.
func TestReadsShareOneFetch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		objects, entries := stored(t, numbered(10, 100))
		objects.hook = func() error { time.Sleep(time.Second); return nil }
		r := NewReader(objects, 1<<20)
		first, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 5)
		read := func(ctx context.Context) {
			_, err := r.Read(ctx, testBasin, testStream, entries[0], 0, 1)
			errs <- err
		}
		go read(first)
		synctest.Wait()
		for range 4 {
			go read(t.Context())
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		for range 4 {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		if gets := r.Stats().Gets; gets != 1 {
			t.Fatalf("%d GETs", gets)
		}
	})
}

func TestFetchDoesNotHangForever(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		objects, entries := stored(t, numbered(10, 100))
		r := NewReader(hangingObjects{objects}, 1<<20)
		if _, err := r.Read(t.Context(), testBasin, testStream, entries[0], 0, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	})
}

// hangingObjects answers no Get before its ctx ends.
type hangingObjects struct{ Objects }

func (hangingObjects) Get(ctx context.Context, _ string, _, _ int64) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestPrefetch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		large := numbered(500, 4000)
		chunks := slices.Repeat([][]StoredBatch{large}, 2*maxPrefetches+4)
		objects, entries := stored(t, chunks...)
		objects.hook = func() error { time.Sleep(time.Second); return nil }
		r := NewReader(objects, 256<<20)
		ctx, cancel := context.WithCancel(t.Context())
		r.Prefetch(ctx, testBasin, entries[0])
		r.Prefetch(ctx, testBasin, entries[0])
		r.Prefetch(ctx, testBasin, &Entry{N: 1, Data: []byte("inline")})
		cancel() // a prefetch outlives the request it was made for
		synctest.Wait()
		// A read of part of the chunk joins the prefetch of the whole.
		if got := readAll(t, r, entries[0], 100, 1); !sameRecords(got, flatten(large)[100:]) {
			t.Fatal("other records")
		}
		if s := r.Stats(); s.Gets != 1 || s.DroppedPrefetches != 0 {
			t.Fatalf("%+v", s)
		}
		synctest.Wait() // until its slot is free again
		for _, e := range entries {
			r.Prefetch(t.Context(), testBasin, e)
			r.Prefetch(ctx, testBasin, e) // ended before it began
		}
		synctest.Wait()
		if s := r.Stats(); s.Gets != 1+maxPrefetches || s.DroppedPrefetches != uint64(len(entries)-1-maxPrefetches) {
			t.Fatalf("%+v for %d entries", s, len(entries))
		}
		time.Sleep(2 * time.Second)
		r.Prefetch(t.Context(), testBasin, entries[len(entries)-1])
		synctest.Wait()
		if s := r.Stats(); s.Gets != 2+maxPrefetches {
			t.Fatalf("the slots are not free again: %+v", s)
		}
		time.Sleep(2 * time.Second)
	})
}

// TestPrefetchSurvivesAScan: a cache full of chunks that were read once still keeps the one fetched ahead.
func TestPrefetchSurvivesAScan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		chunks := slices.Repeat([][]StoredBatch{numbered(25, 4000)}, 80)
		objects, entries := stored(t, chunks...)
		r := NewReader(objects, 2<<20)
		for i := 0; i < len(entries); i += 2 {
			r.Prefetch(t.Context(), testBasin, entries[i])
			synctest.Wait()
			gets := r.Stats().Gets
			readAll(t, r, entries[i], 0, 1<<20)
			if r.Stats().Gets != gets {
				t.Fatalf("chunk %d was fetched twice", i)
			}
		}
		if size := r.cache.often.WeightedSize() + uint64(r.cache.recent.size); size > 2<<20 {
			t.Fatalf("the cache holds %d bytes", size)
		}
	})
}

func TestReaderPage(t *testing.T) {
	t.Parallel()
	objects := newMapObjects()
	leaf, root := goldenPages()["page-leaf.bin"], goldenPages()["page-root.bin"]
	data, err := EncodePage(leaf)
	if err != nil {
		t.Fatal(err)
	}
	other := NewObjectID(leaf.ID.Label())
	basin2 := NewBasinID()
	for _, key := range []string{PageKey(testBasin, leaf.ID), PageKey(testBasin, other), PageKey(basin2, leaf.ID)} {
		_ = objects.Put(t.Context(), key, data)
	}
	r := NewReader(objects, 1<<20)
	for range 2 {
		got, err := r.Page(t.Context(), testBasin, testStream, leaf.ID)
		if err != nil || !reflect.DeepEqual(got, leaf) {
			t.Fatal(err)
		}
	}
	r.AddPage(root)
	if got, err := r.Page(t.Context(), testBasin, testStream, root.ID); err != nil || got != root {
		t.Fatal(err)
	}
	if gets := r.Stats().Gets; gets != 1 {
		t.Fatalf("%d GETs", gets)
	}
	for name, f := range map[string]func() (*Page, error){
		"another id":     func() (*Page, error) { return r.Page(t.Context(), testBasin, testStream, other) },
		"another basin":  func() (*Page, error) { return r.Page(t.Context(), basin2, testStream, leaf.ID) },
		"another stream": func() (*Page, error) { return r.Page(t.Context(), testBasin, otherStream, leaf.ID) },
	} {
		if _, err := f(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReadFooterCost(t *testing.T) {
	t.Parallel()
	objects, _ := stored(t, numbered(900, 1000), numbered(3, 100))
	size := int64(len(objects.data[testSegmentKey]))
	want, err := ParseFooter(objects.data[testSegmentKey])
	if err != nil {
		t.Fatal(err)
	}
	small := &Footer{}
	for i, size := range []int64{0, size} {
		objects.gets = nil
		f, err := ReadFooter(t.Context(), objects, testBasin, testSegmentID, size)
		if err != nil || !reflect.DeepEqual(f, want) || len(objects.gets) != 2 {
			t.Fatalf("%d: %v, %v", i, err, objects.gets)
		}
	}
	objects, _ = stored(t, numbered(3, 100))
	if small, err = ReadFooter(t.Context(), objects, testBasin, testSegmentID, int64(len(objects.data[testSegmentKey]))); err != nil {
		t.Fatal(err)
	}
	if len(objects.gets) != 1 || len(small.Chunks) != 1 {
		t.Fatal(objects.gets)
	}
}

// TestReaderConcurrent is for the race detector: all methods at once, over a cache too small for what is read.
func TestReaderConcurrent(t *testing.T) {
	t.Parallel()
	chunks := slices.Repeat([][]StoredBatch{numbered(400, 4000)}, 6)
	objects, entries := stored(t, chunks...)
	leaf := goldenPages()["page-leaf.bin"]
	r := NewReader(objects, 8<<20)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 60 {
				e := entries[(g+i)%3*2]
				from := uint32(i * 37 % 400)
				r.Prefetch(t.Context(), testBasin, entries[(g+i+1)%6])
				records, err := r.Read(t.Context(), testBasin, testStream, e, from, 1<<(i%24))
				if err != nil || !sameRecords(records[:1], flatten(chunks[0])[from:from+1]) {
					t.Errorf("from %d: %v", from, err)
					return
				}
				r.AddPage(leaf)
				if _, err := r.Page(t.Context(), testBasin, testStream, leaf.ID); err != nil {
					t.Error(err)
				}
				_ = r.Stats()
			}
		})
	}
	wg.Wait()
}

// TestErrorsHoldNoData: records must not reach logs through errors.
func TestErrorsHoldNoData(t *testing.T) {
	t.Parallel()
	secret := []byte("correct horse battery staple")
	objects, entries := stored(t, []StoredBatch{{1, []Record{{Timestamp: 1, HasTimestamp: true, Body: secret}}}})
	sound := maps.Clone(objects.data)[testSegmentKey]
	for i := range sound {
		objects.data[testSegmentKey] = bytes.Clone(sound)
		objects.data[testSegmentKey][i] ^= 1
		_, err := NewReader(objects, 0).Read(t.Context(), testBasin, testStream, entries[0], 0, 1)
		if err != nil && strings.Contains(err.Error(), "horse") {
			t.Fatal(err)
		}
	}
}
