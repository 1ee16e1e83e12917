package segments

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
)

// Footer is what a segment says of its chunks.
type Footer struct {
	Basin  BasinID
	ID     ObjectID
	Chunks []ChunkInfo // in the order they lie
	// Size is that of the whole object.
	Size int64
}

// ChunkInfo is one chunk of a segment.
type ChunkInfo struct {
	Stream  StreamID
	Records uint32
	Offset  uint64
	Length  uint32
	Blocks  []BlockInfo
}

// Chunk finds the chunk that lies exactly there.
func (f *Footer) Chunk(offset uint64, length uint32) (*ChunkInfo, bool) {
	i, ok := slices.BinarySearchFunc(f.Chunks, offset, func(c ChunkInfo, offset uint64) int {
		return cmp.Compare(c.Offset, offset)
	})
	if !ok || f.Chunks[i].Length != length {
		return nil, false
	}
	return &f.Chunks[i], true
}

// segmentHeader is the front of a segment, verified.
type segmentHeader struct {
	raw                        []byte
	basin                      BasinID
	id                         ObjectID
	footerOffset, footerLength uint32
}

func parseSegmentHeader(b []byte) (segmentHeader, error) {
	if err := checkVersion("segment", b, segmentMagic, segmentVersion); err != nil {
		return segmentHeader{}, err
	}
	if len(b) < segmentHeaderSize {
		return segmentHeader{}, corrupt("segment", "its header is cut short")
	}
	b = b[:segmentHeaderSize]
	if crc32.Checksum(b[:48], castagnoli) != binary.BigEndian.Uint32(b[48:]) {
		return segmentHeader{}, corrupt("segment", "its header's checksum does not match")
	}
	h := segmentHeader{
		raw: b, basin: BasinID(b[8:24]), id: ObjectID(b[24:40]),
		footerOffset: binary.BigEndian.Uint32(b[40:]), footerLength: binary.BigEndian.Uint32(b[44:]),
	}
	if h.footerOffset < segmentHeaderSize || h.size() > MaxObjectBytes {
		return segmentHeader{}, corrupt("segment", "its header gives impossible sizes")
	}
	return h, nil
}

func (h *segmentHeader) size() int64 {
	return int64(h.footerOffset) + int64(h.footerLength) + segmentTrailerSize
}

// ParseFooter reads the footer of a whole segment. It does not look at the chunks. The error is a *CorruptError or a
// *VersionError.
func ParseFooter(segment []byte) (*Footer, error) {
	h, err := parseSegmentHeader(segment)
	if err != nil {
		return nil, err
	}
	if int64(len(segment)) != h.size() {
		return nil, corrupt("segment", "it has %d bytes where its header gives %d", len(segment), h.size())
	}
	return parseFooter(h, segment[h.footerOffset:])
}

// parseFooter reads tail, which is footer and trailer.
func parseFooter(h segmentHeader, tail []byte) (*Footer, error) {
	if len(tail) != int(h.footerLength)+segmentTrailerSize {
		return nil, corrupt("segment", "its footer is cut short")
	}
	footer, trailer := tail[:h.footerLength], tail[h.footerLength:]
	if err := checkVersion("segment", trailer[8:], trailerMagic, segmentVersion); err != nil {
		return nil, err
	}
	crc := crc32.Update(crc32.Checksum(h.raw, castagnoli), castagnoli, tail[:len(footer)+4])
	if binary.BigEndian.Uint32(trailer) != h.footerLength || binary.BigEndian.Uint32(trailer[4:]) != crc {
		return nil, corrupt("segment", "its footer's checksum does not match")
	}
	f := &Footer{Basin: h.basin, ID: h.id, Size: h.size(), Chunks: make([]ChunkInfo, 0, len(footer)/minFooterChunk)}
	offset := uint64(segmentHeaderSize)
	p := input{b: footer}
	for len(p.b) > 0 {
		c, err := parseChunkInfo(&p, offset)
		if err != nil {
			return nil, err
		}
		offset += uint64(c.Length)
		f.Chunks = append(f.Chunks, c)
	}
	if offset != uint64(h.footerOffset) || p.bad {
		return nil, corrupt("segment", "its chunks end at %d and its footer starts at %d", offset, h.footerOffset)
	}
	return f, nil
}

func parseChunkInfo(p *input, offset uint64) (ChunkInfo, error) {
	c := ChunkInfo{Offset: offset}
	copy(c.Stream[:], p.take(len(c.Stream)))
	n := p.uvarint()
	if n == 0 || n > uint64(len(p.b)/3) {
		return c, corrupt("segment", "its footer is not well formed")
	}
	c.Blocks = make([]BlockInfo, n)
	records, length := uint64(0), uint64(0)
	for i := range c.Blocks {
		b := &c.Blocks[i]
		b.Records, b.Raw = p.uint32(), p.uint32()
		stored := p.uint32()
		if p.bad || b.Records == 0 || stored > MaxObjectBytes {
			return c, corrupt("segment", "its footer is not well formed")
		}
		b.Length = stored + blockHeaderSize
		records += uint64(b.Records)
		length += uint64(b.Length)
	}
	if records > math.MaxUint32 || length > MaxObjectBytes {
		return c, corrupt("segment", "a chunk gives impossible sizes")
	}
	c.Records, c.Length = uint32(records), uint32(length)
	return c, nil
}

// sameObject is the check that what was stored under a key is what was written under it.
func (f *Footer) sameObject(basin BasinID, id ObjectID) error {
	if f.Basin != basin || f.ID != id {
		return corrupt("segment", "another object lies under its key")
	}
	return nil
}

// smallObject is the size up to which an object is read whole rather than in parts.
const smallObject = 256 << 10

// ReadFooter reads the footer of a segment with two GETs, or one if size, when the caller knows it from a listing, is
// small; otherwise size is 0. Besides the errors of ParseFooter and of Get it returns a *CorruptError if the object
// is not the one that was written under this key.
func ReadFooter(ctx context.Context, objects Objects, basin BasinID, id ObjectID, size int64) (*Footer, error) {
	f, err := readFooter(ctx, objects, SegmentKey(basin, id), size)
	if err == nil {
		err = f.sameObject(basin, id)
	}
	if err != nil {
		return nil, fmt.Errorf("read footer of segment %s: %w", id, err)
	}
	return f, nil
}

func readFooter(ctx context.Context, objects Objects, key string, size int64) (*Footer, error) {
	if 0 < size && size <= smallObject {
		data, err := objects.Get(ctx, key, 0, size)
		if err != nil {
			return nil, err
		}
		return ParseFooter(data)
	}
	data, err := objects.Get(ctx, key, 0, segmentHeaderSize)
	if err != nil {
		return nil, err
	}
	h, err := parseSegmentHeader(data)
	if err != nil {
		return nil, err
	}
	data, err = objects.Get(ctx, key, int64(h.footerOffset), int64(h.footerLength)+segmentTrailerSize)
	if err != nil {
		return nil, err
	}
	return parseFooter(h, data)
}
