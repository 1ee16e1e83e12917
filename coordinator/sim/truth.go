package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/internal/hooks"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/memobjects"
)

// The rules that a store keeps, and that a broken one breaks here.
const (
	NoHorizonInCommit hooks.Rule = "no horizon check in commit"
	NoHorizonInSplice hooks.Rule = "no horizon check in splice"
	HorizonLowered    hooks.Rule = "horizon lowered"
	VerbNoCounter     hooks.Rule = "a verb without its counter"
	ModeFromCache     hooks.Rule = "exclusive mode judged from a cache"
)

// truth is what the stores really hold. Only the scheduler touches it, so every step of it is atomic, and after each
// the invariants are checked: it knows every record that was ever committed, and by which operation.
type truth struct {
	w       *world
	objects *memobjects.Store
	streams map[segments.StreamID]*stream
	order   []segments.StreamID
	pages   map[segments.ObjectID]*segments.Page // every page ever stored that was looked at: pages never change
	sizes   map[segments.ObjectID]int
	verbs   map[coordinator.OpID]*op
}

// stream is one stream as it is and as it was.
type stream struct {
	name string
	head coordinator.Head
	flat []segments.Row               // every entry the head reaches, in order
	refs map[segments.ObjectID]string // every object the head reaches, with its key
	ids  map[segments.EntryID]bool    // every entry id ever committed
	recs []record                     // every record ever committed
	when []moment                     // every state, with the step that made it
}

// record is a committed record.
type record struct {
	op        *op
	i         int
	effective uint64
}

// moment is what of a head callers are told, and since which step.
type moment struct {
	step       int
	tail, trim uint64
	token      string
	exclusive  bool
	state      coordinator.State
}

// ruleItself are the invariants that state a rule of the protocol, which nobody outside can see broken. Without them what
// counts is what comes of it: data that is lost or doubled.
var ruleItself = []string{
	"nothing named at or below the horizon", "horizon rises", "a rewrite keeps every id", "a retired id is at or below the horizon",
}

func newTruth(w *world) *truth {
	return &truth{
		w: w, objects: memobjects.New(memobjects.WithClock(time.Now)), streams: map[segments.StreamID]*stream{},
		pages: map[segments.ObjectID]*segments.Page{}, sizes: map[segments.ObjectID]int{}, verbs: map[coordinator.OpID]*op{},
	}
}

func (t *truth) create(h coordinator.Head) error {
	if t.streams[h.Stream] != nil {
		return coordinator.ErrExists
	}
	s := &stream{name: t.w.streamName(h.Stream), head: h, refs: map[segments.ObjectID]string{}, ids: map[segments.EntryID]bool{}}
	t.streams[h.Stream] = s
	t.order = append(t.order, h.Stream)
	s.remember(t.w.step)
	return nil
}

func (s *stream) remember(step int) {
	h := &s.head
	s.when = append(s.when, moment{step, h.Tail, h.Trim, h.Token, h.Exclusive(), h.State})
}

func (t *truth) load(id segments.StreamID) (coordinator.Head, error) {
	if s := t.streams[id]; s != nil {
		return s.head, nil
	}
	return coordinator.Head{}, coordinator.ErrNotFound
}

// commit, splice and change are the transitions of the coordinator, on the head there is; or what a store makes of
// them that breaks a rule.
func (t *truth) commit(id segments.StreamID, c *coordinator.Commit) (coordinator.Head, error) {
	return t.update(id, func(s *stream) (coordinator.Head, error) {
		h, sent := s.head, *c
		switch t.w.cfg.Broken {
		case NoHorizonInCommit:
			h.Horizon = 0
		case ModeFromCache:
			sent.Exclusive, sent.ConfigV = h.Exclusive(), h.ConfigV
		}
		next, err := coordinator.Apply(h, &sent)
		next.Horizon = s.head.Horizon
		if err == nil {
			t.checkCommit(s, next, c)
		}
		return next, err
	})
}

func (t *truth) splice(id segments.StreamID, p *coordinator.Splice) (coordinator.Head, error) {
	return t.update(id, func(s *stream) (coordinator.Head, error) {
		h := s.head
		switch {
		case t.w.cfg.Broken == NoHorizonInSplice:
			h.Horizon = 0
		case t.w.cfg.Broken == HorizonLowered && p.Retire != nil:
			h.Horizon = min(h.Horizon, p.Retire.Horizon)
		}
		next, err := coordinator.ApplySplice(h, p)
		if t.w.cfg.Broken == NoHorizonInSplice {
			next.Horizon = max(next.Horizon, s.head.Horizon)
		}
		if err == nil {
			t.checkSplice(s, next, p)
		}
		return next, err
	})
}

