package tenancy

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
)

// provisionStep is one creation and what it must answer.
type provisionStep struct {
	do      func(ctx context.Context, d *Directory) (Outcome, error)
	outcome Outcome
	err     error
}

func (s *provisionStep) check(t *testing.T, d *Directory, i int) {
	t.Helper()
	outcome, err := s.do(t.Context(), d)
	if outcome != s.outcome || !errors.Is(err, s.err) {
		t.Errorf("step %d: %q, %v; want %q, %v", i, outcome, err, s.outcome, s.err)
	}
}

// TestIdempotentStream is BL-090 for streams.
func TestIdempotentStream(t *testing.T) {
	t.Parallel()
	w, d := withBasin(t, BasinConfig{})
	post := func(token string, s Settings) func(context.Context, *Directory) (Outcome, error) {
		return func(ctx context.Context, d *Directory) (Outcome, error) {
			_, o, err := d.CreateStream(ctx, theBasin, "one", s, token)
			return o, err
		}
	}
	put := func(s Settings) func(context.Context, *Directory) (Outcome, error) {
		return func(ctx context.Context, d *Directory) (Outcome, error) {
			_, o, err := d.EnsureStream(ctx, theBasin, "one", s)
			return o, err
		}
	}
	patch := func(ctx context.Context, d *Directory) (Outcome, error) {
		_, _, err := d.ReconfigureStream(ctx, theBasin, "one", Patch{DeleteOnEmptyMinAge: Value(uint64(9))})
		return "", err
	}
	defaults := func(ctx context.Context, d *Directory) (Outcome, error) {
		_, _, err := d.ReconfigureBasin(ctx, theBasin, BasinPatch{DefaultStream: Patch{Uncapped: Value(true)}})
		return "", err
	}
	explicit := Settings{DeleteOnEmptyMinAge: ptr(uint64(0))}
	for i, s := range []provisionStep{
		{post("x", Settings{}), Created, nil},
		{post("x", Settings{}), Noop, nil},
		{post("x", explicit), "", ErrStreamExists}, // equal in effect, another request
		{post("y", Settings{}), "", ErrStreamExists},
		{post("", Settings{}), "", ErrStreamExists},
		{put(Settings{}), Noop, nil},
		{patch, "", nil},
		{post("x", Settings{}), Noop, nil},
		{put(Settings{}), Updated, nil},
		{put(explicit), Noop, nil},
		{defaults, "", nil},
		{post("x", Settings{}), Noop, nil}, // the request is compared before it is merged
		{put(Settings{}), Updated, nil},
		{post("x", Settings{}), Noop, nil},
	} {
		s.check(t, d, i)
	}
	before, _, err := d.GetStream(t.Context(), theBasin, "one")
	must(t, err)
	w.pass(time.Hour)
	info, _, err := d.CreateStream(t.Context(), theBasin, "one", Settings{}, "x")
	must(t, err)
	if !info.CreatedAt.Equal(start) || info.Ref != before.Ref {
		t.Errorf("replayed info %+v", info)
	}

	_, err = d.DeleteStream(t.Context(), theBasin, "one")
	must(t, err)
	for i, s := range []provisionStep{
		{post("x", Settings{}), "", ErrStreamDeleting}, {put(Settings{}), "", ErrStreamDeleting},
		{patch, "", ErrStreamDeleting},
	} {
		s.check(t, d, i)
	}
	w.sweep(d)
	(&provisionStep{patch, "", ErrStreamNotFound}).check(t, d, 0)
	(&provisionStep{put(Settings{}), Created, nil}).check(t, d, 1)
	(&provisionStep{post("x", Settings{}), "", ErrStreamExists}).check(t, d, 2) // made by PUT
}

