package coordinator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/memstore"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/memobjects"
)

// rig is a coordinator over memory stores, and a stream of it.
type rig struct {
	*coordinator.Coordinator
	heads   coordinator.Heads
	objects segments.Objects
	ref     coordinator.StreamRef
}

// smallRoom makes moves, segments and page folds happen after a few appends.
var smallRoom = coordinator.Room{MoveEntries: 8, MaxEntries: 24, InlineBatch: 256, MoveInline: 1 << 10, MaxInline: 4 << 10}

func newRig(t testing.TB, change func(*coordinator.Options)) *rig {
	t.Helper()
	r := &rig{heads: memstore.New(), objects: memobjects.New()}
	o := coordinator.Options{Heads: r.heads, Objects: r.objects, Room: smallRoom, Exclusive: true, Log: zerolog.Nop()}
	if change != nil {
		change(&o)
	}
	var err error
	if r.Coordinator, err = coordinator.New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	r.heads, r.objects = o.Heads, o.Objects
	r.ref = r.create(t, coordinator.DefaultStreamConfig())
	return r
}

func (r *rig) create(t testing.TB, cfg coordinator.StreamConfig) coordinator.StreamRef {
	t.Helper()
	ref := coordinator.StreamRef{Basin: segments.NewBasinID(), Stream: segments.NewStreamID()}
	err := r.heads.Create(context.Background(), coordinator.Head{
		V: 1, Basin: ref.Basin, Stream: ref.Stream, State: coordinator.Active, Config: cfg, ConfigV: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func bodies(texts ...string) coordinator.Batch {
	var b coordinator.Batch
	for _, s := range texts {
		b.Records = append(b.Records, segments.Record{Body: []byte(s)})
	}
	return b
}

func ptr[T any](v T) *T { return &v }

// session opens a session that is closed with the test.
func (r *rig) session(t testing.TB, o coordinator.SessionOptions) *coordinator.Session {
	t.Helper()
	s, err := r.OpenSession(t.Context(), r.ref, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// readAll reads the stream from a sequence number to its tail, in one go, and checks that it is dense.
func (r *rig) readAll(t testing.TB, from uint64) []segments.Record {
	t.Helper()
	wait := time.Duration(0)
	rd, err := r.OpenReader(t.Context(), r.ref, coordinator.ReadOptions{SeqNum: &from, Wait: &wait})
	if err != nil {
		t.Fatalf("open reader: %v", err)
	}
	defer rd.Close()
	var all []segments.Record
	var last uint64
	for {
		e, err := rd.Next(t.Context())
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		if e.Start != from+uint64(len(all)) {
			t.Fatalf("batch starts at %d, want %d", e.Start, from+uint64(len(all)))
		}
		for i := range e.Records {
			if e.Records[i].Timestamp < last {
				t.Fatalf("timestamp falls from %d to %d", last, e.Records[i].Timestamp)
			}
			last = e.Records[i].Timestamp
		}
		all = append(all, e.Records...)
	}
}

func TestAppendAndReadBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var want [][]byte
	for i := range 500 {
		size := []int{0, 1, 40, 300, 5000}[i%5]
		body := bytes.Repeat([]byte{byte(i)}, size)
		b := coordinator.Batch{Records: []segments.Record{{Body: body}, {Body: []byte(fmt.Sprint(i))}}}
		ack, err := r.Append(t.Context(), r.ref, b)
		if err != nil {
			t.Fatal(err)
		}
		if ack.Start.SeqNum != uint64(len(want)) || ack.End.SeqNum != uint64(len(want))+2 || ack.Tail.SeqNum != ack.End.SeqNum {
			t.Fatalf("ack %+v behind %d records", ack, len(want))
		}
		want = append(want, body, []byte(fmt.Sprint(i)))
	}
	for _, from := range []uint64{0, 1, 499, 998, 999} {
		got := r.readAll(t, from)
		if len(got) != len(want)-int(from) {
			t.Fatalf("from %d: %d records, want %d", from, len(got), len(want)-int(from))
		}
		for i := range got {
			if !bytes.Equal(got[i].Body, want[int(from)+i]) {
				t.Fatalf("record %d differs", int(from)+i)
			}
		}
	}
}

func TestManyWriters(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	const writers, each = 32, 100
	starts := make(chan [2]uint64, writers*each)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				ack, err := r.Append(t.Context(), r.ref, bodies(fmt.Sprintf("%d/%d", w, i), string(make([]byte, (w*i)%700))))
				if err != nil {
					t.Error(err)
					return
				}
				starts <- [2]uint64{ack.Start.SeqNum, uint64(w*each + i)}
			}
		})
	}
	wg.Wait()
	close(starts)
	got := r.readAll(t, 0)
	if len(got) != 2*writers*each {
		t.Fatalf("%d records", len(got))
	}
	for s := range starts {
		if want := fmt.Sprintf("%d/%d", s[1]/each, s[1]%each); string(got[s[0]].Body) != want {
			t.Fatalf("record %d is %q, acknowledged as %q", s[0], got[s[0]].Body, want)
		}
	}
}

