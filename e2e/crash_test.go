package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// sent is one batch of a writer: which, of how many records, and what became of it. start is meaningful once acked.
type sent struct {
	writer, batch, size int
	fill                int // bytes of filler a record, by which it goes inline or into a segment
	acked               bool
	refused             bool // definitely
	start               uint64
}

// body is what record i of the batch holds; a reader can tell from it to which batch it belongs, and whether it is whole.
func (s sent) body(i int) string {
	return fmt.Sprintf("w%d b%d %d/%d %s", s.writer, s.batch, i, s.size, strings.Repeat(string(rune('a'+s.batch%26)), s.fill))
}

func (s sent) input() appendInput {
	var in appendInput
	for i := range s.size {
		in.Records = append(in.Records, newRecord{Body: s.body(i)})
	}
	return in
}

// writer appends batches one after the other and writes down every one before it is sent.
type writer struct {
	id     int
	log    []sent
	random *rand.Rand
	faults []string
}

// run appends until there is no answer any more, or one that is an error of a server going down.
func (w *writer) run(ctx context.Context, c *client, stream string, acked *atomic.Int64) {
	for ctx.Err() == nil {
		s := sent{writer: w.id, batch: len(w.log), size: 1 + w.random.IntN(20)}
		if w.random.IntN(3) == 0 {
			s.fill = 2000 + w.random.IntN(4000) // together more than an inline batch
		}
		w.log = append(w.log, s)
		a, err := c.append(ctx, stream, s.input())
		if err != nil {
			return // the connection died; the batch may be stored or not
		}
		last := &w.log[len(w.log)-1]
		if a.status != 200 {
			if a.definite() {
				w.log = w.log[:len(w.log)-1]
			}
			w.faults = append(w.faults, a.String())
			return
		}
		var got ack
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || got.End.SeqNum-got.Start.SeqNum != uint64(s.size) {
			w.faults = append(w.faults, fmt.Sprintf("a batch of %d is acknowledged by %v", s.size, a))
			return
		}
		last.acked, last.start = true, got.Start.SeqNum
		acked.Add(1)
	}
}

// Eight writers, kill -9 in the middle, again and again on one stream: every acknowledged batch is where its
// acknowledgement said, none is half there or there twice, and numbers are dense.
func TestKillLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	const writers, rounds = 8, 6
	data := dataFolder(t)
	server := start(t, data)
	c := newClient(server.URL, "kill-nine")
	c.create(t, "log")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	all := make([]*writer, writers)
	for i := range all {
		all[i] = &writer{id: i, random: rand.New(rand.NewPCG(seed, uint64(i)))}
	}
	for round := range rounds {
		var acked atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for _, w := range all {
			running.Go(func() { w.run(ctx, c, "log", &acked) })
		}
		// Each round kills a little later, so that moves into pages are met as well.
		eventually(t, "appends before the kill", func() bool { return acked.Load() >= int64(100*(round+1)) })
		server.Kill()
		cancel()
		running.Wait()
		server = start(t, data)
		c = c.at(server.URL)
		tail := c.tail(t, "log")
		checkWhole(t, all, c.readAll(t, "log", 0, tail))
		t.Logf("round %d: killed after %d acknowledged batches, the tail is %d", round, acked.Load(), tail)
	}
}

// checkWhole compares what is stored with what the writers know.
func checkWhole(t *testing.T, all []*writer, stored []record) {
	t.Helper()
	seen := map[[2]int]uint64{} // batch of a writer to where it starts
	for at := 0; at < len(stored); {
		var id, batch, index, size int
		if _, err := fmt.Sscanf(stored[at].Body, "w%d b%d %d/%d", &id, &batch, &index, &size); err != nil || index != 0 {
			t.Fatalf("record %d begins no batch: %.40q", at, stored[at].Body)
		}
		if id >= len(all) || batch >= len(all[id].log) {
			t.Fatalf("record %d is of a batch that was never sent: %.40q", at, stored[at].Body)
		}
		s := all[id].log[batch]
		for i := range s.size {
			if at+i >= len(stored) || stored[at+i].Body != s.body(i) {
				t.Fatalf("batch %d of writer %d at %d is not whole: its record %d is missing or differs", batch, id, at, i)
			}
		}
		if before, twice := seen[[2]int{id, batch}]; twice {
			t.Fatalf("batch %d of writer %d is stored at %d and at %d", batch, id, before, at)
		}
		seen[[2]int{id, batch}] = uint64(at)
		at += s.size
	}
	for _, w := range all {
		for _, fault := range w.faults {
			t.Errorf("writer %d: %s", w.id, fault)
		}
		for _, s := range w.log {
			at, there := seen[[2]int{s.writer, s.batch}]
			if s.refused && there {
				t.Fatalf("batch %d of writer %d failed definitely, and is stored at %d", s.batch, s.writer, at)
			}
			if s.acked && (!there || at != s.start) {
				t.Fatalf("batch %d of writer %d was acknowledged at %d; stored: %v, at %d", s.batch, s.writer, s.start, there, at)
			}
		}
	}
}