// TestIdempotentBasin is BL-090 for basins.
func TestIdempotentBasin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.directory()
	post := func(token string, c BasinConfig) func(context.Context, *Directory) (Outcome, error) {
		return func(ctx context.Context, d *Directory) (Outcome, error) {
			_, o, err := d.CreateBasin(ctx, theBasin, token, c, token) // the location does not count
			return o, err
		}
	}
	put := func(c BasinConfig) func(context.Context, *Directory) (Outcome, error) {
		return func(ctx context.Context, d *Directory) (Outcome, error) {
			_, o, err := d.EnsureBasin(ctx, theBasin, "elsewhere", c)
			return o, err
		}
	}
	patch := func(ctx context.Context, d *Directory) (Outcome, error) {
		_, _, err := d.ReconfigureBasin(ctx, theBasin, BasinPatch{CreateOnAppend: ptr(true)})
		return "", err
	}
	for i, s := range []provisionStep{
		{patch, "", ErrBasinNotFound},
		{post("x", BasinConfig{}), Created, nil},
		{post("x", BasinConfig{}), Noop, nil},
		{post("x", BasinConfig{CreateOnRead: true}), "", ErrBasinExists},
		{post("y", BasinConfig{}), "", ErrBasinExists},
		{post("", BasinConfig{}), "", ErrBasinExists},
		{put(BasinConfig{}), Noop, nil},
		{put(BasinConfig{CreateOnRead: true}), Updated, nil},
		{patch, "", nil},
		{put(BasinConfig{}), Updated, nil},
		{post("x", BasinConfig{}), Noop, nil},
	} {
		s.check(t, d, i)
	}
	info, _, err := d.GetBasin(t.Context(), theBasin)
	must(t, err)
	if info.Location != "x" || !info.CreatedAt.Equal(start) {
		t.Errorf("info %+v", info)
	}
	_, err = d.DeleteBasin(t.Context(), theBasin)
	must(t, err)
	_, err = d.DeleteBasin(t.Context(), theBasin)
	must(t, err)
	for i, s := range []provisionStep{
		{post("x", BasinConfig{}), "", ErrBasinDeleting}, {put(BasinConfig{}), "", ErrBasinDeleting},
		{patch, "", ErrBasinDeleting},
	} {
		s.check(t, d, i)
	}
	info, _, err = d.GetBasin(t.Context(), theBasin)
	must(t, err)
	if info.DeletedAt.IsZero() {
		t.Error("a deleting basin without deleted_at")
	}
	w.sweep(d)
	_, err = d.DeleteBasin(t.Context(), theBasin)
	wantErr(t, err, ErrBasinNotFound)
	(&provisionStep{put(BasinConfig{}), Created, nil}).check(t, d, 0)
	(&provisionStep{post("x", BasinConfig{}), "", ErrBasinExists}).check(t, d, 1)
}

// TestPendingDeletion is BL-080: between the deletion and its end every call is answered, and the head refuses.
func TestPendingDeletion(t *testing.T) {
	t.Parallel()
	w, d := withBasin(t, BasinConfig{CreateOnAppend: true, CreateOnRead: true})
	ctx := t.Context()
	old, err := d.Resolve(ctx, theBasin, "one", Append)
	must(t, err)
	info, err := d.DeleteStream(ctx, theBasin, "one")
	must(t, err)
	if !info.DeletedAt.Equal(w.now()) || info.Ref != old {
		t.Errorf("deleted %+v", info)
	}
	h, err := w.store.Load(ctx, old.Stream)
	must(t, err)
	if h.State != coordinator.Deleting {
		t.Errorf("the head is %s", h.State)
	}
	_, err = d.DeleteStream(ctx, theBasin, "one")
	must(t, err)
	for _, use := range []Use{Append, Read} {
		_, err = d.ResolveFresh(ctx, theBasin, "one", use)
		wantErr(t, err, ErrStreamDeleting)
		_, err = w.directory().Resolve(ctx, theBasin, "one", use)
		wantErr(t, err, ErrStreamDeleting)
	}
	_, _, err = d.GetStream(ctx, theBasin, "one")
	wantErr(t, err, ErrStreamDeleting)
	page, err := d.ListStreams(ctx, theBasin, "", "", 0)
	must(t, err)
	if len(page.Streams) != 1 || page.Streams[0].DeletedAt.IsZero() {
		t.Errorf("listed %+v", page.Streams)
	}
	w.sweep(d)
	page, err = d.ListStreams(ctx, theBasin, "", "", 0)
	must(t, err)
	if len(page.Streams) != 0 {
		t.Errorf("listed %+v", page.Streams)
	}
	fresh, err := d.ResolveFresh(ctx, theBasin, "one", Read)
	must(t, err)
	if fresh == old {
		t.Error("the new stream is the old one")
	}
	w.settle()
	w.check()
}

// TestOverdueDeletion: without any sweep, whoever meets the name finishes its deletion.
func TestOverdueDeletion(t *testing.T) {
	t.Parallel()
	for name, meet := range map[string]func(ctx context.Context, d *Directory) error{
		"get": func(ctx context.Context, d *Directory) error {
			_, _, err := d.GetStream(ctx, theBasin, "one")
			return err
		},
		"resolve": func(ctx context.Context, d *Directory) error {
			_, err := d.Resolve(ctx, theBasin, "one", Append)
			return err
		},
		"create": func(ctx context.Context, d *Directory) error {
			_, _, err := d.CreateStream(ctx, theBasin, "one", Settings{}, "")
			if err == nil {
				_, err = d.DeleteStream(ctx, theBasin, "one")
			}
			return errors.Join(err, ErrStreamNotFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, d := withBasin(t, BasinConfig{})
			_, _, err := d.CreateStream(t.Context(), theBasin, "one", Settings{}, "")
			must(t, err)
			_, err = d.DeleteStream(t.Context(), theBasin, "one")
			must(t, err)
			w.pass(d.DeleteLinger)
			wantErr(t, meet(t.Context(), d), ErrStreamNotFound)
			w.settle()
			w.check()
		})
	}
}

