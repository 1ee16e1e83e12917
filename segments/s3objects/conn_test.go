package s3objects_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/segments/s3objects"
	"github.com/tailrace-streams/tailrace/segments/s3objects/fakes3"
)

// warm leaves n idle connections.
func warm(t *testing.T, fake *fakes3.Server, store *s3objects.Store, n int) {
	t.Helper()
	arrived, release := make(chan struct{}, n), make(chan struct{})
	fake.On(func(fakes3.Request) fakes3.Fault {
		arrived <- struct{}{}
		return fakes3.Fault{Hold: release}
	})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { put(t, store, fmt.Sprintf("warm/%02d", i), "data") })
	}
	for range n {
		<-arrived // all are under way at once, each on a connection of its own
	}
	close(release)
	all.Wait()
	fake.On(nil)
}

// TestBL126: after a freeze all pooled connections are dead. No call sees it, and one dead connection is enough to give up
// all of them: else a call would use up its attempts on them.
func TestBL126(t *testing.T) {
	t.Parallel()
	fake := fakes3.Start(t)
	store := open(t, fake, noHedge)
	for range 3 {
		warm(t, fake, store, 20)
		before := fake.Count("")
		fake.CloseConnections()
		for i := range 10 {
			if i%2 == 0 {
				put(t, store, "k", "data")
			} else {
				want(t, store, "k", "data")
			}
		}
		if n := fake.Count("") - before; n != 10 {
			t.Errorf("%d requests were answered for 10 calls", n)
		}
		if n := store.Stats().Repeated; n > 3 {
			t.Errorf("%d attempts met a dead connection", n)
		}
	}
}

// TestBL130OneByOne: the first call that finds a connection silent gives up the idle ones with it, or those that follow
// would use up their time on one each.
func TestBL130OneByOne(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
		warm(t, fake, store, 20)
		fake.FreezeConnections()
		start := time.Now()
		for range 10 {
			put(t, store, "k", "data")
			want(t, store, "k", "data")
		}
		if took := time.Since(start); took > s3objects.DefaultAttemptTimeout+100*time.Millisecond {
			t.Errorf("20 calls took %v", took)
		}
		if n := store.Stats().Repeated; n != 1 {
			t.Errorf("%d attempts met a silent connection", n)
		}
	})
}

// TestBL130: the connections go silent, without a reset, in the middle of the load. Every call answers within ten seconds,
// and later ones use new connections.
func TestBL130(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
		warm(t, fake, store, 20)
		fake.FreezeConnections()
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				start := time.Now()
				key := fmt.Sprintf("k/%02d", i)
				put(t, store, key, "data")
				want(t, store, key, "data")
				if took := time.Since(start); took > 10*time.Second {
					t.Errorf("Put and Get took %v", took)
				}
			})
		}
		all.Wait()
		start := time.Now()
		put(t, store, "after", "data")
		want(t, store, "after", "data")
		if took := time.Since(start); took > 10*time.Millisecond {
			t.Errorf("Put and Get after the first have found out took %v", took)
		}
	})
}

// TestSilentStore: where new connections are silent too, calls end in time and say that it is worth coming back.
func TestSilentStore(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
		fake.On(fakes3.Always(fakes3.Any, fakes3.Fault{BlackHole: true}))
		for name, call := range map[string]func() error{
			"Put": func() error { return store.Put(t.Context(), "k", []byte("data")) },
			"Get": func() error { _, err := store.Get(t.Context(), "k", 0, -1); return err },
			"List": func() error {
				_, err := store.List(t.Context(), "", "", 10)
				return err
			},
			"Delete of one":  func() error { return store.Delete(t.Context(), []string{"k"})["k"] },
			"Delete of more": func() error { return store.Delete(t.Context(), []string{"k", "l"})["l"] },
		} {
			limit := s3objects.DefaultCallTimeout
			if name == "List" || name == "Delete of more" {
				limit *= 3
			}
			start := time.Now()
			err := call()
			if took := time.Since(start); took > limit {
				t.Errorf("%s took %v", name, took)
			}
			if !errors.Is(err, s3objects.ErrUnavailable) {
				t.Errorf("%s = %v", name, err)
			}
		}
		fake.On(nil)
		put(t, store, "k", "data")
	})
}

// TestUnreachable: nobody listens where the endpoint is.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	fake := fakes3.Start(t)
	fake.Close()
	store := open(t, fake)
	err := store.Put(t.Context(), "k", []byte("data"))
	wantError(t, err, "put object", "refused", "8 attempts")
	if e, ok := errors.AsType[*s3objects.Error](err); !ok || e.Sent || !errors.Is(err, s3objects.ErrUnavailable) {
		t.Errorf("Put = %+v", err)
	}
}

// TestUntrusted: what only a person can put right is told at once.
func TestUntrusted(t *testing.T) {
	t.Parallel()
	secure, plain := fakes3.StartTLS(t), fakes3.Start(t)
	for name, change := range map[string]func(*s3objects.Options){
		"certificate": func(o *s3objects.Options) { o.RootCAs = nil },
		"scheme":      func(o *s3objects.Options) { o.Endpoint = "https" + plain.URL[len("http"):] },
	} {
		err := open(t, secure, change).Put(t.Context(), "k", nil)
		if err == nil || errors.Is(err, s3objects.ErrUnavailable) {
			t.Errorf("%s: Put = %v", name, err)
		}
		wantError(t, err, "put object")
	}
}