// TestConditionalRace: of a thousand appends with one match_seq_num one gets in, and the others learn the next number.
func TestConditionalRace(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for range 1000 {
		wg.Go(func() {
			b := bodies("x", "y")
			b.Match = ptr(uint64(0))
			_, err := r.Append(t.Context(), r.ref, b)
			var miss *coordinator.MatchMismatch
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
			case !errors.As(err, &miss) || miss.Next != 2:
				t.Errorf("err = %v", err)
			}
		})
	}
	wg.Wait()
	if won != 1 {
		t.Fatalf("%d appends got in", won)
	}
}

func TestConditionsAndCommands(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	fence := func(token string) segments.Record {
		return segments.Record{Headers: []segments.Header{{Value: []byte("fence")}}, Body: []byte(token)}
	}
	step := func(b coordinator.Batch, want error) {
		t.Helper()
		_, err := r.Append(t.Context(), r.ref, b)
		var miss *coordinator.MatchMismatch
		if errors.As(err, &miss) {
			if tail, _ := r.CheckTail(t.Context(), r.ref); miss.Tail != tail {
				t.Fatalf("the mismatch says the tail is %v, it is %v", miss.Tail, tail)
			}
			miss.Tail = coordinator.Position{}
		}
		var fenced *coordinator.FencingMismatch
		if errors.As(err, &fenced) {
			if tail, _ := r.CheckTail(t.Context(), r.ref); fenced.Tail != tail {
				t.Fatalf("the mismatch says the tail is %v, it is %v", fenced.Tail, tail)
			}
			fenced.Tail = coordinator.Position{}
		}
		if fmt.Sprintf("%#v", err) != fmt.Sprintf("%#v", want) {
			t.Fatalf("err = %#v, want %#v", err, want)
		}
	}
	with := func(b coordinator.Batch, token *string, match *uint64) coordinator.Batch {
		b.Token, b.Match = token, match
		return b
	}
	step(with(bodies("a"), ptr(""), nil), nil)
	step(with(bodies("b"), ptr("t"), nil), &coordinator.FencingMismatch{Installed: ""})
	step(coordinator.Batch{Records: []segments.Record{fence("t1")}}, nil)
	step(with(bodies("c"), ptr(""), nil), &coordinator.FencingMismatch{Installed: "t1"})
	step(bodies("d"), nil)
	step(with(bodies("e"), ptr("t1"), ptr(uint64(3))), nil)
	step(with(bodies("f"), ptr("t1"), ptr(uint64(3))), &coordinator.MatchMismatch{Next: 4})
	step(with(bodies("f"), ptr("t0"), ptr(uint64(3))), &coordinator.FencingMismatch{Installed: "t1"})
	step(with(coordinator.Batch{Records: []segments.Record{fence("t2"), {Body: []byte("g")}}}, ptr("t1"), nil), nil)
	step(with(bodies("h"), ptr("t2"), ptr(uint64(6))), nil)
	step(coordinator.Batch{Records: []segments.Record{fence("")}}, nil)
	step(with(bodies("i"), ptr(""), nil), nil)
	if got := len(r.readAll(t, 0)); got != 9 {
		t.Fatalf("%d records", got)
	}
}

