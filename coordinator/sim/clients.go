package sim

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// client is one goroutine that uses a process. It does one thing after another, each when the scheduler says so.
type client struct {
	w    *world
	p    *process
	n    int
	rng  *rand.Rand
	tail uint64 // that it heard of last
}

// startClient runs f again and again until the process is gone, there is nothing left to do, or f says that it is done.
func (w *world) startClient(p *process, kind string, f func(*client) bool) {
	w.mu.Lock()
	w.clients++
	p.clients++
	c := &client{w: w, p: p, n: p.clients, rng: rand.New(rand.NewPCG(w.cfg.Seed, uint64(p.n)<<16|uint64(p.clients)))}
	w.mu.Unlock()
	w.closing.Go(func() {
		defer func() {
			w.mu.Lock()
			w.clients--
			w.mu.Unlock()
		}()
		for c.turn(kind) && w.takeOp() && f(c) {
		}
	})
}

// turn waits for the client's turn.
func (c *client) turn(what string) bool {
	live := true
	c.w.park(&call{p: c.p, op: "client", what: fmt.Sprintf("%d %s", c.n, what), fail: func(error) { live = false }})
	return live
}

func (w *world) takeOp() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opsLeft--
	return w.opsLeft >= 0
}

// target picks a stream: mostly the one under a name, sometimes one that was there before.
func (c *client) target() (coordinator.StreamRef, int) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	s := c.w.slots[c.rng.IntN(len(c.w.slots))]
	return coordinator.StreamRef{Basin: c.w.basin, Stream: s.current}, s.n
}

// patience is a context that sometimes ends early.
func (c *client) patience() (context.Context, context.CancelFunc) {
	switch c.rng.IntN(10) {
	case 0:
		return context.WithTimeout(c.p.life, time.Duration(1+c.rng.IntN(100))*time.Millisecond)
	case 1:
		return context.WithTimeout(c.p.life, time.Duration(1+c.rng.IntN(20))*time.Second)
	}
	return context.WithCancel(c.p.life)
}

// newAppend makes a batch. Its first record says which operation it belongs to.
func (c *client) newAppend(ref coordinator.StreamRef, slot int, session *sessionLog) *op {
	o := c.w.begin(&op{kind: appendOp, p: c.p, stream: ref.Stream, slot: slot, session: session})
	body := fmt.Appendf(nil, "%d/", o.id)
	if c.rng.IntN(100) < c.w.cfg.LargePercent {
		body = append(body, bytes.Repeat([]byte("x"), int(c.w.cfg.Room.InlineBatch)+c.rng.IntN(200))...)
	}
	o.batch.Records = []segments.Record{{Body: body}}
	for range c.rng.IntN(3) {
		o.batch.Records = append(o.batch.Records, segments.Record{Body: []byte(fmt.Sprint("more of ", o.id))})
	}
	if c.rng.IntN(4) == 0 {
		r := &o.batch.Records[0]
		r.Timestamp, r.HasTimestamp = uint64(c.p.now().UnixMilli()+c.rng.Int64N(2000)-1000), true
	}
	switch k := c.rng.IntN(100); {
	case k < 6:
		token := c.someToken()
		o.batch.Records = append(o.batch.Records, command("fence", []byte(token)))
		if session != nil {
			c.w.mu.Lock()
			session.own = append(session.own, token)
			c.w.mu.Unlock()
		}
	case k < 14:
		to := uint64(c.rng.IntN(int(c.tail) + 8))
		o.batch.Records = append(o.batch.Records, command("trim", binary.BigEndian.AppendUint64(nil, to)))
	}
	if c.rng.IntN(4) == 0 {
		match := c.tail
		o.batch.Match = &match
	}
	if c.rng.IntN(5) == 0 {
		token := c.someToken()
		o.batch.Token = &token
	}
	return o
}

func command(name string, body []byte) segments.Record {
	return segments.Record{Headers: []segments.Header{{Value: []byte(name)}}, Body: body}
}

func (c *client) someToken() string { return []string{"", "", "a", "b"}[c.rng.IntN(4)] }

// learn keeps what a client is told of the tail, for its next conditional append.
func (c *client) learn(o *op) {
	var match *coordinator.MatchMismatch
	if o.err == nil {
		c.tail = o.ack.Tail.SeqNum
		c.w.tell(o.p, o.stream, revision{o.ack.V, o.ack.End.SeqNum})
	} else if errors.As(o.err, &match) {
		c.tail = match.Next
	}
}

