package segments

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// A block is the unit of checksum, compression and partial reading. All numbers of fixed size are big-endian.
//
//	 0        1        2           4            8               12             16
//	+--------+--------+-----------+------------+---------------+--------------+-----------------+
//	| format | codec  | records   | raw length | stored length | CRC-32C      | payload, stored |
//	| 0xB1   | 0 or 1 | 1 to 2^16 | of payload | of payload    | see blockCRC | raw or zstd     |
//	+--------+--------+-----------+------------+---------------+--------------+-----------------+
//
// The payload's records are laid out in recordcodec.go. There is no file around a block that is sure to be read with
// it, so the block itself proves where it belongs: its checksum starts from the stream's id and the number, within
// the chunk, of its first record. A chunk fetched for the wrong stream, or a header skipped with a wrong count, fails
// the checksum of the first block that is opened.
const (
	blockFormat     = 0xB0 // high half of the first byte
	blockVersion    = 1    // low half of the first byte
	blockHeaderSize = 16

	codecNone byte = 0
	codecZstd byte = 1

	maxBlockRecords = 1<<16 - 1
	// maxRecordRaw bounds one encoded record: MaxRecordBytes are metered, and encoding adds less than a tenth of
	// this allowance (two bytes of length for a header that is metered with two), sealing some tens of bytes.
	maxRecordRaw = MaxRecordBytes + 64<<10
	// maxBlockRaw bounds what decoding a block may allocate, whatever its header says.
	maxBlockRaw = max(BlockBytes, maxRecordRaw)

	// Below compressMin bytes zstd seldom wins and its fixed cost shows in every small append. It must win an
	// eighth, because each later read pays for it.
	compressMin   = 512
	compressShare = 8
)

// BlockInfo describes a block without its payload, as the footer of a segment lists it.
type BlockInfo struct {
	Records uint32 // at least 1
	Raw     uint32 // bytes of the payload once decompressed
	Length  uint32 // bytes the block takes in the chunk, header included
}

type blockHeader struct {
	codec       byte
	records     uint16
	raw, stored uint32
	crc         uint32
}

func (h *blockHeader) info() BlockInfo {
	return BlockInfo{uint32(h.records), h.raw, blockHeaderSize + h.stored}
}

var errCutShort = errors.New("a block is cut short")

// parseBlockHeader checks everything that can be known without the checksum. The payload may be cut short: then the
// header comes with errCutShort, since its counts still tell how much is lost.
func parseBlockHeader(b []byte) (blockHeader, error) {
	if len(b) < blockHeaderSize {
		return blockHeader{}, errors.New("a block's header is cut short")
	}
	h := blockHeader{
		codec: b[1], records: binary.BigEndian.Uint16(b[2:]),
		raw: binary.BigEndian.Uint32(b[4:]), stored: binary.BigEndian.Uint32(b[8:]), crc: binary.BigEndian.Uint32(b[12:]),
	}
	switch {
	case b[0]&0xF0 != blockFormat:
		return blockHeader{}, errors.New("no block starts where one should")
	case b[0]&0x0F != blockVersion:
		return blockHeader{}, &VersionError{"block", uint16(b[0] & 0x0F)}
	case h.codec > codecZstd:
		return blockHeader{}, fmt.Errorf("unknown codec %d", h.codec)
	case h.raw > maxBlockRaw, h.records == 0, uint32(h.records) > h.raw/minRecordRaw:
		return blockHeader{}, fmt.Errorf("a block claims %d records in %d bytes", h.records, h.raw)
	case h.codec == codecNone && h.stored != h.raw, h.codec == codecZstd && h.stored >= h.raw:
		return blockHeader{}, fmt.Errorf("a block claims to store %d bytes in %d", h.raw, h.stored)
	case uint64(len(b)-blockHeaderSize) < uint64(h.stored):
		return h, errCutShort
	}
	return h, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// streamSeed is the CRC-32C of the stream's id, where the checksums of its blocks start from. Byte by byte, because
// crc32.Update would move every id to the heap.
func streamSeed(stream StreamID) uint32 {
	crc := ^uint32(0)
	for _, b := range stream {
		crc = castagnoli[byte(crc)^b] ^ crc>>8
	}
	return ^crc
}

// blockCRC covers the header up to the checksum and the payload as stored. It starts from the stream's seed, xored
// with the number of the block's first record in the chunk: two places in a chunk never have the same start.
func blockCRC(seed, first uint32, block []byte) uint32 {
	crc := crc32.Update(seed^first, castagnoli, block[:blockHeaderSize-4])
	return crc32.Update(crc, castagnoli, block[blockHeaderSize:])
}

// sealBlock turns dst[at:], room for a header and then a raw payload, into a block, compressing it if that helps.
func sealBlock(dst []byte, at int, seed, first uint32, records int) []byte {
	codec, raw := codecNone, len(dst)-at-blockHeaderSize
	if raw >= compressMin {
		dst, codec = compressTail(dst, at+blockHeaderSize)
	}
	b := dst[at:]
	b[0], b[1] = blockFormat|blockVersion, codec
	binary.BigEndian.PutUint16(b[2:], uint16(records))
	binary.BigEndian.PutUint32(b[4:], uint32(raw))
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-blockHeaderSize))
	binary.BigEndian.PutUint32(b[12:], blockCRC(seed, first, b))
	return dst
}

