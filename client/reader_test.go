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
		call   func() error
		min    string
		strong bool
	}{
		{func() error { _, err := stream.Append(ctx, text("x")); return err }, "", false},
		{func() error { _, err := stream.Append(ctx, text("x")); return err }, "", false},
		{func() error { _, err := stream.CheckTail(ctx); return err }, version + "7", false},
		{func() error {
			_, err := stream.CheckTail(ctx)
			if lost := new(client.RevisionError); !errors.As(err, &lost) || !errors.Is(err, client.ErrRevision) || client.Indefinite(err) {
				t.Errorf("a revision of an earlier life: %v", err)
			}
			return nil
		}, version + "9", false},
		{func() error { _, err := stream.CheckTail(ctx); return err }, "", true},
		{func() error {
			t, err := stream.WithMinRevision("demanded").WithRevisionTimeout(0).CheckTail(ctx)
			if t.Revision != version+"9" {
				err = fmt.Errorf("the revision is %q", t.Revision)
			}
			return err
		}, "demanded", false},
	} {
		if err := step.call(); err != nil {
			t.Fatal(err)
		}
		seen := s.requests()
		h := seen[len(seen)-1].Header
		if got := h.Get(wire.HeaderMinRevision); got != step.min {
			t.Errorf("request %d demanded %q, want %q", len(seen), got, step.min)
		}
		want := ""
		switch {
		case step.strong:
			want = wire.ConsistencyStrong
		case seen[len(seen)-1].Method == http.MethodGet:
			want = wire.ConsistencyEventual
		}
		if got := h.Get(wire.HeaderConsistency); got != want {
			t.Errorf("request %d: consistency %q, want %q", len(seen), got, want)
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

// A start that the server moved to the tail is where the read goes on, also on a further connection; and behind what was
// read, the tail of a stream that was made anew is an error and not a place to go on at.
func TestClampedReads(t *testing.T) {
	t.Parallel()
	tail := client.Position{SeqNum: 10}
	s := serve(t,
		sends(func(out *wire.FrameWriter) { _ = out.Batch(nil, &tail) }),
		sends(func(out *wire.FrameWriter) { _ = out.Batch(recordsFrom(10, 12), nil) }),
		refuse(&wire.RangeNotSatisfiable{Tail: client.Position{SeqNum: 3}}),
	)
	o := client.ReadOptions{Start: client.FromSeqNum(99), Clamp: true}
	got, err := numbers(t, s.stream(client.Options{}).Follow(bounded(t), o))
	if !errors.Is(err, client.ErrOutOfRange) || !slices.Equal(got, []uint64{10, 11}) {
		t.Errorf("followed %v, %v", got, err)
	}
	var asked []string
	for _, q := range queries(s) {
		asked = append(asked, q.Get("seq_num")+q.Get("clamp"))
	}
	if want := []string{"99true", "10", "12"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	// A server refuses what may not follow at the tail, clamped or not (S2 API, 15.3): to read up to it is to read nothing.
	s = serve(t, refuse(&wire.RangeNotSatisfiable{Tail: tail}))
	o.Count = 2
	if got, err := numbers(t, s.stream(client.Options{}).Read(bounded(t), o)); err != nil || len(got) != 0 {
		t.Errorf("read %v, %v", got, err)
	}
}

// A wait that passes while there is no connection does not end a read: what came meanwhile is still read.
func TestWaitWithoutAConnectionIsNoEnd(t *testing.T) {
	t.Parallel()
	s := serve(t,
		sends(func(out *wire.FrameWriter) { _ = out.Batch(recordsFrom(0, 1), &client.Position{SeqNum: 1}) }),
		func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(60 * time.Millisecond) // longer than the wait: the server is away
			refuse(unavailable)(w, r)
		},
		ends(func(out *wire.FrameWriter) { _ = out.Batch(recordsFrom(1, 3), &client.Position{SeqNum: 3}) }),
	)
	got, err := numbers(t, s.stream(client.Options{}).Follow(bounded(t), client.ReadOptions{Wait: 30 * time.Millisecond}))
	if err != nil || !slices.Equal(got, []uint64{0, 1, 2}) {
		t.Errorf("followed %v, %v", got, err)
	}
}

// A session that ends well, and too early, as one does that something in between has ended, is no end of the read.
func TestEarlyEndIsNoEnd(t *testing.T) {
	t.Parallel()
	tail := client.Position{SeqNum: 5}
	steps := []http.HandlerFunc{
		ends(func(out *wire.FrameWriter) { _ = out.Batch(recordsFrom(0, 2), &tail) }),
		ends(func(out *wire.FrameWriter) { _ = out.Batch(recordsFrom(2, 5), &tail) }),
	}
	want := []uint64{0, 1, 2, 3, 4}
	if got, err := numbers(t, serve(t, steps...).stream(client.Options{}).Read(bounded(t), client.ReadOptions{})); err != nil || !slices.Equal(got, want) {
		t.Errorf("read %v, %v", got, err)
	}
	if got, err := numbers(t, serve(t, steps...).stream(client.Options{}).Follow(bounded(t), client.ReadOptions{Count: 5})); err != nil || !slices.Equal(got, want) {
		t.Errorf("followed %v, %v", got, err)
	}
}

// A long poll whose wait is used up by a failed attempt asks for a second more, not for a refusal at the tail (BL-045).
func TestBL045_LongPollThatIsOver(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(30 * time.Millisecond)
		hangUp(w, r)
	}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("wait") == "0" {
			refuse(&wire.RangeNotSatisfiable{})(w, r)
		}
	})
	if b, err := s.stream(client.Options{}).ReadBatch(bounded(t), client.ReadOptions{Wait: 20 * time.Millisecond}); err != nil || len(b.Records) != 0 {
		t.Errorf("read %+v, %v", b, err)
	}
}

