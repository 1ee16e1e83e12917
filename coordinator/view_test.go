package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/memstore"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/memobjects"
)

// counted is a rig whose calls to heads are counted.
func counted(t testing.TB, change func(*coordinator.Options)) (*rig, *storetest.Faults) {
	t.Helper()
	faults := storetest.NewFaults(nil)
	return newRig(t, func(o *coordinator.Options) {
		o.Heads = faults.Heads(o.Heads)
		if change != nil {
			change(o)
		}
	}), faults
}

// loadsOf are the loads that a call makes.
func loadsOf(f *storetest.Faults, call func()) int {
	before := f.Counts()["Load"]
	call()
	return f.Counts()["Load"] - before
}

func eventual(minV uint64) coordinator.Freshness {
	return coordinator.Freshness{MaxAge: time.Minute, Viewer: "a", MinV: minV}
}

func (r *rig) mustView(t testing.TB, f coordinator.Freshness) coordinator.View {
	t.Helper()
	v, err := r.View(t.Context(), r.ref, f)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A state that is remembered costs no load, one that is demanded and not remembered costs one, and what this process
// commits, moves and loads for others is remembered at once.
func TestViewsCostNoLoads(t *testing.T) {
	t.Parallel()
	r, faults := counted(t, nil)
	if n := loadsOf(faults, func() { r.mustView(t, eventual(0)) }); n != 1 {
		t.Errorf("the first view costs %d loads", n)
	}
	for i := range 20 {
		ack, err := r.Append(t.Context(), r.ref, bodies(fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		if n := loadsOf(faults, func() {
			if v := r.mustView(t, eventual(ack.V)); v.Head.V < ack.V || v.Head.Tail != ack.End.SeqNum {
				t.Errorf("the view is of %d with tail %d, the append made %d with %d", v.Head.V, v.Head.Tail, ack.V, ack.End.SeqNum)
			}
		}); n != 0 {
			t.Errorf("a view of one's own write costs %d loads", n)
		}
	}
	// Another process appends.
	other, err := coordinator.New(coordinator.Options{Heads: r.heads, Objects: r.objects, Room: smallRoom, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	ack, err := other.Append(t.Context(), r.ref, bodies("elsewhere"))
	if err != nil {
		t.Fatal(err)
	}
	for want, minV := range map[int]uint64{0: 0, 1: ack.V} {
		if want == 1 {
			if n := loadsOf(faults, func() { r.mustView(t, eventual(0)) }); n != 0 {
				t.Errorf("an old view costs %d loads", n)
			}
		}
		if n := loadsOf(faults, func() { r.mustView(t, eventual(minV)) }); n > want {
			t.Errorf("a view of %d costs %d loads, want %d", minV, n, want)
		}
	}
	if n := loadsOf(faults, func() { r.mustView(t, eventual(ack.V)) }); n != 0 {
		t.Errorf("again it costs %d loads", n)
	}
	if n := loadsOf(faults, func() { r.mustView(t, coordinator.Freshness{}) }); n != 1 {
		t.Errorf("a strong view costs %d loads", n)
	}
}

// What was loaded for one viewer is not shown to another: a name can have changed hands.
func TestViewsAreTheViewers(t *testing.T) {
	t.Parallel()
	r, faults := counted(t, nil)
	r.mustView(t, eventual(0))
	stranger := eventual(0)
	stranger.Viewer = "b"
	if n := loadsOf(faults, func() { r.mustView(t, stranger) }); n != 1 {
		t.Errorf("another's first view costs %d loads", n)
	}
	if n := loadsOf(faults, func() { r.mustView(t, stranger); r.mustView(t, eventual(0)) }); n != 0 {
		t.Errorf("then it costs %d loads", n)
	}
	_, err := r.heads.Change(t.Context(), r.ref.Stream, &coordinator.Change{ID: coordinator.NewOpID(), State: coordinator.Deleting})
	if err != nil {
		t.Fatal(err)
	}
	stranger.Viewer = "c"
	if _, err := r.View(t.Context(), r.ref, stranger); !errors.Is(err, coordinator.ErrStreamDeleting) {
		t.Errorf("a third one is told %v", err)
	}
	// And what that load found out holds for those who were shown it.
	if _, err := r.View(t.Context(), r.ref, eventual(0)); !errors.Is(err, coordinator.ErrStreamDeleting) {
		t.Errorf("the first one is told %v", err)
	}
}

// Those who wait for a state that does not come are bounded in number, look together, and leave when their client does.
func TestWaitsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, faults := counted(t, nil)
		const waiters = 3000 // of one basin, which may have 1024
		ctx, leave := context.WithCancel(t.Context())
		outcomes := make(chan error, waiters)
		for range waiters {
			go func() {
				_, err := r.View(ctx, r.ref, coordinator.Freshness{MinV: 99, Patience: 10 * time.Second})
				outcomes <- err
			}()
		}
		synctest.Wait()
		refused := len(outcomes)
		for range refused {
			if err := <-outcomes; !errors.Is(err, coordinator.ErrOverloaded) {
				t.Fatal(err)
			}
		}
		if refused != waiters-1024 {
			t.Errorf("%d of %d are refused", refused, waiters)
		}
		if n := loadsOf(faults, func() { time.Sleep(5 * time.Second); synctest.Wait() }); n > 30 {
			t.Errorf("%d loads in 5 s", n)
		}
		leave()
		synctest.Wait()
		if len(outcomes) != waiters-refused {
			t.Errorf("%d of %d left", len(outcomes), waiters-refused)
		}
		if n := loadsOf(faults, func() { time.Sleep(time.Minute); synctest.Wait() }); n != 0 {
			t.Errorf("%d loads when nobody waits", n)
		}
		_, err := r.View(t.Context(), r.ref, coordinator.Freshness{MinV: 99, Patience: time.Second})
		var behind *coordinator.Behind
		if !errors.As(err, &behind) || behind.V != 1 {
			t.Errorf("got %v", err)
		}
	})
}

// A stream that goes away under those who wait is no longer waited for.
func TestWaitEndsWithTheStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := counted(t, nil)
		got := make(chan error, 1)
		go func() {
			_, err := r.View(t.Context(), r.ref, coordinator.Freshness{MinV: 99, Patience: 30 * time.Second})
			got <- err
		}()
		synctest.Wait()
		_, err := r.heads.Change(t.Context(), r.ref.Stream, &coordinator.Change{ID: coordinator.NewOpID(), State: coordinator.Deleting})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := <-got; !errors.Is(err, coordinator.ErrStreamDeleting) || time.Since(begun) > time.Second {
			t.Errorf("got %v after %v", err, time.Since(begun))
		}
	})
}

