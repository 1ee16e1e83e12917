package segments

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// A page is an object of its own. Numbers of fixed size are big-endian.
//
//	 0  magic "TRpag" and 0xFF   6
//	 6  format version           2
//	 8  level                    1
//	 9  codec: 0 none, 1 zstd    1
//	10  rows                     2
//	12  raw length of payload    4
//	16  basin                   16
//	32  stream                  16
//	48  page id                 16
//	64  payload, stored          .
//	+0  CRC-32C of all before    4
//
// The payload starts with Start and TimeBefore of the first row (uvarint), then the rows as pagerow.go lays them out.
const (
	pageMagic      = "TRpag\xFF"
	pageVersion    = 1
	pageHeaderSize = 64

	// maxRowRaw is above what any row takes: three ids and a dozen numbers of at most ten bytes.
	maxRowRaw    = 192
	maxPageRaw   = MaxPageRows*maxRowRaw + 2*binary.MaxVarintLen64
	maxPageBytes = pageHeaderSize + maxPageRaw + 4
)

// Validate checks all that a page must fulfil, alone: a level there is, 1 to MaxPageRows rows that follow on from
// each other without a gap, ranges in order, and on level 0 exactly the values that follow from the entries. The
// error names the row; it is not ErrCorrupt, since it is about a page in memory.
func (p *Page) Validate() error {
	switch {
	case p.ID.IsZero(), p.Basin.IsZero(), p.Stream.IsZero():
		return errors.New("validate page: an id is missing")
	case p.Level >= PageLevels:
		return fmt.Errorf("validate page: level %d", p.Level)
	case len(p.Rows) == 0 || len(p.Rows) > MaxPageRows:
		return fmt.Errorf("validate page: %d rows", len(p.Rows))
	}
	for i := range p.Rows {
		r := &p.Rows[i]
		if i > 0 && (r.Start != p.Rows[i-1].End() || r.TimeBefore != p.Rows[i-1].TimeAfter) {
			return fmt.Errorf("validate page: row %d does not follow on", i)
		}
		if err := r.validate(p.Level); err != nil {
			return fmt.Errorf("validate page: row %d: %w", i, err)
		}
	}
	return nil
}

func (r *Row) validate(level uint8) error {
	switch {
	case r.N == 0 || r.Start > math.MaxUint64-r.N:
		return errors.New("bad record range")
	case r.TimeBefore > r.TimeAfter, r.ArrivalMin > r.ArrivalMax:
		return errors.New("times out of order")
	case !r.IDs.valid(), !r.Objects.valid():
		return errors.New("bad label range")
	case (level == 0) != (r.Entry != nil):
		return errors.New("an entry belongs on level 0 and only there")
	case level == 0:
		return r.validateEntry()
	case r.Child.IsZero(), r.ChildBytes == 0:
		return errors.New("no child")
	case !r.Objects.Contains(r.Child.Label()):
		return errors.New("the child is outside the label range")
	}
	return nil
}

func (r *Row) validateEntry() error {
	e := r.Entry
	switch {
	case e.Inline(), e.Object.IsZero(), e.Length == 0, e.Offset > MaxObjectBytes:
		return errors.New("the entry names no chunk")
	case e.Skip > math.MaxUint32-e.N:
		return errors.New("bad record range in the chunk")
	case *r != EntryRow(r.Start, r.TimeBefore, e):
		return errors.New("the row is not what follows from its entry")
	}
	return nil
}

func (r LabelRange) valid() bool {
	return r != LabelRange{} && r.Min <= r.Max && r.Max <= MaxLabel
}

// EncodePage returns the bytes to store under PageKey of the page's basin and ID; the page is refused unless it
// validates.
func EncodePage(p *Page) ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("encode page: %w", err)
	}
	buf := make([]byte, pageHeaderSize, pageHeaderSize+48*len(p.Rows)+64)
	buf = binary.AppendUvarint(buf, p.Rows[0].Start)
	buf = binary.AppendUvarint(buf, p.Rows[0].TimeBefore)
	var s rowState
	for i := range p.Rows {
		buf = s.append(buf, &p.Rows[i])
	}
	raw, codec := len(buf)-pageHeaderSize, codecNone
	if raw >= compressMin {
		buf, codec = compressTail(buf, pageHeaderSize)
	}
	h := appendVersion(buf[:0:pageHeaderSize], pageMagic, pageVersion)
	h = append(h, p.Level, codec)
	h = binary.BigEndian.AppendUint16(h, uint16(len(p.Rows)))
	h = binary.BigEndian.AppendUint32(h, uint32(raw))
	h = append(h, p.Basin[:]...)
	h = append(h, p.Stream[:]...)
	_ = append(h, p.ID[:]...)
	return binary.BigEndian.AppendUint32(buf, crc32.Checksum(buf, castagnoli)), nil
}

// DecodePage reads what EncodePage wrote, and refuses what does not validate. The error is a *CorruptError or a
// *VersionError. The page does not alias data.
func DecodePage(data []byte) (*Page, error) {
	if err := checkVersion("page", data, pageMagic, pageVersion); err != nil {
		return nil, err
	}
	if len(data) < pageHeaderSize+4 || len(data) > maxPageBytes {
		return nil, corrupt("page", "it has %d bytes", len(data))
	}
	body := data[:len(data)-4]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(data[len(body):]) {
		return nil, corrupt("page", "its checksum does not match")
	}
	p := &Page{Level: body[8], Basin: BasinID(body[16:32]), Stream: StreamID(body[32:48]), ID: ObjectID(body[48:64])}
	payload, err := pagePayload(body)
	if err == nil {
		err = p.readRows(payload, int(binary.BigEndian.Uint16(body[10:])))
	}
	if err == nil {
		err = p.Validate()
	}
	if err != nil {
		return nil, &CorruptError{What: "page", Cause: err}
	}
	return p, nil
}

func pagePayload(body []byte) ([]byte, error) {
	payload, raw := body[pageHeaderSize:], binary.BigEndian.Uint32(body[12:])
	switch codec := body[9]; {
	case raw > maxPageRaw:
		return nil, fmt.Errorf("it claims %d bytes", raw)
	case codec == codecZstd:
		return decompress(payload, raw)
	case codec != codecNone:
		return nil, fmt.Errorf("unknown codec %d", codec)
	case int(raw) != len(payload):
		return nil, fmt.Errorf("%d bytes where it claims %d", len(payload), raw)
	}
	return payload, nil
}

func (p *Page) readRows(payload []byte, n int) error {
	if n == 0 || n > MaxPageRows {
		return fmt.Errorf("it claims %d rows", n)
	}
	in := input{b: payload}
	s := rowState{start: in.uvarint(), time: in.uvarint()}
	p.Rows = make([]Row, n)
	var entries []Entry
	if p.Level == 0 {
		entries = make([]Entry, n)
	}
	for i := range p.Rows {
		if p.Level == 0 {
			s.readEntry(&in, &entries[i])
			p.Rows[i] = EntryRow(s.start, s.time, &entries[i])
		} else {
			s.readChild(&in, &p.Rows[i])
		}
		s.start, s.time = p.Rows[i].End(), p.Rows[i].TimeAfter
	}
	if in.bad || len(in.b) != 0 {
		return errors.New("its rows are not well formed")
	}
	return nil
}
