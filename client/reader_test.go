package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/client"
	"github.com/tailrace-streams/tailrace/wire"
)

func recordsFrom(from, to uint64) (all []wire.Record) {
	for n := from; n < to; n++ {
		all = append(all, wire.Record{SeqNum: n, Body: []byte(fmt.Sprint(n))})
	}
	return all
}

// sends is a session that sends what a test says and then breaks off.
func sends(play func(out *wire.FrameWriter)) http.HandlerFunc {
	return sessionOf(func(_ *wire.FrameReader, out *wire.FrameWriter) {
		play(out)
		panic(http.ErrAbortHandler)
	})
}

// ends is one that ends well.
func ends(play func(out *wire.FrameWriter)) http.HandlerFunc {
	return sessionOf(func(_ *wire.FrameReader, out *wire.FrameWriter) { play(out) })
}

func queries(s *scripted) (all []url.Values) {
	for _, r := range s.requests() {
		all = append(all, r.URL.Query())
	}
	return all
}

func numbers(t *testing.T, records func(func(client.Record, error) bool)) (all []uint64, err error) {
	t.Helper()
	for r, err := range records {
		if err != nil {
			return all, err
		}
		all = append(all, r.SeqNum)
	}
	return all, nil
}

// A read that breaks off goes on behind the last record with what is left of its limits, command records included.
func TestReaderResumes(t *testing.T) {
	t.Parallel()
	tail := client.Position{SeqNum: 100}
	s := serve(t,
		sends(func(out *wire.FrameWriter) { _ = out.Batch(recordsFrom(3, 6), &tail) }),
		refuse(unavailable),
		sends(func(out *wire.FrameWriter) {
			_ = out.Batch([]wire.Record{{SeqNum: 6, Headers: []wire.Header{{Value: []byte("fence")}}}}, &tail)
		}),
		// The middle of a frame is no end either (BL-051).
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte{0, 0, 9, 0, 1}) },
		ends(func(out *wire.FrameWriter) { _ = out.Batch(recordsFrom(7, 13), &tail) }),
	)
	o := client.ReadOptions{Start: client.FromSeqNum(3), Count: 10, Bytes: 1000, SkipCommands: true}
	got, err := numbers(t, s.stream(client.Options{}).Read(bounded(t), o))
	if want := []uint64{3, 4, 5, 7, 8, 9, 10, 11, 12}; err != nil || !slices.Equal(got, want) {
		t.Errorf("read %v, %v", got, err)
	}
	var asked []string
	for _, q := range queries(s) {
		asked = append(asked, q.Get("seq_num")+"/"+q.Get("count")+"/"+q.Get("bytes")+"/"+q.Get("wait"))
	}
	want := []string{"3/10/1000/0", "6/7/973/0", "6/7/973/0", "7/6/958/0", "7/6/958/0"}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

// A follower from the tail that loses its connection before a record came goes on at the tail it had seen, so that what was
// appended meanwhile is not missed.
func TestFollowerFromTheTailMissesNothing(t *testing.T) {
	t.Parallel()
	s := serve(t,
		sends(func(*wire.FrameWriter) {}),
		sends(func(out *wire.FrameWriter) { _ = out.Batch(nil, &client.Position{SeqNum: 40}) }),
		ends(func(out *wire.FrameWriter) { _ = out.Batch(recordsFrom(40, 42), &client.Position{SeqNum: 42}) }),
	)
	got, err := numbers(t, s.stream(client.Options{}).Follow(bounded(t), client.ReadOptions{Start: client.FromTail(0), Count: 2}))
	if err != nil || !slices.Equal(got, []uint64{40, 41}) {
		t.Errorf("followed %v, %v", got, err)
	}
	q := queries(s)
	if len(q) != 3 || q[1].Get("tail_offset") != "0" || q[1].Has("seq_num") || q[2].Get("seq_num") != "40" || q[2].Get("wait") == "" {
		t.Errorf("asked %v", q)
	}
}

// A server that says nothing, not even a heartbeat, is given up.
func TestSilentReadIsGivenUp(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}, ends(func(out *wire.FrameWriter) { _ = out.Batch(recordsFrom(0, 1), nil) }))
	got, err := numbers(t, s.stream(client.Options{SilenceTimeout: 100 * time.Millisecond}).Follow(bounded(t), client.ReadOptions{Count: 1}))
	if err != nil || len(got) != 1 || len(s.requests()) != 2 {
		t.Errorf("followed %v, %v in %d requests", got, err, len(s.requests()))
	}
}

// A record that comes again, as from a server that forgot where it was, is never given twice.
func TestBackwardRecordsAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t,
		ends(func(out *wire.FrameWriter) {
			_ = out.Batch(recordsFrom(0, 3), nil)
			_ = out.Batch(recordsFrom(1, 5), nil)
		}),
		ends(func(out *wire.FrameWriter) { _ = out.Batch(recordsFrom(3, 5), nil) }),
	)
	got, err := numbers(t, s.stream(client.Options{}).Read(bounded(t), client.ReadOptions{}))
	if err != nil || !slices.Equal(got, []uint64{0, 1, 2, 3, 4}) {
		t.Errorf("read %v, %v", got, err)
	}
}

