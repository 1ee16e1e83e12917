package coordinator_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// slowPuts is a store of objects whose PUTs take a second.
type slowPuts struct{ segments.Objects }

func (s slowPuts) Put(ctx context.Context, key string, data []byte) error {
	time.Sleep(time.Second)
	return s.Objects.Put(ctx, key, data)
}

// What an append owes is done once Settle returns, and then nothing is left of it: in the bubble no time passes any more by
// itself, so a goroutine that waited for any would be waited for in vain at the end.
func TestSettleWaitsForWhatIsOwed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *coordinator.Options) {
			o.Intermittent, o.Objects, o.Now = true, slowPuts{o.Objects}, time.Now
		})
		r.fill(t, 1)
		if err := r.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		head, err := r.Head(t.Context(), r.ref)
		if err != nil {
			t.Fatal(err)
		}
		for mark := len(head.Log); len(head.Pages) == 0; mark++ {
			if mark > 1000 {
				t.Fatal("a thousand appends were never moved")
			}
			r.fill(t, 1)
			short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			early := r.Settle(short)
			cancel()
			if err := r.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			if head, err = r.Head(t.Context(), r.ref); err != nil {
				t.Fatal(err)
			}
			if moved := len(head.Pages) > 0; moved != errors.Is(early, context.DeadlineExceeded) {
				t.Errorf("moved %t, and before that Settle said %v", moved, early)
			}
		}
		trim := coordinator.Batch{Records: []segments.Record{trimTo(1)}}
		if _, err := r.Append(t.Context(), r.ref, trim); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := r.Settle(t.Context()); err != nil || time.Since(began) > time.Second {
			t.Errorf("a trim is waited for: %v after %s", err, time.Since(began))
		}
	})
}
