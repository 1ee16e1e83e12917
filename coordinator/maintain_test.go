package coordinator_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/memobjects"
	"github.com/tailrace-streams/tailrace/segments/objectstest"
)

func trimTo(seq uint64) segments.Record {
	return segments.Record{Headers: []segments.Header{{Value: []byte("trim")}}, Body: binary.BigEndian.AppendUint64(nil, seq)}
}

// clock is a clock that a test moves.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ms.Store(1_700_000_000_000)
	return c
}

func (c *clock) now() time.Time      { return time.UnixMilli(c.ms.Load()) }
func (c *clock) add(d time.Duration) { c.ms.Add(d.Milliseconds()) }
func (r *rig) firstSeq(t *testing.T) uint64 {
	t.Helper()
	rd, err := r.OpenReader(t.Context(), r.ref, coordinator.ReadOptions{SeqNum: ptr(uint64(0)), Unary: true})
	if err != nil {
		t.Fatal(err)
	}
	e, err := rd.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e.Start
}

func (r *rig) fill(t testing.TB, n int) {
	t.Helper()
	for i := range n {
		if _, err := r.Append(t.Context(), r.ref, bodies(fmt.Sprint("fill", i))); err != nil {
			t.Fatal(err)
		}
	}
}

// objectCount is the number of objects of the stream's basin.
func (r *rig) objectCount(t *testing.T) int {
	t.Helper()
	infos, err := r.objects.List(t.Context(), segments.BasinPrefix(r.ref.Basin), "", 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	return len(infos)
}

func (r *rig) collect(t *testing.T) coordinator.CollectReport {
	t.Helper()
	report, err := r.Collect(t.Context(), r.ref.Basin, coordinator.CollectOptions{
		Streams: func(_ context.Context, visit func(segments.StreamID) error) error { return visit(r.ref.Stream) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestTrimIsLazyThenFrees: what is trimmed stays readable for the delay, then is gone, and its objects are collected.
func TestTrimIsLazyThenFrees(t *testing.T) {
	t.Parallel()
	clk := newClock()
	r := newRig(t, func(o *coordinator.Options) {
		o.Now, o.TrimDelay, o.Objects = clk.now, 10*time.Second, memobjects.New(memobjects.WithClock(clk.now))
	})
	r.fill(t, 1500)
	if _, err := r.Append(t.Context(), r.ref, coordinator.Batch{Records: []segments.Record{trimTo(1490)}}); err != nil {
		t.Fatal(err)
	}
	if first := r.firstSeq(t); first != 0 {
		t.Fatalf("reads start at %d right after the trim", first)
	}
	clk.add(10 * time.Second)
	if first := r.firstSeq(t); first != 1490 {
		t.Fatalf("reads start at %d after the delay", first)
	}
	before := r.objectCount(t)
	h, err := r.Maintain(t.Context(), r.ref)
	if err != nil || h.Floor != 1490 || h.First() < 1000 {
		t.Fatalf("floor %d, first %d, %v", h.Floor, h.First(), err)
	}
	report := r.collect(t)
	if after := r.objectCount(t); after > 60 || report.Deleted < before-after {
		t.Fatalf("%d objects before, %d after, %+v", before, after, report)
	}
	if _, err := coordinator.Check(t.Context(), r.heads, r.objects, r.ref.Stream); err != nil {
		t.Fatal(err)
	}
	r.fill(t, 100)
	if got := r.readAll(t, 1490); len(got) != 111 {
		t.Fatalf("%d records", len(got))
	}
}

// TestTrimBeyondTail: a trim never takes more than up to itself, and never goes back.
func TestTrimBeyondTail(t *testing.T) {
	t.Parallel()
	clk := newClock()
	r := newRig(t, func(o *coordinator.Options) { o.Now = clk.now; o.TrimDelay = -1 })
	r.fill(t, 5)
	for _, c := range []struct{ to, want uint64 }{{3, 3}, {1, 3}, {1 << 53, 8}} {
		if _, err := r.Append(t.Context(), r.ref, coordinator.Batch{Records: []segments.Record{trimTo(c.to)}}); err != nil {
			t.Fatal(err)
		}
		h, err := r.Head(t.Context(), r.ref)
		if err != nil || h.Trim != c.want {
			t.Fatalf("trim to %d: %d, %v", c.to, h.Trim, err)
		}
	}
	if tail, err := r.CheckTail(t.Context(), r.ref); err != nil || tail.SeqNum != 8 {
		t.Fatal(tail, err)
	}
}

// TestTrimEverySecondAdvances: a stream whose trim point moves all the time still frees what was trimmed a delay ago.
func TestTrimEverySecondAdvances(t *testing.T) {
	t.Parallel()
	clk := newClock()
	r := newRig(t, func(o *coordinator.Options) { o.Now = clk.now; o.TrimDelay = 10 * time.Second })
	for i := range 40 {
		r.fill(t, 9)
		if _, err := r.Append(t.Context(), r.ref, coordinator.Batch{Records: []segments.Record{trimTo(uint64(i) * 10)}}); err != nil {
			t.Fatal(err)
		}
		clk.add(time.Second)
		if _, err := r.Maintain(t.Context(), r.ref); err != nil {
			t.Fatal(err)
		}
	}
	if first := r.firstSeq(t); first < 150 || first > 300 {
		t.Fatalf("reads start at %d", first)
	}
}

// TestRetention: records expire by their arrival, whatever timestamps clients gave (BL-028).
func TestRetention(t *testing.T) {
	t.Parallel()
	clk := newClock()
	r := newRig(t, func(o *coordinator.Options) {
		o.Now, o.Objects = clk.now, memobjects.New(memobjects.WithClock(clk.now))
	})
	cfg := coordinator.DefaultStreamConfig()
	cfg.RetentionAge, cfg.Uncapped = 60, true
	r.ref = r.create(t, cfg)
	b := bodies("far")
	b.Records[0].Timestamp, b.Records[0].HasTimestamp = uint64(clk.now().AddDate(10, 0, 0).UnixMilli()), true
	if _, err := r.Append(t.Context(), r.ref, b); err != nil {
		t.Fatal(err)
	}
	r.fill(t, 30)
	clk.add(40 * time.Second)
	r.fill(t, 50)
	if first := r.firstSeq(t); first != 0 {
		t.Fatalf("reads start at %d too early", first)
	}
	clk.add(30 * time.Second)
	if first := r.firstSeq(t); first != 31 {
		t.Fatalf("reads start at %d", first)
	}
	clk.add(time.Minute)
	h, err := r.Maintain(t.Context(), r.ref)
	if err != nil || h.First() != 81 || h.Tail != 81 || len(h.Log) != 0 || len(h.Pages) != 0 {
		t.Fatalf("first %d, tail %d, %v", h.First(), h.Tail, err)
	}
	// A move that maintenance overtook may put its objects only now; collection gets them when it comes again.
	for deadline := time.Now().Add(10 * time.Second); r.objectCount(t) != 0; r.collect(t) {
		if time.Now().After(deadline) {
			t.Fatalf("%d objects are left", r.objectCount(t))
		}
	}
	r.fill(t, 1)
	if got := r.readAll(t, 81); len(got) != 1 || got[0].Timestamp < uint64(clk.now().AddDate(9, 0, 0).UnixMilli()) {
		t.Fatalf("%d records, the running maximum must survive", len(got))
	}
}

// TestCollectWhileAppending: collection without any grace runs all the time beside appenders, movers and readers.
func TestCollectWhileAppending(t *testing.T) {
	t.Parallel()
	objects := objectstest.Fault(t, memobjects.New(), objectstest.FinalDeletes())
	r := newRig(t, func(o *coordinator.Options) { o.Objects = objects })
	stop := make(chan struct{})
	collected := make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				collected <- n
				return
			default:
				report, err := r.Collect(context.Background(), r.ref.Basin, coordinator.CollectOptions{
					Grace:   -time.Hour, // even objects that are still being named
					Streams: func(_ context.Context, visit func(segments.StreamID) error) error { return visit(r.ref.Stream) },
				})
				if err != nil {
					t.Error(err)
				}
				n += report.Deleted
			}
		}
	}()
	all := r.workload(150)
	close(stop)
	// On a busy machine the collector may have had no turn before the end.
	if n := <-collected; n == 0 && r.collect(t).Deleted == 0 {
		t.Fatal("nothing was collected")
	}
	for _, a := range all {
		if a.err != nil && a.body[0] != '1' {
			t.Fatal(a.err)
		}
	}
	r.verify(t, all)
	if report := r.collect(t); report.Quarantined != 0 {
		t.Fatalf("%+v", report)
	}
	r.verify(t, all)
}

// TestCollectGoesBehindWhatIsNamed: objects that streams reach, however many, do not keep a collection from the garbage
// that is listed behind them.
func TestCollectGoesBehindWhatIsNamed(t *testing.T) {
	t.Parallel()
	clk := newClock()
	r := newRig(t, func(o *coordinator.Options) {
		o.Now, o.Objects, o.Room.InlineBatch = clk.now, memobjects.New(memobjects.WithClock(clk.now)), 0
		o.Room.MoveEntries, o.Room.MaxEntries, o.Room.MoveInline = 2000, 4000, 1<<20
	})
	r.fill(t, 1100) // more than a page of the listing
	clk.add(time.Hour)
	id := segments.NewObjectID(segments.Label(clk.now().UnixMilli()))
	w := segments.NewSegmentWriter(r.ref.Basin)
	w.AddBatches(r.ref.Stream, segments.StoredBatch{Records: bodies("garbage").Records})
	if err := r.objects.Put(t.Context(), segments.SegmentKey(r.ref.Basin, id), w.Finish(id)); err != nil {
		t.Fatal(err)
	}
	clk.add(time.Hour)
	before := r.objectCount(t)
	report, err := r.Collect(t.Context(), r.ref.Basin, coordinator.CollectOptions{
		MaxObjects: 1,
		Streams:    func(_ context.Context, visit func(segments.StreamID) error) error { return visit(r.ref.Stream) },
	})
	if err != nil || report.Deleted != 1 || report.Candidates != before || report.Named != before-1 || r.objectCount(t) != before-1 {
		t.Errorf("%d objects: %+v, %v", before, report, err)
	}
	if got := r.readAll(t, 0); len(got) != 1100 {
		t.Errorf("%d records", len(got))
	}
}