// TestSessionOrderAndPoison: batches of a session stay in order whatever their placement, and the first failure ends it.
func TestSessionOrderAndPoison(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.session(t, coordinator.SessionOptions{})
	var pending []*coordinator.Pending
	for i := range 300 {
		b := bodies(fmt.Sprint(i))
		if i%7 == 0 {
			b.Records[0].Body = append(b.Records[0].Body, make([]byte, 2000)...)
		}
		b.Match = ptr(uint64(i))
		if i >= 200 {
			b.Match = ptr(uint64(i + 1)) // the first of these fails, and all others with it
		}
		p, err := s.Submit(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		pending = append(pending, p)
	}
	for i, p := range pending {
		ack, err := p.Wait(t.Context())
		var miss *coordinator.MatchMismatch
		switch {
		case i < 200 && (err != nil || ack.Start.SeqNum != uint64(i)):
			t.Fatalf("batch %d: %+v %v", i, ack, err)
		case i == 200 && (!errors.As(err, &miss) || miss.Next != 200):
			t.Fatalf("batch %d: %v", i, err)
		case i > 200 && !errors.Is(err, coordinator.ErrPoisoned):
			t.Fatalf("batch %d: %v", i, err)
		}
	}
	if got := r.readAll(t, 0); len(got) != 200 {
		t.Fatalf("%d records", len(got))
	}
}

// TestFollow: followers get every record once and in order while writers append, one of them without reading for long.
func TestFollow(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	const total = 3000
	var wg sync.WaitGroup
	for f := range 8 {
		rd, err := r.OpenReader(t.Context(), r.ref, coordinator.ReadOptions{SeqNum: ptr(uint64(0)), Count: ptr(uint64(total)), Wait: ptr(time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer rd.Close()
			next := uint64(0)
			for {
				e, err := rd.Next(t.Context())
				if err == io.EOF {
					break
				}
				if err != nil || e.Start != next || e.Tail == nil || e.Tail.SeqNum < next+uint64(len(e.Records)) {
					t.Errorf("follower %d at %d: %+v %v", f, next, e.Start, err)
					return
				}
				for i := range e.Records {
					if string(e.Records[i].Body) != fmt.Sprint(next) {
						t.Errorf("record %d is %q", next, e.Records[i].Body)
					}
					next++
				}
				if f == 0 && next > 10 && next < 100 {
					r.waitTail(t, total) // a slow reader: everything else is appended meanwhile
				}
			}
			if next != total {
				t.Errorf("follower %d got %d", f, next)
			}
		})
	}
	for i := range total {
		if _, err := r.Append(t.Context(), r.ref, bodies(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}

func (r *rig) waitTail(t *testing.T, seq uint64) {
	for {
		tail, err := r.CheckTail(t.Context(), r.ref)
		if err != nil || tail.SeqNum >= seq {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// TestPagesFold: a long stream keeps a small head, and every record is found by number and by time.
func TestPagesFold(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_700_000_000_000)
	r := newRig(t, func(o *coordinator.Options) { o.Now = func() time.Time { return now } })
	const total = 9000
	s := r.session(t, coordinator.SessionOptions{})
	var last *coordinator.Pending
	for i := range total {
		b := bodies(fmt.Sprint(i))
		b.Records[0].Timestamp, b.Records[0].HasTimestamp = uint64(i)*10, true
		p, err := s.Submit(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		if last = p; i%10 == 0 {
			if _, err := p.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			last = nil
		}
	}
	if last != nil {
		if _, err := last.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	h, err := r.Head(t.Context(), r.ref)
	if err != nil {
		t.Fatal(err)
	}
	if h.Tail != total || len(h.Log) > smallRoom.MaxEntries {
		t.Fatalf("tail %d, %d entries", h.Tail, len(h.Log))
	}
	for seq := uint64(0); seq < total; seq += 97 {
		for _, o := range []coordinator.ReadOptions{
			{SeqNum: &seq, Unary: true, Count: ptr(uint64(3))},
			{Timestamp: ptr(max(seq*10, 9) - 9), Unary: true, Count: ptr(uint64(3))},
		} {
			rd, err := r.OpenReader(t.Context(), r.ref, o)
			if err != nil {
				t.Fatal(err)
			}
			e, err := rd.Next(t.Context())
			if err != nil || e.Start != seq || string(e.Records[0].Body) != fmt.Sprint(seq) || e.Records[0].Timestamp != seq*10 {
				t.Fatalf("record %d: start %d, %v", seq, e.Start, err)
			}
		}
	}
	if got := r.readAll(t, 0); len(got) != total {
		t.Fatalf("%d records", len(got))
	}
}

func TestTimestamps(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1000)
	for name, c := range map[string]struct {
		cfg  coordinator.StreamConfig
		want []uint64
	}{
		"prefer":   {coordinator.StreamConfig{Timestamping: coordinator.ClientPrefer}, []uint64{100, 100, 200, 1000, 1000}},
		"uncapped": {coordinator.StreamConfig{Timestamping: coordinator.ClientPrefer, Uncapped: true}, []uint64{100, 100, 200, 5000, 5000}},
		"arrival":  {coordinator.StreamConfig{Timestamping: coordinator.ArrivalTime}, []uint64{1000, 1000, 1000, 1000, 1000}},
	} {
		r := newRig(t, func(o *coordinator.Options) { o.Now = func() time.Time { return now } })
		r.ref = r.create(t, c.cfg)
		for i, ts := range []uint64{100, 50, 200, 5000, 0} {
			b := bodies("x")
			if i < 4 {
				b.Records[0].Timestamp, b.Records[0].HasTimestamp = ts, true
			}
			ack, err := r.Append(t.Context(), r.ref, b)
			if err != nil || ack.Start.Timestamp != c.want[i] || ack.Tail.Timestamp != c.want[i] {
				t.Fatalf("%s: record %d: %+v %v", name, i, ack, err)
			}
		}
		var got []uint64
		for _, rec := range r.readAll(t, 0) {
			got = append(got, rec.Timestamp)
		}
		if !slices.Equal(got, c.want) {
			t.Fatalf("%s: %v", name, got)
		}
	}
}
