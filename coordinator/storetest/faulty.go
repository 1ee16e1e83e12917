package storetest

import (
	"context"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// Heads puts the faults before a store of heads. Several stores may share one Faults.
func (f *Faults) Heads(inner coordinator.Heads) coordinator.Heads { return &faultyHeads{f, inner} }

// Table puts the faults before a table.
func (f *Faults) Table(inner coordinator.Table) coordinator.Table { return &faultyTable{f, inner} }

type faultyHeads struct {
	f     *Faults
	inner coordinator.Heads
}

func (s *faultyHeads) Create(ctx context.Context, h coordinator.Head) error {
	call := Call{Op: "Create", Stream: h.Stream, Head: &h}
	_, err := through(ctx, s.f, call, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.inner.Create(ctx, h)
	})
	return err
}

func (s *faultyHeads) Load(ctx context.Context, id segments.StreamID) (coordinator.Head, error) {
	return through(ctx, s.f, Call{Op: "Load", Stream: id}, func(ctx context.Context) (coordinator.Head, error) {
		return s.inner.Load(ctx, id)
	})
}

func (s *faultyHeads) Commit(ctx context.Context, id segments.StreamID, c *coordinator.Commit) (coordinator.Head, error) {
	sent := *c // the caller may reuse its own before a late one is delivered
	call := Call{Op: "Commit", Stream: id, Commit: &sent}
	return through(ctx, s.f, call, func(ctx context.Context) (coordinator.Head, error) {
		return s.inner.Commit(ctx, id, &sent)
	})
}

func (s *faultyHeads) Splice(ctx context.Context, id segments.StreamID, p *coordinator.Splice) (coordinator.Head, error) {
	sent := *p // the caller may reuse its own before a late one is delivered
	call := Call{Op: "Splice", Stream: id, Splice: &sent}
	return through(ctx, s.f, call, func(ctx context.Context) (coordinator.Head, error) {
		return s.inner.Splice(ctx, id, &sent)
	})
}

func (s *faultyHeads) Change(ctx context.Context, id segments.StreamID, c *coordinator.Change) (coordinator.Head, error) {
	sent := *c // the caller may reuse its own before a late one is delivered
	call := Call{Op: "Change", Stream: id, Change: &sent}
	return through(ctx, s.f, call, func(ctx context.Context) (coordinator.Head, error) {
		return s.inner.Change(ctx, id, &sent)
	})
}

type faultyTable struct {
	f     *Faults
	inner coordinator.Table
}

func (s *faultyTable) Get(ctx context.Context, key coordinator.Key) (coordinator.Row, error) {
	return through(ctx, s.f, Call{Op: "Get", Key: key}, func(ctx context.Context) (coordinator.Row, error) {
		return s.inner.Get(ctx, key)
	})
}

func (s *faultyTable) Put(ctx context.Context, row coordinator.Row, ifVersion uint64) (coordinator.Row, error) {
	call := Call{Op: "Put", Key: row.Key, Row: &row}
	return through(ctx, s.f, call, func(ctx context.Context) (coordinator.Row, error) {
		return s.inner.Put(ctx, row, ifVersion)
	})
}

func (s *faultyTable) Delete(ctx context.Context, key coordinator.Key, ifVersion uint64) error {
	_, err := through(ctx, s.f, Call{Op: "Delete", Key: key}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.inner.Delete(ctx, key, ifVersion)
	})
	return err
}

func (s *faultyTable) List(ctx context.Context, part, prefix, after string, limit int) ([]coordinator.Row, error) {
	call := Call{Op: "List", Key: coordinator.Key{Part: part, Sort: prefix}}
	return through(ctx, s.f, call, func(ctx context.Context) ([]coordinator.Row, error) {
		return s.inner.List(ctx, part, prefix, after, limit)
	})
}
