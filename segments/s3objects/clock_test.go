package s3objects_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/segments/s3objects"
	"github.com/tailrace-streams/tailrace/segments/s3objects/fakes3"
)

// jumpy is a clock that can be set.
type jumpy struct{ ahead atomic.Int64 }

func (j *jumpy) now() time.Time          { return time.Now().Add(time.Duration(j.ahead.Load())) }
func (j *jumpy) set(ahead time.Duration) { j.ahead.Store(int64(ahead)) }

// TestBL109: the clocks jump apart by twenty minutes, either way and back, on a store that refuses fifteen. The call that
// meets a jump is repeated once; no later one is, and no caller sees it.
func TestBL109(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
		var clock jumpy
		fake.SetClock(clock.now)
		fake.SetQuirks(fakes3.Quirks{Skew: 15 * time.Minute})
		puts := 0
		for _, ahead := range []time.Duration{20 * time.Minute, 0, -20 * time.Minute, 48 * time.Hour, 0} {
			clock.set(ahead)
			for range 5 {
				put(t, store, "k", "data")
				want(t, store, "k", "data")
			}
			puts += 6
			wantCount(t, fake, fakes3.OpPut, puts)
			wantCount(t, fake, fakes3.OpGet, puts/6*5)
			if got := store.Clock(); (got.Offset-ahead).Abs() > time.Second || got.Seen.IsZero() {
				t.Errorf("Clock = %+v, want an offset of %v", got, ahead)
			}
		}
		if n := store.Stats().Repeated; n != 5 {
			t.Errorf("%d attempts were repeated at 5 jumps", n)
		}
	})
}

func TestClock(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, 61 * time.Second, -90 * time.Second} {
		inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
			if got := store.Clock(); got != (s3objects.Clock{}) {
				t.Errorf("Clock = %+v before any answer", got)
			}
			var clock jumpy
			clock.set(ahead)
			fake.SetClock(clock.now)
			time.Sleep(time.Duration(ahead%7)*100*time.Millisecond + 300*time.Millisecond)
			fake.On(fakes3.Always(fakes3.Any, fakes3.Fault{Status: 403, Code: "AccessDenied"})) // an error has a date too
			start := time.Now()
			if err := store.Put(t.Context(), "k", nil); err == nil {
				t.Error("no error")
			}
			if got := store.Clock(); (got.Offset-ahead).Abs() > time.Second || !got.Seen.Equal(start) {
				t.Errorf("Clock = %+v, want an offset of %v seen at %v", got, ahead, start)
			}
			if ahead == 0 && store.Clock().Offset != 0 {
				t.Errorf("Clock = %+v where the clocks agree", store.Clock())
			}
		})
	}
}

// TestResignOnServers: stores that verify signatures take those made for their own time.
func TestResignOnServers(t *testing.T) {
	t.Parallel()
	for name := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := server(t, name)
			options.MaxAttempts, options.HedgeDelay = 1, -1
			store := openOptions(t, options)
			put(t, store, "a/b_c-d.e", "data")
			for _, offset := range []time.Duration{10 * time.Minute, -10 * time.Minute, 0} {
				for call, do := range map[string]func() error{
					"Put":    func() error { return store.Put(t.Context(), "a/b_c-d.e", []byte("data")) },
					"Get":    func() error { _, err := store.Get(t.Context(), "a/b_c-d.e", 1, 2); return err },
					"List":   func() error { _, err := store.List(t.Context(), "a/", "a/a~", 10); return err },
					"Delete": func() error { return store.Delete(t.Context(), []string{"x", "y"})["x"] },
				} {
					store.ForceOffset(offset)
					if err := do(); err != nil {
						t.Errorf("%s dated %v off = %v", call, offset, err)
					}
				}
				store.ForceOffset(0)
				want(t, store, "a/b_c-d.e", "data")
				store.ForceOffset(20 * time.Minute)
				if err := store.Put(t.Context(), "k", nil); err == nil {
					t.Error("a request dated 20 minutes ahead passed: the store does not look")
				}
			}
		})
	}
}

// TestBL109Stubborn: a store that refuses whatever time it is told is not asked for ever.
func TestBL109Stubborn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
		fake.On(fakes3.Always(fakes3.Any, fakes3.Fault{Status: 403, Code: "RequestTimeTooSkewed"}))
		wantError(t, store.Put(t.Context(), "k", nil), "403 RequestTimeTooSkewed", "8 attempts")
	})
}
