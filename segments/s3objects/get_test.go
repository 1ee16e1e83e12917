package s3objects_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/s3objects"
	"github.com/tailrace-streams/tailrace/segments/s3objects/fakes3"
)

// TestGetIsRepeated: an answer that is not whole is none.
func TestGetIsRepeated(t *testing.T) {
	t.Parallel()
	data := strings.Repeat("0123456789abcdef", 1<<16)
	for name, fault := range map[string]fakes3.Fault{
		"body is cut":      {CutAfter: 1000},
		"no answer":        {LoseReply: true},
		"black hole":       {BlackHole: true},
		"reset":            {Reset: true},
		"503":              {Status: http.StatusServiceUnavailable, Code: "SlowDown"},
		"500":              {Status: http.StatusInternalServerError, Code: "InternalError"},
		"429":              {Status: http.StatusTooManyRequests, Code: "TooManyRequests"},
		"body never comes": {Slow: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, fake *fakes3.Server, _ *s3objects.Store) {
				store := open(t, fake, noHedge)
				put(t, store, "k", data)
				fake.On(fakes3.First(2, fakes3.Is(fakes3.OpGet), fault))
				want(t, store, "k", data)
				wantCount(t, fake, fakes3.OpGet, 3)
				fake.On(fakes3.First(2, fakes3.Is(fakes3.OpGet), fault))
				if got, err := store.Get(t.Context(), "k", 100_000, 50_000); err != nil || string(got) != data[100_000:150_000] {
					t.Errorf("Get = %d bytes, %v", len(got), err)
				}
			})
		})
	}
}

// TestMissing: only the store's own word about the object is ErrObjectNotFound. A failed read is never "absent".
func TestMissing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		quirks  fakes3.Quirks
		fault   fakes3.Fault
		missing bool
		text    string
	}{
		"object":              {missing: true, text: "object not found"},
		"bucket":              {fault: fakes3.Fault{Status: 404, Code: "NoSuchBucket"}, text: "404 NoSuchBucket"},
		"page of a proxy":     {quirks: fakes3.Quirks{PlainNotFound: true}, text: "404"},
		"no right to list":    {quirks: fakes3.Quirks{HideMissing: true}, text: "403 AccessDenied"},
		"403 without a body":  {fault: fakes3.Fault{Status: 403}, text: "403"},
		"throttled":           {fault: fakes3.Fault{Status: 503, Code: "SlowDown"}, text: "503 SlowDown"},
		"gone":                {fault: fakes3.Fault{Status: 410, Code: "Gone"}, text: "410 Gone"},
		"other word for it":   {fault: fakes3.Fault{Status: 404, Code: "NoSuchVersion"}, text: "404 NoSuchVersion"},
		"redirect":            {fault: fakes3.Fault{Status: 301, Code: "PermanentRedirect"}, text: "301 PermanentRedirect"},
		"connection is reset": {fault: fakes3.Fault{Reset: true}, text: "closed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
				fake.SetQuirks(c.quirks)
				fake.On(fakes3.Always(fakes3.Any, c.fault))
				for _, length := range []int64{-1, 0, 7} {
					_, err := store.Get(t.Context(), "nothing", 0, length)
					wantError(t, err, "get object", c.text)
					if errors.Is(err, segments.ErrObjectNotFound) != c.missing {
						t.Errorf("Get = %v; missing: want %v", err, c.missing)
					}
				}
			})
		})
	}
}

// TestOtherAnswers: a store that answers what was not asked for is not believed.
func TestOtherAnswers(t *testing.T) {
	t.Parallel()
	for name, quirks := range map[string]fakes3.Quirks{
		"whole object for a range": {IgnoreRange: true}, "no length": {NoLength: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
				put(t, store, "k", "0123456789")
				fake.SetQuirks(quirks)
				_, err := store.Get(t.Context(), "k", 3, 4)
				if !errors.Is(err, s3objects.ErrMisbehaves) || errors.Is(err, s3objects.ErrUnavailable) {
					t.Errorf("Get = %v", err)
				}
				wantCount(t, fake, fakes3.OpGet, 1)
			})
		})
	}
}

// TestBL104 reads what the store says was there before: an object is never another one, so the worst is that it is missing,
// which the layer above takes for a stale head.
func TestBL104(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
		put(t, store, "k", "data")
		fake.On(fakes3.First(1, fakes3.Is(fakes3.OpGet), fakes3.Fault{Stale: true}))
		if _, err := store.Get(t.Context(), "k", 0, -1); !errors.Is(err, segments.ErrObjectNotFound) {
			t.Errorf("stale Get = %v", err)
		}
		put(t, store, "k", "data") // again, as after a lost answer
		fake.On(fakes3.First(1, fakes3.Is(fakes3.OpGet), fakes3.Fault{Stale: true}))
		want(t, store, "k", "data")
	})
}

