package tenancy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
)

// TestAutoCreate is BL-017: the flag of the use decides, on every way in.
func TestAutoCreate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ append, read bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			w, d := withBasin(t, BasinConfig{
				CreateOnAppend: c.append, CreateOnRead: c.read,
				DefaultStream: Settings{Fencing: ptr(coordinator.Exclusive)},
			})
			ctx := t.Context()
			for use, allowed := range map[Use]bool{Append: c.append, Read: c.read} {
				for _, resolve := range []func(context.Context, string, string, Use) (coordinator.StreamRef, error){d.Resolve, d.ResolveFresh} {
					name := fmt.Sprintf("for-%d-%p", use.way, resolve)
					ref, err := resolve(ctx, theBasin, name, use)
					if !allowed {
						wantErr(t, err, ErrStreamNotFound)
						continue
					}
					must(t, err)
					h, err := w.store.Load(ctx, ref.Stream)
					must(t, err)
					if h.State != coordinator.Active || h.Basin != ref.Basin || !h.Exclusive() || h.ConfigV != 1 {
						t.Errorf("made %+v", h)
					}
				}
				_, err := d.Resolve(ctx, "no-such-basin", "one", use)
				wantErr(t, err, ErrBasinNotFound)
			}
			_, err := d.DeleteBasin(ctx, theBasin)
			must(t, err)
			_, err = d.Resolve(ctx, theBasin, "too-late", Append)
			if want := map[bool]error{true: ErrBasinDeleting, false: ErrStreamNotFound}[c.append]; want != nil {
				wantErr(t, err, want)
			}
		})
	}
}

// TestMaking: settings of a use are for the stream that it makes, over the basin's defaults; one that is there has its own.
func TestMaking(t *testing.T) {
	t.Parallel()
	w, d := withBasin(t, BasinConfig{
		CreateOnAppend: true, DefaultStream: Settings{Fencing: ptr(coordinator.Exclusive), DeleteOnEmptyMinAge: ptr(uint64(7))},
	})
	ctx := t.Context()
	first, err := d.Resolve(ctx, theBasin, "one", Append.Making(Settings{DeleteOnEmptyMinAge: ptr(uint64(300))}))
	must(t, err)
	again, err := d.ResolveFresh(ctx, theBasin, "one", Append.Making(Settings{DeleteOnEmptyMinAge: ptr(uint64(400))}))
	must(t, err)
	h, err := w.store.Load(ctx, first.Stream)
	must(t, err)
	if again != first || h.Config.DeleteOnEmptyMinAge != 300 || !h.Exclusive() || h.ConfigV != 1 {
		t.Errorf("made %+v, then resolved %v", h, again)
	}
	_, err = d.Resolve(ctx, theBasin, "two", Append.Making(Settings{StorageClass: ptr(coordinator.StorageClass("tape"))}))
	if invalid := new(InvalidError); !errors.As(err, &invalid) {
		t.Errorf("made a stream of storage class tape: %v", err)
	}
	_, err = d.Resolve(ctx, theBasin, "two", Read.Making(Settings{DeleteOnEmptyMinAge: ptr(uint64(300))}))
	wantErr(t, err, ErrStreamNotFound)
	w.check()
}

// TestNoNegativeCache: what was absent a moment ago is found at once when another process has made it.
func TestNoNegativeCache(t *testing.T) {
	t.Parallel()
	w, d := withBasin(t, BasinConfig{})
	other := w.directory()
	for i := range 50 {
		name := fmt.Sprint("s", i)
		_, err := d.Resolve(t.Context(), theBasin, name, Append)
		wantErr(t, err, ErrStreamNotFound)
		made, _, err := other.CreateStream(t.Context(), theBasin, name, Settings{}, "")
		must(t, err)
		ref, err := d.Resolve(t.Context(), theBasin, name, Append)
		must(t, err)
		info, _, err := d.GetStream(t.Context(), theBasin, name)
		must(t, err)
		if ref != made.Ref || info.Ref != ref {
			t.Errorf("resolved %v, got %v, want %v", ref, info.Ref, made.Ref)
		}
	}
}