// What will not pass ends a follower at once (BL-059), and what may pass does not, for as long as the context lasts.
func TestFollowerGivesUpOnlyWhatWillNotPass(t *testing.T) {
	t.Parallel()
	for _, code := range []wire.Code{wire.CodeAuthn, wire.CodeStreamNotFound, wire.CodeStreamDeletionPending, wire.CodeBadHeader} {
		s := serve(t, refuse(wire.Errorf(code, "no")))
		_, err := numbers(t, s.stream(client.Options{}).Follow(bounded(t), client.ReadOptions{}))
		if e := new(client.Error); !errors.As(err, &e) || e.Code != code || len(s.requests()) != 1 || client.Indefinite(err) {
			t.Errorf("%s: %v after %d requests", code, err, len(s.requests()))
		}
	}
	ctx, cancel := context.WithCancel(bounded(t))
	var s *scripted
	s = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if len(s.requests()) == 20 {
			cancel()
		}
		refuse(unavailable)(w, r)
	})
	_, err := numbers(t, s.stream(client.Options{}).Follow(ctx, client.ReadOptions{}))
	if !errors.Is(err, context.Canceled) || len(s.requests()) != 20 || client.Indefinite(err) {
		t.Errorf("followed with %v, %d requests", err, len(s.requests()))
	}
	if _, err = numbers(t, s.stream(client.Options{}).Read(bounded(t), client.ReadOptions{})); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("read with %v", err)
	}
}

// A long poll that is cut asks for what is left of its wait (BL-045).
func TestBL045_LongPollUsesWhatIsLeft(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(1100 * time.Millisecond) // the server waits for records, as it was asked to
		hangUp(w, r)
	}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(wire.EncodeReadBatchProto(nil, nil, &client.Position{SeqNum: 5}))
	})
	b, err := s.stream(client.Options{AttemptTimeout: 100 * time.Millisecond}).
		ReadBatch(bounded(t), client.ReadOptions{Start: client.FromTail(0), Wait: 3 * time.Second})
	if err != nil || !b.CaughtUp || b.Tail == nil || b.Tail.SeqNum != 5 {
		t.Errorf("read %+v, %v", b, err)
	}
	if q := queries(s); len(q) != 2 || q[0].Get("wait") != "3" || q[1].Get("wait") != "2" {
		t.Errorf("asked %v", q)
	}
}

// A reader that was stopped leaves nothing open.
func TestStoppedReaderHangsUp(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		out := wire.NewFrameWriter(flushing{w, http.NewResponseController(w)}, wire.CompressionNone)
		_ = out.Batch(recordsFrom(0, 10), nil)
		<-r.Context().Done()
		close(gone)
	})
	for range s.stream(client.Options{}).Follow(bounded(t), client.ReadOptions{}) {
		break
	}
	select {
	case <-gone:
	case <-bounded(t).Done():
		t.Error("the session is still open")
	}
}

// What a view says about revisions is on every read, and a tracking view learns by itself what to say.
func TestX1_ClientDemandsRevisions(t *testing.T) {
	t.Parallel()
	const version = "scripted/s@0190a1b2-0000-7000-8000-000000000001."
	answers := func(v string, body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			arrived(r)
			w.Header().Set(wire.HeaderRevision, version+v)
			_, _ = w.Write(body)
		}
	}
	ack, tail := wire.EncodeAckProto(nil, ackOf(0, 1)), wire.AppendTailJSON(nil, client.Position{})
	behind := refuse(&wire.RevisionNotReached{Current: "scripted/s@another-life.1"})
	s := serve(t, answers("7", ack), answers("6", ack), answers("9", tail), behind, answers("1", tail), answers("9", tail))
	stream := s.stream(client.Options{}).Tracking().WithEventual()
	ctx := bounded(t)
	for _, step := range []struct {
		call func() error
		min  string
	}{
		{func() error { _, err := stream.Append(ctx, text("x")); return err }, ""},
		{func() error { _, err := stream.Append(ctx, text("x")); return err }, ""},
		{func() error { _, err := stream.CheckTail(ctx); return err }, version + "7"},
		{func() error {
			_, err := stream.CheckTail(ctx)
			if lost := new(client.RevisionError); !errors.As(err, &lost) || !errors.Is(err, client.ErrRevision) || client.Indefinite(err) {
				t.Errorf("a revision of an earlier life: %v", err)
			}
			return nil
		}, version + "9"},
		{func() error { _, err := stream.CheckTail(ctx); return err }, ""},
		{func() error {
			t, err := stream.WithMinRevision("demanded").WithRevisionTimeout(0).CheckTail(ctx)
			if t.Revision != version+"9" {
				err = fmt.Errorf("the revision is %q", t.Revision)
			}
			return err
		}, "demanded"},
	} {
		if err := step.call(); err != nil {
			t.Fatal(err)
		}
		seen := s.requests()
		h := seen[len(seen)-1].Header
		if got := h.Get(wire.HeaderMinRevision); got != step.min {
			t.Errorf("request %d demanded %q, want %q", len(seen), got, step.min)
		}
		if reads := seen[len(seen)-1].Method == http.MethodGet; reads != (h.Get(wire.HeaderConsistency) == wire.ConsistencyEventual) {
			t.Errorf("request %d: consistency %q", len(seen), h.Get(wire.HeaderConsistency))
		}
		if strings.HasPrefix(step.min, "demanded") != (h.Get(wire.HeaderRevisionTimeoutMs) == "0") {
			t.Errorf("request %d: time-out %q", len(seen), h.Get(wire.HeaderRevisionTimeoutMs))
		}
	}
}

// Reads without a revision are as every S2 client's: no header more (X4).
func TestX4_PlainReadsSayNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(wire.AppendTailJSON(nil, client.Position{}))
	})
	if _, err := s.stream(client.Options{}).CheckTail(bounded(t)); err != nil {
		t.Fatal(err)
	}
	for name := range s.requests()[0].Header {
		if strings.HasPrefix(name, "Tailrace-") {
			t.Errorf("it says %s", name)
		}
	}
}
