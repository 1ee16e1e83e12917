package segments

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// smallHeaders is a record of n headers of the given sizes, and a body that makes it as large as a record can be.
func smallHeaders(n, name, value int) Record {
	r := Record{Headers: make([]Header, n)}
	for i := range r.Headers {
		r.Headers[i] = Header{Name: []byte(strings.Repeat("n", name)), Value: []byte(strings.Repeat("v", value))}
	}
	r.Body = make([]byte, MaxRecordBytes-r.MeteredSize())
	return r
}

func TestRecordsThatNoFrameHolds(t *testing.T) {
	t.Parallel()
	const most = (MaxRecordBytes - 8) / 4 // headers of one byte and one byte
	for _, c := range []struct {
		name string
		r    Record
		ok   bool
	}{
		{"a body alone", smallHeaders(0, 0, 0), true},
		{"names of one byte", smallHeaders((MaxRecordBytes-8)/3, 1, 0), true},
		{"names and values of one byte", smallHeaders(most, 1, 1), false},
		{"names and values of two bytes", smallHeaders((MaxRecordBytes-8)/6, 2, 2), true},
		{"some fewer", smallHeaders(most-16, 1, 1), true},
	} {
		_, err := ValidateBatch([]Record{c.r})
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// The sizes are those of the protobuf rules, at each length of a varint.
func TestProtoField(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]uint64{{0, 0}, {1, 3}, {127, 129}, {128, 131}, {1<<14 - 1, 1<<14 + 2}, {1 << 14, 1<<14 + 4}, {1 << 21, 1<<21 + 5}} {
		if got := protoField(c[0]); got != c[1] {
			t.Errorf("a field of %d bytes takes %d, want %d", c[0], got, c[1])
		}
	}
	if got := (&Record{Timestamp: math.MaxUint64}).protoSizeMax(); got != 2+22 {
		t.Errorf("an empty record takes %d", got)
	}
}
