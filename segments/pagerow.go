package segments

import "encoding/binary"

// A row in a page's payload. Uvarints, unless a size is given; "difference" is to the same value of the row before,
// zig-zag coded and wrapping, with zero before the first row. An id is the difference of its label, then its 10
// random bytes.
//
//	level 0   flags     see below
//	          id        unless sameID: the entry's id
//	          attempt   unless attemptZero
//	          object    unless sameObject or ownObject: the segment
//	          offset, length   unless sameChunk
//	          skip      unless skipFollows: 0 in another chunk than the row before, in the same one where it ended
//	          n
//	          time      difference of MaxTime
//	          arrival   difference
//	          bytes
//
//	above     n, TimeAfter - TimeBefore, difference of ArrivalMax, ArrivalMax - ArrivalMin, bytes,
//	          difference of IDs.Min, IDs.Max - IDs.Min, difference of Objects.Min, Objects.Max - Objects.Min,
//	          id of the child, its size in bytes
//
// A row that no flag shortens takes some 50 bytes; one that shares its chunk with the one before about 20, of which
// the random part of its id is half.
const (
	rowSameID      = 1 << iota // id as in the row before: another attempt with the same object
	rowAttemptZero             // attempt 0
	rowSameObject              // segment as in the row before
	rowOwnObject               // segment named like the id: the entry has not been moved
	rowSameChunk               // segment, offset and length as in the row before
	rowSkipFollows             // skip is what one would expect
	knownRowFlags  = 1<<iota - 1
)

// rowState is what one row leaves for the next.
type rowState struct {
	start, time             uint64 // when reading: where the next row starts, and the effective time there
	entry                   Entry
	arrivalMax              uint64
	idsMin, objectsMin      Label
	idLabel, objLabel, chld Label
}

func (s *rowState) append(dst []byte, r *Row) []byte {
	if r.Entry != nil {
		return s.appendEntry(dst, r.Entry)
	}
	return s.appendChild(dst, r)
}

// flags says how much of e follows from the row before.
func (s *rowState) flags(e *Entry) byte {
	var f byte
	last := &s.entry
	if e.ID.Object == last.ID.Object {
		f |= rowSameID
	}
	if e.ID.Attempt == 0 {
		f |= rowAttemptZero
	}
	switch {
	case e.Object == last.Object:
		f |= rowSameObject
	case e.Object == e.ID.Object:
		f |= rowOwnObject
	}
	if f&rowSameObject != 0 && e.Offset == last.Offset && e.Length == last.Length {
		f |= rowSameChunk
	}
	if e.Skip == s.expectedSkip(f&rowSameChunk != 0) {
		f |= rowSkipFollows
	}
	return f
}

func (s *rowState) expectedSkip(sameChunk bool) uint32 {
	if sameChunk {
		return s.entry.Skip + s.entry.N
	}
	return 0
}

func (s *rowState) appendEntry(dst []byte, e *Entry) []byte {
	f := s.flags(e)
	dst = append(dst, f)
	if f&rowSameID == 0 {
		dst = appendID(dst, e.ID.Object, &s.idLabel)
	}
	if f&rowAttemptZero == 0 {
		dst = binary.AppendUvarint(dst, uint64(e.ID.Attempt))
	}
	if f&(rowSameObject|rowOwnObject) == 0 {
		dst = appendID(dst, e.Object, &s.objLabel)
	}
	if f&rowSameChunk == 0 {
		dst = binary.AppendUvarint(dst, e.Offset)
		dst = binary.AppendUvarint(dst, uint64(e.Length))
	}
	if f&rowSkipFollows == 0 {
		dst = binary.AppendUvarint(dst, uint64(e.Skip))
	}
	dst = binary.AppendUvarint(dst, uint64(e.N))
	dst = appendDiff(dst, e.MaxTime, s.entry.MaxTime)
	dst = appendDiff(dst, e.Arrival, s.entry.Arrival)
	s.entry = *e
	return binary.AppendUvarint(dst, e.Bytes)
}

func (s *rowState) readEntry(in *input, e *Entry) {
	f := in.byte()
	if f&^knownRowFlags != 0 || f&rowSameChunk != 0 && f&rowSameObject == 0 {
		in.fail()
	}
	*e = s.entry
	if f&rowSameID == 0 {
		e.ID.Object = readID(in, &s.idLabel)
	}
	if e.ID.Attempt = 0; f&rowAttemptZero == 0 {
		e.ID.Attempt = in.uint16()
	}
	switch {
	case f&rowSameObject != 0:
	case f&rowOwnObject != 0:
		e.Object = e.ID.Object
	default:
		e.Object = readID(in, &s.objLabel)
	}
	if f&rowSameChunk == 0 {
		e.Offset, e.Length = in.uvarint(), in.uint32()
	}
	if e.Skip = s.expectedSkip(f&rowSameChunk != 0); f&rowSkipFollows == 0 {
		e.Skip = in.uint32()
	}
	e.N = in.uint32()
	e.MaxTime += uint64(in.varint())
	e.Arrival += uint64(in.varint())
	e.Bytes = in.uvarint()
	s.entry = *e
}

func (s *rowState) appendChild(dst []byte, r *Row) []byte {
	dst = binary.AppendUvarint(dst, r.N)
	dst = binary.AppendUvarint(dst, r.TimeAfter-r.TimeBefore)
	dst = appendDiff(dst, r.ArrivalMax, s.arrivalMax)
	dst = binary.AppendUvarint(dst, r.ArrivalMax-r.ArrivalMin)
	dst = binary.AppendUvarint(dst, r.Bytes)
	dst = appendLabels(dst, r.IDs, &s.idsMin)
	dst = appendLabels(dst, r.Objects, &s.objectsMin)
	dst = appendID(dst, r.Child, &s.chld)
	s.arrivalMax = r.ArrivalMax
	return binary.AppendUvarint(dst, uint64(r.ChildBytes))
}

func (s *rowState) readChild(in *input, r *Row) {
	*r = Row{Start: s.start, N: in.uvarint(), TimeBefore: s.time}
	r.TimeAfter = r.TimeBefore + in.uvarint()
	s.arrivalMax += uint64(in.varint())
	r.ArrivalMax = s.arrivalMax
	r.ArrivalMin = r.ArrivalMax - in.uvarint()
	r.Bytes = in.uvarint()
	r.IDs = readLabels(in, &s.idsMin)
	r.Objects = readLabels(in, &s.objectsMin)
	r.Child = readID(in, &s.chld)
	r.ChildBytes = in.uint32()
}

func appendDiff(dst []byte, v, before uint64) []byte {
	return binary.AppendVarint(dst, int64(v-before))
}

func appendID(dst []byte, id ObjectID, before *Label) []byte {
	dst = appendDiff(dst, uint64(id.Label()), uint64(*before))
	*before = id.Label()
	return append(dst, id[6:]...)
}

func readID(in *input, before *Label) ObjectID {
	*before += Label(in.varint())
	if *before > MaxLabel {
		in.fail()
		*before = 0
	}
	id := objectID(*before)
	copy(id[6:], in.take(10))
	return id
}

func appendLabels(dst []byte, r LabelRange, before *Label) []byte {
	dst = appendDiff(dst, uint64(r.Min), uint64(*before))
	*before = r.Min
	return binary.AppendUvarint(dst, uint64(r.Max-r.Min))
}

func readLabels(in *input, before *Label) LabelRange {
	*before += Label(in.varint())
	return LabelRange{*before, *before + Label(in.uvarint())}
}
