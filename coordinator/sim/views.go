package sim

import (
	"errors"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// revision is a state of a stream that some client was told of, and passes on to all others: who demands it must be shown
// at least that, by whichever process and from whatever it remembers.
type revision struct{ v, tail uint64 }

// knows is the newest revision of a stream that anybody was told of.
func (w *world) knows(id segments.StreamID) revision {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.revisions[id]
}

// tell passes on what a client was told. A process that is gone has told nobody.
func (w *world) tell(p *process, id segments.StreamID, r revision) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !p.gone && r.v > w.revisions[id].v {
		w.revisions[id] = r
	}
}

// fresh is an eventual read that demands a revision.
func (r revision) fresh() coordinator.Freshness {
	return coordinator.Freshness{MaxAge: 30 * time.Second, Viewer: "all", MinV: r.v, Patience: time.Second}
}

// view asks for a state by the newest revision that anybody knows.
func (c *client) view() bool {
	ref, _ := c.target()
	ctx, cancel := c.patience()
	defer cancel()
	known := c.w.knows(ref.Stream)
	v, err := c.p.View(ctx, ref, known.fresh())
	c.w.follow()
	c.checkRevision(ref, known, revision{v.Head.V, v.Head.Tail}, err)
	if err == nil {
		c.tail = v.Head.Tail
	}
	return true
}

// checkRevision holds what a reader is shown against the revision that it demanded and against the truth: the state is one
// that the stream was in, not before the one demanded. That a told revision is "not reached" is wrong by itself.
func (c *client) checkRevision(ref coordinator.StreamRef, known, shown revision, err error) {
	s := c.w.truth.streams[ref.Stream]
	var behind *coordinator.Behind
	switch {
	case errors.As(err, &behind):
		c.w.truth.fail(s, "told revisions are reached", "%s client %d is told that %d is the newest, after %d", c.p.name, c.n, behind.V, known.v)
	case err != nil:
		return
	case shown.v < known.v, shown.tail < known.tail, shown.v > s.head.V, shown.tail > s.head.Tail:
		c.w.truth.fail(s, "reads include the revision demanded", "%s client %d is shown %+v after %+v", c.p.name, c.n, shown, known)
	case !s.had(shown.tail):
		c.w.truth.fail(s, "views are of committed states", "%s client %d is shown the tail %d, which was none", c.p.name, c.n, shown.tail)
	}
	if err == nil {
		c.w.tell(c.p, ref.Stream, shown)
	}
}

// had reports whether a number was the tail once.
func (s *stream) had(tail uint64) bool {
	for _, m := range s.when {
		if m.tail == tail {
			return true
		}
	}
	return false
}