// Where to go on is told also where no record is given, so that commands that are left out are not read for ever (BL-040).
func TestBL040_WhereToGoOn(t *testing.T) {
	t.Parallel()
	command := wire.Record{SeqNum: 7, Headers: []wire.Header{{Value: []byte("fence")}}}
	answers := func(records []wire.Record, tail *client.Position) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(wire.EncodeReadBatchProto(nil, records, tail))
		}
	}
	for name, test := range map[string]struct {
		step     http.HandlerFunc
		o        client.ReadOptions
		next     client.Start
		caughtUp bool
	}{
		"a command":   {answers([]wire.Record{command}, nil), client.ReadOptions{SkipCommands: true}, client.FromSeqNum(8), false},
		"at the tail": {answers(nil, &client.Position{SeqNum: 9}), client.ReadOptions{Start: client.FromTail(0)}, client.FromSeqNum(9), true},
		"no room":     {answers(nil, &client.Position{SeqNum: 9}), client.ReadOptions{Start: client.FromSeqNum(4), Bytes: 9}, client.FromSeqNum(4), false},
		"nobody says": {answers(nil, nil), client.ReadOptions{Start: client.FromTimestamp(4)}, client.FromTimestamp(4), false},
	} {
		b, err := serve(t, test.step).stream(client.Options{}).ReadBatch(bounded(t), test.o)
		if err != nil || b.Next != test.next || b.CaughtUp != test.caughtUp || len(b.Records) != 0 {
			t.Errorf("%s: %+v, %v", name, b, err)
		}
	}
	s := serve(t, sends(func(out *wire.FrameWriter) { _ = out.Batch([]wire.Record{command}, nil) }),
		ends(func(out *wire.FrameWriter) { _ = out.Batch(nil, nil); _ = out.Batch(nil, &client.Position{SeqNum: 8}) }))
	for b, err := range s.stream(client.Options{}).FollowBatches(bounded(t), client.ReadOptions{Start: client.FromSeqNum(7), SkipCommands: true, Wait: time.Hour}) {
		if err != nil || b.Next != client.FromSeqNum(8) {
			t.Errorf("a batch of a follower: %+v, %v", b, err)
		}
	}
}

// Answers that come late, of an earlier life of a name or of a listing that began before, make a tracking view read
// strongly once; they never make it demand less than it saw (X1, X6).
func TestX1_LateAnswersDoNotGoBack(t *testing.T) {
	t.Parallel()
	const life, other = "scripted/s@0190a1b2-0000-7000-8000-000000000001.", "scripted/s@0190a1b2-0000-7000-8000-000000000002."
	const names = "scripted/@0190a1b2-0000-7000-8000-000000000003."
	release, asked := make(chan struct{}), make(chan struct{})
	answers := func(revision string, body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			arrived(r)
			w.Header().Set(wire.HeaderRevision, revision)
			_, _ = w.Write(body)
		}
	}
	held := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			asked <- struct{}{}
			<-release
			next(w, r)
		}
	}
	tail, empty := wire.AppendTailJSON(nil, client.Position{}), []byte(`{"streams":[],"has_more":false}`)
	made := []byte(`{"name":"s","created_at":"2026-01-01T00:00:00Z","deleted_at":null,"cipher":null}`)
	for name, test := range map[string]struct {
		late, write, now, after http.HandlerFunc
		read                    func(*client.Basin) error
		want                    string
	}{
		"of a stream": {
			answers(life+"90", tail), answers(other+"5", made), answers(other+"6", tail), answers(other+"6", tail),
			func(b *client.Basin) error { _, err := b.Stream("s").CheckTail(t.Context()); return err }, other + "6",
		},
		"of a listing": {
			answers(names+"7", empty), answers(other+"5", made), answers(names+"8", empty), answers(names+"8", empty),
			func(b *client.Basin) error { return firstOf(b.Streams(t.Context(), client.ListOptions{})) }, names + "8",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, held(test.late), test.write, test.now, test.after)
			b := s.stream(client.Options{}).Basin().Tracking().WithEventual()
			late := make(chan error)
			go func() { late <- test.read(b) }()
			<-asked
			if _, err := b.Stream("s").Create(bounded(t), nil); err != nil {
				t.Fatal(err)
			}
			release <- struct{}{}
			for _, err := range []error{<-late, test.read(b), test.read(b)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			said := s.requests()
			for i, want := range []string{wire.ConsistencyStrong, wire.ConsistencyEventual} {
				if got := said[2+i].Header.Get(wire.HeaderConsistency); got != want {
					t.Errorf("read %d is %q, want %q", i, got, want)
				}
			}
			if got := said[3].Header.Get(wire.HeaderMinRevision); got != test.want || said[2].Header.Get(wire.HeaderMinRevision) != "" {
				t.Errorf("demanded %q, want %q", got, test.want)
			}
		})
	}
}

func firstOf[T any](all func(func(T, error) bool)) error {
	for _, err := range all {
		return err
	}
	return nil
}
