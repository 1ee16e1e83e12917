package faultproxy

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Fault is what becomes of one request beside, or instead of, being forwarded and answered. The zero value is no fault.
// Delay and Hold come first; then the first of the others that is set decides.
type Fault struct {
	// Delay passes before anything else. The request goes on though its client may have left meanwhile.
	Delay time.Duration
	// Hold is waited for, unless nil: until it is closed. The request goes on though its client may have left.
	Hold <-chan struct{}

	// BlackHole: the connection stays open, and nothing is ever answered.
	BlackHole bool
	// Reset: the connection is closed.
	Reset bool
	// Refuse is answered in the store's stead.
	Refuse *Refusal
	// Late, with one of the three before it: the request is forwarded after all, that long after its client was told, or
	// not told, what became of it.
	Late time.Duration
	// Keep is Late without a time: the request is forwarded at Deliver.
	Keep bool

	// SwallowReply: forwarded; the answer is never sent and the connection stays open.
	SwallowReply bool
	// LoseReply: forwarded; then the connection is closed.
	LoseReply bool
	// Replace: forwarded; then this is answered.
	Replace *Refusal
	// CutAfter, unless 0: forwarded; of the answer's body so many bytes are sent, at most all but one, and then the
	// connection is closed.
	CutAfter int
}

// play takes one request to its fate.
func (p *Proxy) play(f Fault, w http.ResponseWriter, r *http.Request, request Request) {
	ctx := r.Context()
	if f.Delay > 0 || f.Hold != nil {
		// What is under way when its client gives up is not stopped by that.
		ctx = p.life
		if !p.wait(f.Delay, f.Hold) {
			panic(http.ErrAbortHandler)
		}
	}
	if f.BlackHole || f.Reset || f.Refuse != nil {
		p.later(f, request)
		p.deny(f, w, r)
		return
	}
	if f.SwallowReply || f.LoseReply || f.Replace != nil {
		ctx = p.life // so that it is applied, also if the client leaves
	}
	answer, err := p.send(ctx, request)
	switch {
	case err != nil || f.LoseReply:
		hangUp(w)
	case f.SwallowReply:
		p.swallow(r)
	case f.Replace != nil:
		f.Replace.write(w)
	default:
		answer.write(w, r.Method, f.CutAfter)
	}
}

// deny plays the faults in which the client does not hear from the store.
func (p *Proxy) deny(f Fault, w http.ResponseWriter, r *http.Request) {
	switch {
	case f.BlackHole:
		p.swallow(r)
	case f.Reset:
		hangUp(w)
	default:
		f.Refuse.write(w)
	}
}

// swallow says nothing until the client leaves.
func (p *Proxy) swallow(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-p.life.Done():
	}
	panic(http.ErrAbortHandler)
}

// wait reports whether a delay and a hold have passed before the proxy was closed.
func (p *Proxy) wait(d time.Duration, hold <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.life.Done():
		return false
	}
	if hold == nil {
		return true
	}
	select {
	case <-hold:
		return true
	case <-p.life.Done():
		return false
	}
}

// kept is a request that waits for Deliver.
type kept struct{ request Request }

// later sees to a request that is to arrive after its client was told something else.
func (p *Proxy) later(f Fault, request Request) {
	switch {
	case f.Keep:
		p.mu.Lock()
		p.kept = append(p.kept, &kept{request})
		p.mu.Unlock()
	case f.Late > 0:
		p.late.Go(func() {
			if p.wait(f.Late, nil) {
				_, _ = p.send(p.life, request) // nobody is left to hear of it
			}
		})
	}
}

// Kept is how many requests wait for Deliver.
func (p *Proxy) Kept() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.kept)
}

// Deliver forwards the requests that were kept, oldest first, and returns the status of the store's answer to each; 0 if
// there was none.
func (p *Proxy) Deliver(ctx context.Context) []int {
	p.mu.Lock()
	late := p.kept
	p.kept = nil
	p.mu.Unlock()
	answers := make([]int, len(late))
	for i, k := range late {
		if answer, err := p.send(ctx, k.request); err == nil {
			answers[i] = answer.status
		}
	}
	return answers
}

// write sends the store's answer, or its first bytes if cut is not 0.
func (a reply) write(w http.ResponseWriter, method string, cut int) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.Header().Del("Connection")
	// The answer to HEAD, and one without a body, has a length of its own.
	if method != http.MethodHead && a.status != http.StatusNoContent && a.status != http.StatusNotModified {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
	if cut > 0 && len(a.body) > 0 {
		_, _ = w.Write(a.body[:min(cut, len(a.body)-1)])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(a.body)
}

// hangUp closes a connection without an answer, by a reset.
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
