package coordinator

import (
	"context"
	"sync"
	"time"

	"github.com/tailrace-streams/tailrace/segments"
)

// upkeep maintains, a trim delay later, the streams that were trimmed here. It is a trigger only: a stream it forgets,
// because there were too many or the process ended, is found by the next walk over all streams.
type upkeep struct {
	c *Coordinator

	mu      sync.Mutex
	due     map[StreamRef]time.Time
	running bool
	// noted are trim points and when they were seen, so that a stream that is trimmed all the time advances too
	// (protocol 8).
	noted map[segments.StreamID]notedTrim
}

type notedTrim struct {
	trim uint64
	at   uint64 // milliseconds
}

// maxUpkeep bounds what is remembered.
const maxUpkeep = 10_000

func newUpkeep(c *Coordinator) *upkeep {
	return &upkeep{c: c, due: make(map[StreamRef]time.Time), noted: make(map[segments.StreamID]notedTrim)}
}

// later has the stream maintained a trim delay from now, if it is not due already.
func (u *upkeep) later(ref StreamRef) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, ok := u.due[ref]; ok || len(u.due) >= maxUpkeep || u.c.o.Intermittent {
		return
	}
	u.due[ref] = u.c.o.Now().Add(u.c.o.TrimDelay)
	if !u.running {
		u.running = u.c.background.start(u.run)
	}
}

func (u *upkeep) run() {
	for {
		ref, at, ok := u.next()
		if !ok || !pause(u.c.life, at.Sub(u.c.o.Now())) {
			return
		}
		u.mu.Lock()
		delete(u.due, ref)
		u.mu.Unlock()
		ctx, cancel := context.WithTimeout(u.c.life, u.c.o.AppendTimeout)
		h, err := u.c.Maintain(ctx, ref)
		cancel()
		if err != nil && u.c.life.Err() == nil {
			u.c.o.Log.Warn().Err(err).Stringer("stream", ref.Stream).Msg("maintenance failed; the next walk comes again")
		}
		if err == nil && h.State == Active && h.Trim > h.Floor {
			u.later(ref)
		}
	}
}

// next is the stream that is due first. ok is false, and the goroutine ends, if there is none.
func (u *upkeep) next() (ref StreamRef, at time.Time, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for r, t := range u.due {
		if !ok || t.Before(at) || (t.Equal(at) && string(r.Stream[:]) < string(ref.Stream[:])) {
			ref, at, ok = r, t, true
		}
	}
	u.running = ok
	return ref, at, ok
}

// trimmed is the trim point that was seen at least a trim delay ago, or 0, and notes the one there is now.
func (u *upkeep) trimmed(h *Head) uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	now, delay := u.c.nowMillis(), uint64(u.c.o.TrimDelay.Milliseconds())
	n, ok := u.noted[h.Stream]
	switch {
	case h.Trim <= h.Floor:
		delete(u.noted, h.Stream)
		return 0
	case ok && now < n.at+delay:
		return 0
	case !ok && len(u.noted) >= maxUpkeep:
		return 0
	}
	u.noted[h.Stream] = notedTrim{h.Trim, now}
	return n.trim
}

// forget drops what was noted of a stream that has gone.
func (u *upkeep) forget(id segments.StreamID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.noted, id)
}
