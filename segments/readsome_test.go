package segments

import (
	"bytes"
	"fmt"
	"testing"
)

// compressible are single records that make up blocks which zstd shortens.
func compressible(n, size int) []StoredBatch {
	batches := make([]StoredBatch, n)
	for i := range batches {
		body := fmt.Appendf(nil, "record %d %s", i, bytes.Repeat([]byte{byte('a' + i%26)}, size))
		batches[i] = StoredBatch{Arrival: uint64(1000 + i), Records: []Record{{Timestamp: uint64(2000 + i), HasTimestamp: true, Body: body}}}
	}
	return batches
}

// A chunk read in small parts gives the same records as at once, each block is decompressed once while its parts are
// wanted, and a reader of the whole keeps none.
func TestReadSomeInParts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ records, size int }{"whole chunk": {2000, 300}, "by blocks": {3000, 900}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			batches := compressible(c.records, c.size)
			want := flatten(batches)
			objects, entries := stored(t, batches)
			r := NewReader(objects, 64<<20)
			if got := readAll(t, r, entries[0], 0, SegmentBytes); !sameRecords(got, want) || r.cache.plain.size != 0 {
				t.Fatalf("read at once: %d records, %d bytes of blocks kept", len(got), r.cache.plain.size)
			}
			gets := r.Stats().Gets
			for at := 0; at < len(want); {
				n := 1 + at%37
				records, err := r.ReadSome(t.Context(), testBasin, testStream, entries[0], uint32(at), uint32(n), MaxBatchBytes)
				if err != nil || len(records) == 0 || len(records) > n || !sameRecords(records, want[at:at+len(records)]) {
					t.Fatalf("read %d records from %d: %d of them, %v", n, at, len(records), err)
				}
				at += len(records)
			}
			if r.cache.plain.size == 0 || r.Stats().Gets != gets {
				t.Errorf("%d bytes of blocks kept, %d objects read", r.cache.plain.size, r.Stats().Gets-gets)
			}
		})
	}
}

// What one stream's reader decompressed is not given for another's entry over the same bytes.
func TestReadSomeKeepsStreamsApart(t *testing.T) {
	t.Parallel()
	objects, entries := stored(t, compressible(2000, 300), compressible(2000, 300))
	r := NewReader(objects, 64<<20)
	if _, err := r.ReadSome(t.Context(), testBasin, testStream, entries[0], 0, 3, 1); err != nil {
		t.Fatal(err)
	}
	if r.cache.plain.size == 0 {
		t.Fatal("no block is kept")
	}
	other := testStream
	other[0]++
	if records, err := r.ReadSome(t.Context(), testBasin, other, entries[0], 0, 3, 1); err == nil {
		t.Errorf("another stream's reader got %d records", len(records))
	}
}
