package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/tenancy"
	"github.com/tailrace-streams/tailrace/wire"
)

// lingerTime is how long what a client still sends is read, and dropped, after an HTTP/1.1 session has failed. Closing a
// connection with unread bytes resets it, and a reset can take the last frames away from a client that has not read them.
const lingerTime = 500 * time.Millisecond

// appendSession serves a session of appends (s2-api 11). What is wrong before its 200 is an ordinary answer; after it, a
// terminal frame.
func (h *handler) appendSession(x *exchange, r *http.Request) error {
	x.duplex(r)
	release, err := h.openStream(x)
	if err != nil {
		return err
	}
	defer release()
	s, err := h.openForAppend(x, r)
	if err != nil {
		// Clients of sessions send nothing before they have an answer. net/http waits for their body behind it.
		x.endReading(lingerTime)
		return err
	}
	_ = x.control.SetReadDeadline(time.Time{}) // an idle session is open for as long as its client likes
	defer s.close()
	h.name(x, s.revision)
	if err := x.beginStream(wire.MediaS2S); err != nil {
		return err
	}
	return s.serve()
}

// duplex lets the answer begin before the request's body has ended.
func (x *exchange) duplex(r *http.Request) {
	// A transport without it reads the whole body before it answers, which is all that it can do.
	_ = x.control.EnableFullDuplex()
	if r.ProtoMajor == 1 {
		// A session that fails leaves an unknown part of its body unread. None of that may be taken for a request.
		x.Header().Set("Connection", "close")
	}
}

