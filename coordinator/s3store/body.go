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
	bodyForgotten
	bodyNonce
	bodyWriters // the last writers, newest first: eight bytes each, how many writes ago and the writer's own number as varints
	bodyPayload
	bodyPadding
	bodySum // CRC-32C of all before it
)

// writerID names one process's store among the writers of a register.
type writerID uint64

// newWriterID is never 0.
func newWriterID() writerID { return writerID(rand.Uint64N(1<<64-1) + 1) }

// keptWriters is how many writers a register names: those who wrote last. One who is told that his write came too late looks at
// once, so this many others must have written meanwhile for him not to know.
const keptWriters = 64

// history is how a register came to be as it is. The zero value is that of one that was never written.
type history struct {
	count uint64
	// nonce is drawn for each write, so that two registers' bodies, or those of two lives of a key, are never equal.
	nonce uint64
	// last has the last write of each of the last writers, by its number, the newest first; never changed. Of writers whose
	// last is at or below forgotten, some are missing.
	last      []lastWrite
	forgotten uint64
}

// lastWrite is a writer's last write: its number in the register, and among all writes of that writer, by which he knows it
// from an earlier one of his own for the same state.
type lastWrite struct {
	writer     writerID
	count, seq uint64
}

// then is the history after one more write.
func (h history) then(by writerID, seq uint64, kept int) history {
	next := history{count: h.count + 1, nonce: rand.Uint64(), last: []lastWrite{{by, h.count + 1, seq}}, forgotten: h.forgotten}
	for _, w := range h.last {
		switch {
		case w.writer == by:
		case len(next.last) < kept:
			next.last = append(next.last, w)
		default:
			next.forgotten = max(next.forgotten, w.count)
		}
	}
	return next
}

// made reports whether the write with a number is that one of a writer, who has made none after it; known is false if the history
// does not say. One that is shorter than that number says nothing: the write may be to come.
func (h history) made(count uint64, by writerID, seq uint64) (yes, known bool) {
	if count > h.count {
		return false, false
	}
	for _, w := range h.last {
		switch {
		case w.count == count:
			return w.writer == by && w.seq == seq, true
		case w.writer == by:
			return false, w.count < count
		}
	}
	return false, count > h.forgotten
}

// recentWrites is how far back the writers of a register are counted.
const recentWrites = 64

// writers is how many have made the last writes.
func (h history) writers() (n int) {
	for _, w := range h.last {
		if h.count-w.count < recentWrites {
			n++
		}
	}
	return n
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
	dst = protowire.AppendVarint(protowire.AppendTag(dst, bodyForgotten, protowire.VarintType), h.forgotten)
	dst = protowire.AppendFixed64(protowire.AppendTag(dst, bodyNonce, protowire.Fixed64Type), h.nonce)
	writers := make([]byte, 0, 10*len(h.last))
	for _, w := range h.last {
		writers = binary.BigEndian.AppendUint64(writers, uint64(w.writer))
		writers = protowire.AppendVarint(protowire.AppendVarint(writers, h.count-w.count), w.seq)
	}
	dst = protowire.AppendBytes(protowire.AppendTag(dst, bodyWriters, protowire.BytesType), writers)
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
	h.forgotten = r.varint(bodyForgotten)
	h.nonce = r.fixed64(bodyNonce)
	writers := r.bytes(bodyWriters)
	payload = r.bytes(bodyPayload)
	padding := r.bytes(bodyPadding)
	summed := b[:len(b)-len(r.rest)]
	sum := r.fixed32(bodySum)
	if r.bad || len(r.rest) != 0 || crc32.Checksum(summed, castagnoli) != sum {
		return history{}, nil, fmt.Errorf("body of %d bytes: %w", len(b), ErrCorrupt)
	}
	if h.last, err = decodeWriters(writers, h.count); err != nil {
		return history{}, nil, err
	}
	// Whatever else encodes to other bytes was not written by appendBody.
	live := len(padding) > 0 || len(b) >= liveBytes
	if !bytes.Equal(appendBody(nil, h, payload, live), b) {
		return history{}, nil, fmt.Errorf("body of %d bytes is not in order: %w", len(b), ErrCorrupt)
	}
	return h, payload, nil
}

// decodeWriters reads the last writers; the first of them made the write that count is the number of.
func decodeWriters(b []byte, count uint64) (last []lastWrite, err error) {
	for len(b) >= 8 {
		back, n := protowire.ConsumeVarint(b[8:])
		if n < 0 || back >= count || (len(last) == 0) != (back == 0) || len(last) > 0 && count-back >= last[len(last)-1].count {
			break
		}
		seq, m := protowire.ConsumeVarint(b[8+n:])
		if m < 0 {
			break
		}
		last = append(last, lastWrite{writerID(binary.BigEndian.Uint64(b)), count - back, seq})
		b = b[8+n+m:]
	}
	if len(b) != 0 || len(last) == 0 {
		return nil, fmt.Errorf("the writers of a body are not in order: %w", ErrCorrupt)
	}
	return last, nil
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
