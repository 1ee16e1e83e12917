package coordinator_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/memstore"
	"github.com/tailrace-streams/tailrace/segments"
)

// spliceWatch notes the largest run that a splice takes out of the log.
type spliceWatch struct {
	coordinator.Heads
	largest atomic.Int64
}

func (w *spliceWatch) Splice(ctx context.Context, id segments.StreamID, s *coordinator.Splice) (coordinator.Head, error) {
	n := 0
	switch {
	case s.Move != nil:
		n = len(s.Move.Old)
	case s.Retire != nil:
		n = len(s.Retire.Old)
	}
	for old := w.largest.Load(); int64(n) > old && !w.largest.CompareAndSwap(old, int64(n)); old = w.largest.Load() {
	}
	return w.Heads.Splice(ctx, id, s)
}

// TestSplicesAreBounded: a store that bounds what one splice takes out gets several, and the log still shrinks.
func TestSplicesAreBounded(t *testing.T) {
	t.Parallel()
	clk := newClock()
	w := &spliceWatch{Heads: memstore.New()}
	r := newRig(t, func(o *coordinator.Options) {
		o.Heads, o.Now = w, clk.now
		o.Room.MoveEntries, o.Room.MaxSplice = 12, 5
	})
	for i := range 200 {
		if _, err := r.Append(t.Context(), r.ref, bodies(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	h, err := r.Maintain(t.Context(), r.ref)
	if err != nil || len(h.Log) >= 24 || w.largest.Load() != 5 {
		t.Errorf("%d entries left, at most %d taken out at once: %v", len(h.Log), w.largest.Load(), err)
	}
	if got := r.readAll(t, 0); len(got) != 200 {
		t.Errorf("%d records", len(got))
	}
}
