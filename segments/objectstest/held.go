package objectstest

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrDropped is what the caller of a dropped call gets.
var ErrDropped = errors.New("objectstest: held call was dropped")

type point int

const (
	before point = iota
	after
)

// Held is one call that is kept from going on. Its caller waits until Release or Drop, or until its own context ends:
// then it is told so at once, while the call stays held and may still be done later, as by a real store that got a
// request whose sender had given up.
type Held struct {
	op    string
	match func(key string) bool
	point point

	arrived, settled chan struct{}

	mu      sync.Mutex
	drop    bool
	waiting bool // its caller still waits
	work    func(context.Context) error
}

// Hold catches the next call of the operation whose key matches (nil matches all) before it is decided and done.
func (f *Faulty) Hold(op string, match func(key string) bool) *Held { return f.hold(op, match, before) }

// HoldAnswer catches the next such call that succeeds after it was done, before its caller learns of it.
func (f *Faulty) HoldAnswer(op string, match func(key string) bool) *Held {
	return f.hold(op, match, after)
}

func (f *Faulty) hold(op string, match func(string) bool, at point) *Held {
	if match == nil {
		match = func(string) bool { return true }
	}
	h := &Held{op: op, match: match, point: at, arrived: make(chan struct{}), settled: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holds = append(f.holds, h)
	return h
}

// held takes the first hold that waits for such a call, if there is one.
func (f *Faulty) held(op, key string, at point) *Held {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.holds, func(h *Held) bool { return h.op == op && h.point == at && h.match(key) })
	if i < 0 {
		return nil
	}
	h := f.holds[i]
	f.holds = slices.Delete(f.holds, i, i+1)
	return h
}

// Arrived is closed once a call is caught.
func (h *Held) Arrived() <-chan struct{} { return h.arrived }

// Release lets the call go on. If its caller has given up, the call is done before Release returns, with a context of
// its own, and its result is lost. Only the first Release or Drop counts. Release before a call arrives lets that call
// pass unhindered.
func (h *Held) Release() { h.settle(false) }

// Drop makes a call held before it was done fail with ErrDropped, undone; for a held answer it loses the answer.
func (h *Held) Drop() { h.settle(true) }

func (h *Held) settle(drop bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.settled:
		return
	default:
	}
	h.drop = drop
	close(h.settled)
	if late := h.work; late != nil && !h.waiting && !drop {
		_ = late(context.Background()) // nobody is left to hear of it
	}
}

func (h *Held) before(ctx context.Context, work func(context.Context) error) error {
	if err := h.wait(ctx, work); err != nil {
		return err
	}
	return work(ctx)
}

func (h *Held) after(ctx context.Context) error { return h.wait(ctx, nil) }

func (h *Held) wait(ctx context.Context, work func(context.Context) error) error {
	h.mu.Lock()
	h.waiting, h.work = true, work
	h.mu.Unlock()
	close(h.arrived)
	select {
	case <-h.settled:
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting = false
	select {
	case <-h.settled:
		if h.drop {
			return ErrDropped
		}
		return nil
	default:
		return ctx.Err()
	}
}
