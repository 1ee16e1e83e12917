package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/tailrace-streams/tailrace/segments"
)

// world is one simulated run: the stores, the processes, and the scheduler between them. Everything in it happens
// inside one synctest bubble. Goroutines of coordinators and clients run freely until they park in a call; when all are
// parked, the scheduler chooses one call, by a generator that the seed alone decides, and lets it go.
type world struct {
	cfg   Config
	rng   *rand.Rand
	start time.Time
	basin segments.BasinID
	truth *truth
	slots []*slot
	stats *Stats

	mu      sync.Mutex
	pending []*call
	procs   []*process
	ops     []*op
	// sessions are those that are open and present a token, on processes that may be gone.
	sessions []*openSession
	// revisions are the newest that clients were told of.
	revisions map[segments.StreamID]revision
	opsLeft   int
	clients   int // that have not ended
	failure   *Failure

	// Of the scheduler's goroutine alone:
	step      int
	faults    int // injected so far
	made      int // streams; under mu
	late      []late
	calm      bool // no more faults
	trace     []string
	burst     int // how many more calls of the favourite
	favourite string
	closing   sync.WaitGroup
}

// slot is a stream's name: the stream under it changes when it is deleted and made again.
type slot struct {
	n       int
	current segments.StreamID // under world.mu
}

// call is a goroutine parked before something that others can see, or that chance could decide.
type call struct {
	p        *process
	op       string // of a store; "go" and "client" for what is no store call
	on       string // stream or object
	by       string // functions of the coordinator that lead to it
	what     string
	n        int // of its likes in the process
	key      string
	writes   bool
	deadline time.Time
	// exec carries the call out. It returns what gives its caller the result, and a description of that. It is nil once
	// the call is carried out, or never will be.
	exec   func() (set func(), answer string)
	answer string      // once exec is nil
	fail   func(error) // gives the caller an error instead
	ready  when        // not before
	done   chan struct{}
}

// late is an effect on its way that nobody waits for any more.
type late struct {
	at   when
	what string
	exec func() (set func(), answer string)
}

// park hands the call to the scheduler and waits until it is over.
func (w *world) park(c *call) {
	w.mu.Lock()
	if c.p.gone {
		w.mu.Unlock()
		c.fail(errGone)
		return
	}
	c.done = make(chan struct{})
	like := c.on + c.op + c.by + c.what
	c.p.likes[like]++
	c.n = c.p.likes[like]
	c.key = fmt.Sprintf("%03d %s %s %s %s %06d", c.p.n, c.on, c.op, c.by, c.what, c.n)
	w.pending = append(w.pending, c)
	w.mu.Unlock()
	<-c.done
}

// sleep lets simulated time pass, and everything that it wakes come to rest.
func (w *world) sleep(d time.Duration) {
	w.follow() // what was done so far comes before what a client's timer begins
	time.Sleep(max(d, 0) + time.Duration(1+w.rng.IntN(999)))
	synctest.Wait()
}

// run schedules until done says so, at a time when everything is parked.
func (w *world) run(done func() bool) {
	idle := 0
	for w.failed() == nil && !done() {
		w.passTime()
		if done() {
			return
		}
		if w.tick() {
			idle = 0
		} else if idle++; idle > 10_000 {
			w.fail("progress", "nothing has happened for long, and not everything is done")
		}
		if w.step > w.cfg.MaxSteps {
			w.fail("progress", "not done after %d steps", w.step)
		}
	}
}

// passTime is mostly short, as between packets, and now and then long enough for timers.
func (w *world) passTime() {
	d := time.Duration(w.rng.IntN(1000)) * time.Microsecond
	switch k := w.rng.IntN(100); {
	case k < 3:
		d = time.Duration(w.rng.IntN(3000)) * time.Millisecond
	case k < 15:
		d = time.Duration(w.rng.IntN(50)) * time.Millisecond
	}
	w.sleep(d)
}

// tick lets one thing happen. It reports false if there was nothing, and let time pass instead.
func (w *world) tick() bool {
	if !w.calm && w.worldEvent() {
		return true
	}
	now := time.Now()
	calls, starts := w.ready(now)
	due := w.due(now)
	if w.cfg.Debug {
		for _, c := range append(slices.Clone(calls), starts...) {
			w.logf("    ready %s", c.key)
		}
	}
	switch {
	case len(due) > 0 && (len(calls)+len(starts) == 0 || w.rng.IntN(3) == 0):
		w.deliver(due[w.rng.IntN(len(due))])
	case len(starts) > 0 && (len(calls) == 0 || w.rng.IntN(100) < w.cfg.StartPercent):
		w.release(starts[w.rng.IntN(len(starts))])
	case len(calls) > 0:
		w.release(w.choose(calls))
	default:
		w.sleep(w.untilNext(now))
		return false
	}
	return true
}

