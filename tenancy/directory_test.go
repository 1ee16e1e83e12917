package tenancy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/memstore"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
)

// world is one store with faults before it, a clock that only the test moves, and the heads that were ever asked for.
type world struct {
	t      *testing.T
	store  *memstore.Store
	faults *storetest.Faults

	mu    sync.Mutex
	time  time.Time
	heads map[segments.StreamID]bool
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newWorld(t *testing.T) *world {
	w := &world{t: t, store: memstore.New(), time: start, heads: map[segments.StreamID]bool{}}
	w.faults = storetest.NewFaults(nil)
	return w
}

// directory is a process of its own over the store.
func (w *world) directory() *Directory {
	d, err := New(Options{
		Table: w.faults.Table(w.store), Heads: &headLog{w.faults.Heads(w.store), w}, Clock: w.now,
		Ciphers: []string{"aegis-256"},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.time
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.time = w.time.Add(d)
}

// headLog notes every id that a head was to be made for, applied or not.
type headLog struct {
	coordinator.Heads
	w *world
}

func (l *headLog) Create(ctx context.Context, h coordinator.Head) error {
	l.w.mu.Lock()
	l.w.heads[h.Stream] = true
	l.w.mu.Unlock()
	return l.Heads.Create(ctx, h)
}

// settle does what time and maintenance do: everything half done is finished, tombstones stay.
func (w *world) settle() {
	w.t.Helper()
	w.faults.Set(nil)
	d := w.directory()
	for range 4 {
		w.pass(3 * time.Hour)
		if s, err := d.Sweep(w.t.Context()); err != nil || s.Failed > 0 {
			w.t.Fatalf("sweep: %+v, %v", s, err)
		}
		if err := d.Repair(w.t.Context()); err != nil {
			w.t.Fatalf("repair: %v", err)
		}
	}
}

// view is all that users can see, by "b/BASIN" or "s/BASIN/STREAM", with the incarnation.
type view map[string]string

func (w *world) view() view {
	w.t.Helper()
	d, ctx, v := w.directory(), w.t.Context(), view{}
	basins, err := d.ListBasins(ctx, "", "", 0)
	must(w.t, err)
	for _, b := range basins.Basins {
		_, config, err := d.GetBasin(ctx, b.Name)
		must(w.t, err)
		v["b/"+b.Name] = fmt.Sprintf("%s %s %s", phase(b.DeletedAt), asJSON(config), b.ID)
		streams, err := d.ListStreams(ctx, b.Name, "", "", 0)
		must(w.t, err)
		for _, s := range streams.Streams {
			text := phase(s.DeletedAt)
			if s.DeletedAt.IsZero() {
				info, config, err := d.GetStream(ctx, b.Name, s.Name)
				must(w.t, err)
				if info.Ref != s.Ref {
					w.t.Fatalf("listed %v, got %v", s.Ref, info.Ref)
				}
				text += " " + asJSON(config)
			}
			v["s/"+b.Name+"/"+s.Name] = text + " " + s.Ref.Stream.String()
		}
	}
	return v
}

func phase(deletedAt time.Time) string {
	if deletedAt.IsZero() {
		return "active"
	}
	return "deleting"
}

// check holds the store against what must be true of it at rest.
func (w *world) check() {
	w.t.Helper()
	d, ctx := w.directory(), w.t.Context()
	reached := map[segments.StreamID]State{}
	must(w.t, d.Walk(ctx, func(s Stream) error {
		if was, twice := reached[s.Ref.Stream]; twice {
			w.t.Errorf("stream %s is reached as %s and as %s", s.Name, was, s.State)
		}
		reached[s.Ref.Stream] = s.State
		h, err := w.store.Load(ctx, s.Ref.Stream)
		switch {
		case err != nil:
			w.t.Errorf("stream %s (%s) has no head: %v", s.Name, s.State, err)
		case s.State == Active && h.State != coordinator.Active, s.State == Deleted && h.State != coordinator.Deleted:
			w.t.Errorf("stream %s is %s, its head %s", s.Name, s.State, h.State)
		case s.State != Active && s.State != Deleted:
			w.t.Errorf("stream %s is still %s", s.Name, s.State)
		case h.Basin != s.Ref.Basin:
			w.t.Errorf("stream %s has the head of another basin", s.Name)
		}
		return nil
	}))
	w.mu.Lock()
	heads := maps.Clone(w.heads)
	w.mu.Unlock()
	for id := range heads {
		h, err := w.store.Load(ctx, id)
		if errors.Is(err, coordinator.ErrNotFound) {
			continue
		}
		must(w.t, err)
		if _, ok := reached[id]; !ok {
			w.t.Errorf("head %s (%s) is reached by no name and is not noted as dead", id, h.State)
		}
	}
	must(w.t, d.Basins(ctx, func(b Basin) error {
		if b.State != Active && b.State != Deleted {
			w.t.Errorf("basin %s is still %s", b.Name, b.State)
		}
		return nil
	}))
	for shard := range shards {
		rows, err := w.store.List(ctx, workPart(shard), "", "", 1000)
		must(w.t, err)
		for _, row := range rows {
			if row.Key.Sort < dueKey(toMillis(w.now())) {
				w.t.Errorf("work is left: %s", row.Value)
			}
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
	if !Definite(err) {
		t.Fatalf("%v is not definite", err)
	}
}

func wantInvalid(t *testing.T, err error) {
	t.Helper()
	var invalid *InvalidError
	if !errors.As(err, &invalid) || !Definite(err) {
		t.Fatalf("got error %v, want a definite InvalidError", err)
	}
}

func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func ptr[T any](v T) *T { return &v }

const theBasin = "the-basin"

// withBasin is a world with one basin and a directory on it.
func withBasin(t *testing.T, config BasinConfig) (*world, *Directory) {
	t.Helper()
	w := newWorld(t)
	d := w.directory()
	_, outcome, err := d.CreateBasin(t.Context(), theBasin, "", config, "")
	must(t, err)
	if outcome != Created {
		t.Fatalf("outcome %q", outcome)
	}
	return w, d
}

// sweep passes the linger and sweeps once.
func (w *world) sweep(d *Directory) Swept {
	w.t.Helper()
	w.pass(d.DeleteLinger)
	s, err := d.Sweep(w.t.Context())
	must(w.t, err)
	if s.Failed > 0 {
		w.t.Fatalf("swept %+v", s)
	}
	return s
}
