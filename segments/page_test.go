package segments

import (
	"bytes"
	"crypto/rand"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// drawPage makes a page that validates, of entries or of children.
func drawPage(t *rapid.T) *Page {
	p := &Page{
		ID: testObjectID(drawLabel(t), 0x31), Basin: testBasin, Stream: testStream,
		Level: uint8(rapid.IntRange(0, PageLevels-1).Draw(t, "level")),
	}
	start, time := rapid.Uint64Range(0, 1<<60).Draw(t, "start"), rapid.Uint64().Draw(t, "time")
	var e Entry
	for range rapid.IntRange(1, 40).Draw(t, "rows") {
		var row Row
		if p.Level == 0 {
			e = drawEntry(t, e)
			own := e
			row = EntryRow(start, time, &own)
		} else {
			row = drawChild(t, start, time)
		}
		p.Rows = append(p.Rows, row)
		start, time = row.End(), row.TimeAfter
	}
	return p
}

func drawLabel(t *rapid.T) Label {
	return Label(rapid.Uint64Range(1, uint64(MaxLabel)).Draw(t, "label"))
}

// drawEntry makes an entry that often shares something with the one before it.
func drawEntry(t *rapid.T, last Entry) Entry {
	same := func() bool { return !last.Object.IsZero() && rapid.Bool().Draw(t, "same") }
	e := Entry{
		ID:      EntryID{testObjectID(drawLabel(t), rapid.Byte().Draw(t, "id")), rapid.Uint16().Draw(t, "attempt")},
		N:       rapid.Uint32Range(1, 1<<31).Draw(t, "n"),
		Skip:    rapid.Uint32Range(0, 1<<31-1).Draw(t, "skip"),
		MaxTime: rapid.Uint64().Draw(t, "max time"), Arrival: rapid.Uint64().Draw(t, "arrival"),
		Bytes:  rapid.Uint64().Draw(t, "bytes"),
		Object: testObjectID(drawLabel(t), rapid.Byte().Draw(t, "object")),
		Offset: rapid.Uint64Range(0, MaxObjectBytes).Draw(t, "offset"), Length: rapid.Uint32Range(1, 1<<31).Draw(t, "length"),
	}
	if same() {
		e.ID.Object = last.ID.Object
	}
	if same() {
		e.ID.Attempt = 0
	}
	if rapid.Bool().Draw(t, "own") {
		e.Object = e.ID.Object
	} else if same() {
		e.Object = last.Object
		if same() {
			e.Offset, e.Length = last.Offset, last.Length
		}
	}
	switch {
	case same():
		e.Skip = 0
	case same() && last.Skip+last.N < 1<<31:
		e.Skip = last.Skip + last.N
	}
	return e
}

func drawChild(t *rapid.T, start, time uint64) Row {
	labels := func() LabelRange {
		return LabelRange{}.Add(drawLabel(t)).Add(drawLabel(t))
	}
	r := Row{
		Start: start, N: rapid.Uint64Range(1, 1<<50).Draw(t, "n"),
		TimeBefore: time, TimeAfter: rapid.Uint64Min(time).Draw(t, "time after"),
		ArrivalMin: rapid.Uint64().Draw(t, "arrival"), Bytes: rapid.Uint64().Draw(t, "bytes"),
		IDs: labels(), Objects: labels(),
		ChildBytes: rapid.Uint32Min(1).Draw(t, "child bytes"),
	}
	r.ArrivalMax = rapid.Uint64Min(r.ArrivalMin).Draw(t, "arrival max")
	r.Child = testObjectID(r.Objects.Min, rapid.Byte().Draw(t, "child"))
	return r
}

func TestPageRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPage(t)
		data, err := EncodePage(p)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > pageHeaderSize+maxRowRaw*len(p.Rows)+4+20 {
			t.Fatalf("%d rows take %d bytes", len(p.Rows), len(data))
		}
		got, err := DecodePage(data)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, p) {
			t.Fatalf("got %+v\nwant %+v", got, p)
		}
	})
}