// verifyBlock checks a block's checksum without decompressing it.
func verifyBlock(seed, first uint32, block []byte) (blockHeader, error) {
	h, err := parseBlockHeader(block)
	if err == nil && blockCRC(seed, first, block[:blockHeaderSize+h.stored]) != h.crc {
		err = errors.New("the checksum does not match")
	}
	return h, err
}

// openBlock verifies a whole block and returns its header and payload, which aliases block unless it was compressed.
func openBlock(seed, first uint32, block []byte) (blockHeader, []byte, error) {
	h, err := verifyBlock(seed, first, block)
	if err != nil {
		return h, nil, err
	}
	payload := block[blockHeaderSize : blockHeaderSize+h.stored]
	if h.codec == codecZstd {
		payload, err = decompress(payload, h.raw)
	}
	return h, payload, err
}

// One encoder and one decoder serve everybody: both take concurrent calls and keep as many states as there are
// processors. They are made at start, not on first use, since they hold channels: made inside the synctest bubble of
// one simulation they could not be used in the next. A state's tables are not touched, so not backed by memory,
// before it compresses something.
var (
	encoder = newEncoder()
	decoder = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
		zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(maxBlockRaw)))
	scratch = sync.Pool{New: func() any { b := make([]byte, 0, 64<<10); return &b }}
)

func newEncoder() *zstd.Encoder {
	e := must(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false),
		zstd.WithWindowSize(512<<10), zstd.WithLowerEncoderMem(true)))
	e.EncodeAll(nil, nil) // makes the states
	return e
}

func must[T any](v T, err error) T {
	if err != nil {
		panic("segments: set up zstd: " + err.Error()) // the options are constants
	}
	return v
}

// compressTail compresses dst[at:] in place, or leaves it when zstd does not win its share.
func compressTail(dst []byte, at int) ([]byte, byte) {
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	out := encoder.EncodeAll(dst[at:], (*buf)[:0])
	*buf = out[:0]
	raw := len(dst) - at
	if len(out) > raw-raw/compressShare {
		return dst, codecNone
	}
	return append(dst[:at], out...), codecZstd
}

// decompress gives exactly raw bytes or an error. It never allocates more than that for the result.
func decompress(stored []byte, raw uint32) ([]byte, error) {
	out, err := decoder.DecodeAll(stored, make([]byte, 0, raw))
	if err != nil {
		return nil, fmt.Errorf("decompress %d bytes: %w", len(stored), err)
	}
	if len(out) != int(raw) {
		return nil, fmt.Errorf("%d bytes where %d were compressed", len(out), raw)
	}
	return out, nil
}
