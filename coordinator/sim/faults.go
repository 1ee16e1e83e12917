package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// Fault is what becomes of a store call.
type Fault string

// The faults. A pause, a crash and a jump of the clock befall a process; they are counted at the calls that it has
// under way.
const (
	Pass      Fault = "pass"
	Refused   Fault = "refused"    // a definite failure; of a read, an error
	Lost      Fault = "lost"       // never arrives; no answer
	LostReply Fault = "reply lost" // carried out; no answer
	Late      Fault = "late"       // no answer; carried out later, maybe minutes
	Delayed   Fault = "delayed"    // arrives later than calls that were made after it
	SlowReply Fault = "slow reply" // carried out; answered later
	Crash     Fault = "crash"
	Pause     Fault = "pause"
	ClockJump Fault = "clock jump"
)

// Faults lists them in the order of the table that is printed.
var Faults = []Fault{Pass, Refused, Lost, LostReply, Late, Delayed, SlowReply, Crash, Pause, ClockJump}

var (
	errInjected = errors.New("injected")
	errGone     = fmt.Errorf("the process is gone: %w", coordinator.ErrUnknown)
)

// outcome chooses what becomes of a call and does it.
func (w *world) outcome(c *call) {
	f := Pass
	if !w.calm && w.rng.IntN(1000) < w.faultPerMille(c) {
		f = w.chooseFault(c)
	}
	if f == Pause || f == ClockJump || f == Crash {
		w.befall(c.p, f) // and the call after it, if there is an after
		return
	}
	w.stats.count(c.op, f)
	switch f {
	case Refused:
		err := fmt.Errorf("%w: %w", errInjected, coordinator.ErrNotApplied)
		if !c.writes {
			err = errInjected
		}
		w.note(c, "REFUSED")
		c.fail(err)
		w.finish(c)
	case Lost:
		w.note(c, "LOST")
		w.unanswered(c)
	case LostReply:
		_, answer := c.exec()
		w.note(c, "REPLY LOST of "+answer)
		w.unanswered(c)
	case Late:
		at := w.later()
		w.note(c, "LATE, at "+at.in(w))
		w.late = append(w.late, late{at, fmt.Sprintf("%s %s %s %s", c.p.name, c.on, c.op, c.what), c.exec})
		w.unanswered(c)
	case Delayed:
		c.ready = w.later()
		w.note(c, "DELAYED until "+c.ready.in(w))
	case SlowReply:
		set, answer := c.exec()
		set()
		c.exec, c.answer = nil, answer
		c.ready = w.later()
		w.note(c, "-> "+answer+" SLOW REPLY at "+c.ready.in(w))
	default:
		set, answer := c.exec()
		set()
		w.note(c, "-> "+answer)
		w.finish(c)
	}
}

func (w *world) chooseFault(c *call) Fault {
	kinds := []Fault{Refused, Lost, LostReply, Late, Late, Delayed, SlowReply, SlowReply, Pause, ClockJump, Crash}
	if !c.writes {
		kinds = []Fault{Refused, Refused, Delayed, Delayed, SlowReply, SlowReply, SlowReply, Pause, ClockJump, Crash}
	}
	if c.op == "Commit" && w.cfg.DoubtPerMille > 0 {
		kinds = []Fault{LostReply, LostReply, LostReply, Late, Lost, SlowReply, Delayed, Refused, Pause}
	}
	if c.op == "Cancel" && w.cfg.DoubtPerMille > 0 {
		kinds = []Fault{SlowReply, SlowReply, SlowReply, LostReply, Lost, Late, Delayed, Refused, Pause, ClockJump, Crash}
	}
	f := kinds[w.rng.IntN(len(kinds))]
	w.faults++
	if w.cfg.Suppress[w.faults] {
		return Pass
	}
	return f
}