func (t *truth) change(id segments.StreamID, c *coordinator.Change) (coordinator.Head, error) {
	return t.update(id, func(s *stream) (coordinator.Head, error) {
		h, sent := s.head, *c
		if t.w.cfg.Broken == VerbNoCounter {
			switch {
			case c.Fence != nil:
				sent.Fence = &coordinator.FenceChange{Token: c.Fence.Token, IfV: h.TokenV}
			case c.Config != nil:
				sent.Config = &coordinator.ConfigChange{Config: c.Config.Config, IfV: h.ConfigV}
			}
		}
		if t.w.cfg.Broken == HorizonLowered && c.Clear != nil {
			h.Horizon = min(h.Horizon, c.Clear.Horizon)
		}
		next, err := coordinator.ApplyChange(h, &sent)
		if t.w.cfg.Broken == HorizonLowered && c.RaiseHorizon != 0 {
			next.Horizon = c.RaiseHorizon
		}
		if err == nil {
			t.checkChange(s, next, c)
		}
		return next, err
	})
}

// update replaces a head by what the transition makes of it, and checks what must hold of every step.
func (t *truth) update(id segments.StreamID, transition func(*stream) (coordinator.Head, error)) (coordinator.Head, error) {
	s := t.streams[id]
	if s == nil {
		return coordinator.Head{}, coordinator.ErrNotFound
	}
	next, err := transition(s)
	var r *coordinator.Refusal
	if errors.As(err, &r) {
		r.Head = s.head // not one with a rule switched off
	}
	if err != nil {
		return coordinator.Head{}, err
	}
	t.checkStep(s, &next)
	s.head = next
	s.remember(t.w.step)
	return next, nil
}

func (t *truth) fail(s *stream, invariant, format string, args ...any) {
	if t.w.cfg.EffectsOnly && slices.Contains(ruleItself, invariant) {
		return
	}
	t.w.fail(invariant, "%s: %s", s.name, fmt.Sprintf(format, args...))
}

// checkStep checks what every transition must keep, and takes over what the new head reaches.
func (t *truth) checkStep(s *stream, next *coordinator.Head) {
	h := &s.head
	switch {
	case next.V != h.V+1:
		t.fail(s, "versions count", "V goes from %d to %d", h.V, next.V)
	case next.Horizon < h.Horizon:
		t.fail(s, "horizon rises", "horizon falls from %s to %s", labelText(h.Horizon), labelText(next.Horizon))
	case next.Floor < h.Floor, next.Trim < h.Trim:
		t.fail(s, "trim and floor rise", "trim %d floor %d become trim %d floor %d", h.Trim, h.Floor, next.Trim, next.Floor)
	case next.State < h.State:
		t.fail(s, "state goes forward", "%s becomes %s", h.State, next.State)
	case next.Tail < h.Tail, next.TokenV < h.TokenV, next.ConfigV < h.ConfigV:
		t.fail(s, "tail and counters rise", "tail %d becomes %d", h.Tail, next.Tail)
	case next.Floor > next.Tail, next.Trim > next.Tail:
		t.fail(s, "trim and floor up to the tail", "trim %d, floor %d, tail %d", next.Trim, next.Floor, next.Tail)
	}
	if next.State == coordinator.Deleted {
		return // nothing is reached through a tombstone
	}
	flat, refs, err := t.reach(next)
	if err != nil {
		t.fail(s, "what is named exists", "%v", err)
		return
	}
	for id := range refs {
		if s.refs[id] == "" && id.Label() <= h.Horizon {
			t.fail(s, "nothing named at or below the horizon", "%s is newly named, the horizon is %s", short(id), labelText(h.Horizon))
		}
	}
	t.checkDense(s, next, flat)
	s.flat, s.refs = flat, refs
}

// checkDense checks that the entries reach from the first record to the tail, with the times that the fold gives.
func (t *truth) checkDense(s *stream, h *coordinator.Head, flat []segments.Row) {
	at := h.First()
	var inline uint64
	for i := range flat {
		r := &flat[i]
		if r.Start != at {
			t.fail(s, "dense numbers", "an entry starts at %d, not at %d", r.Start, at)
			return
		}
		at = r.End()
		inline += uint64(len(r.Entry.Data))
		if at > uint64(len(s.recs)) {
			t.fail(s, "only committed records", "entries reach to %d of %d records", at, len(s.recs))
			return
		}
		if r.TimeAfter != s.recs[at-1].effective {
			t.fail(s, "times fold", "the time after record %d is %d, not %d", at-1, r.TimeAfter, s.recs[at-1].effective)
			return
		}
	}
	if at != h.Tail || inline != h.InlineBytes || h.Tail != uint64(len(s.recs)) {
		t.fail(s, "dense numbers", "entries end at %d of %d with %d inline bytes; the head says %d and %d", at, len(s.recs), inline, h.Tail, h.InlineBytes)
	}
	if want := s.timeBefore(h.Tail); h.TailPosition().Timestamp != want {
		t.fail(s, "times fold", "the tail's time is %d, not %d", h.TailPosition().Timestamp, want)
	}
}