// fullPage has as many rows as a page may have: single records that share segments of twelve, as moves of inline
// entries make them.
func fullPage() *Page {
	p := &Page{ID: NewObjectID(1_700_000_009_999), Basin: testBasin, Stream: testStream}
	start, time := uint64(1e6), uint64(1_700_000_000_000)
	var segment ObjectID
	for i := range uint32(MaxPageRows) {
		label := Label(1_700_000_000_000 + 7*uint64(i))
		if i%12 == 0 {
			segment = NewObjectID(label)
		}
		e := &Entry{
			ID: EntryID{Object: NewObjectID(label)}, N: 1, Skip: i % 12, MaxTime: uint64(label), Arrival: uint64(label),
			Bytes: 100 + uint64(i%50), Object: segment, Offset: segmentHeaderSize, Length: 1500,
		}
		p.Rows = append(p.Rows, EntryRow(start, time, e))
		start, time = p.Rows[i].End(), p.Rows[i].TimeAfter
	}
	return p
}

func TestPageSize(t *testing.T) {
	t.Parallel()
	p := fullPage()
	data, err := EncodePage(p)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodePage(data); err != nil || !reflect.DeepEqual(got, p) {
		t.Fatalf("the page differs: %v", err)
	}
	perRow := float64(len(data)) / MaxPageRows
	t.Logf("%.1f bytes a row", perRow)
	if perRow > 24 {
		t.Fatalf("%d rows of single-record entries take %d bytes, %.1f each", MaxPageRows, len(data), perRow)
	}
}

// goldenPages uses every field of both kinds of rows, none of them zero, and every flag.
func goldenPages() map[string]*Page {
	at := func(n uint64) Label { return Label(1_700_000_000_000 + n) }
	a, b := testObjectID(at(1), 0x11), testObjectID(at(2), 0x22)
	entries := []Entry{
		{ID: EntryID{a, 3}, N: 4, Skip: 5, MaxTime: 1_700_000_000_100, Arrival: 1_700_000_000_200, Bytes: 600, Object: b, Offset: 52, Length: 700},
		{ID: EntryID{testObjectID(at(3), 0x33), 0}, N: 6, Skip: 9, MaxTime: 1_700_000_000_090, Arrival: 1_700_000_000_190, Bytes: 601, Object: b, Offset: 52, Length: 700},
		{ID: EntryID{testObjectID(at(3), 0x33), 2}, N: 7, Skip: 20, MaxTime: 1_700_000_000_300, Arrival: 1_700_000_000_400, Bytes: 602, Object: b, Offset: 52, Length: 700},
		{ID: EntryID{testObjectID(at(4), 0x44), 1}, N: 8, MaxTime: 1_700_000_000_500, Arrival: 1_700_000_000_600, Bytes: 603, Object: testObjectID(at(4), 0x44), Offset: 752, Length: 701},
	}
	leaf := &Page{ID: testObjectID(at(5), 0x55), Basin: testBasin, Stream: testStream}
	start, time := uint64(1000), uint64(1_700_000_000_095)
	for i := range entries {
		leaf.Rows = append(leaf.Rows, EntryRow(start, time, &entries[i]))
		start, time = leaf.Rows[i].End(), leaf.Rows[i].TimeAfter
	}
	first := leaf.Summary(leaf.ID, 333)
	second := Row{
		Start: first.End(), N: 77, TimeBefore: first.TimeAfter, TimeAfter: first.TimeAfter + 11,
		ArrivalMin: 1_700_000_000_610, ArrivalMax: 1_700_000_000_700, Bytes: 888,
		IDs: LabelRange{at(6), at(8)}, Objects: LabelRange{at(2), at(9)}, Child: testObjectID(at(9), 0x66), ChildBytes: 444,
	}
	root := &Page{ID: testObjectID(at(10), 0x77), Basin: testBasin, Stream: testStream, Level: 2, Rows: []Row{first, second}}
	return map[string]*Page{"page-leaf.bin": leaf, "page-root.bin": root}
}