// faultPerMille is higher for calls that are rarely made, so that each of them meets each fault often enough.
func (w *world) faultPerMille(c *call) int {
	switch c.op {
	case "Commit", "Cancel":
		return max(w.cfg.FaultPerMille, w.cfg.DoubtPerMille)
	case "Load", "Get page", "Get segment", "Put page", "Put segment", "List":
		return w.cfg.FaultPerMille
	case "Bump", "Clear", "Create", "Retire":
		return min(10*w.cfg.FaultPerMille, 700)
	}
	return 3 * w.cfg.FaultPerMille
}

// unanswered fails a call whose caller gets no answer: at once, as from a broken connection, or later, or at its
// deadline.
func (w *world) unanswered(c *call) {
	c.fail(fmt.Errorf("%w: %w", errInjected, coordinator.ErrUnknown))
	k := w.rng.IntN(3)
	if k == 0 || c.deadline.IsZero() {
		w.finish(c)
		return
	}
	c.exec, c.answer = nil, "none"
	if c.ready = w.later(); k == 1 {
		c.ready = when{at: c.deadline}
	}
}

// when is a moment to come: a time, or a number of steps, which is how to have much happen in between.
type when struct {
	at   time.Time
	step int
}

func (u when) in(w *world) string {
	if u.step > 0 {
		return fmt.Sprint("step ", u.step)
	}
	return u.at.Sub(w.start).Round(time.Microsecond).String()
}

// holds reports whether the moment has not come.
func (u when) holds(now time.Time, step int) bool { return u.at.After(now) || u.step > step }

// later is a moment at which a fault ends.
func (w *world) later() when {
	if w.rng.IntN(2) == 0 {
		return when{step: w.step + 2 + w.rng.IntN(100)}
	}
	return when{at: time.Now().Add(w.span())}
}

// span is how long a fault lasts: anything from microseconds to days, short ones as often as long ones.
func (w *world) span() time.Duration {
	top := []time.Duration{5 * time.Millisecond, 5 * time.Millisecond, 50 * time.Millisecond, time.Second, 10 * time.Second, 30 * time.Minute, 10 * 24 * time.Hour}
	return time.Duration(1 + w.rng.Int64N(int64(top[w.rng.IntN(len(top))])))
}

// worldEvent now and then makes something happen to a process.
func (w *world) worldEvent() bool {
	if w.rng.IntN(1000) >= w.cfg.EventPerMille {
		return false
	}
	p := w.anyProcess()
	if p == nil || w.rng.IntN(3) == 0 {
		return w.spawn()
	}
	w.faults++
	kind := w.rng.IntN(10)
	f := []Fault{Pause, Pause, Pause, Pause, ClockJump, ClockJump, ClockJump, Crash, Crash, Crash}[kind]
	if w.cfg.Suppress[w.faults] {
		return false
	}
	w.befall(p, f)
	w.step++
	return true
}

// befall has something happen to a process.
func (w *world) befall(p *process, f Fault) {
	w.countFor(p, f)
	switch f {
	case Pause:
		until := w.later()
		w.mu.Lock()
		p.paused = until
		w.mu.Unlock()
		w.logf("%-4s PAUSED until %s", p.name, until.in(w))
	case ClockJump:
		jump := w.jump()
		p.offset.Store(int64(jump))
		w.logf("%-4s CLOCK off by %s", p.name, jump)
	case Crash:
		w.logf("%-4s CRASHED", p.name)
		w.crash(p)
	}
}

// jump is how far a clock is off: from nothing to years, either way.
func (w *world) jump() time.Duration {
	top := []time.Duration{1, time.Second, time.Minute, time.Hour, 3 * 365 * 24 * time.Hour}
	d := time.Duration(w.rng.Int64N(int64(top[w.rng.IntN(len(top))])))
	if w.rng.IntN(2) == 0 {
		return -d
	}
	return d
}

func (w *world) countFor(p *process, f Fault) {
	for _, c := range w.callsOf(p) {
		if c.exec != nil && c.op != "go" && c.op != "client" {
			w.stats.count(c.op, f)
		}
	}
}
