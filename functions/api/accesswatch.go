package api

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tailrace-streams/tailrace/tenancy"
)

// unjudgedMax is how long a stream goes on while its token cannot be judged because a store does not answer.
const unjudgedMax = 30 * time.Second

// tokenEnded is the cause of a context that ended because of its token.
type tokenEnded struct{ error }

// whileGood is a context that ends when the request's access token is no longer good: for answers that last. A token is
// judged once every Recheck, and when it expires, so it ends what it opened within Recheck and the age that a judgement
// may have. The function returned must be called when the answer has ended.
func (h *handler) whileGood(ctx context.Context, x *exchange) (context.Context, context.CancelFunc) {
	if h.o.Access == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	x.good = ctx
	w := &tokenWatch{h: h, bearer: x.bearer, ctx: ctx, cancel: cancel, judged: x.judged}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(w.next(x.principal), w.check)
	return ctx, func() {
		cancel(context.Canceled)
		w.timer.Stop()
	}
}

// tokenWatch is the timer of one answer; no goroutine waits for it.
type tokenWatch struct {
	h      *handler
	bearer string
	ctx    context.Context
	cancel context.CancelCauseFunc
	judged time.Time // when the token was last known to be good

	mu    sync.Mutex
	timer *time.Timer
}

// next is when to judge again: a period after the last time, of which opening the answer may have taken some, or soon after
// the token expires, if that is before.
func (w *tokenWatch) next(p *tenancy.Principal) time.Duration {
	wait := max(w.h.o.Recheck-time.Since(w.judged), 0)
	if !p.ExpiresAt.IsZero() {
		wait = min(wait, max(p.ExpiresAt.Sub(w.h.o.Now()), 0)+time.Millisecond)
	}
	return wait
}

func (w *tokenWatch) check() {
	w.mu.Lock() // for the timer, which may fire before it is set
	defer w.mu.Unlock()
	ctx, cancel := context.WithTimeout(w.ctx, w.h.o.Recheck)
	defer cancel()
	wait := w.h.o.Recheck
	switch p, err := w.h.o.Access.Authenticate(ctx, w.bearer); {
	case w.ctx.Err() != nil:
		return
	case err == nil:
		w.judged = time.Now()
		wait = w.next(p)
	case errors.Is(err, tenancy.ErrUnauthenticated) || time.Since(w.judged) > unjudgedMax:
		w.cancel(&tokenEnded{err})
		return
	}
	w.timer.Reset(wait)
}
