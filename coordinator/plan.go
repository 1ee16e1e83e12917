package coordinator

import (
	"math"

	"github.com/tailrace-streams/tailrace/coordinator/internal/hooks"
	"github.com/tailrace-streams/tailrace/segments"
)

// plan is the next store call of a sequencer.
type plan struct {
	load bool // a fresh head
	move bool // room in the head

	items   []*item // what the commit takes, in order
	commit  Commit
	builder *entryBuilder
}

func (p *plan) idle() bool { return !p.load && !p.move && len(p.items) == 0 }

// The most that one commit takes: a bound on how much one lost race can make wait.
const (
	maxCommitEntries = 64
	maxCommitInline  = 1 << 20
)

// plan decides the next store call. It answers what a fresh head refuses. Items stay in the queue until they are
// answered.
func (s *sequencer) plan() plan {
	for {
		if s.head == nil {
			return plan{load: len(s.queue) > 0}
		}
		p, refused, err := s.pick()
		if refused == nil {
			return p
		}
		s.remove(refused)
		s.fail(refused, err)
	}
}

// pick walks the queue. It returns a plan, or an item that is refused for good.
func (s *sequencer) pick() (p plan, refused *item, err error) {
	j := newJudge(s.head)
	b := &entryBuilder{c: s.c, head: s.head, ref: s.ref}
	blocked := map[*Session]bool{} // sessions with an item that stays behind
	behind := false                // any item stays behind
	stale := false
	stay := func(it *item) {
		behind = true
		if it.session != nil {
			blocked[it.session] = true
		}
	}
	for _, it := range s.queue {
		if _, err := sealer(s.head, it.batch.Key); err != nil {
			return plan{}, it, err // whatever the stream's state: what it is sealed with never changes
		}
		if blocked[it.session] || (it.barrier && behind) || !s.ready(it) {
			stay(it)
			continue
		}
		if it.batch.Match != nil && len(p.items) > 0 && !j.pinned() {
			// A conditional batch would make strangers' unconditional ones lose its race with it.
			stay(it)
			continue
		}
		if !b.fits(it) {
			if len(p.items) == 0 && it.inline {
				// The head has no room for it; a segment always has.
				s.placeInSegment(it)
			}
			stay(it)
			continue
		}
		if !b.takeAttempt(it) {
			s.placeInSegment(it)
			stay(it)
			continue
		}
		if err := j.admit(it.batch, it.n, it.cmds); err != nil {
			if len(p.items) == 0 && (s.begun > it.arrived || s.c.o.Hooks.Breaks(hooks.RefuseOnSpeculation)) {
				return plan{}, it, err
			}
			stale = true
			stay(it)
			continue
		}
		b.add(it)
		p.items = append(p.items, it)
	}
	switch {
	case len(p.items) > 0 && s.entries >= s.c.o.Room.MaxEntries:
		return plan{move: true}, nil, nil
	case len(p.items) == 0:
		p.load = stale
		return p, nil, nil
	}
	for _, it := range p.items {
		it.sent = true
	}
	p.commit, p.builder = j.commit, b
	if p.commit.SetToken != nil {
		p.commit.TokenID = NewOpID()
	}
	p.commit.Now = s.c.nowMillis()
	p.commit.MaxEntries, p.commit.MaxInline = s.c.o.Room.MaxEntries, s.c.o.Room.MaxInline
	return p, nil, nil
}

// ready reports whether an item could be committed now. It stamps and places anew what the head has outdated: a
// changed config gives other times, and an object at or below the horizon may not be named any more.
func (s *sequencer) ready(it *item) bool {
	if it.stored == nil || it.stampedV != s.head.ConfigV {
		s.prepare(it)
	}
	if it.loc != nil && s.c.o.Hooks.Breaks(hooks.FreshLabelOldBytes) {
		return true
	}
	if it.loc != nil && it.loc.object.Label() <= s.head.Horizon {
		s.placeInSegment(it)
	}
	return it.inline || it.loc != nil
}

// entryBuilder gathers items into entries: neighbours that are placed alike share one.
type entryBuilder struct {
	c    *Coordinator
	head *Head
	ref  StreamRef

	spans  [][]*item
	inline uint64 // weight
}

func (b *entryBuilder) fits(it *item) bool {
	if it.inline {
		if b.inline+it.weight > maxCommitInline && len(b.spans) > 0 {
			return false
		}
		if b.head.InlineBytes+b.inline+it.weight > b.c.o.Room.MaxInline {
			return false
		}
	}
	return b.joins(it) || len(b.spans) < maxCommitEntries
}

// takeAttempt gets an item that starts an entry of a segment the entry's number among those made from the object.
// false if there is none left.
func (b *entryBuilder) takeAttempt(it *item) bool {
	if it.inline || b.joins(it) {
		return true
	}
	it.attempt = it.loc.attempts.Add(1)
	return it.attempt <= math.MaxUint16
}

// joins reports whether the item continues the last entry.
func (b *entryBuilder) joins(it *item) bool {
	if len(b.spans) == 0 {
		return false
	}
	span := b.spans[len(b.spans)-1]
	last := span[len(span)-1]
	if it.inline || last.inline {
		return it.inline && last.inline
	}
	return it.loc.object == last.loc.object && it.loc.offset == last.loc.offset && it.loc.skip == last.loc.skip+uint32(last.n)
}

func (b *entryBuilder) add(it *item) {
	if it.inline {
		b.inline += it.weight
	}
	if b.joins(it) {
		b.spans[len(b.spans)-1] = append(b.spans[len(b.spans)-1], it)
		return
	}
	b.spans = append(b.spans, []*item{it})
}

// entries makes the entries, with ids that were never used. It encodes records, so it is called without the lock.
func (b *entryBuilder) entries() []segments.Entry {
	entries := make([]segments.Entry, len(b.spans))
	for i, span := range b.spans {
		e := &entries[i]
		batches := make([]segments.StoredBatch, len(span))
		for k, it := range span {
			e.N += uint32(it.n)
			e.MaxTime = max(e.MaxTime, it.maxTime)
			e.Arrival = max(e.Arrival, it.arrival)
			e.Bytes += it.size
			batches[k] = segments.StoredBatch{Arrival: it.arrival, Records: it.stored}
		}
		if first := span[0]; first.inline {
			e.ID.Object = b.c.newObjectID(b.ref.Basin, b.head.Horizon)
			e.Data = segments.AppendChunk(nil, b.ref.Stream, batches...)
		} else {
			loc := first.loc
			e.ID = segments.EntryID{Object: loc.object, Attempt: uint16(first.attempt)}
			e.Object, e.Offset, e.Length, e.Skip = loc.object, loc.offset, loc.length, loc.skip
			if b.c.o.Hooks.Breaks(hooks.FreshLabelOldBytes) && loc.object.Label() <= b.head.Horizon {
				e.ID.Object = b.c.newObjectID(b.ref.Basin, b.head.Horizon)
			}
		}
	}
	return entries
}
