package coordinator_test

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
)

func TestSpliceProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := storetest.NewGen(t)
		h := g.Head()
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			s := g.Splice(&h)
			next, err := transition(t, h, storetest.Step{Splice: s})
			if err == nil {
				checkSpliced(t, &h, &next, s)
				h = next
			}
			if next, err := transition(t, h, storetest.Step{Commit: g.Commit(&h)}); err == nil {
				h = next
			}
		}
	})
}

// checkSpliced holds a splice to what it may change: how records are named, never which there are.
func checkSpliced(t *rapid.T, h, next *coordinator.Head, s *coordinator.Splice) {
	if next.Tail != h.Tail || next.TailPosition() != h.TailPosition() || h.State != coordinator.Active {
		t.Fatalf("tail %v became %v", h.TailPosition(), next.TailPosition())
	}
	retired := s.Retire != nil
	if next.First() != h.First() && !retired {
		t.Fatalf("first record %d became %d", h.First(), next.First())
	}
	if next.Horizon != h.Horizon && !retired {
		t.Fatal("the horizon moved")
	}
	if label, ok := newlyNamed(h, next); ok && label <= h.Horizon {
		t.Fatalf("label %d is newly named at horizon %d", label, h.Horizon)
	}
	switch {
	case s.Exchange != nil:
		x := s.Exchange
		want := slices.Concat(h.Log[:x.Index], x.New, h.Log[x.Index+len(x.Old):])
		if !coordinator.EntriesEqual(next.Log, want) || next.Base != h.Base {
			t.Fatal("the log is not the old one with the run replaced")
		}
	case s.Move != nil:
		checkDropped(t, h, next, len(s.Move.Old))
		if s.Move.Base != h.Base {
			t.Fatalf("a move from base %d was applied at %d", s.Move.Base, h.Base)
		}
	case s.Repage != nil:
		checkDropped(t, h, next, 0)
	default:
		checkDropped(t, h, next, len(s.Retire.Old))
		for _, e := range s.Retire.Old {
			if e.ID.Label() > next.Horizon {
				t.Fatalf("id label %d was dropped above horizon %d", e.ID.Label(), next.Horizon)
			}
		}
		if next.Horizon != s.Retire.Horizon {
			t.Fatalf("horizon %d, want %d", next.Horizon, s.Retire.Horizon)
		}
	}
}

func checkDropped(t *rapid.T, h, next *coordinator.Head, k int) {
	if !coordinator.EntriesEqual(next.Log, h.Log[k:]) {
		t.Fatalf("the log is not the old one without its first %d entries", k)
	}
	rows := h.Rows()
	base, before := h.Base, h.BaseTime
	if k > 0 {
		base, before = rows[k-1].End(), rows[k-1].TimeAfter
	}
	if next.Base != base || next.BaseTime != before {
		t.Fatalf("base (%d, %d), want (%d, %d)", next.Base, next.BaseTime, base, before)
	}
}

// newlyNamed is the smallest label of what next names and h did not.
func newlyNamed(h, next *coordinator.Head) (segments.Label, bool) {
	old := map[segments.ObjectID]bool{}
	for _, r := range h.Pages {
		old[r.Page.Child] = true
	}
	for i := range h.Log {
		old[h.Log[i].Object] = true
	}
	smallest, any := segments.MaxLabel, false
	visit := func(id segments.ObjectID) {
		if !id.IsZero() && !old[id] {
			smallest, any = min(smallest, id.Label()), true
		}
	}
	for _, r := range next.Pages {
		visit(r.Page.Child)
	}
	for i := range next.Log {
		visit(next.Log[i].Object)
	}
	return smallest, any
}

// A splice does not depend on appends that came after what it read, and only on them it does not.
func TestSpliceIgnoresAppends(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := storetest.NewGen(t)
		h := g.Head()
		s := storetest.Step{Splice: g.Splice(&h)}
		c := storetest.Step{Commit: g.Commit(&h)}
		appended, err := transition(t, h, c)
		if err != nil {
			return
		}
		want, wantErr := transition(t, h, s)
		got, gotErr := transition(t, appended, s)
		wantReason, _ := storetest.RefusedFor(wantErr)
		gotReason, _ := storetest.RefusedFor(gotErr)
		if wantReason != gotReason {
			t.Fatalf("without the append: %v; with it: %v", wantErr, gotErr)
		}
		if wantErr != nil {
			return
		}
		// In the other order the result is the same, except where the splice takes the room, or raises the horizon.
		roomy := *c.Commit
		roomy.MaxEntries, roomy.MaxInline = 1<<20, 1<<30
		want, err = coordinator.Apply(want, &roomy)
		if reason, refused := storetest.RefusedFor(err); reason == coordinator.RefusedHorizon && refused.Horizon > h.Horizon {
			return
		}
		if err != nil || !storetest.Equal(got, want) {
			t.Fatalf("append and splice do not commute (%v):\n%+v\n%+v", err, got, want)
		}
	})
}

