package coordinator_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// largeBatch is one of 1000 records, nearly as large as a batch may be.
func largeBatch(n int) coordinator.Batch {
	texts := make([]string, 1000)
	for i := range texts {
		texts[i] = fmt.Sprintf("batch %d record %d %s", n, i, bytes.Repeat([]byte{byte('a' + i%26)}, 900))
	}
	return bodies(texts...)
}

// openMany opens readers that wait at the tail.
func (r *rig) openMany(t *testing.T, n int) {
	t.Helper()
	for range n {
		rd, err := r.OpenReader(t.Context(), r.ref, coordinator.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(rd.Close)
	}
}

// BL-055: each of many readers holds one event, so events are the smaller the more readers there are. Whatever their
// size they hold the same records, one after the other, and the tail they tell never goes back: not behind a batch that
// was published while the reader followed, and is delivered in parts.
func TestEventsShareTheirMemory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		readers int
		largest uint64
	}{"few": {3, 1 << 20}, "many": {200, 16 << 20 / 200}, "very many": {3000, 32 << 10}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.appendAll(t, largeBatch(0), largeBatch(1))
			r.openMany(t, c.readers)
			rd, err := r.OpenReader(t.Context(), r.ref, coordinator.ReadOptions{SeqNum: ptr(uint64(0))})
			if err != nil {
				t.Fatal(err)
			}
			defer rd.Close()
			m := &eventMeter{rd: rd}
			m.readTo(t, 2000)
			m.readTail(t)
			r.appendAll(t, largeBatch(2), largeBatch(3))
			m.readTo(t, 4000)
			if m.largest > c.largest || m.largest < c.largest/2 {
				t.Errorf("the largest event has %d bytes, want at most %d and not much less", m.largest, c.largest)
			}
		})
	}
}

func (r *rig) appendAll(t *testing.T, batches ...coordinator.Batch) {
	t.Helper()
	for _, b := range batches {
		if _, err := r.Append(t.Context(), r.ref, b); err != nil {
			t.Fatal(err)
		}
	}
}

// eventMeter reads on and checks what comes.
type eventMeter struct {
	rd      *coordinator.Reader
	next    uint64
	tail    uint64
	largest uint64
}

func (m *eventMeter) readTo(t *testing.T, end uint64) {
	t.Helper()
	for m.next < end {
		m.read(t)
	}
}

// readTail reads the heartbeat that tells that the tail is reached, after which batches come as they are published.
func (m *eventMeter) readTail(t *testing.T) {
	t.Helper()
	if n := m.read(t); n != 0 {
		t.Fatalf("%d records came, want a heartbeat", n)
	}
}

func (m *eventMeter) read(t *testing.T) (records int) {
	t.Helper()
	e, err := m.rd.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if e.Start != m.next || e.Tail.SeqNum < m.tail || e.Tail.SeqNum < e.Start+uint64(len(e.Records)) {
		t.Fatalf("an event at %d with %d records tells the tail %d; want %d, and at least the tail %d",
			e.Start, len(e.Records), e.Tail.SeqNum, m.next, m.tail)
	}
	for _, got := range e.Records {
		want := fmt.Sprintf("batch %d record %d ", m.next/1000, m.next%1000)
		if !bytes.HasPrefix(got.Body, []byte(want)) || len(got.Body) != len(want)+900 {
			t.Fatalf("record %d is %.40q", m.next, got.Body)
		}
		m.next++
	}
	m.tail, m.largest = e.Tail.SeqNum, max(m.largest, e.Bytes)
	return len(e.Records)
}

// A reader that has closed no longer counts among those that share.
func TestClosedReadersShareNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.appendAll(t, largeBatch(0))
	for range 500 {
		rd, err := r.OpenReader(t.Context(), r.ref, coordinator.ReadOptions{SeqNum: ptr(uint64(0)), Wait: ptr(time.Duration(0))})
		if err != nil {
			t.Fatal(err)
		}
		rd.Close()
		rd.Close()
	}
	rd, err := r.OpenReader(t.Context(), r.ref, coordinator.ReadOptions{SeqNum: ptr(uint64(0))})
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	if e, err := rd.Next(t.Context()); err != nil || len(e.Records) != 1000 {
		t.Errorf("an event of %d records, %v; want the whole batch", len(e.Records), err)
	}
}
