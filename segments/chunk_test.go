package segments

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func mustDecode(t testing.TB, chunk []byte) []StoredRecord {
	t.Helper()
	got, err := DecodeChunk(testStream, chunk, 0, AllRecords)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestChunkRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		batches := drawBatches(t, 12)
		want := flatten(batches)
		prefix := []byte("before")
		chunk := AppendChunk(prefix, testStream, batches...)
		if !bytes.HasPrefix(chunk, prefix) {
			t.Fatal("what was in dst is gone")
		}
		chunk = chunk[len(prefix):]
		skip := rapid.IntRange(0, len(want)).Draw(t, "skip")
		n := rapid.IntRange(0, len(want)-skip).Draw(t, "n")
		got, err := DecodeChunk(testStream, chunk, uint32(skip), uint32(n))
		if err != nil || !sameRecords(got, want[skip:skip+n]) {
			t.Fatalf("records %d to %d: %v", skip, skip+n, err)
		}
		got, err = DecodeChunk(testStream, chunk, uint32(skip), AllRecords)
		if err != nil || !sameRecords(got, want[skip:]) {
			t.Fatalf("records from %d: %v", skip, err)
		}
		blocks, err := ChunkBlocks(chunk)
		if err != nil {
			t.Fatal(err)
		}
		checkBlocks(t, chunk, blocks, len(want))
	})
}

// checkBlocks holds a chunk's blocks against what block.go says of them.
func checkBlocks(t rapid.TB, chunk []byte, blocks []BlockInfo, records int) {
	t.Helper()
	length, count := 0, 0
	for i, b := range blocks {
		length, count = length+int(b.Length), count+int(b.Records)
		if b.Raw > BlockBytes && b.Records > 1 {
			t.Fatalf("block %d has %d records in %d bytes", i, b.Records, b.Raw)
		}
	}
	if length != len(chunk) || count != records {
		t.Fatalf("blocks hold %d bytes and %d records; the chunk %d and %d", length, count, len(chunk), records)
	}
}

func TestRechunk(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var parts []ChunkRange
		var want []StoredRecord
		for range rapid.IntRange(1, 5).Draw(t, "parts") {
			batches := drawBatches(t, 4)
			records := flatten(batches)
			skip := rapid.IntRange(0, len(records)-1).Draw(t, "skip")
			n := rapid.IntRange(1, len(records)-skip).Draw(t, "n")
			chunk := AppendChunk(nil, testStream, batches...)
			parts = append(parts, ChunkRange{chunk, uint32(skip), uint32(n)})
			want = append(want, records[skip:skip+n]...)
		}
		joined, err := Rechunk([]byte("x"), testStream, parts...)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeChunk(testStream, joined[1:], 0, AllRecords)
		if err != nil || !sameRecords(got, want) {
			t.Fatalf("joined: %v", err)
		}
	})
}

func TestRechunkPacksInlineChunks(t *testing.T) {
	t.Parallel()
	var parts []ChunkRange
	total := 0
	for _, b := range numbered(500, 30) {
		for _, r := range b.Records {
			chunk := AppendChunk(nil, testStream, StoredBatch{b.Arrival, []Record{r}})
			parts = append(parts, ChunkRange{chunk, 0, 1})
			total += len(chunk)
		}
	}
	joined, err := Rechunk(nil, testStream, parts...)
	if err != nil {
		t.Fatal(err)
	}
	blocks, _ := ChunkBlocks(joined)
	if len(blocks) != 1 || len(joined) > total*2/3 {
		t.Fatalf("%d bytes in %d chunks became %d bytes in %d blocks", total, len(parts), len(joined), len(blocks))
	}
	parts[3].Chunk = bytes.Clone(parts[3].Chunk)
	parts[3].Chunk[20] ^= 1
	if out, err := Rechunk([]byte("x"), testStream, parts...); !errors.Is(err, ErrCorrupt) || string(out) != "x" {
		t.Fatalf("a damaged part gave %d bytes and %v", len(out), err)
	}
}