// openForAppend resolves a stream for a session, and asks its head whether it is there: a client that is told so by a
// terminal frame takes it for something that happened meanwhile.
func (h *handler) openForAppend(x *exchange, r *http.Request) (*session, error) {
	to, err := appendTarget(r)
	if err != nil {
		return nil, err
	}
	perBatch, err := wire.ConflictsOf(r.Header)
	if err != nil {
		return nil, err
	}
	versions, err := wire.RevisionInAcksOf(r.Header)
	if err != nil {
		return nil, err
	}
	select {
	case <-h.o.Streams.Draining():
		return nil, coordinator.ErrDraining
	default:
	}
	ctx, cancel := h.unary(r)
	defer cancel()
	var on coordinator.StreamRef
	var opened *coordinator.Session
	err = h.onStream(ctx, to.basin, to.stream, onAppend(to.config), func(ref coordinator.StreamRef) (err error) {
		on = ref
		o := coordinator.SessionOptions{Key: to.key, Token: to.token, PerBatch: perBatch}
		if opened, err = h.o.Streams.OpenSession(ctx, ref, o); err != nil {
			return unapplied{err}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s := h.newSession(x, r, opened)
	s.token, s.perBatch = to.token, perBatch
	s.stream = tenancy.Resource{Basin: to.basin, Stream: to.stream}
	s.revision, s.versions = revisionOf(to.basin, to.stream, on, opened.V()), versions
	return s, nil
}

// session is an append session being served by two goroutines. The request's own reads inputs and admits them, in order
// and without waiting for their outcome; the writer waits for the outcomes, in the same order, and tells them. Neither
// outlives serve.
type session struct {
	h      *handler
	x      *exchange
	ctx    context.Context
	cancel context.CancelFunc
	// good ends when the access token does.
	good    context.Context
	endGood context.CancelFunc
	to      *coordinator.Session
	in      *intake
	out     *wire.FrameWriter
	http1   bool

	token    *string          // presented by every batch
	perBatch bool             // a missed match_seq_num refuses its batch only
	stream   tenancy.Resource // as permissions name it

	// revision is that of the newest batch acknowledged, or of the stream as it was opened. The writer's, once it runs.
	revision wire.Revision
	acked    bool
	versions bool // the client asked for the version in each acknowledgement

	// steps go from the reader to the writer. A step with an error is the last.
	steps chan *step
	gate  gate
	room  *semaphore.Weighted // of o.SessionBytes
	// over is closed when the writer has ended; failure is set before.
	over    chan struct{}
	failure error
}

// step is an input that was admitted, or the reason why nothing follows.
type step struct {
	pending *coordinator.Pending
	begun   time.Time
	records int
	size    uint64
	err     error
}

func (h *handler) newSession(x *exchange, r *http.Request, to *coordinator.Session) *session {
	// A client that has sent its last input may close its half of the connection, which net/http takes for the end of
	// the request. That it is gone shows when it takes no acknowledgement, or when its body breaks off.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	good, endGood := h.whileGood(context.WithoutCancel(r.Context()), x)
	return &session{
		h: h, x: x, ctx: ctx, cancel: cancel, good: good, endGood: endGood, http1: r.ProtoMajor == 1,
		to: to, in: newIntake(h, x, r.Body),
		out:   wire.NewFrameWriter(x, wire.NegotiateCompression(r.Header)),
		steps: make(chan *step, h.o.SessionBatches), room: semaphore.NewWeighted(h.o.SessionBytes),
		over: make(chan struct{}),
	}
}

func (s *session) close() {
	s.cancel()
	s.endGood()
	s.to.Close()
}

// serve runs the session to its end. The error is for the log.
func (s *session) serve() (err error) {
	go s.write()
	defer func() {
		<-s.over
		s.in.stall.close()
		if s.acked {
			s.h.nameLast(s.x, s.revision) // that of the last batch covers them all
		}
		// What net/http still has to write, the end of the body, must not wait for ever.
		s.x.armWrite()
		err = s.failure
	}()
	s.read()
	return nil
}

// read admits inputs until the body ends, one is refused, or the writer wants no more.
func (s *session) read() {
	func() {
		defer close(s.steps)
		for s.readOne() {
		}
	}()
	s.in.discard()
}

// readOne admits one input. When it returns false the gate stays as it is: whatever there is to tell is in steps.
func (s *session) readOne() (more bool) {
	input, err := s.in.next()
	if !s.gate.enter() || err == io.EOF || s.ctx.Err() != nil {
		return false
	}
	st := &step{err: err}
	if err == nil {
		st = s.admit(&input)
	}
	s.in.release()
	if !s.pass(st) || st.err != nil {
		return false
	}
	s.gate.leave()
	reason := s.ending()
	if reason == nil {
		return true
	}
	// The writer, who shuts the gate for that, found it in use, or has not looked yet.
	if s.gate.enter() {
		s.pass(&step{err: reason})
	}
	return false
}

// ending is why the session ends without its client's doing: its access token is no longer good, another fencing token
// than it presents was installed, or the server drains. It is nil as long as the session goes on.
func (s *session) ending() error {
	if err := authenticationEnded(s.good); err != nil {
		return err
	}
	if err := s.to.Err(); err != nil {
		return err
	}
	select {
	case <-s.h.o.Streams.Draining():
		return coordinator.ErrDraining
	default:
		return nil
	}
}

// pass hands a step to the writer; false if there is none any more.
func (s *session) pass(st *step) bool {
	select {
	case s.steps <- st:
		return true
	case <-s.over:
		return false
	}
}

// admit queues an input behind those before it. It blocks while the session, or the process, has too much in flight:
// that is the back-pressure of a session.
func (s *session) admit(input *wire.AppendInput) *step {
	batch, size, err := checkBatch(input, s.token)
	if err == nil {
		err = s.x.mayCommand(s.stream, batch.Records)
	}
	if err != nil {
		return &step{err: err}
	}
	if err := s.room.Acquire(s.ctx, int64(size)); err != nil {
		return &step{err: unapplied{err}}
	}
	st := &step{begun: s.h.o.Now(), records: len(batch.Records), size: size}
	if st.pending, err = s.to.Submit(s.ctx, batch); err != nil {
		return &step{err: unapplied{err}}
	}
	return st
}

// write tells the outcomes, and ends the session.
func (s *session) write() {
	defer close(s.over)
	s.failure = s.outcomes()
	s.cancel() // what was admitted and not committed yet is given up; nobody would learn of it
	linger := time.Duration(0)
	if s.http1 && !errors.Is(s.failure, errHangup) {
		linger = lingerTime
	}
	s.x.endReading(linger)
}

// outcomes tells the outcome of each step. The first failure is told by a terminal frame, behind the acknowledgements of
// everything before it, and is the error returned; behind it nothing is applied.
func (s *session) outcomes() error {
	draining, superseded, ended := s.h.o.Streams.Draining(), s.to.Superseded(), s.good.Done()
	for {
		select {
		case st, more := <-s.steps:
			if !more {
				return nil
			}
			if err := s.outcome(st); err != nil {
				return err
			}
		case <-draining:
			draining = nil
		case <-superseded:
			superseded = nil
		case <-ended:
			ended = nil
		}
		if s.ending() != nil && s.gate.shut() {
			return s.rest()
		}
		// Or the reader is admitting, and sees it afterwards.
	}
}

// rest tells the outcomes of what was admitted before the gate was shut, and why there will be no more.
func (s *session) rest() error {
	for {
		select {
		case st, more := <-s.steps:
			if !more { // the reader met the gate
				return s.terminate(s.ending())
			}
			if err := s.outcome(st); err != nil {
				return err
			}
		default:
			return s.terminate(s.ending())
		}
	}
}

// outcome waits for an input's outcome and tells it.
func (s *session) outcome(st *step) error {
	if st.err != nil {
		return s.terminate(st.err)
	}
	ack, err := st.pending.Wait(s.ctx)
	s.room.Release(int64(st.size))
	var missed *coordinator.MatchMismatch
	switch {
	case s.perBatch && errors.As(err, &missed):
		return s.send(func() error { return s.out.Conflict(wireError(err)) })
	case errors.Is(err, coordinator.ErrPoisoned) && s.to.Err() != nil:
		return s.terminate(s.to.Err())
	case err != nil:
		return s.terminate(definite(err))
	}
	s.h.appended(st.begun, st.records, st.size)
	s.revision.Version, s.acked = ack.V, true
	told := wireAck(ack)
	if s.versions {
		told.Version = ack.V
	}
	return s.send(func() error { return s.out.Ack(told) })
}

// terminate tells an error, after which nothing comes, and returns it.
func (s *session) terminate(err error) error {
	if sent := s.send(func() error { return s.out.Terminal(wireError(err)) }); sent != nil {
		return errors.Join(sent, err)
	}
	return err
}

// send writes a frame and sees it off. A client that does not take it in time is given up.
func (s *session) send(frame func() error) error {
	s.x.armWrite()
	if err := frame(); err != nil {
		return fmt.Errorf("send frame: %w: %w", errHangup, err)
	}
	if err := s.x.flush(); err != nil {
		return err
	}
	s.x.disarmWrite()
	return nil
}
