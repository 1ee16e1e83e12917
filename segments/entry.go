package segments

// Entry is a chunk, or a range of one, as the head or a page lists it (protocol 1). Entries are immutable: whoever
// holds one may share it, nobody changes it. Which numbers its records have is not in it: starts and effective times
// are folded from the list it stands in.
type Entry struct {
	// ID names the commit attempt that brought the records in; it survives moves.
	ID EntryID
	// N records, from the Skip-th of the chunk on.
	N, Skip uint32
	// MaxTime is the largest raw timestamp among the N records ("ts1").
	MaxTime uint64
	// Arrival is the latest arrival among them, in milliseconds since the Unix epoch.
	Arrival uint64
	// Bytes is their metered size.
	Bytes uint64

	// Object, Offset and Length name the chunk inside a segment, unless the entry is inline.
	Object ObjectID
	Offset uint64
	Length uint32
	// Data is the chunk itself for an inline entry, else nil. Same encoding as in a segment.
	Data []byte
}

// Inline reports whether the entry carries its chunk itself.
func (e *Entry) Inline() bool { return e.Data != nil }

// Row is one line of a page, or a root in a head: an entry (level 0) or a child page, with what the fold gives for
// it written out, so that a search need not read what is below (protocol 6).
type Row struct {
	// Start is the sequence number of the first record, N the number of records.
	Start, N uint64
	// TimeBefore and TimeAfter are the effective timestamps before the first and of the last record.
	TimeBefore, TimeAfter uint64
	// ArrivalMin and ArrivalMax bound the arrivals below the row.
	ArrivalMin, ArrivalMax uint64
	// Bytes is the metered size of the records below the row.
	Bytes uint64
	// IDs bounds the labels of the entry ids below the row: where to search for a commit in doubt (protocol 4).
	IDs LabelRange
	// Objects bounds the labels of every object and page named by the row or below it (protocol 7).
	Objects LabelRange

	// Entry is set in rows of level 0, never inline.
	Entry *Entry
	// Child and ChildBytes name the page below and its size, in rows of higher levels and in roots.
	Child      ObjectID
	ChildBytes uint32
}

// End is the sequence number after the row's last record.
func (r *Row) End() uint64 { return r.Start + r.N }

// EntryRow folds one entry into the row it gets behind records that end at start with the effective time timeBefore.
// The values of every row of level 0 are these.
func EntryRow(start, timeBefore uint64, e *Entry) Row {
	r := Row{
		Start: start, N: uint64(e.N),
		TimeBefore: timeBefore, TimeAfter: max(timeBefore, e.MaxTime),
		ArrivalMin: e.Arrival, ArrivalMax: e.Arrival,
		Bytes: e.Bytes,
		IDs:   LabelRange{}.Add(e.ID.Label()),
		Entry: e,
	}
	if !e.Inline() {
		r.Objects = LabelRange{}.Add(e.Object.Label())
	}
	return r
}

// Page is an immutable node of older entries. Level 0 lists entries, level k pages of level k-1. Once encoded, or got
// from a Reader, it is shared and nobody changes it.
type Page struct {
	// ID is the id the page is stored under; it is in the stored bytes, so that a misplaced page is found out.
	ID     ObjectID
	Basin  BasinID
	Stream StreamID
	Level  uint8
	Rows   []Row // at most MaxPageRows, contiguous and ascending
}

// Summary is the row that stands for the whole page in the level above, or as a root; id and size are the page's.
func (p *Page) Summary(id ObjectID, size int) Row {
	first, last := &p.Rows[0], &p.Rows[len(p.Rows)-1]
	s := Row{
		Start: first.Start, N: last.End() - first.Start,
		TimeBefore: first.TimeBefore, TimeAfter: last.TimeAfter,
		ArrivalMin: first.ArrivalMin, ArrivalMax: first.ArrivalMax,
		Objects: LabelRange{}.Add(id.Label()),
		Child:   id, ChildBytes: uint32(size),
	}
	for i := range p.Rows {
		r := &p.Rows[i]
		s.ArrivalMin, s.ArrivalMax = min(s.ArrivalMin, r.ArrivalMin), max(s.ArrivalMax, r.ArrivalMax)
		s.Bytes += r.Bytes
		s.IDs = s.IDs.Union(r.IDs)
		s.Objects = s.Objects.Union(r.Objects)
	}
	return s
}
