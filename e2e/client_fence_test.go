package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	tailrace "github.com/tailrace-streams/tailrace/client"
)

// exclusive makes a stream on which every append is checked against the installed token.
func exclusive(t *testing.T, c *tailrace.Client, basin string) *tailrace.Stream {
	t.Helper()
	s := goStream(t, c, basin)
	mode := tailrace.FencingExclusive
	try(s.Reconfigure(bounded(t, 30*time.Second), tailrace.StreamReconfiguration{Fencing: tailrace.Some(mode)}))(t)
	return s
}

// Presenting a token never installs it, clearing it lets the one in who presents none, and the installed one can be asked
// for.
func TestN7_ClientPresentsAndFenceInstalls(t *testing.T) {
	t.Parallel()
	c := goClient(t, start(t, dataFolder(t)).URL, tailrace.Options{})
	s, ctx := exclusive(t, c, "client-presents"), bounded(t, 60*time.Second)
	mine := s.Presenting("mine")
	fenced := new(tailrace.FenceError)
	if _, err := mine.Append(ctx, tailrace.Text("x")); !errors.As(err, &fenced) || fenced.Installed != "" || tailrace.Indefinite(err) {
		t.Errorf("an append that presents what is not installed: %v", err)
	}
	if _, err := mine.OpenSession(ctx, tailrace.SessionOptions{}); !errors.Is(err, tailrace.ErrFenced) {
		t.Errorf("a session that presents what is not installed: %v", err)
	}
	if token := try(s.FencingToken(ctx))(t); token != "" {
		t.Errorf("N14: the token is %q", token)
	}
	if f := try(s.Fence(ctx, "mine"))(t); f.Token != "mine" || f.Previous != "" || f.Tail.SeqNum != 0 {
		t.Errorf("fenced: %+v", f)
	}
	try(mine.Append(ctx, tailrace.Text("x")))(t)
	if _, err := s.Append(ctx, tailrace.Text("x")); !errors.As(err, &fenced) || fenced.Installed != "mine" {
		t.Errorf("N8: an append that presents nothing: %v", err)
	}
	if f := try(s.Fence(ctx, "mine"))(t); f.Token != "mine" || f.Previous != "mine" || f.Tail.SeqNum != 1 {
		t.Errorf("N10, N11: fenced with the same: %+v", f)
	}
	if token := try(s.FencingToken(ctx))(t); token != "mine" {
		t.Errorf("N14: the token is %q", token)
	}
	if _, err := mine.AppendMatch(ctx, 7, tailrace.Text("x")); !errors.Is(err, tailrace.ErrSequence) {
		t.Errorf("N16: the right token and the wrong number: %v", err)
	}
	if _, err := s.Presenting("other").AppendMatch(ctx, 1, tailrace.Text("x")); !errors.Is(err, tailrace.ErrFenced) {
		t.Errorf("N16: the wrong token and the right number: %v", err)
	}
	try(s.Fence(ctx, ""))(t)
	try(s.Append(ctx, tailrace.Text("x")))(t)
	if _, err := mine.Append(ctx, tailrace.Text("x")); !errors.Is(err, tailrace.ErrFenced) {
		t.Errorf("N11: an append that presents what was cleared: %v", err)
	}
}

// Taking over is to fence and then to open: the token in force need not be known. The writer that was replaced is told by a
// typed error, its session fails and its close changes nothing.
func TestN12_ClientTakesOver(t *testing.T) {
	t.Parallel()
	c := goClient(t, start(t, dataFolder(t)).URL, tailrace.Options{})
	s, ctx := goStream(t, c, "client-takes-over"), bounded(t, 60*time.Second)
	try(s.Fence(ctx, "first"))(t)
	old := try(s.Presenting("first").Produce(ctx, tailrace.ProducerOptions{}))(t)
	receipt := try(old.Submit(ctx, tailrace.Text("by the first")))(t)
	try(receipt.Wait(ctx))(t)

	f := try(s.Fence(ctx, "second"))(t)
	fresh := try(s.Presenting("second").Produce(ctx, tailrace.ProducerOptions{}))(t)
	// S10: the boundary says what was written before, and where to go on.
	if got := texts(collect(t, s.Read(ctx, tailrace.ReadOptions{Count: f.Tail.SeqNum}))); len(got) != 1 || f.Previous != "first" {
		t.Errorf("S10: the second found %q under %q", got, f.Previous)
	}
	try(try(fresh.Submit(ctx, tailrace.Text("by the second")))(t).Wait(ctx))(t)

	late, err := old.Submit(ctx, tailrace.Text("too late"))
	if err == nil {
		_, err = late.Wait(ctx)
	}
	if fenced := new(tailrace.FenceError); !errors.As(err, &fenced) || fenced.Installed != "second" || tailrace.Indefinite(err) {
		t.Errorf("N13: the first is told: %v", err)
	}
	if err := old.Close(ctx); !errors.Is(err, tailrace.ErrFenced) {
		t.Errorf("N9: the first closes with %v", err)
	}
	if err := fresh.Close(ctx); err != nil {
		t.Error(err)
	}
	if got := texts(collect(t, s.Read(ctx, tailrace.ReadOptions{}))); len(got) != 2 || got[1] != "by the second" {
		t.Errorf("stored: %q", got)
	}
}

// A session opened for it outlives the batches that miss, and those between them land where they should.
func TestN2_ClientSessionOutlivesMisses(t *testing.T) {
	t.Parallel()
	c := goClient(t, start(t, dataFolder(t)).URL, tailrace.Options{})
	s, ctx := goStream(t, c, "client-outlives"), bounded(t, 60*time.Second)
	a := try(s.OpenSession(ctx, tailrace.SessionOptions{PerBatchConflicts: true}))(t)
	var all []*tailrace.Pending
	var misses []bool
	next := uint64(0)
	for i := range 300 {
		match, miss := next, i%3 == 1
		if miss {
			match += 7
		} else {
			next++
		}
		b := tailrace.Batch{Records: []tailrace.AppendRecord{tailrace.Text(fmt.Sprint(i))}, MatchSeqNum: &match}
		all, misses = append(all, try(a.Submit(ctx, b))(t)), append(misses, miss)
	}
	if err := a.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for i, p := range all {
		_, err := p.Wait(ctx)
		if missed := new(tailrace.SequenceError); errors.As(err, &missed) != misses[i] || tailrace.Indefinite(err) || missed.Resent {
			t.Errorf("batch %d: %v", i, err)
		}
	}
	if tail := try(s.CheckTail(ctx))(t); tail.SeqNum != next {
		t.Errorf("the tail is %d, want %d", tail.SeqNum, next)
	}
}
