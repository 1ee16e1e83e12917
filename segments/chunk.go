package segments

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// A chunk is records of one stream: blocks, one behind the other, and nothing else. It lies in a segment or, for an
// inline entry, in the head itself. Records in it are counted from 0; which sequence numbers they have is not in it.

// StoredBatch is records that arrived together. Only their raw timestamps are stored, not HasTimestamp.
type StoredBatch struct {
	Arrival uint64 // milliseconds since the Unix epoch
	Records []Record
}

// StoredRecord is a record with its raw timestamp and the arrival of its batch.
type StoredRecord struct {
	Record
	Arrival uint64
}

// AllRecords asks DecodeChunk for every record from the first one wanted to the end of the chunk.
const AllRecords = math.MaxUint32

// AppendChunk appends to dst a chunk of all the records of the batches, in order. dst is usually empty, or the middle
// of a larger message; what it holds stays. The records must have passed ValidateBatch, with a sealed body no more
// than 64 KiB longer than a record may be: AppendChunk panics on a record that no reader would accept, for it must
// not be committed. The chunk is for that stream alone; no other can decode it.
func AppendChunk(dst []byte, stream StreamID, batches ...StoredBatch) []byte {
	size := 0
	for i := range batches {
		for j := range batches[i].Records {
			size += maxRecordSize(&batches[i].Records[j])
		}
	}
	e := newChunkEncoder(slices.Grow(dst, size+(size/BlockBytes+1)*blockHeaderSize), stream)
	for i := range batches {
		for j := range batches[i].Records {
			e.add(batches[i].Arrival, &batches[i].Records[j])
		}
	}
	return e.finish()
}

// chunkEncoder writes records straight into dst, behind room for the header of the block they belong to.
type chunkEncoder struct {
	dst   []byte
	seed  uint32
	at    int    // where the open block starts
	first uint32 // records in closed blocks
	n     int    // records in the open block
	state recordState
}

func newChunkEncoder(dst []byte, stream StreamID) chunkEncoder {
	return chunkEncoder{dst: dst, seed: streamSeed(stream), at: len(dst)}
}

func (e *chunkEncoder) add(arrival uint64, r *Record) {
	if e.n > 0 && (e.n == maxBlockRecords || len(e.dst)-e.at-blockHeaderSize+maxRecordSize(r) > BlockBytes) {
		e.close()
	}
	if e.n == 0 {
		e.dst = append(e.dst, make([]byte, blockHeaderSize)...)
	}
	e.dst = e.state.append(e.dst, arrival, r)
	e.n++
	if raw := len(e.dst) - e.at - blockHeaderSize; raw > maxBlockRaw {
		panic(fmt.Sprintf("segments: a record takes %d bytes encoded, at most %d are allowed", raw, maxBlockRaw))
	}
}

func (e *chunkEncoder) close() {
	e.dst = sealBlock(e.dst, e.at, e.seed, e.first, e.n)
	*e = chunkEncoder{dst: e.dst, seed: e.seed, at: len(e.dst), first: e.first + uint32(e.n)}
}

func (e *chunkEncoder) finish() []byte {
	if e.n > 0 {
		e.close()
	}
	return e.dst
}

// DecodeChunk returns n records of the chunk from the skip-th on, or all from there with AllRecords. Blocks before
// and after are passed over by their headers alone, unverified. The records alias chunk, or memory made for them
// where it was compressed; nobody may write to either.
//
// On damage it returns the records before it, which are good, and a *CorruptError that names the unreadable ones;
// a chunk with fewer records than asked for is damaged too. A caller who wants what is behind the damage calls again
// with skip = End() and the rest of n. Where the damage hides how many records are lost, the error covers all that
// was asked for; only a block table (ReadFooter) then tells more.
func DecodeChunk(stream StreamID, chunk []byte, skip, n uint32) ([]StoredRecord, error) {
	d := chunkReader{seed: streamSeed(stream), walk: blockWalk{rest: chunk}}
	return d.read(uint64(skip), askedFor(n), math.MaxInt)
}

// toTheEnd is more records than there are; reading them is no error.
const toTheEnd = math.MaxUint64 - math.MaxUint32

func askedFor(n uint32) uint64 {
	if n == AllRecords {
		return toTheEnd
	}
	return uint64(n)
}

// ChunkBlocks lists the blocks of a chunk by their headers, without verifying payloads.
func ChunkBlocks(chunk []byte) ([]BlockInfo, error) {
	var blocks []BlockInfo
	walk := blockWalk{rest: chunk}
	for {
		b, ok := walk.next()
		switch {
		case !ok:
			return blocks, nil
		case b.err != nil:
			return blocks, &CorruptError{What: "chunk", First: b.first, N: AllRecords - b.first, Cause: b.err}
		}
		blocks = append(blocks, b.info)
	}
}

// blockWalk steps from block to block of a chunk, by a table if there is one, else by the headers it meets.
type blockWalk struct {
	rest  []byte
	table []BlockInfo
	sure  bool // there is a table: where blocks lie does not depend on what is read
	first uint32
}

// placedBlock is a block and the number of its first record. With an error it cannot be opened; its info is then
// zero, unless the table or a sound header tells how much is lost.
type placedBlock struct {
	first uint32
	info  BlockInfo
	data  []byte
	err   error
}

