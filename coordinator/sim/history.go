package sim

import (
	"context"
	"errors"
	"slices"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// op is one operation of a client: what it asked for, when, and what it was told. The truth adds what became of it.
type op struct {
	id     int
	kind   opKind
	p      *process
	stream segments.StreamID
	slot   int

	batch   coordinator.Batch // of an append
	session *sessionLog       // that it belongs to, or nil
	token   string            // that a fence verb installs
	fenced  coordinator.Fenced
	state   coordinator.State // that a deletion brings about
	config  coordinator.StreamConfig

	// call and ret are steps. An operation that was never answered has no ret.
	call, ret int
	returned  bool
	err       error
	ack       coordinator.Ack
	tail      coordinator.Position // of a check-tail
	next      uint64               // that a *MatchMismatch tells
	// definite says that its caller was told that it was not and will not be applied.
	definite bool

	// applied, at start, in a step.
	applied bool
	start   uint64
	step    int
}

type opKind string

const (
	appendOp opKind = "append"
	tailOp   opKind = "check-tail"
	fenceOp  opKind = "fence"
	configOp opKind = "configure"
	deleteOp opKind = "delete"
	openOp   opKind = "open session"
)

// sessionLog lists what one session submitted, in order.
type sessionLog struct {
	ops []*op
	coordinator.SessionOptions
	own []string // tokens that it asked to install itself
}

// outlives reports whether the session goes on behind an operation of it.
func (l *sessionLog) outlives(o *op) bool {
	var miss *coordinator.MatchMismatch
	return o.err == nil || l.PerBatch && errors.As(o.err, &miss)
}

// openSession is one that presents a token and has not been closed.
type openSession struct {
	*coordinator.Session
	log    *sessionLog
	p      *process
	stream segments.StreamID
	since  int // step
}

// carries notes for which operation of a client a verb is made.
func (w *world) carries(ctx context.Context, c *coordinator.Change) {
	if o, ok := ctx.Value(opOfContext{}).(*op); ok && c.Bump == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.truth.verbs[c.ID] = o
	}
}

// begin notes that an operation starts now.
func (w *world) begin(o *op) *op {
	w.mu.Lock()
	defer w.mu.Unlock()
	o.id = len(w.ops)
	o.call = w.step
	w.ops = append(w.ops, o)
	if o.session != nil {
		o.session.ops = append(o.session.ops, o)
	}
	return o
}

func (w *world) opNumber(n int) *op {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n < 0 || n >= len(w.ops) || w.ops[n].kind != appendOp {
		return nil
	}
	return w.ops[n]
}

// end notes what the caller of an operation was told. Whoever died with its process was told nothing.
func (w *world) end(o *op, err error) {
	w.mu.Lock()
	if o.p.gone {
		w.mu.Unlock()
		return
	}
	o.ret, o.returned, o.err = w.step, true, err
	var indefinite *coordinator.Indefinite
	o.definite = err != nil && !errors.As(err, &indefinite)
	w.mu.Unlock()
	if s := w.truth.streams[o.stream]; s != nil {
		w.checkAnswer(s, o)
	}
}

// checkAnswer holds what a caller is told against the truth, at the instant at which it is told.
func (w *world) checkAnswer(s *stream, o *op) {
	var match *coordinator.MatchMismatch
	var fence *coordinator.FencingMismatch
	switch {
	case o.definite && o.applied:
		w.truth.fail(s, "a definite failure is never applied", "%s %d, applied in step %d, fails with %v", o.kind, o.id, o.step, o.err)
	case o.err == nil && o.kind == appendOp:
		w.checkAck(s, o)
	case o.err == nil && o.kind == configOp && !o.applied:
		w.truth.fail(s, "acknowledged means stored", "%s %d", o.kind, o.id)
	case o.err == nil && o.kind == fenceOp:
		w.checkFenced(s, o)
	case o.err == nil && o.kind == tailOp:
		w.checkTail(s, o, o.tail)
	case errors.As(o.err, &match):
		o.next = match.Next
		w.checkTail(s, o, match.Tail)
		if match.Next != match.Tail.SeqNum {
			w.truth.fail(s, "refusals tell the committed tail", "%d, behind the tail %d", match.Next, match.Tail.SeqNum)
		}
		if o.batch.Match == nil || *o.batch.Match == match.Next {
			w.truth.fail(s, "match_seq_num", "batch %d is refused though it matches", o.id)
		}
	case errors.As(o.err, &fence):
		if !s.was(o, func(m moment) bool {
			return m.token == fence.Installed && m.state == coordinator.Active && o.excluded(m)
		}) {
			w.truth.fail(s, "refusals are true", "append %d is told that %q is installed", o.id, fence.Installed)
		}
	}
}

