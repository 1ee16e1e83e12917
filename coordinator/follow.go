package coordinator

import (
	"context"
	"sync"
	"time"

	"github.com/tailrace-streams/tailrace/segments"
)

// event is a committed batch on its way to followers. It is shared by all of them.
type event struct {
	start   uint64
	records []segments.Record // effective times
	bytes   uint64
	tail    Position // right after the batch
	v       uint64   // of a head that has the batch
}

// hubs broadcast what this process commits to the followers of the same stream here. A push is a hint: a follower
// that misses one reads instead. Where other processes may commit too, the head of a followed stream is polled.
type hubs struct {
	c *Coordinator

	mu      sync.Mutex
	streams map[segments.StreamID]*hub
}

type hub struct {
	subs map[*subscription]struct{}
	tail uint64 // newest tail published or polled
	stop context.CancelFunc
}

// subscription is one follower's queue, bounded in events and bytes: one that falls behind is emptied, and its
// follower goes back to reading.
type subscription struct {
	hubs *hubs
	id   segments.StreamID
	// signal holds a token when there is something to look at.
	signal chan struct{}

	mu     sync.Mutex
	events []event
	bytes  uint64
	behind bool
}

// The lag a follower may have before it goes back to reading.
const (
	maxLagEvents = 256
	maxLagBytes  = 4 << 20
)

func newHubs(c *Coordinator) *hubs {
	return &hubs{c: c, streams: make(map[segments.StreamID]*hub)}
}

func (hs *hubs) subscribe(ref StreamRef) *subscription {
	sub := &subscription{hubs: hs, id: ref.Stream, signal: make(chan struct{}, 1)}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.streams[ref.Stream]
	if h == nil {
		ctx, cancel := context.WithCancel(hs.c.life)
		h = &hub{subs: make(map[*subscription]struct{}), stop: cancel}
		hs.streams[ref.Stream] = h
		if !hs.c.o.Exclusive {
			hs.c.background.start(func() { hs.poll(ctx, ref) })
		}
	}
	h.subs[sub] = struct{}{}
	return sub
}

func (sub *subscription) close() {
	hs := sub.hubs
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h := hs.streams[sub.id]; h != nil {
		delete(h.subs, sub)
		if len(h.subs) == 0 {
			h.stop()
			delete(hs.streams, sub.id)
		}
	}
}

func (hs *hubs) followed(id segments.StreamID) bool {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return hs.streams[id] != nil
}

// publish hands a batch to every follower, without waiting for any.
func (hs *hubs) publish(id segments.StreamID, e event) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h := hs.streams[id]; h != nil {
		h.tail = max(h.tail, e.tail.SeqNum)
		for sub := range h.subs {
			sub.push(e)
		}
	}
}

// wake sends every follower back to reading, because the stream changed in a way that was not published.
func (hs *hubs) wake(id segments.StreamID) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h := hs.streams[id]; h != nil {
		for sub := range h.subs {
			sub.fallBehind()
		}
	}
}

func (sub *subscription) push(e event) {
	sub.mu.Lock()
	if sub.behind || len(sub.events) == maxLagEvents || sub.bytes+e.bytes > maxLagBytes {
		sub.events, sub.bytes, sub.behind = nil, 0, true
	} else {
		sub.events = append(sub.events, e)
		sub.bytes += e.bytes
	}
	sub.mu.Unlock()
	sub.notify()
}

func (sub *subscription) fallBehind() {
	sub.mu.Lock()
	sub.events, sub.bytes, sub.behind = nil, 0, true
	sub.mu.Unlock()
	sub.notify()
}

func (sub *subscription) notify() {
	select {
	case sub.signal <- struct{}{}:
	default:
	}
}

// take removes the next event. behind is true, once, if events were lost since the last call.
func (sub *subscription) take() (e event, ok, behind bool) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.behind {
		sub.behind = false
		return event{}, false, true
	}
	if len(sub.events) == 0 {
		return event{}, false, false
	}
	e = sub.events[0]
	sub.events[0] = event{}
	sub.events = sub.events[1:]
	sub.bytes -= e.bytes
	return e, true, false
}

// poll loads the head of a followed stream from time to time, and sends followers to read what others appended.
func (hs *hubs) poll(ctx context.Context, ref StreamRef) {
	t := time.NewTicker(hs.c.o.PollInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if ctx.Err() != nil {
			return // both were ready: nobody follows any more
		}
		h, err := hs.c.loads.load(ctx, ref.Stream)
		if err != nil {
			continue
		}
		hs.mu.Lock()
		stale := hs.streams[ref.Stream] != nil && h.Tail > hs.streams[ref.Stream].tail
		if stale {
			hs.streams[ref.Stream].tail = h.Tail
		}
		hs.mu.Unlock()
		if stale || h.State != Active {
			hs.wake(ref.Stream)
		}
	}
}
