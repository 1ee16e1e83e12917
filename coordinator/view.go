package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator/internal/hooks"
	"github.com/tailrace-streams/tailrace/coordinator/recall"
	"github.com/tailrace-streams/tailrace/segments"
)

// Freshness says what state of a stream a read wants to be served from (design 8, "revisions"). The zero value is a
// strong read: a state that was loaded after the call began.
type Freshness struct {
	// MaxAge, if positive, allows a remembered state that is at most so old.
	MaxAge time.Duration
	// Viewer names on whose behalf it is. A remembered state is shown only to those for whom it was loaded once: the name
	// that led to the stream may have changed hands since, which a load finds out and a memory does not.
	Viewer string
	// MinV is the v that the state has at least; 0 demands nothing. Patience is how long to wait for it beyond one load.
	MinV     uint64
	Patience time.Duration
}

// View is a state of a stream with the moment after which it was loaded (see recall.Age).
type View struct {
	Head Head
	AsOf time.Time
}

// Behind refuses a read: the newest state that could be had is of V, which is less than it demands.
type Behind struct{ V uint64 }

func (e *Behind) Error() string { return fmt.Sprintf("the stream is at version %d", e.V) }

// View returns the state of an active stream that a read is served from. Errors as OpenReader's.
func (c *Coordinator) View(ctx context.Context, ref StreamRef, f Freshness) (View, error) {
	if f.MaxAge > 0 {
		if v, ok := c.views.get(ref, &f); ok && (v.Head.V >= f.MinV || c.o.Hooks.Breaks(hooks.OldView)) {
			return v, nil
		}
	}
	v := View{AsOf: time.Now()}
	var err error
	if v.Head, err = c.loads.active(ctx, ref.Stream); err != nil {
		if errors.Is(err, ErrStreamNotFound) {
			c.Forget(ref)
		}
		return View{}, err
	}
	if v.Head.V < f.MinV {
		if v, err = c.waits.until(ctx, ref, v, &f); err != nil {
			return View{}, err
		}
	}
	if f.MaxAge > 0 {
		c.views.put(ref, &f, v)
	}
	return v, nil
}

// views remembers the heads of streams that are read eventually. Nothing is remembered of other streams. What this
// process commits or loads replaces what is remembered, so that most reads of one's own writes cost no load.
type views struct {
	cache *recall.Cache[segments.BasinID, segments.StreamID, viewed]
}

// viewed is a state and who may be shown it.
type viewed struct {
	View
	viewers []string // never changed in place
}

// maxViewers bounds those remembered with a state. Streams have one owner and rarely another.
const maxViewers = 4

func newViews(bytes int64) *views {
	return &views{recall.New[segments.BasinID, segments.StreamID](bytes, bytes/2, func(v viewed) int64 { return headBytes(&v.Head) })}
}

// headBytes is about what a head takes in memory.
func headBytes(h *Head) int64 {
	const fixed, perEntry, perRoot, perCancelled = 512, 160, 320, 32
	n := fixed + perEntry*len(h.Log) + perRoot*len(h.Pages) + perCancelled*len(h.Cancelled) + len(h.Token)
	return int64(n) + int64(h.InlineBytes)
}

func (s *views) get(ref StreamRef, f *Freshness) (View, bool) {
	v, ok := s.cache.Get(ref.Basin, ref.Stream)
	if !ok || recall.Age(v.AsOf) > f.MaxAge || !slices.Contains(v.viewers, f.Viewer) {
		return View{}, false
	}
	return v.View, true
}

// put remembers a state that was loaded for a viewer. A newer one stays.
func (s *views) put(ref StreamRef, f *Freshness, v View) {
	s.cache.Change(ref.Basin, ref.Stream, func(old viewed, ok bool) (viewed, bool) {
		if !ok {
			return viewed{v, []string{f.Viewer}}, true
		}
		old.View = newer(old.View, v)
		if !slices.Contains(old.viewers, f.Viewer) {
			last := old.viewers[max(0, len(old.viewers)+1-maxViewers):]
			old.viewers = append(slices.Clone(last), f.Viewer)
		}
		return old, true
	})
}

// learn replaces what is remembered of a stream, if anything is, by what a store call brought.
func (s *views) learn(v View) {
	s.cache.Update(v.Head.Basin, v.Head.Stream, func(old viewed) (viewed, bool) {
		old.View = newer(old.View, v)
		return old, old.Head.State == Active
	})
}

// newer is the later of two states, as of the later of the two moments: a call that began at one moment and brought an
// older state than is known says that the known one is as new.
func newer(a, b View) View {
	if b.Head.V > a.Head.V {
		a.Head = b.Head
	}
	if b.AsOf.After(a.AsOf) {
		a.AsOf = b.AsOf
	}
	return a
}

// Forget drops what is remembered of a stream, because it was changed by other means than this coordinator's.
func (c *Coordinator) Forget(ref StreamRef) {
	c.views.cache.Update(ref.Basin, ref.Stream, func(old viewed) (viewed, bool) { return old, false })
}

// saw is told of every head that a store call brought, with a moment before the call began.
func (c *Coordinator) saw(h Head, asOf time.Time) {
	v := View{h, asOf}
	c.views.learn(v)
	c.waits.learn(v)
}