// TestSlowBody: a large object gets time in proportion once its size is known, a small one does not.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ bytes, gets int }{{16 << 20, 1}, {1000, 2}} {
		inBubble(t, func(t *testing.T, fake *fakes3.Server, _ *s3objects.Store) {
			store := open(t, fake, noHedge)
			data := strings.Repeat("x", c.bytes)
			put(t, store, "k", data)
			fake.On(fakes3.First(1, fakes3.Is(fakes3.OpGet), fakes3.Fault{Slow: 5 * time.Second}))
			want(t, store, "k", data)
			wantCount(t, fake, fakes3.OpGet, c.gets)
		})
	}
}

// TestHedge: where the first GET hangs, a second one answers after the delay, without a repeat.
func TestHedge(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]fakes3.Fault{
		"late": {Delay: time.Second}, "black hole": {BlackHole: true}, "body never comes": {Slow: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, fake *fakes3.Server, _ *s3objects.Store) {
				store := open(t, fake, func(o *s3objects.Options) { o.HedgeDelay = 50 * time.Millisecond })
				put(t, store, "k", "data")
				fake.On(fakes3.First(1, fakes3.Is(fakes3.OpGet), fault))
				start := time.Now()
				want(t, store, "k", "data")
				if took := time.Since(start); took != 50*time.Millisecond {
					t.Errorf("Get took %v", took)
				}
				if got := store.Stats(); got.Requests != 3 || got.Hedged != 1 || got.Repeated != 0 {
					t.Errorf("Stats = %+v", got)
				}
			})
		})
	}
}

// TestHedgeFails: of two requests under way the one that fails is not the answer, whichever it is.
func TestHedgeFails(t *testing.T) {
	t.Parallel()
	broken := fakes3.Fault{Delay: 10 * time.Millisecond, Status: 503, Code: "SlowDown"}
	late := fakes3.Fault{Delay: 100 * time.Millisecond}
	for name, faults := range map[string][2]fakes3.Fault{
		"first": {{Delay: 60 * time.Millisecond, Status: 503, Code: "SlowDown"}, late}, "second": {late, broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, fake *fakes3.Server, _ *s3objects.Store) {
				store := open(t, fake, func(o *s3objects.Options) { o.HedgeDelay = 50 * time.Millisecond })
				put(t, store, "k", "data")
				fake.On(func(r fakes3.Request) fakes3.Fault { return faults[r.N%2] }) // the PUT was request 1
				want(t, store, "k", "data")
				wantCount(t, fake, fakes3.OpGet, 2)
			})
		})
	}
}

// TestHedgesAreFew: a store that is slow for everybody is not asked for everything twice.
func TestHedgesAreFew(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, fake *fakes3.Server, _ *s3objects.Store) {
		store := open(t, fake, func(o *s3objects.Options) { o.HedgeDelay = 10 * time.Millisecond })
		put(t, store, "k", "data")
		fake.On(fakes3.Always(fakes3.Is(fakes3.OpGet), fakes3.Fault{Delay: 500 * time.Millisecond}))
		for range 200 {
			want(t, store, "k", "data")
		}
		if got := store.Stats().Hedged; got < 20 || got > 30 {
			t.Errorf("%d hedges for 200 GETs, want a tenth and the 10 saved up", got)
		}
	})
}

// TestHedgeDelayAdapts: the delay comes to rest where few answers are slower, in either direction.
func TestHedgeDelayAdapts(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
		put(t, store, "k", "data")
		latency := func(usual time.Duration) {
			for i := range 400 {
				delay := usual
				if i%50 == 0 {
					delay *= 20
				}
				fake.On(fakes3.Always(fakes3.Is(fakes3.OpGet), fakes3.Fault{Delay: delay}))
				want(t, store, "k", "data")
			}
		}
		for _, usual := range []time.Duration{20 * time.Millisecond, 80 * time.Millisecond, 10 * time.Millisecond} {
			latency(usual)
			if d := store.HedgeDelay(0); d < usual*8/10 || d > usual*3/2 {
				t.Errorf("delay is %v where answers take %v", d, usual)
			}
		}
		if d := store.HedgeDelay(8 << 20); d < 250*time.Millisecond {
			t.Errorf("delay for 8 MiB is %v, less than they may take", d)
		}
	})
}
