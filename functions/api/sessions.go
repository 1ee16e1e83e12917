package api

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailrace-streams/tailrace/wire"
)

// This file has what an append session reads its inputs with; appendsession.go has the session.

// intake reads AppendInputs off a request's body. Between two of them it waits for as long as the client likes; one that
// has begun must be there within the handler's BodyTimeout, and its bytes are booked in the handler's budget, so that
// many clients who announce much and send little hold nothing for long. It belongs to the goroutine of the request.
type intake struct {
	h      *handler
	x      *exchange
	body   io.Reader
	frames *wire.FrameReader
	stall  *stallTimer
	begun  bool // a frame has begun
}

func newIntake(h *handler, x *exchange, body io.Reader) *intake {
	in := &intake{h: h, x: x, body: body, stall: newStallTimer(h.o.BodyTimeout, x)}
	in.frames = wire.NewFrameReader(in)
	return in
}

// next reads an input. io.EOF is the end of the body behind a whole frame. Of other errors it is known that nothing of
// the input was applied. The bytes of the input stay booked until release.
func (in *intake) next() (wire.AppendInput, error) {
	in.begun = false
	input, err := in.frames.NextInput()
	in.stall.stop()
	if err != nil && err != io.EOF {
		return wire.AppendInput{}, inputError(err)
	}
	return input, err
}

// release gives the bytes of the last input back; whoever admitted it accounts for them now.
func (in *intake) release() { in.h.budget.release(in.x) }

// discard reads what still comes, until the body ends or its deadline passes.
func (in *intake) discard() {
	in.release()
	_, _ = io.Copy(io.Discard, in.body) // it is not wanted, so neither is the reason of its end
}

// Read is for the frame reader.
func (in *intake) Read(p []byte) (int, error) {
	n, err := in.body.Read(p)
	if n == 0 {
		return n, err
	}
	in.x.in += int64(n)
	if !in.begun {
		in.begun = true
		in.stall.start()
	}
	if full := in.h.budget.take(in.x, int64(n)); full != nil {
		return n, full
	}
	return n, err
}

// inputError says what went wrong while an input was read.
func inputError(err error) error {
	var known *wire.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		e := wire.Errorf(wire.CodeRequestTimeout, "a frame took too long to come")
		e.Applied = wire.AppliedNo
		return e
	case errors.Is(err, io.ErrUnexpectedEOF):
		// The connection ended and the body did not: most often a client that went away.
		return wire.Errorf(wire.CodeBadFrame, "the body did not come whole").Because(errHangup)
	default:
		return unapplied{fmt.Errorf("%w: %w", errHangup, err)}
	}
}

// stallTimer ends the reading of a body some time after start, unless it is stopped. A deadline of the connection would
// do the same, but over HTTP/2 each change of one is a message to another goroutine, and this is done for every frame.
type stallTimer struct {
	after time.Duration
	timer *time.Timer

	mu sync.Mutex
	x  *exchange // nil once the request is over, and its connection somebody else's
}

func newStallTimer(after time.Duration, x *exchange) *stallTimer {
	return &stallTimer{after: after, x: x}
}

func (s *stallTimer) start() {
	if s.timer == nil {
		s.timer = time.AfterFunc(s.after, s.fire)
		return
	}
	s.timer.Reset(s.after)
}

func (s *stallTimer) stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

func (s *stallTimer) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.x != nil {
		s.x.endReading(0)
	}
}

// close makes sure that nothing fires any more.
func (s *stallTimer) close() {
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.x = nil
}

// endReading lets reads of the body fail after a time. Data that is there by then can still be read.
func (x *exchange) endReading(after time.Duration) {
	deadline := time.Unix(1, 0)
	if after > 0 {
		deadline = time.Now().Add(after)
	}
	_ = x.control.SetReadDeadline(deadline)
}

// gate decides between the reader of a session, who is about to admit an input, and its writer, who is about to tell
// that the server drains: after shut, nothing is admitted that the writer does not know of.
type gate struct{ state atomic.Int32 }

const (
	gateOpen int32 = iota
	gateAdmitting
	gateShut
)

// enter is called before an input is admitted; false if the gate is shut.
func (g *gate) enter() bool { return g.state.CompareAndSwap(gateOpen, gateAdmitting) }

// leave is called when the writer knows of the input.
func (g *gate) leave() { g.state.Store(gateOpen) }

// shut keeps everything out from now on; false if an input is just being admitted.
func (g *gate) shut() bool { return g.state.CompareAndSwap(gateOpen, gateShut) }