func TestChunkSizes(t *testing.T) {
	t.Parallel()
	headers := func(n, name, value int) []Header {
		return repeat(Header{bytes.Repeat([]byte{'n'}, name), bytes.Repeat([]byte{'v'}, value)}, n)
	}
	random := numbered(1, MaxRecordBytes)[0].Records[0].Body
	for name, r := range map[string]Record{
		"largest body":           {Body: random[:MaxRecordBytes-8]},
		"body that compresses":   {Body: make([]byte, MaxRecordBytes-8)},
		"most headers":           {Headers: headers((MaxRecordBytes-8)/2, 0, 0)},
		"costliest lengths":      {Headers: headers((MaxRecordBytes-8)/130, 128, 0)},
		"largest header":         {Headers: headers(1, 0, MaxRecordBytes-10)},
		"largest sealed":         {Sealed: MaxRecordBytes, Body: random[:MaxRecordBytes]},
		"one more than a block":  {Body: random[:BlockBytes]},
		"as large as a block is": {Body: random[:BlockBytes-20]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if size := r.MeteredSize(); size > MaxRecordBytes {
				t.Fatalf("the test's record has %d bytes", size)
			}
			r.HasTimestamp = true
			small := Record{Timestamp: 3, HasTimestamp: true, Body: []byte("small")}
			batch := StoredBatch{7, []Record{small, r, small}}
			chunk := AppendChunk(nil, testStream, batch)
			if got := mustDecode(t, chunk); !sameRecords(got, flatten([]StoredBatch{batch})) {
				t.Fatal("records differ")
			}
			blocks, err := ChunkBlocks(chunk)
			if err != nil {
				t.Fatal(err)
			}
			checkBlocks(t, chunk, blocks, 3)
		})
	}
}

func repeat[T any](v T, n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// TestChunkCompression: zstd is used where it wins its share, and not on small payloads.
func TestChunkCompression(t *testing.T) {
	t.Parallel()
	random := numbered(1, 4000)[0].Records[0].Body
	for name, c := range map[string]struct {
		body []byte
		want byte
	}{
		"small":  {make([]byte, compressMin-20), codecNone},
		"large":  {make([]byte, compressMin+20), codecZstd},
		"random": {random, codecNone},
		"mixed":  {append(make([]byte, 400), random...), codecNone},
		"half":   {append(make([]byte, 4000), random...), codecZstd},
	} {
		batch := StoredBatch{1, []Record{{Timestamp: 1, HasTimestamp: true, Body: c.body}}}
		chunk := AppendChunk(nil, testStream, batch)
		if chunk[1] != c.want {
			t.Errorf("%s: codec %d, want %d", name, chunk[1], c.want)
		}
		if got := mustDecode(t, chunk); !sameRecords(got, flatten([]StoredBatch{batch})) {
			t.Errorf("%s: the record differs", name)
		}
	}
}

func TestChunkManyTinyRecords(t *testing.T) {
	t.Parallel()
	batch := StoredBatch{9, repeat(Record{Timestamp: 9, HasTimestamp: true}, 150_000)}
	chunk := AppendChunk(nil, testStream, batch)
	if got := mustDecode(t, chunk); len(got) != 150_000 || got[149_999].Timestamp != 9 || got[149_999].Arrival != 9 {
		t.Fatalf("got %d records", len(got))
	}
	blocks, _ := ChunkBlocks(chunk)
	checkBlocks(t, chunk, blocks, 150_000)
}

func TestAppendChunkPanicsOnWhatNobodyCouldRead(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Fatal("no panic")
		}
	}()
	AppendChunk(nil, testStream, StoredBatch{1, []Record{{Sealed: 5, Body: make([]byte, maxBlockRaw)}}})
}

func TestAppendChunkOverhead(t *testing.T) { // not parallel: it counts allocations
	// The cost of being durable for a small append, which an inline entry pays in the head.
	batch := numbered(1, 100)[0]
	if n := len(AppendChunk(nil, testStream, batch)) - 100; n > 16+1+7+2 {
		t.Fatalf("one record has %d bytes of overhead", n)
	}
	if n := testing.AllocsPerRun(100, func() { AppendChunk(nil, testStream, batch) }); n > 2 { // one, and one more under the race detector
		t.Fatalf("%v allocations", n)
	}
}

// TestDecodeChunkWrongPlace: bytes that are sound but not where they belong.
func TestDecodeChunkWrongPlace(t *testing.T) {
	t.Parallel()
	chunk := AppendChunk(nil, testStream, numbered(900, 1000)...)
	blocks, _ := ChunkBlocks(chunk)
	if len(blocks) < 3 {
		t.Fatalf("%d blocks", len(blocks))
	}
	second := chunk[blocks[0].Length:]
	swapped := append(bytes.Clone(second[:blocks[1].Length]), chunk[:blocks[0].Length]...)
	miscounted := bytes.Clone(chunk)
	miscounted[3]++ // records of the first block
	for name, c := range map[string]struct {
		stream StreamID
		chunk  []byte
		skip   uint32
	}{
		"another stream":    {otherStream, chunk, 0},
		"a later block":     {testStream, second, 0},
		"blocks swapped":    {testStream, swapped, 0},
		"a skipped header":  {testStream, miscounted, 500},
		"beyond the end":    {testStream, chunk, 900},
		"far beyond":        {testStream, chunk, math.MaxUint32 - 1},
		"nothing":           {testStream, nil, 0},
		"not even a header": {testStream, chunk[:15], 0},
	} {
		got, err := DecodeChunk(c.stream, c.chunk, c.skip, 1)
		if !errors.Is(err, ErrCorrupt) || len(got) != 0 {
			t.Errorf("%s: %d records and %v", name, len(got), err)
		}
	}
}