// append adds one batch.
func (c *client) append() bool {
	ref, slot := c.target()
	ctx, cancel := c.patience()
	defer cancel()
	o := c.newAppend(ref, slot, nil)
	ack, err := c.p.Append(ctx, ref, o.batch)
	o.ack = ack
	c.w.end(o, err)
	c.learn(o)
	return true
}

// session submits some batches without waiting, then waits for all.
func (c *client) session() bool {
	ref, slot := c.target()
	ctx, cancel := c.patience()
	defer cancel()
	log := &sessionLog{}
	log.PerBatch = c.rng.IntN(3) == 0
	if c.rng.IntN(2) == 0 {
		token := c.someToken()
		log.Token = &token
	}
	session, done := c.openSession(ctx, ref, slot, log)
	if session == nil {
		return true
	}
	defer done()
	type sent struct {
		o *op
		p *coordinator.Pending
	}
	var all []sent
	for range 2 + c.rng.IntN(5) {
		o := c.newAppend(ref, slot, log)
		if o.batch.Match != nil && c.rng.IntN(2) == 0 {
			o.batch.Match = nil
		}
		batch := o.batch
		if log.Token != nil {
			batch.Token, o.batch.Token = nil, log.Token
		}
		p, err := session.Submit(ctx, batch)
		if err != nil {
			c.w.end(o, err)
			break
		}
		all = append(all, sent{o, p})
		c.tail += uint64(len(o.batch.Records))
		if !c.turn("session") {
			break
		}
	}
	for _, s := range all {
		ack, err := s.p.Wait(ctx)
		s.o.ack = ack
		c.w.end(s.o, err)
		c.learn(s.o)
	}
	if log.Token != nil && c.rng.IntN(2) == 0 {
		c.turn("session idles") // it may be superseded
	}
	return true
}