// choose picks a call: any, or in bursts one after another of the same activity of a process, as if it were much faster
// than the others.
func (w *world) choose(calls []*call) *call {
	if w.cfg.Burst > 0 && w.burst > 0 {
		same := slices.DeleteFunc(slices.Clone(calls), func(c *call) bool { return c.activity() != w.favourite })
		if len(same) > 0 {
			w.burst--
			return same[w.rng.IntN(len(same))]
		}
	}
	c := calls[w.rng.IntN(len(calls))]
	if w.cfg.Burst > 0 {
		w.favourite, w.burst = c.activity(), w.rng.IntN(w.cfg.Burst)
	}
	return c
}

// activity names what a call is part of: a process, and the outermost of the coordinator's functions.
func (c *call) activity() string { return c.p.name + c.by[strings.LastIndexByte(c.by, '<')+1:] }

// ready lists the calls that may go now, in an order that no chance decided: those to stores, and starts of client
// operations.
func (w *world) ready(now time.Time) (calls, starts []*call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.pending {
		switch {
		case c.ready.holds(now, w.step) || c.p.paused.holds(now, w.step):
		case c.op == "client":
			starts = append(starts, c)
		default:
			calls = append(calls, c)
		}
	}

	sortCalls(calls)
	sortCalls(starts)
	return calls, starts
}

func (w *world) due(now time.Time) (due []int) {
	for i := range w.late {
		if !w.late[i].at.holds(now, w.step) {
			due = append(due, i)
		}
	}
	return due
}

// untilNext is how long it takes until something is ready that is known of; timers of the coordinators may be first.
func (w *world) untilNext(now time.Time) time.Duration {
	next, step := 10*time.Second, math.MaxInt
	if w.rng.IntN(10) == 0 {
		next = 30 * 24 * time.Hour
	}
	look := func(u when) {
		if u.at.After(now) {
			next = min(next, u.at.Sub(now))
		} else {
			step = min(step, u.step)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.pending {
		look(when{latest(c.ready.at, c.p.paused.at), max(c.ready.step, c.p.paused.step)})
	}
	for i := range w.late {
		look(w.late[i].at)
	}
	switch {
	case step < math.MaxInt:
		w.step = max(step, w.step) // nothing happens in the steps between
		return 0
	case w.clients > 0 && len(w.pending) == 0:
		return min(next, 200*time.Millisecond) // backoffs and polls
	}
	return next
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// release carries out one parked call, with the outcome that the generator chooses.
func (w *world) release(c *call) {
	w.step++
	if c.op == "client" || c.op == "go" {
		w.note(c, "")
		w.finish(c)
		return
	}
	if c.exec == nil { // a slow reply
		w.note(c, "reply "+c.answer)
		w.finish(c)
		return
	}
	w.outcome(c)
	synctest.Wait()
}

// finish lets the caller go on.
func (w *world) finish(c *call) {
	w.mu.Lock()
	w.pending = slices.DeleteFunc(w.pending, func(o *call) bool { return o == c })
	w.mu.Unlock()
	close(c.done)
	synctest.Wait()
}

// deliver carries out a late effect.
func (w *world) deliver(i int) {
	l := w.late[i]
	w.late = slices.Delete(w.late, i, i+1)
	w.step++
	_, answer := l.exec()
	w.logf("LATE %s -> %s", l.what, answer)
}

func (w *world) logf(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%5d %12s ", w.step, time.Since(w.start).Round(time.Microsecond))+fmt.Sprintf(format, args...))
}

func (w *world) note(c *call, outcome string) {
	by := c.by
	if len(by) > 48 {
		by = by[:48] + "..."
	}
	w.logf("%-4s %-8s %-16s %s [%s] %s", c.p.name, c.on, c.op, c.what, by, outcome)
}

// fail ends the run, if it is the first failure.
func (w *world) fail(invariant, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure == nil {
		w.failure = &Failure{Invariant: invariant, Detail: fmt.Sprintf(format, args...), Step: w.step}
	}
}

func (w *world) failed() *Failure {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

func sortCalls(calls []*call) {
	slices.SortFunc(calls, func(a, b *call) int { return cmp.Compare(a.key, b.key) })
}
