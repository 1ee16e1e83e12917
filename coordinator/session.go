package coordinator

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/tailrace-streams/tailrace/coordinator/internal/hooks"
	"github.com/tailrace-streams/tailrace/segments"
)

// SessionOptions is what holds for every batch of a session.
type SessionOptions struct {
	// Key seals the records of an encrypted stream; other streams ignore it.
	Key []byte
	// Token is presented by every batch that names none; nil presents none. A session that presents a token ends as soon
	// as this process learns that another one is installed.
	Token *string
	// PerBatch lets the session outlive a batch that missed its Match; the batches behind it are judged as if it had never
	// been submitted.
	PerBatch bool
}

// Session is an ordered run of batches to one stream: each is applied behind the one before it, and the first
// failure ends it. Submit is for one goroutine; the Pendings may be waited for in another.
type Session struct {
	c   *Coordinator
	ref StreamRef
	o   SessionOptions
	// Set under the sequencer's lock. It is atomic for the simulation of a breach, in which a stream has several sequencers.
	poisoned atomic.Bool

	v uint64 // of the head it was opened on

	// Of a session that presents a token. over is closed, behind mismatch being set, when another one supersedes it.
	over     chan struct{}
	mismatch atomic.Pointer[FencingMismatch]
	// Under presenters.mu: the newest head that was seen, and whether it bears with the session; the token that the session
	// itself asked to install last; and whether it is open, and can be ended.
	seen  uint64
	fit   *FencingMismatch
	own   *string
	ready bool
}

// OpenSession starts a session on a stream that would take its appends, as of a moment after the call began: that is
// active, sealed only with the key, and has the token installed. Whoever opened it closes it. Errors as Append's; whatever
// else a batch is refused for shows only when it is submitted.
func (c *Coordinator) OpenSession(ctx context.Context, ref StreamRef, o SessionOptions) (*Session, error) {
	s := &Session{c: c, ref: ref, o: o}
	if o.Token != nil {
		// Before the head is loaded, so that no fence falls in between.
		s.over = make(chan struct{})
		c.presenters.add(s)
	}
	h, err := c.loads.active(ctx, ref.Stream)
	if err == nil {
		_, err = sealer(&h, o.Key)
	}
	if err == nil && o.Token != nil {
		err = c.presenters.open(s, &h)
	}
	s.v = h.V
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Submit queues a batch behind those submitted before. It blocks while too much is in flight, until ctx ends: that is
// the back-pressure of a session. ctx also bounds the batch itself.
func (s *Session) Submit(ctx context.Context, b Batch) (*Pending, error) {
	b.Key = s.o.Key
	if s.o.Token != nil {
		if b.Token == nil {
			b.Token = s.o.Token
		}
		s.c.presenters.fences(s, &b)
	}
	return s.c.admit(ctx, ctx, s.ref, b, s)
}

// V is that of the head that the session was opened on.
func (s *Session) V() uint64 { return s.v }

// Close forgets the session. It has no effect on the stream, nor on what was submitted.
func (s *Session) Close() {
	if s.o.Token != nil {
		s.c.presenters.remove(s)
	}
}

// Superseded is closed when the session ends because another token than it presents is installed; Err tells which. What
// was submitted before is still answered, what is submitted afterwards fails. It is nil, which blocks for ever, if the
// session presents none.
func (s *Session) Superseded() <-chan struct{} { return s.over }

// Err is nil, or the *FencingMismatch that superseded the session.
func (s *Session) Err() error {
	if m := s.superseded(); m != nil {
		return m
	}
	return nil
}

func (s *Session) superseded() *FencingMismatch { return s.mismatch.Load() }

// outlives reports whether the session goes on behind a batch that failed with err.
func (s *Session) outlives(err error) bool {
	var miss *MatchMismatch
	return s.o.PerBatch && errors.As(err, &miss)
}

// presenters are the open sessions that present a token. Every head that a store call brings is held against those of its
// stream, so that another token ends them at once, also while they have nothing to append; where no call brings one, their
// next append does. That costs no call of its own, and nothing where no session presents a token.
type presenters struct {
	hooks *hooks.Hooks
	n     atomic.Int64

	mu      sync.Mutex
	streams map[segments.StreamID]map[*Session]struct{}
}

func newPresenters(h *hooks.Hooks) *presenters {
	return &presenters{hooks: h, streams: make(map[segments.StreamID]map[*Session]struct{})}
}

func (p *presenters) add(s *Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.streams[s.ref.Stream] == nil {
		p.streams[s.ref.Stream] = make(map[*Session]struct{})
	}
	p.streams[s.ref.Stream][s] = struct{}{}
	p.n.Add(1)
}

func (p *presenters) remove(s *Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.streams[s.ref.Stream]
	if _, ok := of[s]; !ok {
		return
	}
	p.n.Add(-1)
	if delete(of, s); len(of) == 0 {
		delete(p.streams, s.ref.Stream)
	}
}

// open judges a session by the head that was loaded for it, or a newer one that was seen meanwhile. From then on it is
// superseded by newer heads only.
func (p *presenters) open(s *Session, h *Head) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.look(h)
	if s.fit != nil {
		return s.fit
	}
	s.ready = true
	return nil
}

// fences notes which token a batch of the session installs: its own fence does not end it.
func (p *presenters) fences(s *Session, b *Batch) {
	cmds := commandsOf(b.Records)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range cmds {
		if cmds[i].Kind == segments.FenceCommand {
			s.own = &cmds[i].Token
		}
	}
}

// look ends the sessions that present another token than a head has. It does not wait for anything.
func (p *presenters) look(h *Head) {
	if p.n.Load() == 0 || p.hooks.Breaks(hooks.SessionOutlives) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.streams[h.Stream] {
		s.look(h)
	}
}

// look holds one session against a head. Those that are not newer than one that was seen say nothing.
func (s *Session) look(h *Head) {
	if h.V <= s.seen || s.superseded() != nil {
		return
	}
	s.seen, s.fit = h.V, nil
	if h.Token == *s.o.Token || s.own != nil && h.Token == *s.own {
		return
	}
	s.fit = &FencingMismatch{Installed: h.Token, Tail: h.TailPosition()}
	if s.ready {
		s.mismatch.Store(s.fit)
		close(s.over)
	}
}