// checkFenced checks what a fence is told: that its token was installed; that no record admitted before lies above the
// tail; and that the sessions here which present another token have ended.
func (w *world) checkFenced(s *stream, o *op) {
	if !o.applied && (o.fenced.Previous != o.token || !s.was(o, func(m moment) bool { return m.token == o.token })) {
		w.truth.fail(s, "acknowledged means stored", "fence %d of %q", o.id, o.token)
		return
	}
	if o.applied && o.fenced.Tail.SeqNum < o.start {
		w.truth.fail(s, "a fence tells the boundary", "fence %d at %d is told %d", o.id, o.start, o.fenced.Tail.SeqNum)
	}
	w.checkTail(s, o, o.fenced.Tail)
	from := o.call
	if o.applied {
		from = o.step
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, open := range w.sessions {
		presented := *open.log.Token
		if open.p != o.p || open.stream != o.stream || open.since > o.call || presented == o.token || slices.Contains(open.log.own, o.token) {
			continue
		}
		if open.Err() == nil && !s.hadSince(from, presented) {
			w.mu.Unlock()
			w.truth.fail(s, "a fence supersedes sessions", "one that presents %q goes on behind the fence %d of %q", presented, o.id, o.token)
			w.mu.Lock()
		}
	}
}

// hadSince reports whether a token was installed in some state since a step.
func (s *stream) hadSince(step int, token string) bool {
	return slices.ContainsFunc(s.when, func(m moment) bool { return m.step > step && m.token == token })
}

// excluded reports whether the token that an append presents is not the one to present.
func (o *op) excluded(m moment) bool {
	if o.batch.Token == nil {
		return m.exclusive && m.token != ""
	}
	return *o.batch.Token != m.token
}

func (w *world) checkAck(s *stream, o *op) {
	n := uint64(len(o.batch.Records))
	if !o.applied {
		w.truth.fail(s, "acknowledged means stored", "append %d is acknowledged at %d", o.id, o.ack.Start.SeqNum)
		return
	}
	first, last := s.recs[o.start].effective, s.recs[o.start+n-1].effective
	want := coordinator.Ack{
		Start: coordinator.Position{SeqNum: o.start, Timestamp: first},
		End:   coordinator.Position{SeqNum: o.start + n, Timestamp: last}, Tail: o.ack.Tail, V: o.ack.V,
	}
	if o.ack != want {
		w.truth.fail(s, "batches are where the ack says", "append %d: %+v, not %+v", o.id, o.ack, want)
	}
	if o.ack.Tail.SeqNum < o.start+n {
		w.truth.fail(s, "the ack's tail is behind the batch", "append %d: %+v", o.id, o.ack)
	}
	w.checkTail(s, o, o.ack.Tail)
}

// checkTail checks that a tail that a caller is told was the tail at some moment between its call and now.
func (w *world) checkTail(s *stream, o *op, tail coordinator.Position) {
	if !s.was(o, func(m moment) bool { return m.tail == tail.SeqNum }) {
		w.truth.fail(s, "tails are linearizable", "%s %d is told the tail %d, which was none since step %d", o.kind, o.id, tail.SeqNum, o.call)
	} else if want := s.timeBefore(tail.SeqNum); tail.Timestamp != want {
		w.truth.fail(s, "times fold", "%s %d is told that the tail %d is of time %d, not %d", o.kind, o.id, tail.SeqNum, tail.Timestamp, want)
	}
}

// was reports whether a condition held at some moment since the operation began.
func (s *stream) was(o *op, holds func(moment) bool) bool {
	for i := len(s.when) - 1; i >= 0; i-- {
		if holds(s.when[i]) {
			return true
		}
		if s.when[i].step <= o.call {
			return false // it was so before the operation began
		}
	}
	return false
}

// sentWith reports whether a batch was on its way already when its session failed with an outcome in doubt.
func (o *op) sentWith(failed *op) bool {
	return !failed.definite && (o.step <= failed.ret || failed.applied && o.step == failed.step)
}

// checkSessions checks that what a session submitted is in order, and that nothing follows its first failure.
func (w *world) checkSessions() {
	seen := map[*sessionLog]bool{}
	for _, o := range w.ops {
		if o.session == nil || seen[o.session] {
			continue
		}
		seen[o.session] = true
		var failed, last *op
		for _, b := range o.session.ops {
			s := w.truth.streams[b.stream]
			switch {
			case b.applied && failed != nil && !b.sentWith(failed):
				w.truth.fail(s, "a failed session takes nothing more", "batch %d is applied, %d before it failed with %v", b.id, failed.id, failed.err)
			case b.applied && last != nil && last.start >= b.start:
				w.truth.fail(s, "sessions keep their order", "batch %d is at %d, %d at %d", last.id, last.start, b.id, b.start)
			}
			if b.applied {
				last = b
			}
			if b.returned && !b.session.outlives(b) && failed == nil {
				failed = b
			}
		}
	}
}
