package segments

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

var testSegmentID = testObjectID(1_700_000_000_999, 0xA1)

// buildSegment makes a segment of chunks of two streams, and returns where each lies.
func buildSegment(t testing.TB, chunks ...[]StoredBatch) ([]byte, []ChunkInfo) {
	t.Helper()
	w := NewSegmentWriter(testBasin)
	var infos []ChunkInfo
	for i, batches := range chunks {
		info := ChunkInfo{Stream: testStream, Records: uint32(len(flatten(batches)))}
		if i%2 == 1 {
			info.Stream = otherStream
			info.Offset, info.Length = w.AddBatches(info.Stream, batches...)
		} else {
			var err error
			if info.Offset, info.Length, err = w.Add(info.Stream, AppendChunk(nil, info.Stream, batches...)); err != nil {
				t.Fatal(err)
			}
		}
		infos = append(infos, info)
	}
	size := w.Size()
	data := w.Finish(testSegmentID)
	if int64(len(data)) != size || w.Chunks() != len(chunks) {
		t.Fatalf("Size said %d for %d bytes, Chunks %d for %d", size, len(data), w.Chunks(), len(chunks))
	}
	return data, infos
}

func checkFooter(t rapid.TB, f *Footer, data []byte, infos []ChunkInfo, chunks [][]StoredBatch) {
	t.Helper()
	if f.Basin != testBasin || f.ID != testSegmentID || f.Size != int64(len(data)) || len(f.Chunks) != len(infos) {
		t.Fatalf("the footer is of %v %v with %d chunks", f.Basin, f.ID, len(f.Chunks))
	}
	for i, want := range infos {
		got, ok := f.Chunk(want.Offset, want.Length)
		if !ok || got.Stream != want.Stream || got.Records != want.Records || got.Offset != want.Offset || got.Length != want.Length {
			t.Fatalf("chunk %d: %+v, want %+v", i, got, want)
		}
		chunk := data[got.Offset : got.Offset+uint64(got.Length)]
		checkBlocks(t, chunk, got.Blocks, int(got.Records))
		records, err := DecodeChunk(got.Stream, chunk, 0, AllRecords)
		if err != nil || !sameRecords(records, flatten(chunks[i])) {
			t.Fatalf("chunk %d: %v", i, err)
		}
	}
}

func TestSegmentRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		chunks := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) []StoredBatch { return drawBatches(t, 5) }), 1, 6).Draw(rt, "chunks")
		data, infos := buildSegment(t, chunks...)
		f, err := ParseFooter(data)
		if err != nil {
			rt.Fatal(err)
		}
		checkFooter(rt, f, data, infos, chunks)
		if _, ok := f.Chunk(infos[0].Offset, infos[0].Length+1); ok {
			rt.Fatal("found a chunk that is not there")
		}
	})
}

func TestSegmentWithoutChunks(t *testing.T) {
	t.Parallel()
	data, _ := buildSegment(t)
	if f, err := ParseFooter(data); err != nil || len(f.Chunks) != 0 {
		t.Fatal(f, err)
	}
}

func TestSegmentGolden(t *testing.T) {
	t.Parallel()
	chunks := [][]StoredBatch{goldenBatches(), goldenBatches()[:1], numbered(300, 1000)}
	data, _ := buildSegment(t, chunks[:2]...)
	golden(t, "segment.bin", data)
	data, infos := buildSegment(t, chunks...)
	f, err := ParseFooter(data)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Chunks[2].Blocks) < 2 {
		t.Fatal("no chunk of several blocks")
	}
	checkFooter(t, f, data, infos, chunks)
}

func TestSegmentNamesTheVersion(t *testing.T) {
	t.Parallel()
	data, _ := buildSegment(t, goldenBatches())
	data[7] = 9
	_, err := ParseFooter(data)
	var version *VersionError
	if !errors.As(err, &version) || version.Version != 9 || version.What != "segment" || errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
}

// TestSegmentDamage: after any cut and any flipped bit outside the chunks the footer is refused, after one inside it
// is as it was.
func TestSegmentDamage(t *testing.T) {
	t.Parallel()
	data, infos := buildSegment(t, goldenBatches()[:1], goldenBatches())
	for cut := 1; cut <= len(data); cut++ {
		if _, err := ParseFooter(data[:len(data)-cut]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut by %d: %v", cut, err)
		}
	}
	if _, err := ParseFooter(append(bytes.Clone(data), 0)); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("one byte more: %v", err)
	}
	last := infos[len(infos)-1]
	for i := range data {
		for bit := range 8 {
			bad := bytes.Clone(data)
			bad[i] ^= 1 << bit
			_, err := ParseFooter(bad)
			inChunk := i >= segmentHeaderSize && uint64(i) < last.Offset+uint64(last.Length)
			if inChunk != (err == nil) {
				t.Fatalf("bit %d of byte %d: %v", bit, i, err)
			}
		}
	}
}

func TestAddRefusesDamage(t *testing.T) {
	t.Parallel()
	chunk := AppendChunk(nil, testStream, goldenBatches()...)
	bad := bytes.Clone(chunk)
	bad[len(bad)-1] ^= 1
	w := NewSegmentWriter(testBasin)
	for name, c := range map[string]struct {
		stream StreamID
		chunk  []byte
	}{
		"damaged": {testStream, bad}, "another stream's": {otherStream, chunk},
		"empty": {testStream, nil}, "cut": {testStream, chunk[:len(chunk)-1]},
	} {
		if _, _, err := w.Add(c.stream, c.chunk); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if w.Chunks() != 0 || w.Size() != segmentHeaderSize+segmentTrailerSize {
		t.Fatal("something was added")
	}
	// What cannot be read can be moved all the same, and stays as unreadable as it was.
	offset, length := w.AddDamaged(testStream, bad, 3)
	tiny, _ := w.AddDamaged(testStream, []byte("x"), 2)
	data := w.Finish(testSegmentID)
	f, err := ParseFooter(data)
	if err != nil || f.Chunks[0].Records != 3 || f.Chunks[1].Records != 2 || f.Chunks[1].Offset != tiny {
		t.Fatal(f, err)
	}
	if _, err := DecodeChunk(testStream, data[offset:offset+uint64(length)], 0, 3); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
}
