package coordinator

import (
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/segments"
)

// TestSweepDoesNotWaitForSequencers: a sequencer that plans holds its lock and asks for the coordinator's, to place a
// batch in a segment. A sweep holds the coordinator's, so it may not wait for a sequencer's.
func TestSweepDoesNotWaitForSequencers(t *testing.T) {
	t.Parallel()
	c := &Coordinator{o: Options{Now: time.Now}, sequencers: make(map[segments.StreamID]*sequencer)}
	s := &sequencer{c: c}
	c.sequencers[segments.NewStreamID()] = s
	s.mu.Lock() // as while it plans
	swept := make(chan bool)
	go func() { swept <- c.sweepOnce() }()
	select {
	case done := <-swept:
		s.mu.Unlock()
		if done || len(c.sequencers) != 1 {
			t.Error("a sequencer at work was removed")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the sweep waits for a sequencer, with the lock that the sequencer will ask for")
	}
	if !c.sweepOnce() {
		t.Error("an idle sequencer stays")
	}
}
