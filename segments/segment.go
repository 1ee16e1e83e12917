package segments

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A segment is an immutable object of one basin that holds chunks of any streams. Numbers of fixed size are
// big-endian.
//
//	header    0  magic "TRseg" and 0xFF   6
//	          6  format version           2
//	          8  basin                   16
//	         24  segment id              16
//	         40  footer offset            4
//	         44  footer length            4
//	         48  CRC-32C of 0 to 48       4
//	chunks   52  the first chunk; each next one starts where the one before ends
//	footer    .  per chunk: stream 16, number of blocks, then for each block: records, raw bytes,
//	             bytes in the chunk less its header (all three uvarint)
//	trailer  +0  footer length            4
//	         +4  CRC-32C of header, then footer, then trailer up to here   4
//	         +8  magic "TRend" and 0xFF   6
//	        +14  format version           2
//
// A read by entry touches neither header nor footer. The header locates the footer, since who reads by an entry does
// not know the object's size; the trailer proves that nothing was cut off. Records, offset and length of a chunk
// follow from its blocks and the order, so they are not written a second time.
const (
	segmentMagic       = "TRseg\xFF"
	trailerMagic       = "TRend\xFF"
	segmentVersion     = 1
	segmentHeaderSize  = 52
	segmentTrailerSize = 16
	// A footer entry takes at least a stream id, a count and one block.
	minFooterChunk = 16 + 1 + 3
)

// SegmentWriter gathers chunks in memory and makes one segment of them. It is for one goroutine at a time.
type SegmentWriter struct {
	basin  BasinID
	buf    []byte
	footer []byte
	chunks int
}

// NewSegmentWriter starts a segment. Which id it gets is decided at Finish, because its label depends on the streams
// that are in it (protocol 1).
func NewSegmentWriter(basin BasinID) *SegmentWriter {
	return &SegmentWriter{basin: basin, buf: make([]byte, segmentHeaderSize)}
}

// Size is what the segment would have if it were finished now.
func (w *SegmentWriter) Size() int64 {
	return int64(len(w.buf) + len(w.footer) + segmentTrailerSize)
}

// Chunks is the number of chunks added.
func (w *SegmentWriter) Chunks() int { return w.chunks }

// AddBatches encodes batches as a chunk straight into the segment. See AppendChunk for what it demands, Add for what
// it returns.
func (w *SegmentWriter) AddBatches(stream StreamID, batches ...StoredBatch) (offset uint64, length uint32) {
	at := len(w.buf)
	w.buf = AppendChunk(w.buf, stream, batches...)
	blocks, err := ChunkBlocks(w.buf[at:])
	if err != nil {
		panic("segments: read back an encoded chunk: " + err.Error())
	}
	return w.list(stream, at, blocks)
}

// Add copies a finished chunk of the stream into the segment, and returns where it will lie: what an entry says. It
// verifies every block and refuses, adding nothing, a chunk that is damaged, empty or another stream's; to move
// damaged bytes along with sound ones, so that they hold nothing up, there is AddDamaged.
func (w *SegmentWriter) Add(stream StreamID, chunk []byte) (offset uint64, length uint32, err error) {
	blocks, err := ChunkBlocks(chunk)
	if err != nil {
		return 0, 0, fmt.Errorf("add chunk: %w", err)
	}
	if len(blocks) == 0 {
		return 0, 0, fmt.Errorf("add chunk: %w", corrupt("chunk", "it is empty"))
	}
	seed, first, rest := streamSeed(stream), uint32(0), chunk
	for _, b := range blocks {
		if _, err := verifyBlock(seed, first, rest[:b.Length]); err != nil {
			return 0, 0, fmt.Errorf("add chunk: %w", &CorruptError{What: "chunk", First: first, N: b.Records, Cause: err})
		}
		first, rest = first+b.Records, rest[b.Length:]
	}
	at := len(w.buf)
	w.buf = append(w.buf, chunk...)
	offset, length = w.list(stream, at, blocks)
	return offset, length, nil
}

// AddDamaged copies bytes that Add refused, as a chunk of one unreadable block with the given number of records. A
// reader of them gets a CorruptError, as it did before they were moved.
func (w *SegmentWriter) AddDamaged(stream StreamID, chunk []byte, records uint32) (offset uint64, length uint32) {
	at := len(w.buf)
	w.buf = append(w.buf, chunk...)
	for len(w.buf)-at < blockHeaderSize {
		w.buf = append(w.buf, 0)
	}
	size := uint32(len(w.buf) - at)
	return w.list(stream, at, []BlockInfo{{Records: records, Raw: size - blockHeaderSize, Length: size}})
}

func (w *SegmentWriter) list(stream StreamID, at int, blocks []BlockInfo) (offset uint64, length uint32) {
	w.chunks++
	w.footer = append(w.footer, stream[:]...)
	w.footer = binary.AppendUvarint(w.footer, uint64(len(blocks)))
	for _, b := range blocks {
		w.footer = binary.AppendUvarint(w.footer, uint64(b.Records))
		w.footer = binary.AppendUvarint(w.footer, uint64(b.Raw))
		w.footer = binary.AppendUvarint(w.footer, uint64(b.Length-blockHeaderSize))
	}
	return uint64(at), uint32(len(w.buf) - at)
}

// Finish returns the segment's bytes, to be stored under SegmentKey of its basin and id. The writer must not be used
// afterwards: bytes that were sent never come under a new label (protocol 1).
func (w *SegmentWriter) Finish(id ObjectID) []byte {
	header := w.buf[:0:segmentHeaderSize]
	header = appendVersion(header, segmentMagic, segmentVersion)
	header = append(header, w.basin[:]...)
	header = append(header, id[:]...)
	header = binary.BigEndian.AppendUint32(header, uint32(len(w.buf)))
	header = binary.BigEndian.AppendUint32(header, uint32(len(w.footer)))
	header = binary.BigEndian.AppendUint32(header, crc32.Checksum(header, castagnoli))

	out := append(w.buf, w.footer...)
	out = binary.BigEndian.AppendUint32(out, uint32(len(w.footer)))
	crc := crc32.Checksum(header, castagnoli)
	crc = crc32.Update(crc, castagnoli, out[len(w.buf):])
	out = binary.BigEndian.AppendUint32(out, crc)
	return appendVersion(out, trailerMagic, segmentVersion)
}

func appendVersion(dst []byte, magic string, version uint16) []byte {
	return binary.BigEndian.AppendUint16(append(dst, magic...), version)
}

func checkVersion(what string, b []byte, magic string, version uint16) error {
	if len(b) < len(magic)+2 || string(b[:len(magic)]) != magic {
		return corrupt(what, "it does not start as one")
	}
	if v := binary.BigEndian.Uint16(b[len(magic):]); v != version {
		return &VersionError{what, v}
	}
	return nil
}