func TestPageGolden(t *testing.T) {
	t.Parallel()
	for name, p := range goldenPages() {
		data, err := EncodePage(p)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, data)
		if got, err := DecodePage(data); err != nil || !reflect.DeepEqual(got, p) {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

func TestPageDamage(t *testing.T) {
	t.Parallel()
	for name, p := range goldenPages() {
		data, err := EncodePage(p)
		if err != nil {
			t.Fatal(err)
		}
		for cut := 1; cut <= len(data); cut++ {
			if _, err := DecodePage(data[:len(data)-cut]); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%s cut by %d: %v", name, cut, err)
			}
		}
		for i := range data {
			bad := bytes.Clone(data)
			bad[i] ^= 0x40
			if _, err := DecodePage(bad); err == nil {
				t.Fatalf("%s: byte %d flipped is accepted", name, i)
			}
		}
		data[7] = 5
		var version *VersionError
		if _, err := DecodePage(data); !errors.As(err, &version) || version.Version != 5 || errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
	}
}

// TestDecodePageNoise: no bytes under a sound checksum make DecodePage panic or return what does not validate.
func TestDecodePageNoise(t *testing.T) {
	t.Parallel()
	for _, p := range goldenPages() {
		data, _ := EncodePage(p)
		for range 2000 {
			bad := bytes.Clone(data)
			var at [3]byte
			rand.Read(at[:])
			bad[8+int(at[0])%(len(bad)-12)] = at[1]
			if p, err := DecodePage(reseal(bad)); err == nil && p.Validate() != nil {
				t.Fatalf("accepted %x", bad)
			}
		}
	}
}

func TestPageValidate(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(leaf, root *Page){
		"no id":                 func(l, r *Page) { l.ID, r.ID = ObjectID{}, ObjectID{} },
		"no basin":              func(l, r *Page) { l.Basin, r.Basin = BasinID{}, BasinID{} },
		"no stream":             func(l, r *Page) { l.Stream, r.Stream = StreamID{}, StreamID{} },
		"no rows":               func(l, r *Page) { l.Rows, r.Rows = nil, nil },
		"too many rows":         func(l, r *Page) { l.Rows, r.Rows = make([]Row, 1025), make([]Row, 1025) },
		"level":                 func(l, r *Page) { l.Level, r.Level = 1, PageLevels },
		"wrong kind of row":     func(l, r *Page) { l.Rows[1].Entry, r.Level = nil, 0 },
		"no records":            func(l, r *Page) { l.Rows[3].N, r.Rows[1].N = 0, 0 },
		"hole":                  func(l, r *Page) { l.Rows[2].Start++; r.Rows[1].Start++ },
		"overlap":               func(l, r *Page) { l.Rows[2].Start--; r.Rows[1].Start-- },
		"time before":           func(l, r *Page) { l.Rows[2].TimeBefore--; r.Rows[1].TimeBefore-- },
		"time after":            func(l, r *Page) { l.Rows[3].TimeAfter++; r.Rows[1].TimeAfter = 1 },
		"arrivals":              func(l, r *Page) { l.Rows[1].ArrivalMin--; r.Rows[1].ArrivalMin = 1 << 62 },
		"ids":                   func(l, r *Page) { l.Rows[1].IDs.Max++; r.Rows[1].IDs.Min = MaxLabel },
		"label too large":       func(l, r *Page) { l.Rows[1].IDs.Max = MaxLabel + 1; r.Rows[1].IDs.Max = MaxLabel + 1 },
		"objects":               func(l, r *Page) { l.Rows[1].Objects = LabelRange{}; r.Rows[1].Objects = LabelRange{} },
		"object outside":        func(l, r *Page) { l.Rows[1].Entry.Object = l.ID; r.Rows[1].Child = testObjectID(1, 1) },
		"no object":             func(l, r *Page) { l.Rows[1].Entry.Object = ObjectID{}; r.Rows[1].Child = ObjectID{} },
		"no length":             func(l, r *Page) { l.Rows[1].Entry.Length = 0; r.Rows[1].ChildBytes = 0 },
		"inline":                func(l, r *Page) { l.Rows[1].Entry.Data = []byte("x"); r.Rows[1].Entry = &Entry{} },
		"beyond the last":       func(l, r *Page) { l.Rows = l.Rows[:1]; end(l); r.Rows = r.Rows[:1]; end(r) },
		"more than chunk holds": func(l, r *Page) { l.Rows[3].Entry.Skip = 1<<32 - 1; r.Rows[1].Child = ObjectID{} },
	} {
		pages := goldenPages()
		leaf, root := pages["page-leaf.bin"], pages["page-root.bin"]
		if leaf.Validate() != nil || root.Validate() != nil {
			t.Fatal("the golden pages do not validate")
		}
		change(leaf, root)
		for _, p := range []*Page{leaf, root} {
			if p.Validate() == nil {
				t.Errorf("%s: a page of level %d validates", name, p.Level)
			}
			if _, err := EncodePage(p); err == nil {
				t.Errorf("%s: a page of level %d is encoded", name, p.Level)
			}
		}
	}
}

// end moves a page's row up to where no more record fits.
func end(p *Page) { p.Rows[0].Start = 1<<64 - 1 }