func (w *blockWalk) next() (placedBlock, bool) {
	b := placedBlock{first: w.first}
	if w.sure {
		if len(w.table) == 0 {
			return b, false
		}
		b.info, w.table = w.table[0], w.table[1:]
	} else {
		if len(w.rest) == 0 {
			return b, false
		}
		h, err := parseBlockHeader(w.rest)
		if err == nil && uint64(w.first)+uint64(h.records) > math.MaxUint32 {
			err = errors.New("more records than a chunk can hold")
		}
		if err != nil && err != errCutShort {
			w.rest, b.err = nil, err // where the next block starts is unknown
			return b, true
		}
		b.info = h.info()
	}
	w.first += b.info.Records
	length := min(int(b.info.Length), len(w.rest))
	b.data, w.rest = w.rest[:length], w.rest[length:]
	if length < int(b.info.Length) {
		b.err = errCutShort
	}
	return b, true
}

// chunkReader decodes a range of a chunk.
type chunkReader struct {
	seed  uint32
	walk  blockWalk
	plain *plainBlocks // nil: blocks are decompressed each time
	out   []StoredRecord
}

// read appends records skip to skip+n to out, stopping behind the block that brings the bytes decoded to budget.
func (d *chunkReader) read(skip, n uint64, budget int) ([]StoredRecord, error) {
	end := skip + n
	for next := skip; next < end && (budget > 0 || next == skip); {
		b, ok := d.walk.next()
		switch {
		case !ok && n == toTheEnd:
			return d.out, nil
		case !ok:
			return d.out, damaged(next, end, fmt.Errorf("it ends with record %d", b.first))
		}
		blockEnd := uint64(b.first) + uint64(b.info.Records)
		if blockEnd <= skip && (b.err == nil || d.walk.sure) {
			continue
		}
		if err := d.open(b, next, min(end, blockEnd)); err != nil {
			if !d.walk.sure && !d.nextOpens() {
				blockEnd = end // the header may lie about how many records are lost
			}
			return d.out, damaged(next, min(end, blockEnd), err)
		}
		budget -= int(b.info.Raw)
		next = min(end, blockEnd)
	}
	return d.out, nil
}

func damaged(first, end uint64, cause error) error {
	first, end = min(first, math.MaxUint32), min(end, math.MaxUint32)
	return &CorruptError{What: "chunk", First: uint32(first), N: uint32(max(first, end) - first), Cause: cause}
}

// nextOpens reports whether the block behind a damaged one is sound where the damaged one's header puts it: then
// that header was right, because the checksum of the next one covers its place.
func (d *chunkReader) nextOpens() bool {
	b, ok := d.walk.next()
	if !ok || b.err != nil {
		return false
	}
	_, _, err := openBlock(d.seed, b.first, b.data)
	return err == nil
}

// open decodes records from to end of a block, both counted in the chunk.
func (d *chunkReader) open(b placedBlock, from, end uint64) error {
	if b.err != nil {
		return b.err
	}
	h, raw, err := d.plain.open(d.seed, b, end)
	if err != nil {
		return err
	}
	if h.info() != b.info {
		return errors.New("a block is not what the table says")
	}
	p := recordReader{input: input{b: raw}}
	at := uint64(b.first)
	for ; at < from; at++ {
		if err := p.next(nil); err != nil {
			return err
		}
	}
	keep := len(d.out)
	d.out = slices.Grow(d.out, int(end-at))[:keep+int(end-at)]
	for i := keep; i < len(d.out); i++ {
		if err := p.next(&d.out[i]); err != nil {
			d.out = d.out[:keep]
			return err
		}
	}
	if end == uint64(b.first)+uint64(h.records) && len(p.b) != 0 {
		d.out = d.out[:keep]
		return errors.New("a block holds more than its records")
	}
	return nil
}

// ChunkRange is N records of a chunk, from the Skip-th on.
type ChunkRange struct {
	Chunk   []byte
	Skip, N uint32
}

// Rechunk appends to dst one chunk with the records of the parts in order, packed anew: records and arrivals are
// equal to the parts', blocks are as full as can be. Part i starts at the sum of N of those before it. Parts may be
// larger than one chunk should be; the caller decides how many to join.
//
// A damaged part fails the whole with its *CorruptError, behind "part i"; dst is then returned as it was.
func Rechunk(dst []byte, stream StreamID, parts ...ChunkRange) ([]byte, error) {
	size := 0
	for i := range parts {
		size += len(parts[i].Chunk)
	}
	d := chunkReader{seed: streamSeed(stream)}
	e := newChunkEncoder(slices.Grow(dst, size), stream)
	for i := range parts {
		d.walk, d.out = blockWalk{rest: parts[i].Chunk}, d.out[:0]
		records, err := d.read(uint64(parts[i].Skip), askedFor(parts[i].N), math.MaxInt)
		if err != nil {
			return dst, fmt.Errorf("join chunks: part %d: %w", i, err)
		}
		for j := range records {
			e.add(records[j].Arrival, &records[j].Record)
		}
	}
	return e.finish(), nil
}
