package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/wire"
)

// resumable is a writer that pipelines numbered batches through append sessions, and goes on after the last acknowledged
// one when a session breaks off, as the SDKs do.
type resumable struct {
	t       *testing.T
	match   bool // guards every batch by match_seq_num
	batches int

	acked atomic.Int64 // batches
	sent  []int        // how often each was sent
	// breaks and resumed count sessions that ended early, and refusals that told how far an earlier attempt had come.
	breaks, resumed int
}

// recordsOf is the number of records of a batch, startOf the number of its first.
func recordsOf(batch int) int { return 1 + batch%3 }

func startOf(batch int) (n uint64) {
	for i := range batch {
		n += uint64(recordsOf(i))
	}
	return n
}

func (w *resumable) input(batch int, start uint64) wire.AppendInput {
	var in wire.AppendInput
	for i := range recordsOf(batch) {
		body := fmt.Appendf(nil, "%d %d", batch, i)
		if batch%7 == 0 {
			body = append(body, make([]byte, 6000)...) // goes into a segment
		}
		in.Records = append(in.Records, wire.AppendRecord{Body: body})
	}
	if w.match {
		in.MatchSeqNum = &start
	}
	return in
}

// run appends all batches, in as many sessions as it takes.
func (w *resumable) run(ctx context.Context, open func() (*session, error)) error {
	w.sent = make([]int, w.batches)
	for int(w.acked.Load()) < w.batches {
		s, err := openEventually(ctx, open)
		if err != nil {
			return err
		}
		err = w.through(s)
		s.close()
		var mismatch *wire.SeqNumMismatch
		switch {
		case errors.As(err, &mismatch):
			if err := w.skipTo(mismatch.Next); err != nil {
				return err
			}
			w.resumed++
		case err != nil:
			w.breaks++
		}
	}
	return nil
}

// through pipelines what is not acknowledged into a session until that ends.
func (w *resumable) through(s *session) error {
	first := int(w.acked.Load())
	sending := make(chan struct{})
	go func() {
		defer close(sending)
		start := startOf(first)
		for batch := first; batch < w.batches; batch++ {
			frame, err := encodeInput(w.input(batch, start))
			if err != nil || s.send(frame) != nil {
				return
			}
			w.sent[batch]++
			start += uint64(recordsOf(batch))
		}
		_ = s.finish()
	}()
	defer func() {
		s.close()
		<-sending
	}()
	for batch := first; batch < w.batches; batch++ {
		a, err := s.ack()
		if err != nil {
			return err
		}
		if a.End.SeqNum-a.Start.SeqNum != uint64(recordsOf(batch)) || w.match && a.Start.SeqNum != startOf(batch) {
			w.t.Errorf("batch %d is acknowledged by %+v", batch, a)
		}
		w.acked.Add(1)
	}
	return nil
}

// skipTo takes over what a refusal tells: everything below next is there, put by an earlier attempt.
func (w *resumable) skipTo(next uint64) error {
	for batch := int(w.acked.Load()); batch <= w.batches; batch++ {
		if startOf(batch) == next {
			w.acked.Store(int64(batch))
			return nil
		}
	}
	return fmt.Errorf("the stream ends at %d, which is the start of no batch from %d on", next, w.acked.Load())
}

// `kill -9` in the middle of pipelined sessions, again and again. With match_seq_num every batch is there once; without,
// only what was sent again may be there again, and nothing acknowledged is missing.
func TestKilledSessionsResume(t *testing.T) {
	t.Parallel()
	for name, match := range map[string]bool{"with match_seq_num": true, "without": false} {
		for transport, open := range map[string]func(context.Context, string, string, string, string) (*session, error){
			"http1": openSession, "http2": openSessionHTTP2,
		} {
			t.Run(name+" "+transport, func(t *testing.T) {
				t.Parallel()
				data := dataFolder(t)
				server := start(t, data)
				c := newClient(server.URL, "resume-basin")
				c.create(t, "log")
				var url atomic.Value
				url.Store(server.URL)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				w := &resumable{t: t, match: match, batches: 3000}
				done := make(chan error, 1)
				go func() {
					done <- w.run(ctx, func() (*session, error) { return open(ctx, url.Load().(string), c.basin, "log", "") })
				}()
				kills := 0
				for ; kills < 5; kills++ {
					at := w.acked.Load() + int64(w.batches/10)
					eventually(t, "acknowledgements", func() bool { return w.acked.Load() >= min(at, int64(w.batches)) })
					server.Kill()
					server = start(t, data)
					url.Store(server.URL)
				}
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				c = c.at(server.URL)
				w.check(c.readAll(t, "log", 0, c.tail(t, "log")))
				t.Logf("%d batches through %d kills: %d sessions broke off, %d refusals told where to go on", w.batches, kills, w.breaks, w.resumed)
			})
		}
	}
}

// check reads the stream as batches and counts each.
func (w *resumable) check(stored []record) {
	w.t.Helper()
	times := make([]int, w.batches)
	last := -1
	for at := 0; at < len(stored); {
		var batch, i int
		if _, err := fmt.Sscanf(stored[at].Body, "%d %d", &batch, &i); err != nil || i != 0 || batch >= w.batches {
			w.t.Fatalf("record %d begins no batch: %.20q", at, stored[at].Body)
		}
		for i := range recordsOf(batch) {
			want := fmt.Sprintf("%d %d", batch, i)
			if at+i >= len(stored) || len(stored[at+i].Body) < len(want) || stored[at+i].Body[:len(want)] != want {
				w.t.Fatalf("batch %d is not whole at %d", batch, at)
			}
		}
		if batch > last+1 {
			w.t.Fatalf("batch %d comes behind %d", batch, last)
		}
		last = batch
		times[batch]++
		at += recordsOf(batch)
	}
	for batch, n := range times {
		if n == 0 || n > w.sent[batch] || w.match && n > 1 {
			w.t.Fatalf("batch %d is stored %d times; it was sent %d times", batch, n, w.sent[batch])
		}
	}
}
