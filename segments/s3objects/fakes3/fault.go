package fakes3

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Fault is what becomes of one request beside, or instead of, being done and answered. The zero value is no fault. What is
// set happens in the order of the fields.
type Fault struct {
	// Early, with Status: the answer is sent before the body is read.
	Early bool
	// Delay passes before anything else.
	Delay time.Duration
	// Hold is waited for, unless nil: until it is closed or the client is gone. The request is then done all the same.
	Hold <-chan struct{}
	// BlackHole: neither done nor answered; the connection stays open until the client leaves.
	BlackHole bool
	// Reset: the connection is closed, nothing done.
	Reset bool
	// Status is answered, with Code, and Retry-After if it is not 0; nothing is done.
	Status     int
	Code       string
	RetryAfter int // seconds
	// Late, with Status: it is done after all, that long after it was refused. The client's signature is then old.
	Late time.Duration
	// Stale: a read answers what was there before the last write.
	Stale bool
	// SwallowReply: done, never answered.
	SwallowReply bool
	// LoseReply: done, then the connection is closed.
	LoseReply bool
	// CutAfter, unless 0: that many bytes of the answer's body are sent, then the connection is closed.
	CutAfter int
	// Slow, unless 0: passes between the answer's headers and its body.
	Slow time.Duration
}

// Rule decides over every request before it is done. Requests at once call it at once; it may block.
type Rule func(Request) Fault

// On sets the rule from now on; nil for none.
func (s *Server) On(rule Rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rule = rule
}

// First is a rule for the first k requests that match.
func First(k int, match func(Request) bool, fault Fault) Rule {
	left := make(chan struct{}, k)
	for range k {
		left <- struct{}{}
	}
	return func(r Request) Fault {
		if !match(r) {
			return Fault{}
		}
		select {
		case <-left:
			return fault
		default:
			return Fault{}
		}
	}
}

// Always is a rule for all requests that match.
func Always(match func(Request) bool, fault Fault) Rule {
	return func(r Request) Fault {
		if match(r) {
			return fault
		}
		return Fault{}
	}
}

// Is matches requests of one of the operations.
func Is(ops ...Op) func(Request) bool {
	return func(r Request) bool {
		for _, op := range ops {
			if r.Op == op {
				return true
			}
		}
		return false
	}
}

// Any matches every request.
func Any(Request) bool { return true }

// before plays the part of a fault that comes before the request is done. It reports whether there is an answer already.
func (f Fault) before(ctx context.Context, w http.ResponseWriter) bool {
	if f.Delay > 0 {
		wait(ctx, f.Delay)
	}
	if f.Hold != nil {
		select {
		case <-f.Hold:
		case <-ctx.Done():
		}
	}
	switch {
	case f.BlackHole:
		<-ctx.Done()
		panic(http.ErrAbortHandler)
	case f.Reset:
		hangUp(w)
	case f.Status != 0:
		if f.RetryAfter != 0 {
			w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		}
		problem{f.Status, f.Code, "as the test asked"}.write(w)
	default:
		return false
	}
	return true
}

// after plays the rest, on a request that was done.
func (f Fault) after(ctx context.Context, w http.ResponseWriter, a answer) {
	switch {
	case f.SwallowReply:
		<-ctx.Done()
		panic(http.ErrAbortHandler)
	case f.LoseReply:
		hangUp(w)
	default:
		a.write(ctx, w, f)
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// hangUp closes a connection without an answer, by a reset where it is one of TCP.
func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
