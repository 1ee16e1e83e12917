package segments

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"reflect"
	"testing"
)

// The fuzz targets mend checksums before they decode, else nearly every input would end there: what is behind them
// must stand on its own against any bytes.

func FuzzDecodeChunk(f *testing.F) {
	for _, name := range []string{"chunk-1.bin", "chunk-2.bin"} {
		f.Add(readGolden(f, name), uint32(0), uint32(AllRecords), true)
		f.Add(readGolden(f, name), uint32(1), uint32(1), false)
	}
	f.Add(smallBlocks(), uint32(4), uint32(3), true)
	f.Fuzz(func(t *testing.T, chunk []byte, skip, n uint32, mend bool) {
		if mend {
			chunk = mendChunk(bytes.Clone(chunk))
		}
		records, err := DecodeChunk(testStream, chunk, skip, n)
		var damage *CorruptError
		switch {
		case err == nil && n != AllRecords && len(records) != int(n):
			t.Fatalf("%d records of %d without an error", len(records), n)
		case err != nil && (!errors.As(err, &damage) || !errors.Is(err, ErrCorrupt)):
			t.Fatalf("%T: %v", err, err)
		case err != nil && (damage.N == 0 || uint64(damage.First) != uint64(skip)+uint64(len(records))):
			t.Fatalf("after %d records from %d: %v", len(records), skip, err)
		case err != nil && n != AllRecords && uint64(damage.First)+uint64(damage.N) > uint64(skip)+uint64(n):
			t.Fatalf("asked for %d from %d: %v", n, skip, err)
		}
		if err == nil && len(records) > 0 && len(records) < 5000 {
			again, err := Rechunk(nil, testStream, ChunkRange{chunk, skip, n})
			if err != nil {
				t.Fatal(err)
			}
			if got := mustDecode(t, again); !sameRecords(got, records) {
				t.Fatal("joined records differ")
			}
		}
	})
}

// smallBlocks is a chunk of many blocks that is small enough to be changed quickly.
func smallBlocks() []byte {
	e := newChunkEncoder(nil, testStream)
	for i, r := range flatten(append(goldenBatches(), numbered(20, 5)...)) {
		e.add(r.Arrival, &r.Record)
		if i%3 == 2 {
			e.close()
		}
	}
	return e.finish()
}

// mendChunk makes the checksums of all blocks match that can be found.
func mendChunk(chunk []byte) []byte {
	first := uint32(0)
	for rest := chunk; ; {
		h, err := parseBlockHeader(rest)
		if err != nil {
			return chunk
		}
		block := rest[:h.info().Length]
		binary.BigEndian.PutUint32(block[12:], blockCRC(streamSeed(testStream), first, block))
		first += uint32(h.records)
		rest = rest[len(block):]
	}
}

func FuzzParseFooter(f *testing.F) {
	f.Add(readGolden(f, "segment.bin"), true)
	f.Add(readGolden(f, "segment.bin"), false)
	data, _ := buildSegment(f, numbered(300, 3000), numbered(1, 1))
	f.Add(data, true)
	f.Fuzz(func(t *testing.T, data []byte, mend bool) {
		if mend && len(data) > segmentHeaderSize+segmentTrailerSize {
			data = mendSegment(bytes.Clone(data))
		}
		footer, err := ParseFooter(data)
		var version *VersionError
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.As(err, &version) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		end := uint64(segmentHeaderSize)
		for i, c := range footer.Chunks {
			if c.Offset != end || c.Length == 0 || c.Records == 0 || len(c.Blocks) == 0 {
				t.Fatalf("chunk %d: %+v, want it at %d", i, c, end)
			}
			end += uint64(c.Length)
			if _, ok := footer.Chunk(c.Offset, c.Length); !ok {
				t.Fatalf("chunk %d is not found", i)
			}
			_, _ = DecodeChunk(c.Stream, data[c.Offset:end], 0, AllRecords)
		}
		if end > uint64(len(data)) {
			t.Fatalf("chunks end at %d of %d", end, len(data))
		}
	})
}

func mendSegment(data []byte) []byte {
	trailer := len(data) - segmentTrailerSize
	binary.BigEndian.PutUint32(data[48:], crc32.Checksum(data[:48], castagnoli))
	offset := binary.BigEndian.Uint32(data[40:])
	if int64(offset) > int64(trailer) {
		return data
	}
	crc := crc32.Update(crc32.Checksum(data[:segmentHeaderSize], castagnoli), castagnoli, data[offset:trailer+4])
	binary.BigEndian.PutUint32(data[trailer+4:], crc)
	return data
}

func FuzzDecodePage(f *testing.F) {
	for _, name := range []string{"page-leaf.bin", "page-root.bin"} {
		f.Add(readGolden(f, name), true)
		f.Add(readGolden(f, name), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, mend bool) {
		if mend && len(data) >= 4 {
			data = reseal(data)
		}
		p, err := DecodePage(data)
		var version *VersionError
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.As(err, &version) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		again, err := EncodePage(p)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodePage(again); err != nil || !reflect.DeepEqual(got, p) {
			t.Fatalf("encoded again: %v", err)
		}
	})
}
