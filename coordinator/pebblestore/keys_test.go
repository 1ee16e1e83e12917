package pebblestore

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
)

// The order of stored keys is the order of rows: by part, then by sort key, both bytewise.
func TestRowKeyKeepsOrder(t *testing.T) {
	t.Parallel()
	part := rapid.StringOfN(rapid.RuneFrom([]rune(" !a~")), 1, 4, -1)
	sort := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, ' ', 'a', 0xff}), 1, 4)
	rapid.Check(t, func(t *rapid.T) {
		a := coordinator.Key{Part: part.Draw(t, "part a"), Sort: string(sort.Draw(t, "sort a"))}
		b := coordinator.Key{Part: part.Draw(t, "part b"), Sort: string(sort.Draw(t, "sort b"))}
		less := a.Part < b.Part || a.Part == b.Part && a.Sort < b.Sort
		if less != (bytes.Compare(rowKey(a), rowKey(b)) < 0) || (a == b) != bytes.Equal(rowKey(a), rowKey(b)) {
			t.Fatalf("%q and %q are stored as %q and %q", a, b, rowKey(a), rowKey(b))
		}
	})
}

func TestKeyAfter(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		"a": "b", "a\xff": "b", "a\x00": "a\x01", "\xff\xfe\xff": "\xff\xff", "\xff": "", "": "",
	} {
		if got := keyAfter([]byte(prefix)); string(got) != want {
			t.Errorf("%q: %q, want %q", prefix, got, want)
		}
	}
}

func FuzzDecodeHeadValue(f *testing.F) {
	h := storetest.NewHead()
	f.Add(appendHeadValue(nil, &cell{head: h, slots: []uint64{3, 5}, next: 9}))
	f.Add(appendHeadValue(nil, &cell{head: h}))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, first, count, err := decodeHeadValue(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		if first > c.next || uint64(count) > c.next-first {
			t.Fatalf("%d entries from %d to %d", count, first, c.next)
		}
	})
}

func FuzzDecodeRowValue(f *testing.F) {
	row := coordinator.Row{Version: 7, ID: coordinator.NewOpID(), Value: []byte("value")}
	f.Add(appendRowValue(nil, &row))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, b []byte) {
		row, err := decodeRowValue(coordinator.Key{}, b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		if !bytes.Equal(appendRowValue(nil, &row), b) {
			t.Fatalf("%x is not read back", b)
		}
	})
}

// An exchange for a longer run, with entries behind it, is the one that has to write those again.
func TestAdvanceForALongerRun(t *testing.T) {
	t.Parallel()
	s, err := Open("db", memory())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	entry := func(label segments.Label, n uint32) segments.Entry {
		id := segments.NewObjectID(label)
		return segments.Entry{ID: segments.EntryID{Object: id}, N: n, Object: id, Length: 1}
	}
	h := storetest.NewHead()
	h.Log = []segments.Entry{entry(1, 1), entry(2, 4), entry(3, 1)}
	h.Tail = 6
	if err := s.Create(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	x := &coordinator.Exchange{
		Index: 1, Old: h.Log[1:2], MinLabel: segments.MaxLabel,
		New: []segments.Entry{entry(4, 1), entry(5, 2), entry(6, 1)},
	}
	got, err := s.Splice(t.Context(), h.Stream, &coordinator.Splice{Exchange: x})
	if err != nil || len(got.Log) != 5 {
		t.Fatalf("exchange: %v", err)
	}
	s.hot.InvalidateAll()
	back, err := s.Load(t.Context(), h.Stream)
	if err != nil || !storetest.Equal(got, back) {
		t.Errorf("stored as %v\n%+v, want\n%+v", err, back, got)
	}
}
