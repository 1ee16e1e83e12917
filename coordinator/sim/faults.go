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
	if !w.calm && w.rng.IntN(1000) < w.cfg.FaultPerMille {
		f = w.chooseFault(c)
	}
	w.stats.count(c.op, f)
	now := time.Now()
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
		at := now.Add(w.span())
		w.note(c, "LATE, at "+at.Sub(w.start).Round(time.Microsecond).String())
		w.late = append(w.late, late{at, fmt.Sprintf("%s %s %s %s", c.p.name, c.on, c.op, c.what), c.exec})
		w.unanswered(c)
	case Delayed:
		c.ready = now.Add(w.span())
		w.note(c, "DELAYED until "+c.ready.Sub(w.start).Round(time.Microsecond).String())
	case SlowReply:
		set, answer := c.exec()
		set()
		c.exec, c.answer = nil, answer
		c.ready = now.Add(w.span())
		w.note(c, "-> "+answer+" SLOW REPLY at "+c.ready.Sub(w.start).Round(time.Microsecond).String())
	default:
		set, answer := c.exec()
		set()
		w.note(c, "-> "+answer)
		w.finish(c)
	}
}

func (w *world) chooseFault(c *call) Fault {
	kinds := []Fault{Refused, Lost, LostReply, Late, Late, Delayed, SlowReply, SlowReply}
	if !c.writes {
		kinds = []Fault{Refused, Delayed, SlowReply, SlowReply}
	}
	f := kinds[w.rng.IntN(len(kinds))]
	w.faults++
	if w.cfg.Suppress[w.faults] {
		return Pass
	}
	return f
}

// unanswered fails a call whose caller gets no answer: at once, as from a broken connection, or at its deadline.
func (w *world) unanswered(c *call) {
	c.fail(fmt.Errorf("%w: %w", errInjected, coordinator.ErrUnknown))
	if w.rng.IntN(2) == 0 || c.deadline.IsZero() {
		w.finish(c)
		return
	}
	c.exec, c.answer = nil, "none: timed out"
	c.ready = c.deadline
}

// span is how long a fault lasts: anything from a millisecond to half an hour, each magnitude as likely.
func (w *world) span() time.Duration {
	top := []time.Duration{5 * time.Millisecond, 5 * time.Millisecond, 50 * time.Millisecond, time.Second, 10 * time.Second, 30 * time.Minute}
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
	d, jump := w.span(), w.jump()
	if w.cfg.Suppress[w.faults] {
		return false
	}
	switch {
	case kind < 4:
		w.countFor(p, Pause)
		p.paused = time.Now().Add(d)
		w.logf("%-4s PAUSED until %s", p.name, p.paused.Sub(w.start).Round(time.Microsecond))
	case kind < 7:
		w.countFor(p, ClockJump)
		p.offset.Store(int64(jump))
		w.logf("%-4s CLOCK off by %s", p.name, jump)
	default:
		w.countFor(p, Crash)
		w.logf("%-4s CRASHED", p.name)
		w.crash(p)
	}
	w.step++
	return true
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
