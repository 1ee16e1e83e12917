package faulttest

import (
	"context"
	"strings"
	"testing"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// liar is a store of heads that does to commits what no store may do.
type liar struct {
	coordinator.Heads
	commit func(ctx context.Context, id segments.StreamID, c *coordinator.Commit) (coordinator.Head, error)
}

func (l *liar) Commit(ctx context.Context, id segments.StreamID, c *coordinator.Commit) (coordinator.Head, error) {
	return l.commit(ctx, id, c)
}

// A verification that finds nothing proves little: it finds each of the things that must not be.
func TestVerifyNotices(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		commit func(inner coordinator.Heads) func(context.Context, segments.StreamID, *coordinator.Commit) (coordinator.Head, error)
		says   string
	}{
		"an acknowledged batch that is not there": {func(inner coordinator.Heads) func(context.Context, segments.StreamID, *coordinator.Commit) (coordinator.Head, error) {
			return func(ctx context.Context, id segments.StreamID, c *coordinator.Commit) (coordinator.Head, error) {
				h, err := inner.Load(ctx, id)
				if err != nil {
					return h, err
				}
				return coordinator.Apply(h, c)
			}
		}, "was acknowledged at 2"},
		"a definite failure that is there": {func(inner coordinator.Heads) func(context.Context, segments.StreamID, *coordinator.Commit) (coordinator.Head, error) {
			failed := false
			return func(ctx context.Context, id segments.StreamID, c *coordinator.Commit) (coordinator.Head, error) {
				h, err := inner.Commit(ctx, id, c)
				if err == nil && !failed {
					failed = true
					return h, coordinator.ErrNotApplied
				}
				return h, err
			}
		}, "is at [2 3]"},
		"a batch that is there twice": {func(inner coordinator.Heads) func(context.Context, segments.StreamID, *coordinator.Commit) (coordinator.Head, error) {
			return func(ctx context.Context, id segments.StreamID, c *coordinator.Commit) (coordinator.Head, error) {
				if _, err := inner.Commit(ctx, id, c); err != nil {
					return coordinator.Head{}, err
				}
				again := *c
				again.Entries = append([]segments.Entry(nil), c.Entries...)
				for i := range again.Entries {
					again.Entries[i].ID.Object = segments.NewObjectID(again.Entries[i].ID.Object.Label())
				}
				return inner.Commit(ctx, id, &again)
			}
		}, "is at [2 3]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, &kind{open: openMemory})
			ref := some(w)
			if err := w.verifyStream(ref, w.ledger(ref)); err != nil {
				t.Fatal(err)
			}
			honest := w.inner.heads
			w.inner.heads = &liar{honest, test.commit(honest)}
			p := w.process(false, room)
			defer p.Close()
			_ = w.append(t.Context(), p, ref, records("one more"))
			w.inner.heads = honest
			if err := w.verifyStream(ref, w.ledger(ref)); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("verified: %v, want that it %q", err, test.says)
			}
		})
	}
}
