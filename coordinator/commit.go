package coordinator

import (
	"context"
	"errors"

	"github.com/tailrace-streams/tailrace/coordinator/internal/hooks"
	"github.com/tailrace-streams/tailrace/segments"
)

// commit sends a commit, once, and answers what it decides.
func (s *sequencer) commit(p plan, begun uint64) {
	p.commit.Entries = p.builder.entries()
	if s.c.o.Hooks.Breaks(hooks.AckBeforeCommit) {
		s.mu.Lock()
		tail := s.head.TailPosition()
		s.acknowledge(p.items, tail, tail, s.head.V)
		s.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.c.o.StoreTimeout)
	h, err := s.c.o.Heads.Commit(ctx, s.ref.Stream, &p.commit)
	cancel()
	var refusal *Refusal
	switch {
	case err == nil:
		s.committed(p, h, begun)
	case errors.As(err, &refusal):
		s.refused(p, refusal, begun)
	case errors.Is(err, ErrNotFound):
		s.mu.Lock()
		defer s.mu.Unlock()
		s.head = nil
		s.failAll(ErrStreamNotFound)
	case Definite(err):
		s.mu.Lock()
		defer s.mu.Unlock()
		unsend(p.items)
		s.storeFailed(err)
	default:
		s.inDoubt(p, begun, err)
	}
}

func unsend(items []*item) {
	for _, it := range items {
		it.sent = false
	}
}

// committed acknowledges the items of a commit from the head that it returned: its entries are the last of that
// head's log.
func (s *sequencer) committed(p plan, h Head, begun uint64) {
	before := h.Log[:len(h.Log)-len(p.commit.Entries)]
	at := Position{h.Tail - p.commit.Records(), h.BaseTime}
	for i := range before {
		at.Timestamp = max(at.Timestamp, before[i].MaxTime)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts = 0
	s.learn(h, begun)
	s.acknowledge(p.items, at, h.TailPosition(), h.V)
	if s.owed || s.c.o.Room.crosses(&h, &p.commit) {
		s.oweMove(h)
	}
	if len(p.commit.Trims) > 0 {
		s.c.upkeep.later(s.ref)
	}
}

// acknowledge answers items that are in the stream, the first of them at the given position: its sequence number,
// and the effective timestamp before it. The tail and v are those of a head that has them. Followers get the records in
// the same order as the acks are made.
func (s *sequencer) acknowledge(items []*item, at, tail Position, v uint64) {
	follow := s.c.hubs.followed(s.ref.Stream)
	for _, it := range items {
		first := it.stored[0].Timestamp
		ack := Ack{
			Start: Position{at.SeqNum, max(at.Timestamp, first)},
			End:   Position{at.SeqNum + it.n, max(at.Timestamp, it.maxTime)},
			Tail:  tail,
			V:     v,
		}
		if follow {
			s.c.hubs.publish(s.ref.Stream, event{
				start: at.SeqNum, records: effective(it.stored, at.Timestamp), bytes: it.size, tail: ack.End, v: v,
			})
		}
		at = ack.End
		s.remove(it)
		s.answer(it, ack, nil)
	}
}

// effective folds raw timestamps: each becomes the largest so far, from before on. The records are changed in place.
func effective(records []segments.Record, before uint64) []segments.Record {
	for i := range records {
		before = max(before, records[i].Timestamp)
		records[i].Timestamp = before
	}
	return records
}

// refused takes over the head that refused. What it refuses of the items themselves the next plan answers, since the
// call began after they arrived; the rest goes again.
func (s *sequencer) refused(p plan, r *Refusal, begun uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts = 0
	unsend(p.items)
	s.learn(r.Head, begun)
	if r.Reason != RefusedRoom {
		return
	}
	if s.oweMove(r.Head); len(r.Head.Log) < p.commit.MaxEntries {
		// It is the inline bytes, which were only estimated: nothing else says that they will ever fit.
		for _, it := range p.items {
			if it.inline {
				s.placeInSegment(it)
			}
		}
	}
}

// inDoubt finds out whether a commit was applied. Nothing else of the stream is sent meanwhile.
func (s *sequencer) inDoubt(p plan, begun uint64, cause error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.c.o.DoubtTimeout)
	v := s.c.resolve(ctx, s.ref, p.commit.Entries)
	cancel()
	s.c.o.Log.Warn().Err(cause).Stringer("stream", s.ref.Stream).Stringer("verdict", v.kind).Msg("commit in doubt")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch v.kind {
	case wasApplied:
		s.learn(v.head, begun)
		s.acknowledge(p.items, v.at, v.head.TailPosition(), v.head.V)
		s.c.hubs.wake(s.ref.Stream)
		s.oweMove(v.head)
	case notApplied:
		unsend(p.items)
		s.learn(v.head, begun)
	default:
		s.head = nil
		for _, it := range p.items {
			s.remove(it)
			s.fail(it, &Indefinite{cause})
		}
	}
}

// oweMove moves in the background until the log is below its mark, or somebody else moves. If it fails, the next commit
// owes it.
func (s *sequencer) oweMove(h Head) {
	if s.moving {
		return
	}
	s.owed = false
	if !s.c.o.Room.owesMove(&h) {
		return
	}
	s.moving = s.c.background.start(func() {
		ctx, cancel := context.WithTimeout(s.c.life, s.c.o.AppendTimeout)
		defer cancel()
		var err error
		for moved := true; moved && err == nil && ctx.Err() == nil; {
			if h, moved, err = s.c.move(ctx, s.ref, &h); err == nil {
				s.observe(h)
			}
		}
		if err != nil && s.c.life.Err() == nil {
			s.c.o.Log.Warn().Err(err).Stringer("stream", s.ref.Stream).Msg("move failed; the next commit owes it again")
		}
		s.mu.Lock()
		s.moving, s.owed = false, err != nil
		s.mu.Unlock()
	})
}
