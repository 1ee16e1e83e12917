package segments

import "encoding/binary"

// input takes values off the front of b. The first one that is not there makes it bad, for good; from then on every
// value is zero.
type input struct {
	b   []byte
	bad bool
}

func (p *input) fail() {
	p.b, p.bad = nil, true
}

func (p *input) byte() byte {
	if len(p.b) == 0 {
		p.fail()
		return 0
	}
	v := p.b[0]
	p.b = p.b[1:]
	return v
}

func (p *input) uvarint() uint64 {
	if len(p.b) > 0 && p.b[0] < 0x80 { // most are short
		v := p.b[0]
		p.b = p.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(p.b)
	if n <= 0 {
		p.fail()
		return 0
	}
	p.b = p.b[n:]
	return v
}

func (p *input) varint() int64 {
	v := p.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// uint32 reads a uvarint that must fit.
func (p *input) uint32() uint32 {
	v := p.uvarint()
	if v > 1<<32-1 {
		p.fail()
		return 0
	}
	return uint32(v)
}

// uint16 reads a uvarint that must fit.
func (p *input) uint16() uint16 {
	v := p.uvarint()
	if v > 1<<16-1 {
		p.fail()
		return 0
	}
	return uint16(v)
}

// take returns the next n bytes, not to be appended to.
func (p *input) take(n int) []byte {
	if n < 0 || n > len(p.b) {
		p.fail()
		return nil
	}
	v := p.b[:n:n]
	p.b = p.b[n:]
	return v
}

func (p *input) bytes() []byte {
	n := p.uvarint()
	if n > uint64(len(p.b)) {
		p.fail()
		return nil
	}
	return p.take(int(n))
}
