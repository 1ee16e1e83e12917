package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator/internal/hooks"
	"github.com/tailrace-streams/tailrace/segments"
)

// Fenced is the outcome of a Fence.
type Fenced struct {
	// Token is installed now, and Previous was before; they are equal if nothing had to be done.
	Token, Previous string
	// Tail is the admission boundary: every record admitted under an earlier token lies below it. It is the tail at
	// which the token was installed, unless that was done before, or its reply was lost: then records that were admitted
	// since lie below it too.
	Tail Position
	// V is that of a head that has the token.
	V uint64
}

// Fence installs a fencing token, whichever is installed; the empty one clears it. When it returns, no append that the
// token excludes can succeed any more, on any process, and the sessions here that present another have ended. An equal
// token changes nothing and succeeds. No record is appended.
//
// Its errors are definite unless they are *Indefinite: segments.ErrInvalid for what is no token, ErrStreamNotFound,
// ErrStreamDeleting, ErrOverloaded if others fence all the time, ErrUnavailable, ErrDraining, and those of ctx.
func (c *Coordinator) Fence(ctx context.Context, ref StreamRef, token string) (Fenced, error) {
	if err := segments.CheckFencingToken(token); err != nil {
		return Fenced{}, err
	}
	if c.isDraining() {
		return Fenced{}, ErrDraining
	}
	var failed error
	for attempt := range maxFenceAttempts {
		before, err := c.beforeFence(ctx, ref)
		if err != nil {
			return Fenced{}, err
		}
		if before.Token == token {
			return fenced(&before, token), nil
		}
		after, err := c.installToken(ctx, ref, &before, token)
		switch {
		case err == nil:
			return fenced(&after, before.Token), nil
		case !errors.Is(err, errNotInstalled):
			return Fenced{}, err
		}
		failed = err
		if !pause(ctx, c.backoff(attempt)) {
			return Fenced{}, ctx.Err()
		}
	}
	return Fenced{}, fmt.Errorf("fence: %w", failed)
}

// beforeFence loads the head that a fence is made over; the sequencer's will not do, unless the simulation wants that.
func (c *Coordinator) beforeFence(ctx context.Context, ref StreamRef) (Head, error) {
	if !c.o.Hooks.Breaks(hooks.FenceFromCache) {
		return c.loads.active(ctx, ref.Stream)
	}
	if s := c.markStream(ref.Stream).s; s != nil {
		s.mu.Lock()
		h := s.head
		s.mu.Unlock()
		if h != nil {
			return *h, nil
		}
	}
	return c.loads.active(ctx, ref.Stream)
}

// maxFenceAttempts is how often Fence looks at the token anew. Each attempt fails only because another fence succeeded,
// or because the store did, definitely: about 3 s.
const maxFenceAttempts = 10

// errNotInstalled: the token was not installed by this attempt and will not be; another one may succeed.
var errNotInstalled = errors.New("the token was not installed")

var errFencedMeanwhile = fmt.Errorf("%w: others change it all the time: %w", errNotInstalled, ErrOverloaded)

func fenced(h *Head, previous string) Fenced {
	return Fenced{Token: h.Token, Previous: previous, Tail: h.TailPosition(), V: h.V}
}

// installToken sends one fence, once, over the token in before. The sequencer and the sessions of the stream learn of it.
func (c *Coordinator) installToken(ctx context.Context, ref StreamRef, before *Head, token string) (Head, error) {
	id := NewOpID()
	mark := c.markStream(ref.Stream)
	h, err := c.change(ctx, ref.Stream, &Change{ID: id, Fence: &FenceChange{Token: token, IfV: before.TokenV}})
	var refusal *Refusal
	switch {
	case err == nil:
	case errors.As(err, &refusal) && refusal.Reason == RefusedState:
		return Head{}, stateError(refusal.Head.State)
	case errors.As(err, &refusal):
		return Head{}, errFencedMeanwhile
	case errors.Is(err, ErrNotFound):
		return Head{}, ErrStreamNotFound
	case Definite(err):
		return Head{}, fmt.Errorf("%w: %w: %w", errNotInstalled, ErrUnavailable, err)
	default:
		if h, err = c.settleFence(ctx, before, id, err); err != nil {
			return Head{}, err
		}
	}
	c.learned(mark, &h)
	return h, nil
}

// settleFence finds out what became of a fence whose reply was lost (protocol 4, "verbs"): its id is there; or the
// counter moved and the id is as it was, so it never came; or the counter is moved, so that it never can. A caller that
// goes away does not stop it, its deadline does.
func (c *Coordinator) settleFence(ctx context.Context, before *Head, id OpID, cause error) (Head, error) {
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.o.DoubtTimeout)
	defer cancel()
	if deadline, ok := ctx.Deadline(); ok {
		settle, cancel = context.WithDeadline(settle, deadline)
		defer cancel()
	}
	for attempt := 0; ; attempt++ {
		h, err := c.loads.load(settle, before.Stream)
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrDraining) {
			break // the stream went since, with the answer; or this process does
		}
		if err == nil && h.TokenV == before.TokenV {
			if c.o.Hooks.Breaks(hooks.FenceNoBump) {
				return Head{}, errFencedMeanwhile
			}
			bump := &BumpChange{Fence: true, IfV: before.TokenV}
			h, err = c.change(settle, before.Stream, &Change{ID: NewOpID(), Bump: bump})
			// Should it have been refused or be in doubt, the next load tells why.
		}
		if err == nil {
			return fenceVerdict(&h, before, id, cause)
		}
		if !pause(settle, c.backoff(attempt)) {
			break
		}
	}
	return Head{}, &Indefinite{cause}
}

// fenceVerdict reads the outcome off a head whose counter has moved.
func fenceVerdict(h, before *Head, id OpID, cause error) (Head, error) {
	switch {
	case h.TokenID == id:
		return *h, nil
	case h.TokenID == before.TokenID, h.TokenV == before.TokenV+1:
		return Head{}, errFencedMeanwhile // only bumps came, or one change that is another's
	}
	return Head{}, &Indefinite{cause} // another's token lies over what may have been ours
}

// Token returns the installed fencing token, as of a moment after the call began. Errors as OpenReader's.
func (c *Coordinator) Token(ctx context.Context, ref StreamRef) (string, error) {
	h, err := c.loads.active(ctx, ref.Stream)
	return h.Token, err
}

// streamMark is a moment in the clock of a stream's sequencer, if there is one.
type streamMark struct {
	s     *sequencer
	begun uint64
}

// markStream notes that a store call begins now that will bring a head of the stream.
func (c *Coordinator) markStream(id segments.StreamID) streamMark {
	c.mu.Lock()
	s := c.sequencers[id]
	c.mu.Unlock()
	if s == nil {
		return streamMark{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock++
	return streamMark{s, s.clock}
}

// learned tells the sequencer and the sessions of a stream what a call has brought: what is queued under another token
// is refused now, and needs no load of its own.
func (c *Coordinator) learned(mark streamMark, h *Head) {
	c.presenters.look(h)
	c.saw(*h, time.Time{}) // as old as what is known, and newer
	s := mark.s
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.head != nil { // else it will load one
		s.takeOver(*h, mark.begun)
	}
	s.kick()
}
