package s3store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"

	"google.golang.org/protobuf/encoding/protowire"
)

// bodyFormat is the version of the bodies below. Bodies of another are refused: rewriting one would drop what is not
// understood.
const bodyFormat = 1

var (
	// ErrVersion: a body is of a format that this build does not know.
	ErrVersion = errors.New("it is of another version")
	// ErrCorrupt: a body is not what this package writes.
	ErrCorrupt = errors.New("it is damaged")
)

// The fields of a body, in the order in which they are written: protobuf's wire format. Each is there exactly once.
const (
	bodyVersion = iota + 1
	bodyCount   // how often the register was written, this time included: no two bodies of one register are equal
	bodyFirst   // the id of the first write
	bodyRecent  // the ids of the last writes, oldest first, eight bytes each
	bodyPayload
	bodyPadding
	bodySum // CRC-32C of all before it
)

// writeID names one write of a register, so that whoever made it finds out later whether it was applied.
type writeID uint64

// newWriteID is never 0.
func newWriteID() writeID { return writeID(rand.Uint64N(1<<64-1) + 1) }

// keptIDs is how many of the last writes a register names. The winner of a race is looked up right after it, so this many
// others may write meanwhile.
const keptIDs = 32

// history is how a register came to be as it is. The zero value is that of one that was never written.
type history struct {
	count  uint64
	first  writeID
	recent []writeID // of the writes up to count, which is the last; never changed
}

// then is the history after one more write.
func (h history) then(id writeID, kept int) history {
	next := history{count: h.count + 1, first: h.first}
	if h.count == 0 {
		next.first = id
	}
	old := h.recent[max(0, len(h.recent)-kept+1):]
	next.recent = append(append(make([]writeID, 0, len(old)+1), old...), id)
	return next
}

// made reports whether the write with a number was the one with an id; known is false if the history does not say.
func (h history) made(count uint64, id writeID) (yes, known bool) {
	switch {
	case count == 1 && h.count > 0:
		return h.first == id, true
	case count == 0 || count > h.count:
		return false, count != 0
	}
	back := h.count - count
	if back >= uint64(len(h.recent)) {
		return false, false
	}
	return h.recent[uint64(len(h.recent))-1-back] == id, true
}

// liveBytes is the least size of a body, unless it is that of a deleted row, which is smaller: so a listing tells the two
// apart without reading either.
const liveBytes = 128

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendBody encodes a body. A live one is padded to liveBytes.
func appendBody(dst []byte, h history, payload []byte, live bool) []byte {
	start := len(dst)
	dst = protowire.AppendVarint(protowire.AppendTag(dst, bodyVersion, protowire.VarintType), bodyFormat)
	dst = protowire.AppendVarint(protowire.AppendTag(dst, bodyCount, protowire.VarintType), h.count)
	dst = protowire.AppendFixed64(protowire.AppendTag(dst, bodyFirst, protowire.Fixed64Type), uint64(h.first))
	recent := make([]byte, 0, 8*len(h.recent))
	for _, id := range h.recent {
		recent = binary.BigEndian.AppendUint64(recent, uint64(id))
	}
	dst = protowire.AppendBytes(protowire.AppendTag(dst, bodyRecent, protowire.BytesType), recent)
	dst = protowire.AppendBytes(protowire.AppendTag(dst, bodyPayload, protowire.BytesType), payload)
	padding := 0
	if live {
		const around = 2 + 5 // the padding's tag and length, the sum
		padding = max(0, liveBytes-around-(len(dst)-start))
	}
	dst = protowire.AppendBytes(protowire.AppendTag(dst, bodyPadding, protowire.BytesType), make([]byte, padding))
	sum := crc32.Checksum(dst[start:], castagnoli)
	return protowire.AppendFixed32(protowire.AppendTag(dst, bodySum, protowire.Fixed32Type), sum)
}

// decodeBody reads what appendBody wrote, and nothing else. The payload aliases b. Errors are ErrVersion and ErrCorrupt.
func decodeBody(b []byte) (h history, payload []byte, err error) {
	r := bodyReader{rest: b}
	version := r.varint(bodyVersion)
	if !r.bad && version != bodyFormat {
		return history{}, nil, fmt.Errorf("body has format %d, not %d: %w", version, bodyFormat, ErrVersion)
	}
	h.count = r.varint(bodyCount)
	h.first = writeID(r.fixed64(bodyFirst))
	recent := r.bytes(bodyRecent)
	payload = r.bytes(bodyPayload)
	padding := r.bytes(bodyPadding)
	summed := b[:len(b)-len(r.rest)]
	sum := r.fixed32(bodySum)
	if r.bad || len(r.rest) != 0 || crc32.Checksum(summed, castagnoli) != sum {
		return history{}, nil, fmt.Errorf("body of %d bytes: %w", len(b), ErrCorrupt)
	}
	for ids := recent; len(ids) >= 8; ids = ids[8:] {
		h.recent = append(h.recent, writeID(binary.BigEndian.Uint64(ids)))
	}
	// Whatever else encodes to other bytes was not written by appendBody.
	live := len(padding) > 0 || len(b) >= liveBytes
	if len(h.recent) == 0 || uint64(len(h.recent)) > h.count || !bytes.Equal(appendBody(nil, h, payload, live), b) {
		return history{}, nil, fmt.Errorf("body of %d bytes is not in order: %w", len(b), ErrCorrupt)
	}
	return h, payload, nil
}

// bodyReader takes fields off the front. After one that is not there as asked, bad is set and everything is zero.
type bodyReader struct {
	rest []byte
	bad  bool
}

func (r *bodyReader) tag(number protowire.Number, kind protowire.Type) bool {
	if r.bad {
		return false
	}
	got, gotKind, n := protowire.ConsumeTag(r.rest)
	if n < 0 || got != number || gotKind != kind {
		r.bad = true
		return false
	}
	r.rest = r.rest[n:]
	return true
}

// take goes on by n bytes, which a protowire function says it has read.
func (r *bodyReader) take(n int) bool {
	if n < 0 {
		r.bad = true
		return false
	}
	r.rest = r.rest[n:]
	return true
}

func (r *bodyReader) varint(number protowire.Number) uint64 {
	if !r.tag(number, protowire.VarintType) {
		return 0
	}
	v, n := protowire.ConsumeVarint(r.rest)
	if !r.take(n) {
		return 0
	}
	return v
}

func (r *bodyReader) fixed64(number protowire.Number) uint64 {
	if !r.tag(number, protowire.Fixed64Type) {
		return 0
	}
	v, n := protowire.ConsumeFixed64(r.rest)
	if !r.take(n) {
		return 0
	}
	return v
}

func (r *bodyReader) fixed32(number protowire.Number) uint32 {
	if !r.tag(number, protowire.Fixed32Type) {
		return 0
	}
	v, n := protowire.ConsumeFixed32(r.rest)
	if !r.take(n) {
		return 0
	}
	return v
}

func (r *bodyReader) bytes(number protowire.Number) []byte {
	if !r.tag(number, protowire.BytesType) {
		return nil
	}
	v, n := protowire.ConsumeBytes(r.rest)
	if !r.take(n) {
		return nil
	}
	return v
}
