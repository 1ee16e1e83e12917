package segments

import (
	"encoding/binary"
	"errors"
)

// A record in a block's payload. Everything but names, values and bodies is a uvarint; differences are zig-zag coded
// and wrap, so that any two 64-bit times have one. The arrival and the time carry over from record to record within
// a block; a block starts from zero, so it can be read alone.
//
//	flags     1 arrival, 2 time, 4 sealed, 8 headers; other bits are zero
//	arrival   if flagged: difference to the arrival before
//	time      if flagged: raw timestamp minus what is expected: the arrival if that was just given, else the
//	          timestamp before
//	sealed    if flagged: metered size of the sealed record
//	headers   if flagged: count, then for each: length of name, name, length of value, value
//	body      length, body
//
// A batch is the run of records behind an arrival. Its number of records is not written, because nothing reads a
// batch as such, and a batch that goes on in the next block needs nothing but its arrival there.
const (
	flagArrival = 1 << iota
	flagTime
	flagSealed
	flagHeaders
	knownFlags = 1<<iota - 1

	minRecordRaw = 2 // flags and a length
)

// recordState is what one record leaves for the next.
type recordState struct {
	arrival, time uint64
	begun         bool
}

// maxRecordSize bounds what append will add.
func maxRecordSize(r *Record) int {
	n := 1 + 2*binary.MaxVarintLen64 + 3*binary.MaxVarintLen32 + len(r.Body)
	for i := range r.Headers {
		n += 2*binary.MaxVarintLen32 + len(r.Headers[i].Name) + len(r.Headers[i].Value)
	}
	return n
}

func (s *recordState) append(dst []byte, arrival uint64, r *Record) []byte {
	at := len(dst)
	dst = append(dst, 0)
	var flags byte
	if !s.begun || arrival != s.arrival {
		flags |= flagArrival
		dst = binary.AppendVarint(dst, int64(arrival-s.arrival))
		s.time = arrival
	}
	if r.Timestamp != s.time {
		flags |= flagTime
		dst = binary.AppendVarint(dst, int64(r.Timestamp-s.time))
	}
	if r.Sealed != 0 {
		flags |= flagSealed
		dst = binary.AppendUvarint(dst, uint64(r.Sealed))
	}
	if len(r.Headers) != 0 {
		flags |= flagHeaders
		dst = binary.AppendUvarint(dst, uint64(len(r.Headers)))
		for i := range r.Headers {
			dst = appendBytes(dst, r.Headers[i].Name)
			dst = appendBytes(dst, r.Headers[i].Value)
		}
	}
	dst[at] = flags
	*s = recordState{arrival, r.Timestamp, true}
	return appendBytes(dst, r.Body)
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

var errRecord = errors.New("a record is not well formed")

// recordReader reads the records of one payload. What it returns aliases the payload.
type recordReader struct {
	input
	state recordState
	slab  []Header // headers of many records share an array
}

// next reads a record into r, or with a nil r passes over it.
func (p *recordReader) next(r *StoredRecord) error {
	flags := p.byte()
	if flags&^knownFlags != 0 || !p.state.begun && flags&flagArrival == 0 {
		return errRecord
	}
	if flags&flagArrival != 0 {
		p.state.arrival += uint64(p.varint())
		p.state.time = p.state.arrival
		p.state.begun = true
	}
	if flags&flagTime != 0 {
		p.state.time += uint64(p.varint())
	}
	sealed, headers := uint64(0), uint64(0)
	if flags&flagSealed != 0 {
		if sealed = p.uvarint(); sealed == 0 || sealed > 1<<32-1 {
			return errRecord
		}
	}
	if flags&flagHeaders != 0 {
		if headers = p.uvarint(); headers == 0 || headers > uint64(len(p.b)/2) {
			return errRecord
		}
	}
	if r == nil {
		for range 2 * headers {
			p.bytes()
		}
		p.bytes()
	} else {
		r.Record = Record{Timestamp: p.state.time, HasTimestamp: true, Sealed: uint32(sealed)}
		r.Arrival = p.state.arrival
		if headers != 0 {
			r.Headers = p.headers(int(headers))
		}
		r.Body = p.bytes()
	}
	if p.bad {
		return errRecord
	}
	return nil
}

func (p *recordReader) headers(n int) []Header {
	if cap(p.slab)-len(p.slab) < n {
		p.slab = make([]Header, 0, max(n, 64))
	}
	at := len(p.slab)
	p.slab = p.slab[:at+n]
	hs := p.slab[at : at+n : at+n]
	for i := range hs {
		hs[i].Name = p.bytes()
		hs[i].Value = p.bytes()
	}
	return hs
}