// openSession opens a session and notes it. Of one that is refused it returns nil.
func (c *client) openSession(ctx context.Context, ref coordinator.StreamRef, slot int, log *sessionLog) (s *coordinator.Session, done func()) {
	o := c.w.begin(&op{kind: openOp, p: c.p, stream: ref.Stream, slot: slot})
	o.batch.Token = log.Token
	s, err := c.p.OpenSession(ctx, ref, log.SessionOptions)
	c.w.end(o, err)
	if err != nil {
		return nil, nil
	}
	if log.Token == nil {
		return s, s.Close
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	open := &openSession{Session: s, log: log, p: c.p, stream: ref.Stream, since: c.w.step}
	c.w.sessions = append(c.w.sessions, open)
	return s, func() {
		c.w.mu.Lock()
		c.w.sessions = slices.DeleteFunc(c.w.sessions, func(other *openSession) bool { return other == open })
		c.w.mu.Unlock()
		s.Close()
	}
}

// checkTail asks for the tail.
func (c *client) checkTail() bool {
	ref, slot := c.target()
	ctx, cancel := c.patience()
	defer cancel()
	o := c.w.begin(&op{kind: tailOp, p: c.p, stream: ref.Stream, slot: slot})
	tail, err := c.p.CheckTail(ctx, ref)
	o.tail = tail
	c.w.end(o, err)
	if err == nil {
		c.tail = tail.SeqNum
	}
	return true
}

// read reads a while from anywhere, and follows for some time.
func (c *client) read() bool {
	ref, _ := c.target()
	ctx, cancel := context.WithTimeout(c.p.life, time.Duration(1+c.rng.IntN(20_000))*time.Millisecond)
	defer cancel()
	from := uint64(c.rng.IntN(int(c.tail) + 2))
	wait := time.Duration(c.rng.IntN(2)) * 10 * time.Second
	o, known := coordinator.ReadOptions{SeqNum: &from, Clamp: true, Wait: &wait}, revision{}
	if wait == 0 { // half of them from memory
		known = c.w.knows(ref.Stream)
		o.Fresh = known.fresh()
	}
	r, err := c.p.OpenReader(ctx, ref, o)
	if err != nil {
		return true
	}
	defer r.Close()
	c.w.follow()
	if v, _ := r.Opened(); v < known.v {
		c.w.truth.fail(c.w.truth.streams[ref.Stream], "reads include the revision demanded", "%s client %d reads at %d after %d", c.p.name, c.n, v, known.v)
	}
	k := &reading{s: c.w.truth.streams[ref.Stream], t: c.w.truth, next: from, tail: known.tail, who: fmt.Sprintf("%s client %d", c.p.name, c.n)}
	for range 1 + c.rng.IntN(12) {
		e, err := r.Next(ctx)
		c.w.follow()
		if err != nil {
			c.readEnded(k, err)
			return true
		}
		k.check(&e)
		if e.Tail != nil {
			c.tail = e.Tail.SeqNum
		}
		if c.rng.IntN(4) == 0 && !c.turn("reads on") {
			return false
		}
	}
	return true
}

// follow comes behind all that the scheduler has done, for a client that goes on without having been released: a timer of
// its own tells the race detector nothing about the steps before.
func (w *world) follow() {
	w.mu.Lock()
	defer w.mu.Unlock()
}

// readEnded judges the error that ended a read: no object that a head names is missing.
func (c *client) readEnded(k *reading, err error) {
	if errors.Is(err, coordinator.ErrStorage) && !errors.Is(err, io.EOF) {
		c.w.mu.Lock()
		gone := c.p.gone
		c.w.mu.Unlock()
		if !gone && k.s.head.State == coordinator.Active {
			c.w.truth.fail(k.s, "reads find what is named", "%s at %d: %v", k.who, k.next, err)
		}
	}
}

// reading follows one reader and holds what it gets against the truth.
type reading struct {
	t       *truth
	s       *stream
	who     string
	next    uint64
	started bool
	tail    uint64
}

func (k *reading) check(e *coordinator.ReadEvent) {
	s := k.s
	n := uint64(len(e.Records))
	if e.Start != k.next && n > 0 {
		// A start beyond the tail was moved to it; else only what is trimmed is left out.
		if e.Start < k.next && k.started || e.Start > k.next && e.Start > max(s.head.Floor, s.head.Trim) && s.head.Config.RetentionAge == 0 {
			k.t.fail(s, "reads are in order and without gaps", "%s gets %d after %d", k.who, e.Start, k.next)
			return
		}
	}
	if e.Start+n > uint64(len(s.recs)) {
		k.t.fail(s, "reads give committed records", "%s gets records up to %d of %d", k.who, e.Start+n, len(s.recs))
		return
	}
	for i := range e.Records {
		rec := s.recs[e.Start+uint64(i)]
		if !bytes.Equal(e.Records[i].Body, rec.op.batch.Records[rec.i].Body) || e.Records[i].Timestamp != rec.effective {
			k.t.fail(s, "reads equal the model", "%s: record %d is %.20q of time %d, not %.20q of time %d", k.who, e.Start+uint64(i),
				e.Records[i].Body, e.Records[i].Timestamp, rec.op.batch.Records[rec.i].Body, rec.effective)
			return
		}
	}
	if t := e.Tail; t != nil {
		switch {
		case t.SeqNum < e.Start+n, t.SeqNum > s.head.Tail, t.SeqNum < k.tail:
			k.t.fail(s, "reads tell the durable tail", "%s: %d after %d, with records up to %d; it is %d", k.who, t.SeqNum, k.tail, e.Start+n, s.head.Tail)
		case t.Timestamp != s.timeBefore(t.SeqNum):
			k.t.fail(s, "times fold", "%s: the tail %d is of time %d, not %d", k.who, t.SeqNum, t.Timestamp, s.timeBefore(t.SeqNum))
		}
		k.tail = t.SeqNum
	}
	if n > 0 {
		k.started, k.next = true, e.Start+n
	}
}

// maintain looks after a stream, or collects.
func (c *client) maintain() bool {
	ctx, cancel := c.patience()
	defer cancel()
	if c.rng.IntN(100) < c.w.cfg.CollectPercent {
		grace := []time.Duration{-10_000 * coordinator.MaxClockError, -10_000 * coordinator.MaxClockError, -time.Hour, 0, time.Minute}[c.rng.IntN(5)]
		_, err := c.p.Collect(ctx, c.w.basin, coordinator.CollectOptions{Grace: grace, Streams: c.w.eachStream})
		_ = err // it comes again
		return true
	}
	ref, _ := c.target()
	_, err := c.p.Maintain(ctx, ref)
	_ = err // it comes again
	return true
}

// eachStream visits every stream there is or was.
func (w *world) eachStream(_ context.Context, visit func(segments.StreamID) error) error {
	w.mu.Lock()
	n := len(w.truth.order)
	w.mu.Unlock()
	for _, id := range w.truth.order[:n:n] {
		if err := visit(id); err != nil {
			return err
		}
	}
	return nil
}
