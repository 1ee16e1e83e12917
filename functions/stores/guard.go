package stores

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// Backend is where everything is kept.
type Backend struct {
	Heads   coordinator.Heads
	Table   coordinator.Table
	Objects segments.Objects
}

// guard stands before a backend. Until one is let in, every call fails at once and has no effect: a server whose stores are
// out of reach when it starts serves definite errors rather than nothing. It also counts and times the calls.
type guard struct {
	in    atomic.Pointer[Backend]
	calls *prometheus.CounterVec
	took  *prometheus.HistogramVec
}

// errNotOpen is in the errors of a guard with no backend.
var errNotOpen = errors.New("the stores have not been reached since the start")

// The calls by store, and how they may end: refused is every definite no.
var storeCalls = map[string][]string{
	"heads":   {"create", "load", "commit", "splice", "change"},
	"table":   {"get", "put", "delete", "list"},
	"objects": {"put", "get", "list", "delete"},
}

const outcomeOK, outcomeRefused, outcomeFailed = "ok", "refused", "failed"

// newGuard makes all series at once, so that their number does not depend on what happens.
func newGuard() *guard {
	g := &guard{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tailrace_store_calls_total", Help: "Calls of the stores, by how they ended: refused is a definite no.",
		}, []string{"store", "call", "outcome"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tailrace_store_call_duration_seconds", Help: "How long calls of the stores took, with all their attempts.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5},
		}, []string{"store", "call"}),
	}
	for store, calls := range storeCalls {
		for _, call := range calls {
			g.took.WithLabelValues(store, call)
			for _, outcome := range []string{outcomeOK, outcomeRefused, outcomeFailed} {
				g.calls.WithLabelValues(store, call, outcome)
			}
		}
	}
	return g
}

// guarded is a guard with the backend in.
func guarded(b Backend) *guard {
	g := newGuard()
	g.in.Store(&b)
	return g
}

func (g *guard) collectors() []prometheus.Collector { return []prometheus.Collector{g.calls, g.took} }

// through makes one call of the backend, if it is in.
func through[T any](g *guard, store, call string, do func(*Backend) (T, error)) (T, error) {
	b := g.in.Load()
	if b == nil {
		var none T
		return none, fmt.Errorf("%w: %w", coordinator.ErrNotApplied, errNotOpen)
	}
	since := time.Now()
	result, err := do(b)
	g.took.WithLabelValues(store, call).Observe(time.Since(since).Seconds())
	g.calls.WithLabelValues(store, call, outcomeOf(err)).Inc()
	return result, err
}

func outcomeOf(err error) string {
	switch {
	case err == nil:
		return outcomeOK
	case coordinator.Definite(err), errors.Is(err, segments.ErrObjectNotFound):
		return outcomeRefused
	}
	return outcomeFailed
}

type guardedHeads struct{ *guard }

// Create implements coordinator.Heads, as do the methods below it.
func (g guardedHeads) Create(ctx context.Context, h coordinator.Head) error {
	_, err := through(g.guard, "heads", "create", func(b *Backend) (struct{}, error) { return struct{}{}, b.Heads.Create(ctx, h) })
	return err
}

func (g guardedHeads) Load(ctx context.Context, id segments.StreamID) (coordinator.Head, error) {
	return through(g.guard, "heads", "load", func(b *Backend) (coordinator.Head, error) { return b.Heads.Load(ctx, id) })
}

func (g guardedHeads) Commit(ctx context.Context, id segments.StreamID, c *coordinator.Commit) (coordinator.Head, error) {
	return through(g.guard, "heads", "commit", func(b *Backend) (coordinator.Head, error) { return b.Heads.Commit(ctx, id, c) })
}

func (g guardedHeads) Splice(ctx context.Context, id segments.StreamID, s *coordinator.Splice) (coordinator.Head, error) {
	return through(g.guard, "heads", "splice", func(b *Backend) (coordinator.Head, error) { return b.Heads.Splice(ctx, id, s) })
}

func (g guardedHeads) Change(ctx context.Context, id segments.StreamID, c *coordinator.Change) (coordinator.Head, error) {
	return through(g.guard, "heads", "change", func(b *Backend) (coordinator.Head, error) { return b.Heads.Change(ctx, id, c) })
}

type guardedTable struct{ *guard }

// Get implements coordinator.Table, as do the methods below it.
func (g guardedTable) Get(ctx context.Context, key coordinator.Key) (coordinator.Row, error) {
	return through(g.guard, "table", "get", func(b *Backend) (coordinator.Row, error) { return b.Table.Get(ctx, key) })
}

func (g guardedTable) Put(ctx context.Context, row coordinator.Row, ifVersion uint64) (coordinator.Row, error) {
	return through(g.guard, "table", "put", func(b *Backend) (coordinator.Row, error) { return b.Table.Put(ctx, row, ifVersion) })
}

func (g guardedTable) Delete(ctx context.Context, key coordinator.Key, ifVersion uint64) error {
	_, err := through(g.guard, "table", "delete", func(b *Backend) (struct{}, error) {
		return struct{}{}, b.Table.Delete(ctx, key, ifVersion)
	})
	return err
}

func (g guardedTable) List(ctx context.Context, part, prefix, after string, limit int) ([]coordinator.Row, error) {
	return through(g.guard, "table", "list", func(b *Backend) ([]coordinator.Row, error) {
		return b.Table.List(ctx, part, prefix, after, limit)
	})
}

type guardedObjects struct{ *guard }

// Put implements segments.Objects, as do the methods below it.
func (g guardedObjects) Put(ctx context.Context, key string, data []byte) error {
	_, err := through(g.guard, "objects", "put", func(b *Backend) (struct{}, error) {
		return struct{}{}, b.Objects.Put(ctx, key, data)
	})
	return err
}

func (g guardedObjects) Get(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	return through(g.guard, "objects", "get", func(b *Backend) ([]byte, error) { return b.Objects.Get(ctx, key, offset, length) })
}

func (g guardedObjects) List(ctx context.Context, prefix, startAfter string, limit int) ([]segments.ObjectInfo, error) {
	return through(g.guard, "objects", "list", func(b *Backend) ([]segments.ObjectInfo, error) {
		return b.Objects.List(ctx, prefix, startAfter, limit)
	})
}

func (g guardedObjects) Delete(ctx context.Context, keys []string) map[string]error {
	failed, err := through(g.guard, "objects", "delete", func(b *Backend) (map[string]error, error) {
		failed := b.Objects.Delete(ctx, keys)
		for _, err := range failed {
			return failed, err
		}
		return failed, nil
	})
	if err != nil && failed == nil {
		failed = make(map[string]error, len(keys))
		for _, key := range keys {
			failed[key] = err
		}
	}
	return failed
}