// A client that demands the newest revision it was told sees its own writes and never goes back, whichever of two
// processes serves it and from whatever it remembers, beside others who write and read there. What it reads is always
// what was written, from the first record on.
func TestRevisionsReadOnesWritesProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		store, objects := memstore.New(), memobjects.New()
		nodes := make([]*coordinator.Coordinator, 2)
		for i := range nodes {
			var err error
			nodes[i], err = coordinator.New(coordinator.Options{
				Heads: store, Objects: objects, Room: smallRoom, Log: zerolog.Nop(), ViewBytes: rapid.SampledFrom([]int64{-1, 4 << 10, 1 << 20}).Draw(t, "memory"),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer nodes[i].Close()
		}
		ref := coordinator.StreamRef{Basin: segments.NewBasinID(), Stream: segments.NewStreamID()}
		err := store.Create(t.Context(), coordinator.Head{
			V: 2, Basin: ref.Basin, Stream: ref.Stream, State: coordinator.Active, Config: coordinator.DefaultStreamConfig(), ConfigV: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		var written []string
		type client struct{ v, tail uint64 }
		clients := make([]client, 2)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			c := &clients[rapid.IntRange(0, 1).Draw(t, "client")]
			node := nodes[rapid.IntRange(0, 1).Draw(t, "node")]
			f := coordinator.Freshness{MinV: c.v, Viewer: "x"}
			if rapid.Bool().Draw(t, "eventual") {
				f.MaxAge = time.Minute
			}
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				body := fmt.Sprint(len(written), rapid.StringN(0, 400, 400).Draw(t, "body"))
				ack, err := node.Append(t.Context(), ref, bodies(body))
				if err != nil {
					t.Fatal(err)
				}
				if ack.V <= c.v {
					t.Fatalf("the append made %d, and %d was known", ack.V, c.v)
				}
				written = append(written, body)
				*c = client{ack.V, ack.End.SeqNum}
			case 1:
				v, err := node.View(t.Context(), ref, f)
				if err != nil {
					t.Fatal(err)
				}
				if v.Head.V < c.v || v.Head.Tail < c.tail || v.Head.Tail > uint64(len(written)) {
					t.Fatalf("a view of %d with tail %d, after %+v of %d", v.Head.V, v.Head.Tail, *c, len(written))
				}
				*c = client{v.Head.V, v.Head.Tail}
			default:
				from := rapid.Uint64Range(0, uint64(len(written))).Draw(t, "from")
				rd, err := node.OpenReader(t.Context(), ref, coordinator.ReadOptions{SeqNum: &from, Unary: true, Fresh: f})
				var beyond *coordinator.OutOfRange
				if errors.As(err, &beyond) {
					if beyond.V < c.v || beyond.Tail.SeqNum < c.tail || beyond.Tail.SeqNum > from {
						t.Fatalf("beyond the tail %d of %d at %d, after %+v", beyond.Tail.SeqNum, beyond.V, from, *c)
					}
					*c = client{beyond.V, beyond.Tail.SeqNum}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				e, err := rd.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				v, _ := rd.Opened()
				if v < c.v || e.Tail.SeqNum < c.tail || e.Start != from || e.Start+uint64(len(e.Records)) < min(c.tail, from+1) {
					t.Fatalf("a read of %d with tail %d: %d records from %d, after %+v", v, e.Tail.SeqNum, len(e.Records), e.Start, *c)
				}
				for i := range e.Records {
					if got := string(e.Records[i].Body); got != written[from+uint64(i)] {
						t.Fatalf("record %d is %q, written was %q", from+uint64(i), got, written[from+uint64(i)])
					}
				}
				*c = client{v, e.Tail.SeqNum}
				rd.Close()
			}
		}
	})
}

// What a fence brings is no newer than the moment the fence was sent, whatever else of the stream is sent meanwhile.
func TestFenceDoesNotMakeViewsYounger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, faults := counted(t, nil)
		r.mustAppend(t, bodies("a"))
		r.mustView(t, eventual(0))
		faults.Set(also(storetest.Always(storetest.HoldReply, "Change"), storetest.Always(storetest.Hold, "Commit")))
		sent := time.Now()
		fenced := make(chan coordinator.Fenced, 1)
		go func() { fenced <- r.mustFence(t, "t") }()
		time.Sleep(time.Second)
		appended := make(chan coordinator.Ack, 1)
		go func() { appended <- r.mustAppend(t, bodies("b")) }()
		synctest.Wait()
		faults.Release(1) // the reply to the fence
		f := <-fenced
		if v := r.mustView(t, eventual(f.V)); v.AsOf.After(sent) {
			t.Errorf("the view says that it is as of %v after the fence was sent", v.AsOf.Sub(sent))
		}
		faults.Release(-1)
		ack := <-appended
		if v := r.mustView(t, eventual(ack.V)); !v.AsOf.After(sent) {
			t.Error("a commit does not make it younger")
		}
	})
}