// TestOldPurge is BL-081: the work of an old incarnation, run again at any later time, leaves the new one alone.
func TestOldPurge(t *testing.T) {
	t.Parallel()
	w, d := withBasin(t, BasinConfig{})
	ctx := t.Context()
	old, _, err := d.CreateStream(ctx, theBasin, "one", Settings{}, "")
	must(t, err)
	_, err = d.DeleteStream(ctx, theBasin, "one")
	must(t, err)
	var jobs []workRow
	collect := func() {
		for shard := range shards {
			rows, err := w.store.List(ctx, workPart(shard), "", "", 100)
			must(t, err)
			for _, row := range rows {
				var j workRow
				must(t, decode(row.Value, &j))
				jobs = append(jobs, j)
			}
		}
	}
	collect()
	w.sweep(d)
	collect()
	if len(jobs) != 2 {
		t.Fatalf("%d jobs", len(jobs))
	}
	_, _, err = d.CreateStream(ctx, theBasin, "one", Settings{}, "")
	must(t, err)
	before := w.view()
	replay := func() {
		t.Helper()
		for _, j := range jobs {
			j.Due = toMillis(w.now())
			must(t, d.putOnce(ctx, j.key(), &j))
		}
		w.pass(time.Minute)
		w.sweep(d)
	}
	replay()
	w.pass(48 * time.Hour)
	replay()
	_, _, err = d.CreateStream(ctx, theBasin, "two", Settings{}, "")
	must(t, err)
	for i := range jobs {
		jobs[i].Name = "two" // as if it had been made under the same name and were being deleted in turn
	}
	_, err = d.DeleteStream(ctx, theBasin, "two")
	must(t, err)
	for _, j := range jobs {
		j.Due = toMillis(w.now())
		must(t, d.putOnce(ctx, j.key(), &j))
	}
	_, err = d.Sweep(ctx)
	must(t, err)
	_, _, err = d.GetStream(ctx, theBasin, "two")
	wantErr(t, err, ErrStreamDeleting)
	_, err = d.DeleteIncarnation(ctx, theBasin, "one", old.Ref.Stream)
	wantErr(t, err, ErrStreamNotFound)
	if after := w.view(); after["s/the-basin/one"] != before["s/the-basin/one"] {
		t.Errorf("%v became %v", before, after)
	}
	w.settle()
	w.check()
}

// TestBasinAnew is BL-082: a basin that was deleted and made again is empty, and every name in it is free.
func TestBasinAnew(t *testing.T) {
	t.Parallel()
	w, d := withBasin(t, BasinConfig{})
	ctx := t.Context()
	names := []string{"one", "two", "three", "four"}
	for _, name := range names {
		_, _, err := d.CreateStream(ctx, theBasin, name, Settings{}, "")
		must(t, err)
	}
	for _, name := range names[:3] {
		_, err := d.DeleteStream(ctx, theBasin, name)
		must(t, err)
	}
	remembered, err := d.Resolve(ctx, theBasin, "four", Append)
	must(t, err)
	_, err = d.DeleteBasin(ctx, theBasin)
	must(t, err)
	_, _, err = d.CreateStream(ctx, theBasin, "five", Settings{}, "")
	wantErr(t, err, ErrBasinDeleting)
	_, _, err = d.GetStream(ctx, theBasin, "four") // until the sweep gets there
	must(t, err)
	w.sweep(d)
	_, err = d.ListStreams(ctx, theBasin, "", "", 0)
	wantErr(t, err, ErrBasinNotFound)
	_, _, err = d.GetStream(ctx, theBasin, "four")
	wantErr(t, err, ErrBasinNotFound)
	_, err = d.ResolveFresh(ctx, theBasin, "four", Append)
	wantErr(t, err, ErrBasinNotFound)
	h, err := w.store.Load(ctx, remembered.Stream)
	must(t, err)
	if h.State != coordinator.Deleted {
		t.Errorf("the head of a stream in a dead basin is %s", h.State)
	}

	_, _, err = d.CreateBasin(ctx, theBasin, "", BasinConfig{}, "")
	must(t, err)
	page, err := d.ListStreams(ctx, theBasin, "", "", 0)
	must(t, err)
	if len(page.Streams) > 0 {
		t.Errorf("a new basin has %+v", page.Streams)
	}
	for _, name := range names {
		_, outcome, err := d.CreateStream(ctx, theBasin, name, Settings{}, "")
		if err != nil || outcome != Created {
			t.Errorf("create %s: %q, %v", name, outcome, err)
		}
	}
	w.settle()
	w.check()
	page, err = d.ListStreams(ctx, theBasin, "", "", 0)
	must(t, err)
	if len(page.Streams) != len(names) {
		t.Errorf("after all is settled there are %d streams", len(page.Streams))
	}
}