// TestRemembered: a second Resolve makes no store call, and after deletion and making anew ResolveFresh leads on.
func TestRemembered(t *testing.T) {
	t.Parallel()
	w, d := withBasin(t, BasinConfig{CreateOnAppend: true})
	ctx := t.Context()
	old, err := d.Resolve(ctx, theBasin, "one", Append)
	must(t, err)
	w.faults.Set(storetest.Always(storetest.Drop))
	again, err := d.Resolve(ctx, theBasin, "one", Append)
	must(t, err)
	if again != old {
		t.Errorf("resolved %v, then %v", old, again)
	}
	_, err = d.ResolveFresh(ctx, theBasin, "one", Append)
	wantErr(t, err, coordinator.ErrUnavailable)
	w.faults.Set(nil)
	must(t, func() error { _, err := d.Resolve(ctx, theBasin, "one", Append); return err }())

	other := w.directory()
	_, err = other.DeleteBasin(ctx, theBasin)
	must(t, err)
	w.sweep(other)
	_, _, err = other.CreateBasin(ctx, theBasin, "", BasinConfig{CreateOnAppend: true}, "")
	must(t, err)
	stale, err := d.Resolve(ctx, theBasin, "one", Append)
	must(t, err)
	h, err := w.store.Load(ctx, stale.Stream)
	must(t, err)
	if h.State != coordinator.Deleted {
		t.Errorf("the remembered stream's head is %s", h.State)
	}
	fresh, err := d.ResolveFresh(ctx, theBasin, "one", Append)
	must(t, err)
	if fresh.Basin == old.Basin || fresh.Stream == old.Stream {
		t.Errorf("%v is not new", fresh)
	}
	// A third process's remembered basin id is as old; its answers are not.
	_, err = other.DeleteBasin(ctx, theBasin)
	must(t, err)
	w.sweep(other)
	_, _, err = other.CreateBasin(ctx, theBasin, "", BasinConfig{}, "")
	must(t, err)
	w.streams(other, "two")
	_, err = d.Resolve(ctx, theBasin, "two", Append)
	must(t, err)
}

// TestCreatorsRace is BL-016: all who create one name at once get the one stream.
func TestCreatorsRace(t *testing.T) {
	t.Parallel()
	w, d := withBasin(t, BasinConfig{CreateOnAppend: true})
	processes := []*Directory{d, w.directory(), w.directory()}
	for round := range 20 {
		name := fmt.Sprint("s", round)
		var mu sync.Mutex
		refs := map[coordinator.StreamRef]int{}
		var g errgroup.Group
		for i := range 32 {
			g.Go(func() error {
				ref, err := processes[i%3].Resolve(t.Context(), theBasin, name, Append)
				mu.Lock()
				refs[ref]++
				mu.Unlock()
				return err
			})
		}
		must(t, g.Wait())
		if len(refs) != 1 {
			t.Fatalf("%d streams of one name", len(refs))
		}
	}
	w.check()
}

// TestRaces runs everything against everything on few names, from two processes, and checks what is left.
func TestRaces(t *testing.T) {
	t.Parallel()
	w, d := withBasin(t, BasinConfig{CreateOnAppend: true})
	processes := []*Directory{d, w.directory()}
	var g errgroup.Group
	for i := range 12 {
		g.Go(func() error {
			d, ctx := processes[i%2], t.Context()
			for n := range 60 {
				basin, stream := theBasin, fmt.Sprint("s", n%3)
				if n%5 == 0 {
					basin = "other-basin"
				}
				var err error
				switch (i + n) % 9 {
				case 0, 1:
					_, _, err = d.CreateStream(ctx, basin, stream, Settings{}, "")
				case 2:
					_, err = d.Resolve(ctx, basin, stream, Append)
				case 3:
					_, err = d.DeleteStream(ctx, basin, stream)
				case 4:
					_, _, err = d.EnsureStream(ctx, basin, stream, Settings{Uncapped: ptr(n%2 == 0)})
				case 5:
					_, err = d.ResolveFresh(ctx, basin, stream, Append)
				case 6:
					if i < 3 {
						_, err = d.DeleteBasin(ctx, basin)
					}
				case 7:
					_, _, err = d.EnsureBasin(ctx, basin, "", BasinConfig{CreateOnAppend: true, CreateOnRead: n%2 == 0})
				case 8:
					w.pass(d.DeleteLinger / 4)
					var s Swept
					if s, err = d.Sweep(ctx); err == nil && s.Failed > 0 {
						err = fmt.Errorf("swept %+v", s)
					}
				}
				if err != nil && !Definite(err) {
					return fmt.Errorf("in doubt without a fault: %w", err)
				}
			}
			return nil
		})
	}
	must(t, g.Wait())
	w.settle()
	w.check()
}