// timeBefore is the effective timestamp of the record before seq.
func (s *stream) timeBefore(seq uint64) uint64 {
	if seq == 0 {
		return 0
	}
	return s.recs[seq-1].effective
}

// reach lists every entry and every object that a head reaches. It fails if one is not there.
func (t *truth) reach(h *coordinator.Head) (flat []segments.Row, refs map[segments.ObjectID]string, err error) {
	refs = make(map[segments.ObjectID]string)
	for i := range h.Pages {
		r := &h.Pages[i]
		if flat, err = t.reachPage(h, &r.Page, r.Level, flat, refs); err != nil {
			return nil, nil, err
		}
	}
	for _, r := range h.Rows() {
		if !r.Entry.Inline() {
			refs[r.Entry.Object] = segments.SegmentKey(h.Basin, r.Entry.Object)
		}
		flat = append(flat, r)
	}
	for _, id := range sorted(refs) {
		if _, err := t.objects.Get(context.Background(), refs[id], 0, 0); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", refs[id], err)
		}
	}
	return flat, refs, nil
}

func (t *truth) reachPage(h *coordinator.Head, row *segments.Row, level uint8, flat []segments.Row, refs map[segments.ObjectID]string) ([]segments.Row, error) {
	refs[row.Child] = segments.PageKey(h.Basin, row.Child)
	p, err := t.page(h.Basin, row.Child)
	if err != nil {
		return nil, fmt.Errorf("page %s: %w", short(row.Child), err)
	}
	if p.Level != level || p.Stream != h.Stream || p.Summary(row.Child, t.sizes[row.Child]) != *row {
		return nil, fmt.Errorf("page %s is not what its row says", short(row.Child))
	}
	for i := range p.Rows {
		if r := &p.Rows[i]; r.Entry != nil {
			refs[r.Entry.Object] = segments.SegmentKey(h.Basin, r.Entry.Object)
			flat = append(flat, *r)
		} else if flat, err = t.reachPage(h, r, level-1, flat, refs); err != nil {
			return nil, err
		}
	}
	return flat, nil
}

// page decodes a page that is, or was, stored.
func (t *truth) page(basin segments.BasinID, id segments.ObjectID) (*segments.Page, error) {
	if p := t.pages[id]; p != nil {
		return p, nil
	}
	data, err := t.objects.Get(context.Background(), segments.PageKey(basin, id), 0, -1)
	if err != nil {
		return nil, err
	}
	p, err := segments.DecodePage(data)
	if err != nil {
		return nil, err
	}
	t.pages[id], t.sizes[id] = p, len(data)
	return p, nil
}

func sorted[V any](m map[segments.ObjectID]V) []segments.ObjectID {
	return slices.SortedFunc(maps.Keys(m), func(a, b segments.ObjectID) int { return bytes.Compare(a[:], b[:]) })
}

// recordsOf reads the records of an entry.
func (t *truth) recordsOf(h *coordinator.Head, e *segments.Entry) ([]segments.StoredRecord, error) {
	own := *e
	if !e.Inline() {
		data, err := t.objects.Get(context.Background(), segments.SegmentKey(h.Basin, e.Object), int64(e.Offset), int64(e.Length))
		if err != nil {
			return nil, err
		}
		own.Data = data
	}
	var all []segments.StoredRecord
	r := segments.NewReader(t.objects, 0)
	for i := uint32(0); i < e.N; {
		records, err := r.Read(context.Background(), h.Basin, h.Stream, &own, i, 1<<30)
		if err != nil {
			return nil, err
		}
		all = append(all, records...)
		i += uint32(len(records))
	}
	return all, nil
}

func (t *truth) put(key string, data []byte) error {
	err := t.objects.Put(context.Background(), key, data)
	if err != nil {
		t.w.fail("objects never change", "%v", err)
	}
	return err
}

// remove deletes objects, none of which a living head may reach.
func (t *truth) remove(keys []string) {
	for _, id := range t.order {
		s := t.streams[id]
		if s.head.State == coordinator.Deleted {
			continue
		}
		for _, object := range sorted(s.refs) {
			if slices.Contains(keys, s.refs[object]) {
				t.fail(s, "nothing deleted that a head names", "%s", s.refs[object])
			}
		}
	}
	t.objects.Delete(context.Background(), keys)
}