// TestCreatorAsleep: a creator that sleeps through the whole deletion of its basin, and the basin's making anew, must
// find out, at whichever step it went to sleep.
func TestCreatorAsleep(t *testing.T) {
	t.Parallel()
	for at := 1; at <= 6; at++ {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, d := withBasin(t, BasinConfig{})
				calls := 0
				w.faults.Set(func(storetest.Call) storetest.Outcome {
					if calls++; calls == at {
						return storetest.Hold
					}
					return storetest.Pass
				})
				result := make(chan error, 1)
				go func() {
					_, _, err := d.CreateStream(t.Context(), theBasin, "one", Settings{}, "")
					result <- err
				}()
				synctest.Wait()
				if len(w.faults.Held()) != 1 {
					t.Fatal("the creation makes fewer calls")
				}
				w.faults.Set(nil)
				other := w.directory()
				_, err := other.DeleteBasin(t.Context(), theBasin)
				must(t, err)
				w.sweep(other)
				_, _, err = other.CreateBasin(t.Context(), theBasin, "", BasinConfig{}, "")
				must(t, err)
				w.faults.Release(-1)
				err = <-result
				if err != nil && !Definite(err) {
					t.Errorf("the creator was told %v", err)
				}
				w.settle()
				w.check()
				_, listed := w.view()["s/the-basin/one"]
				if listed != (err == nil) {
					t.Errorf("the creator was told %v, and the stream is there: %v", err, listed)
				}
			})
		})
	}
}

// TestClosed: a stream whose head was closed, by a deletion that got no further, is being deleted for whoever asks.
func TestClosed(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(ctx context.Context, d *Directory) error{
		"get": func(ctx context.Context, d *Directory) error {
			_, _, err := d.GetStream(ctx, theBasin, "one")
			return err
		},
		"resolve": func(ctx context.Context, d *Directory) error {
			_, err := d.ResolveFresh(ctx, theBasin, "one", Append)
			return err
		},
		"put": func(ctx context.Context, d *Directory) error {
			_, _, err := d.EnsureStream(ctx, theBasin, "one", Settings{})
			return err
		},
		"patch": func(ctx context.Context, d *Directory) error {
			_, _, err := d.ReconfigureStream(ctx, theBasin, "one", Patch{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, d := withBasin(t, BasinConfig{})
			w.streams(d, "one")
			ref, err := d.Resolve(t.Context(), theBasin, "one", Append)
			must(t, err)
			_, err = w.store.Change(t.Context(), ref.Stream, &coordinator.Change{ID: coordinator.NewOpID(), State: coordinator.Deleting})
			must(t, err)
			wantErr(t, ask(t.Context(), d), ErrStreamDeleting)
			page, err := d.ListStreams(t.Context(), theBasin, "", "", 0)
			must(t, err)
			if len(page.Streams) != 1 || page.Streams[0].DeletedAt.IsZero() {
				t.Errorf("listed %+v", page.Streams)
			}
			w.sweep(d)
			wantErr(t, getOne(t.Context(), d), ErrStreamNotFound)
			w.check()
		})
	}
}

func getOne(ctx context.Context, d *Directory) error {
	_, _, err := d.GetStream(ctx, theBasin, "one")
	return err
}

// TestHeadLost: an active name without a head is a loud error, and nothing is made in its place.
func TestHeadLost(t *testing.T) {
	t.Parallel()
	w, d := withBasin(t, BasinConfig{CreateOnAppend: true})
	b, err := d.basin(t.Context(), theBasin)
	must(t, err)
	must(t, d.putOnce(t.Context(), streamKey(b.ID, "one"), &streamRow{State: Active, ID: segments.NewStreamID(), CreatedAt: 1}))
	_, err = w.directory().ResolveFresh(t.Context(), theBasin, "one", Append)
	wantErr(t, err, coordinator.ErrStorage)
	_, _, err = d.GetStream(t.Context(), theBasin, "one")
	wantErr(t, err, coordinator.ErrStorage)
}
