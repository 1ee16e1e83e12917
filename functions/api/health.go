package api

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/wire"
)

// readyTTL is how long an answer of the stores stands for the next ones: probes from many load balancers cost one.
const readyTTL = time.Second

// readyTimeout bounds a probe of the stores.
const readyTimeout = 3 * time.Second

// health says that the process serves requests. It asks no store: a process is not restarted because a store is away.
func (h *handler) health(x *exchange, r *http.Request) error {
	return x.body(r, http.StatusOK, "text/plain; charset=utf-8", []byte("OK"))
}

// readyz says that both stores answer, and that the process is not shutting down: what sends requests here should stop
// before they are refused.
func (h *handler) readyz(x *exchange, r *http.Request) error {
	x.Header().Set("Cache-Control", "no-store")
	select {
	case <-h.o.Streams.Draining():
		return coordinator.ErrDraining
	default:
	}
	if err := h.ready.check(r.Context()); err != nil {
		e := wire.Errorf(wire.CodeUnavailable, "a store is out of reach")
		if errors.Is(err, segments.ErrNoRoom) {
			e = wire.Errorf(wire.CodeUnavailable, "a store has no room left")
		}
		e.Applied = wire.AppliedNo
		return e.Because(err)
	}
	return x.body(r, http.StatusOK, "text/plain; charset=utf-8", []byte("OK"))
}

// readiness remembers the last probe of the stores. All who ask while one is under way share it.
type readiness struct {
	probe func(context.Context) error
	now   func() time.Time
	group singleflight.Group

	mu  sync.Mutex
	at  time.Time
	err error
}

func (p *readiness) check(ctx context.Context) error {
	p.mu.Lock()
	if age := p.now().Sub(p.at); age >= 0 && age < readyTTL {
		defer p.mu.Unlock()
		return p.err
	}
	p.mu.Unlock()
	result := p.group.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
		defer cancel()
		err := p.probe(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.at, p.err = p.now(), err
		return nil, err
	})
	select {
	case r := <-result:
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(readyTimeout): // for a probe that does not heed its context
		return context.DeadlineExceeded
	}
}
