package e2e

import (
	"errors"
	"testing"
	"time"

	tailrace "github.com/tailrace-streams/tailrace/client"
)

// Every write of the Go client gives a revision, in sessions too, that its later reads demand and see; a tracking view does
// so by itself, also where reads come from caches.
func TestX1_ClientReadsItsWrites(t *testing.T) {
	t.Parallel()
	c := goClient(t, start(t, dataFolder(t)).URL, tailrace.Options{})
	ctx := bounded(t, 60*time.Second)
	b := c.Basin("client-revisions").Tracking().WithEventual()
	if made := try(b.Create(ctx, tailrace.BasinSpec{}))(t); made.Revision == "" {
		t.Error("the creation of a basin has no revision")
	}
	s := b.Stream("log")
	if made := try(s.Create(ctx, nil))(t); made.Revision == "" {
		t.Error("the creation of a stream has no revision")
	}
	var names []string
	for info, err := range b.Streams(ctx, tailrace.ListOptions{}) {
		names = append(names, try(info, err)(t).Name)
	}
	if len(names) != 1 {
		t.Errorf("X6: listed %q", names)
	}
	plain, last := c.Basin(b.Name()).Stream("log").WithEventual(), tailrace.Revision("")
	p := try(s.Produce(ctx, tailrace.ProducerOptions{}))(t)
	for i := range uint64(20) {
		ack := try(s.Append(ctx, tailrace.Text("by a call")))(t)
		try(try(p.Submit(ctx, tailrace.Text("by a session")))(t).Wait(ctx))(t)
		if tail := try(s.CheckTail(ctx))(t); tail.SeqNum != 2*i+2 || ack.Revision == "" || tail.Revision == "" {
			t.Fatalf("round %d: the tail is %+v after %+v", i, tail, ack)
		}
		if got := try(plain.WithMinRevision(ack.Revision).CheckTail(ctx))(t); got.SeqNum < ack.End.SeqNum {
			t.Fatalf("X2: the tail is %+v after %+v", got, ack)
		}
		if got := collect(t, s.Read(ctx, tailrace.ReadOptions{Start: tailrace.FromSeqNum(2 * i)})); len(got) != 2 {
			t.Fatalf("X6: round %d: read %d records", i, len(got))
		}
		last = ack.Revision
	}
	if err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if gone := try(s.Delete(ctx))(t); gone == "" {
		t.Error("X9: a deletion has no revision")
	}
	eventually(t, "the name is free", func() bool { _, err := s.Create(ctx, nil); return err == nil })
	begun := time.Now()
	_, err := plain.WithMinRevision(last).CheckTail(ctx)
	if lost := new(tailrace.RevisionError); !errors.As(err, &lost) || time.Since(begun) > 4*time.Second {
		t.Errorf("X9: a revision of the stream's earlier life: %v after %s", err, time.Since(begun))
	}
	if tail := try(s.CheckTail(ctx))(t); tail.SeqNum != 0 {
		t.Errorf("the tail of the new stream is %+v", tail)
	}
}