// TestDecodeChunkBehindDamage: a damaged block costs its own records and no other.
func TestDecodeChunkBehindDamage(t *testing.T) {
	t.Parallel()
	batches := numbered(900, 1000)
	want := flatten(batches)
	chunk := AppendChunk(nil, testStream, batches...)
	blocks, _ := ChunkBlocks(chunk)
	chunk[int(blocks[0].Length)+500] ^= 0x10
	lost := [2]uint32{blocks[0].Records, blocks[0].Records + blocks[1].Records}

	got, err := DecodeChunk(testStream, chunk, 0, AllRecords)
	var damage *CorruptError
	if !errors.As(err, &damage) || damage.First != lost[0] || damage.End() != lost[1] {
		t.Fatalf("%v, want records %d to %d lost", err, lost[0], lost[1])
	}
	if !sameRecords(got, want[:lost[0]]) {
		t.Fatal("the records before the damage are not there")
	}
	got, err = DecodeChunk(testStream, chunk, damage.End(), AllRecords)
	if err != nil || !sameRecords(got, want[lost[1]:]) {
		t.Fatalf("behind the damage: %v", err)
	}
	if _, err = DecodeChunk(testStream, chunk, lost[0]+7, 3); !errors.As(err, &damage) ||
		damage.First != lost[0]+7 || damage.N != 3 {
		t.Fatalf("inside the damage: %v", err)
	}
}

// TestDecodeChunkLyingHeader: when the header behind which a block is lost may itself be wrong, the error covers all
// that was asked for, so that reading on at its end never returns records under wrong numbers.
func TestDecodeChunkLyingHeader(t *testing.T) {
	t.Parallel()
	sound := AppendChunk(nil, testStream, numbered(900, 1000)...)
	blocks, _ := ChunkBlocks(sound)
	for at, what := range map[uint32]string{0: "magic", 1: "codec", 3: "records", 7: "raw length", 11: "stored length"} {
		chunk := bytes.Clone(sound)
		chunk[blocks[0].Length+at] ^= 0x04
		got, err := DecodeChunk(testStream, chunk, 5, 890)
		var damage *CorruptError
		if !errors.As(err, &damage) || damage.First != blocks[0].Records || damage.End() != 895 || len(got) != int(blocks[0].Records-5) {
			t.Errorf("%s: %d records, then %v", what, len(got), err)
		}
	}
}

func TestDecodeChunkNamesTheVersion(t *testing.T) {
	t.Parallel()
	chunk := AppendChunk(nil, testStream, numbered(1, 10)...)
	chunk[0] = blockFormat | 7
	_, err := DecodeChunk(testStream, chunk, 0, 1)
	var version *VersionError
	if !errors.As(err, &version) || version.Version != 7 || !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
}

// goldenBatches has every field of the format in use, and none of them zero.
func goldenBatches() []StoredBatch {
	return []StoredBatch{
		{Arrival: 1_700_000_000_123, Records: []Record{
			{Timestamp: 1_700_000_000_100, HasTimestamp: true, Headers: []Header{{[]byte("name"), []byte("value")}, {[]byte("n2"), []byte("v2")}}, Body: []byte("plain")},
			{Timestamp: 1_700_000_000_200, HasTimestamp: true, Sealed: 321, Body: []byte("sealed body")},
		}},
		{Arrival: 1_700_000_000_777, Records: []Record{
			{Timestamp: 1_700_000_000_770, HasTimestamp: true, Body: bytes.Repeat([]byte("compressible "), 80)},
		}},
	}
}

func TestChunkGolden(t *testing.T) {
	t.Parallel()
	for i, batches := range [][]StoredBatch{goldenBatches()[:1], goldenBatches()} {
		chunk := AppendChunk(nil, testStream, batches...)
		golden(t, fmt.Sprintf("chunk-%d.bin", i+1), chunk)
		if got := mustDecode(t, chunk); !sameRecords(got, flatten(batches)) {
			t.Fatal("records differ")
		}
	}
}