// The last splice of two that read the same head is refused.
func TestSpliceOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := storetest.NewGen(t)
		h := g.Head()
		s := storetest.Step{Splice: g.Splice(&h)}
		next, err := transition(t, h, s)
		if err != nil || (s.Splice.Move == nil && s.Splice.Repage == nil) {
			return
		}
		if reason, _ := storetest.RefusedFor(second(transition(t, next, s))); reason != coordinator.RefusedChanged {
			t.Fatalf("applied twice, the second time: %v", reason)
		}
	})
}

// Entries are the same only if every field is.
func TestEntriesEqual(t *testing.T) {
	t.Parallel()
	a := segments.Entry{Data: []byte("x")}
	fields := reflect.TypeFor[segments.Entry]().NumField()
	for i := range fields {
		b := segments.Entry{Data: []byte("x")}
		switch f := reflect.ValueOf(&b).Elem().Field(i); f.Kind() {
		case reflect.Uint32, reflect.Uint64:
			f.SetUint(1)
		case reflect.Slice:
			f.SetBytes([]byte("y"))
		case reflect.Array:
			f.Index(15).SetUint(1)
		case reflect.Struct:
			b.ID.Attempt++
		default:
			t.Fatalf("field %d is of a new kind", i)
		}
		if coordinator.EntriesEqual([]segments.Entry{a}, []segments.Entry{b}) {
			t.Errorf("entries that differ in %s are equal", reflect.TypeFor[segments.Entry]().Field(i).Name)
		}
	}
	if coordinator.EntriesEqual([]segments.Entry{a}, nil) || !coordinator.EntriesEqual([]segments.Entry{a}, []segments.Entry{a}) {
		t.Error("runs of other lengths are equal, or the same are not")
	}
}

func TestSpliceRefusals(t *testing.T) {
	t.Parallel()
	h := storetest.NewHead()
	h.Horizon = 10
	for label := range segments.Label(3) {
		id := segments.NewObjectID(label + 5)
		h.Log = append(h.Log, segments.Entry{ID: segments.EntryID{Object: id}, N: 2, Object: id, Length: 1})
		h.Tail += 2
	}
	at := func(change func(x *coordinator.Exchange)) *coordinator.Splice {
		x := &coordinator.Exchange{Index: 1, Old: h.Log[1:3], New: []segments.Entry{{N: 4, Length: 1}}, MinLabel: 11}
		change(x)
		return &coordinator.Splice{Exchange: x}
	}
	retire := func(hz segments.Label) *coordinator.Splice {
		return &coordinator.Splice{Retire: &coordinator.Retire{
			Old: h.Log[:1], NewBase: 2, Horizon: hz, MinLabel: segments.MaxLabel,
		}}
	}
	for name, tc := range map[string]struct {
		s    *coordinator.Splice
		want coordinator.Reason
	}{
		"exchange":            {at(func(*coordinator.Exchange) {}), 0},
		"negative index":      {at(func(x *coordinator.Exchange) { x.Index = -1 }), coordinator.RefusedChanged},
		"beyond the end":      {at(func(x *coordinator.Exchange) { x.Index = 2 }), coordinator.RefusedChanged},
		"huge index":          {at(func(x *coordinator.Exchange) { x.Index = 1<<62 + 1<<61 }), coordinator.RefusedChanged},
		"empty run":           {at(func(x *coordinator.Exchange) { x.Old = nil }), coordinator.RefusedChanged},
		"other run":           {at(func(x *coordinator.Exchange) { x.Index = 0 }), coordinator.RefusedChanged},
		"label at horizon":    {at(func(x *coordinator.Exchange) { x.MinLabel = 10 }), coordinator.RefusedHorizon},
		"retire":              {retire(10), 0},
		"retire, low horizon": {retire(9), coordinator.RefusedHorizon},
		"move with unread roots": {&coordinator.Splice{Move: &coordinator.Move{
			Old: h.Log[:1], OldPages: []coordinator.Root{{Level: 1}}, NewBase: 2, MinLabel: 11,
		}}, coordinator.RefusedChanged},
		"move from another base": {&coordinator.Splice{Move: &coordinator.Move{
			Base: 1, Old: h.Log[:1], NewBase: 3, MinLabel: 11,
		}}, coordinator.RefusedChanged},
		"retire from another base": {&coordinator.Splice{Retire: &coordinator.Retire{
			Base: 1, Old: h.Log[:1], NewBase: 3, Horizon: 10, MinLabel: 11,
		}}, coordinator.RefusedChanged},
		"move of more than there is": {&coordinator.Splice{Move: &coordinator.Move{
			Old: slices.Concat(h.Log, h.Log[:1]), NewBase: 8, MinLabel: 11,
		}}, coordinator.RefusedChanged},
	} {
		if got, _ := storetest.RefusedFor(second(coordinator.ApplySplice(h, tc.s))); got != tc.want {
			t.Errorf("%s: reason %d, want %d", name, got, tc.want)
		}
		gone := h
		gone.State = coordinator.Deleting
		if got, _ := storetest.RefusedFor(second(coordinator.ApplySplice(gone, tc.s))); got != coordinator.RefusedState {
			t.Errorf("%s on a stream being deleted: reason %d", name, got)
		}
	}
}
