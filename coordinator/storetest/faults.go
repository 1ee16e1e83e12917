package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// ErrInjected is wrapped by every error that Faults makes up.
var ErrInjected = errors.New("injected fault")

// Outcome is what becomes of one call.
type Outcome int

const (
	// Pass hands the call on.
	Pass Outcome = iota
	// Refuse answers ErrNotApplied and drops the call. Of a read, like every outcome that fails: an error.
	Refuse
	// Drop answers ErrUnknown; the call is lost on the way and never applied.
	Drop
	// Lose applies the call and answers ErrUnknown: the reply is lost.
	Lose
	// Late answers ErrUnknown; the call is applied when the test calls Deliver.
	Late
	// Hold keeps the call, unapplied, until the test calls Release; then it passes. If its context ends first, it
	// answers ErrUnknown and is late from then on.
	Hold
	// HoldReply applies the call and keeps the reply until Release, or ErrUnknown at the end of its context.
	HoldReply
)

// Call is a call that is about to be made. Of the pointers, those that the operation has are set.
type Call struct {
	Op     string // the method: Create, Load, Commit, Splice, Change; Get, Put, Delete, List; or that of an object store
	N      int    // how many calls of this Op were made, with this one
	Stream segments.StreamID
	Key    coordinator.Key // of List: the part, and the prefix
	Head   *coordinator.Head
	Commit *coordinator.Commit
	Splice *coordinator.Splice
	Change *coordinator.Change
	Row    *coordinator.Row
	Object string // its key; of a listing, the prefix
}

// Reads reports whether the call changes nothing.
func (c *Call) Reads() bool {
	switch c.Op {
	case "Load", "Get", "List", OpGetObject, OpListObjects:
		return true
	}
	return false
}

// Faults wraps stores, and decides the fate of every call to them. All methods may be called at once.
type Faults struct {
	mu      sync.Mutex
	changed *sync.Cond // held or late grew
	decide  func(Call) Outcome
	counts  map[string]int
	held    []*held
	late    []func() error
}

type held struct {
	call    Call
	release chan struct{}
}

// NewFaults makes Faults that ask decide about every call, and pass all if it is nil. decide is called by one
// goroutine at a time and must not call back.
func NewFaults(decide func(Call) Outcome) *Faults {
	f := &Faults{decide: decide, counts: map[string]int{}}
	f.changed = sync.NewCond(&f.mu)
	return f
}

// Set replaces what decides; nil passes all.
func (f *Faults) Set(decide func(Call) Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decide = decide
}

// Nth decides o for the n-th call of op (from 1) and Pass for all others.
func Nth(op string, n int, o Outcome) func(Call) Outcome {
	return func(c Call) Outcome {
		if c.Op == op && c.N == n {
			return o
		}
		return Pass
	}
}

// Always decides o for every call of the ops named, or of all if none is, and Pass for others.
func Always(o Outcome, ops ...string) func(Call) Outcome {
	return func(c Call) Outcome {
		if len(ops) == 0 || slices.Contains(ops, c.Op) {
			return o
		}
		return Pass
	}
}

// Counts says how often each operation was called, whatever became of it.
func (f *Faults) Counts() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.counts)
}

// Held lists the calls that are held now, oldest first.
func (f *Faults) Held() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := make([]Call, len(f.held))
	for i, h := range f.held {
		calls[i] = h.call
	}
	return calls
}

// WaitHeld waits until n calls are held. It has no time-out: the test's ends it.
func (f *Faults) WaitHeld(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.held) < n {
		f.changed.Wait()
	}
}

// Release lets go of the n oldest held calls, all if n is negative, and returns how many those were. It does not
// wait for their effect.
func (f *Faults) Release(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n < 0 || n > len(f.held) {
		n = len(f.held)
	}
	for _, h := range f.held[:n] {
		close(h.release)
	}
	f.held = slices.Clone(f.held[n:])
	return n
}

// Deliver applies the late calls made until now, oldest first, and returns what the store answered to each: nil for
// one that was applied.
func (f *Faults) Deliver() []error {
	f.mu.Lock()
	late := f.late
	f.late = nil
	f.mu.Unlock()
	answers := make([]error, len(late))
	for i, run := range late {
		answers[i] = run()
	}
	return answers
}

// begin counts the call and asks for its outcome; a held call is on the list when it returns.
func (f *Faults) begin(c *Call) (Outcome, *held) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[c.Op]++
	c.N = f.counts[c.Op]
	if f.decide == nil {
		return Pass, nil
	}
	o := f.decide(*c)
	if o != Hold {
		return o, nil
	}
	return o, f.hold(*c)
}

// hold needs f.mu.
func (f *Faults) hold(c Call) *held {
	h := &held{c, make(chan struct{})}
	f.held = append(f.held, h)
	f.changed.Broadcast()
	return h
}

// await waits for the release of h; false means that the context ended first, and h is off the list.
func (f *Faults) await(ctx context.Context, h *held) bool {
	select {
	case <-h.release:
		return true
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.Index(f.held, h)
	if i < 0 {
		return true // released at the same moment
	}
	f.held = slices.Delete(slices.Clone(f.held), i, i+1)
	return false
}

func (f *Faults) postpone(run func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late = append(f.late, run)
}

// through takes one call to its fate. run makes the call.
func through[T any](ctx context.Context, f *Faults, c Call, run func(context.Context) (T, error)) (T, error) {
	var none T
	// What is on its way when its caller gives up is not stopped by that.
	later := context.WithoutCancel(ctx)
	failed := func(kind error) error {
		if c.Reads() {
			return fmt.Errorf("%s: %w", c.Op, ErrInjected)
		}
		return fmt.Errorf("%s: %w: %w", c.Op, ErrInjected, kind)
	}
	postpone := func() {
		if c.Reads() {
			return
		}
		f.postpone(func() error {
			_, err := run(later)
			return err
		})
	}
	outcome, h := f.begin(&c)
	switch outcome {
	case Refuse:
		return none, failed(coordinator.ErrNotApplied)
	case Drop:
		return none, failed(coordinator.ErrUnknown)
	case Lose:
		_, _ = run(later)
		return none, failed(coordinator.ErrUnknown)
	case Late:
		postpone()
		return none, failed(coordinator.ErrUnknown)
	case Hold:
		if !f.await(ctx, h) {
			postpone()
			return none, failed(coordinator.ErrUnknown)
		}
		return run(later)
	case HoldReply:
		answer, err := run(later)
		f.mu.Lock()
		h = f.hold(c)
		f.mu.Unlock()
		if !f.await(ctx, h) {
			return none, failed(coordinator.ErrUnknown)
		}
		return answer, err
	}
	return run(ctx)
}
