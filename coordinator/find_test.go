package coordinator_test

import (
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// TestReadFromTimeBehindRetired: after what had the larger times was retired, the records that the fold raised to them
// are still found by these times, from the first one on.
func TestReadFromTimeBehindRetired(t *testing.T) {
	t.Parallel()
	clk := newClock()
	r := newRig(t, func(o *coordinator.Options) { o.Now, o.TrimDelay = clk.now, time.Second })
	at := func(times ...uint64) (b coordinator.Batch) {
		for _, ms := range times {
			b.Records = append(b.Records, segments.Record{Timestamp: ms, HasTimestamp: true})
		}
		return b
	}
	for _, b := range []coordinator.Batch{at(1000), at(500, 600, 700), {Records: []segments.Record{trimTo(1)}}} {
		if _, err := r.Append(t.Context(), r.ref, b); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		clk.add(2 * time.Second)
		if _, err := r.Maintain(t.Context(), r.ref); err != nil {
			t.Fatal(err)
		}
	}
	h, err := r.Head(t.Context(), r.ref)
	if err != nil || h.First() != 1 {
		t.Fatalf("the stream starts at %d: %v", h.First(), err)
	}
	rd, err := r.OpenReader(t.Context(), r.ref, coordinator.ReadOptions{Timestamp: ptr(uint64(800)), Unary: true})
	if err != nil {
		t.Fatal(err)
	}
	e, err := rd.Next(t.Context())
	if err != nil || e.Start != 1 || e.Records[0].Timestamp != 1000 {
		t.Errorf("a read from time 800 starts at %d, want 1, whose time is 1000: %v", e.Start, err)
	}
}
