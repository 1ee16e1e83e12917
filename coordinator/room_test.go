package coordinator_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

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

// TestSealedBatchesFitTheHead: sealed records are larger than what they are metered by. A commit of many small ones is
// not refused for room again and again.
func TestSealedBatchesFitTheHead(t *testing.T) {
	t.Parallel()
	w := &commitCounter{Heads: memstore.New()}
	r := newRig(t, func(o *coordinator.Options) { o.Heads = w })
	r.ref = coordinator.StreamRef{Basin: segments.NewBasinID(), Stream: segments.NewStreamID()}
	err := w.Create(t.Context(), coordinator.Head{
		V: 1, Basin: r.ref.Basin, Stream: r.ref.Stream, State: coordinator.Active, Cipher: segments.CipherAES256GCM,
		Config: coordinator.DefaultStreamConfig(), ConfigV: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	// All wait for the first load, and are committed together.
	s := r.session(t, coordinator.SessionOptions{Key: bytes.Repeat([]byte{7}, segments.SealKeyBytes)})
	var pending []*coordinator.Pending
	for i := range 220 {
		b := bodies(fmt.Sprint("small", i))
		p, err := s.Submit(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		pending = append(pending, p)
	}
	for _, p := range pending {
		if _, err := p.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// Weights leave out what encoding adds to a commit, so one that fills the head to the brim may be refused, once, and
	// then goes into a segment.
	if n := w.refused.Load(); n > 4 {
		t.Errorf("%d commits were refused for room", n)
	}
	if _, err := r.Check(t.Context(), r.ref); err != nil {
		t.Error(err)
	}
}

// commitCounter counts the commits that a head refuses, and holds up the first load until many batches wait.
type commitCounter struct {
	coordinator.Heads
	refused atomic.Int64
}

func (w *commitCounter) Load(ctx context.Context, id segments.StreamID) (coordinator.Head, error) {
	time.Sleep(50 * time.Millisecond)
	return w.Heads.Load(ctx, id)
}

func (w *commitCounter) Commit(ctx context.Context, id segments.StreamID, c *coordinator.Commit) (coordinator.Head, error) {
	h, err := w.Heads.Commit(ctx, id, c)
	if err != nil {
		w.refused.Add(1)
	}
	return h, err
}
