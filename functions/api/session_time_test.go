package api_test

import (
	"io"
	"net/http"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-streams/tailrace/wire"
)

// The tests of this file are in a bubble: the clock moves when everybody waits, so hours pass at once and deadlines are
// exact.

func inBubble(t *testing.T, test func(t *testing.T, open opener)) {
	t.Helper()
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, tr.open) })
		})
	}
}

// An append session without traffic stays open, and works, whatever the deadlines of frames are.
func TestAppendSessionIdlesForHours(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, open opener) {
		r := newBubbleRig(t)
		r.create("s")
		d := open(r, "POST", recordsOfS).mustOpen()
		for i := range uint64(4) {
			time.Sleep(3 * time.Hour)
			d.append(inputOf("x"))
			d.wantAck(i, i+1)
		}
		time.Sleep(3 * time.Hour)
		d.halfClose()
		d.wantEnd()
	})
}

// A frame that has begun must come to its end; what came before it is acknowledged.
func TestAppendSessionGivesUpAStalledFrame(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, open opener) {
		r := newBubbleRig(t)
		r.create("s")
		d := open(r, "POST", recordsOfS).mustOpen()
		time.Sleep(time.Hour)
		whole := inputFrame(t, inputOf("hi"))
		// In pieces, with pauses: slow, but in time.
		for i := range whole {
			if err := d.send(whole[i : i+1]); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
		}
		d.wantAck(0, 1)
		time.Sleep(time.Hour)
		begun := time.Now()
		if err := d.send(whole[:5]); err != nil {
			t.Fatal(err)
		}
		if e := d.wantTerminal(wire.CodeRequestTimeout); e.Effect() != wire.AppliedNo {
			t.Errorf("applied %s", e.Effect())
		}
		if took := time.Since(begun); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

// A client that sends and does not take acknowledgements is given up after the write timeout, and its connection is free.
func TestAppendSessionDropsAClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, open opener) {
		r := newBubbleRig(t)
		r.create("s")
		d := open(r, "POST", recordsOfS).mustOpen()
		begun := time.Now()
		var err error
		for err == nil { // over HTTP/2 the transport's own window takes some first
			err = d.send(inputFrame(t, inputOf("x")))
			if time.Since(begun) > time.Minute {
				t.Fatal("it still sends after a minute")
			}
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("dropped after %s", took)
		}
		synctest.Wait()
		if n := r.gauge("tailrace_http_streaming"); n != 0 {
			t.Errorf("%v sessions are open", n)
		}
	})
}

// A reader that stops reading is given up after the write timeout, and holds up nobody else.
func TestReadSessionDropsAClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, open opener) {
		r := newBubbleRig(t)
		r.create("s")
		for range 20 { // more than a window of HTTP/2
			r.want(r.append("s", `{"records":[{"body":"`+repeat("x", 900_000)+`"}]}`), 200, "")
		}
		open(r, "GET", recordsOfS+"?seq_num=0").mustOpen()
		time.Sleep(29 * time.Second)
		if n := r.gauge("tailrace_http_streaming"); n != 1 {
			t.Errorf("%v sessions are open after 29 s", n)
		}
		r.want(r.append("s", one), 200, "")
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if n := r.gauge("tailrace_http_streaming"); n != 0 {
			t.Errorf("%v sessions are open after a minute", n)
		}
	})
}

// An idle follower gets heartbeats, at most 15 s apart, for as long as it likes, and records between them.
func TestReadSessionFollowsForHours(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, open opener) {
		r := newBubbleRig(t)
		r.create("s")
		d := open(r, "GET", recordsOfS).mustOpen()
		d.wantHeartbeat(0) // at once
		last, gaps := time.Now(), map[time.Duration]bool{}
		for end := last.Add(2 * time.Hour); last.Before(end); {
			d.wantHeartbeat(0)
			gap := time.Since(last)
			if gap < 5*time.Second || gap > 15*time.Second {
				t.Fatalf("a gap of %s", gap)
			}
			last, gaps[gap] = time.Now(), true
		}
		if len(gaps) < 10 {
			t.Errorf("the gaps are not drawn at random: %v", gaps)
		}
		r.want(r.append("s", one), 200, "")
		if got := d.wantRecords(0, 1); string(got[0].Body) != "a" {
			t.Errorf("got %q", got[0].Body)
		}
		d.cut()
	})
}

// `wait` bounds the time between records; heartbeats do not prolong it.
func TestReadSessionEndsAfterWait(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, open opener) {
		r := newBubbleRig(t)
		r.create("s")
		begun := time.Now()
		d := open(r, "GET", recordsOfS+"?seq_num=0&wait=40").mustOpen()
		appended := make(chan struct{})
		go func() {
			defer close(appended)
			time.Sleep(30 * time.Second)
			r.want(r.append("s", one), 200, "")
		}()
		var records int
		for {
			b, err := d.batch()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			records += len(b.Records)
		}
		<-appended
		if took := time.Since(begun); took != 70*time.Second || records != 1 {
			t.Errorf("ended after %s with %d records", took, records)
		}
	})
}

// What was read of a client that stalls for ever before its session is refused is bounded in time as well.
func TestSessionPreflightDoesNotWaitForABody(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, open opener) {
		r := newBubbleRig(t)
		begun := time.Now()
		d := open(r, "POST", recordsOfS)
		body, err := io.ReadAll(d.body)
		if err != nil && !slices.Contains([]error{io.ErrUnexpectedEOF, os.ErrDeadlineExceeded}, err) {
			t.Fatal(err)
		}
		r.want(answer{d.status, d.header, string(body)}, http.StatusNotFound, "stream_not_found")
		if took := time.Since(begun); took > time.Second {
			t.Errorf("took %s", took)
		}
	})
}
