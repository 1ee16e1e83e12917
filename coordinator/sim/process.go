package sim

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/internal/hooks"
)

// process is one node or function: a coordinator of its own over the shared stores, and its clients. A restart makes
// a new one.
type process struct {
	w    *world
	n    int
	name string
	*coordinator.Coordinator

	offset atomic.Int64 // of its clock, in nanoseconds
	life   context.Context
	end    context.CancelFunc

	// Under world.mu:
	gone    bool
	closed  bool
	paused  when // no call of it goes before
	likes   map[string]int
	clients int
	starts  int
	// drawn counts draws by what they are for, so that draws of goroutines that run at once do not depend on which
	// comes first.
	drawn map[string]uint64 // under world.mu
}

// newProcess starts a process. The clock of a new one may be off already.
func (w *world) newProcess(kind string) *process {
	w.mu.Lock()
	n := len(w.procs)
	p := &process{w: w, n: n, name: fmt.Sprintf("%s%d", kind, n), likes: map[string]int{}, drawn: map[string]uint64{}}
	w.procs = append(w.procs, p)
	w.mu.Unlock()
	p.life, p.end = context.WithCancel(context.Background())
	o := coordinator.Options{
		Heads: &heads{p: p}, Objects: &objects{p}, Room: w.cfg.Room, Log: zerolog.Nop(), Now: p.now,
		TrimDelay: w.cfg.TrimDelay, CacheBytes: w.cfg.CacheBytes, MoveWorkers: 1,
		PollInterval: time.Second,
		Hooks: &hooks.Hooks{
			Go: p.start, Random: p.random, PageRows: w.cfg.PageRows, Cancelled: w.cfg.Cancelled, Broken: w.cfg.Broken,
		},
	}
	c, err := coordinator.New(o)
	if err != nil {
		panic(err)
	}
	p.Coordinator = c
	return p
}

func (p *process) now() time.Time { return time.Unix(0, time.Now().UnixNano()+p.offset.Load()) }

// start has a new goroutine wait for the scheduler before it does anything, so that what it finds does not depend on
// how soon it runs.
func (p *process) start(f func()) func() {
	by := caller()
	p.w.mu.Lock()
	p.starts++
	what := fmt.Sprintf("%06d", p.starts)
	p.w.mu.Unlock()
	return func() {
		p.w.park(&call{p: p, op: "go", by: by, what: what, fail: func(error) {}})
		f()
	}
}

// random gives bytes that the seed, the process, and what they are for decide.
func (p *process) random(b []byte) {
	by := caller()
	p.w.mu.Lock()
	p.drawn[by]++
	n := p.drawn[by]
	p.w.mu.Unlock()
	seed := binary.BigEndian.AppendUint64(nil, p.w.cfg.Seed)
	sum := sha256.Sum256(fmt.Appendf(seed, "%d %d %s", p.n, n, by))
	copy(b, sum[:])
}

// caller names the functions of the coordinator on the stack, innermost first. It tells apart calls of goroutines that
// would otherwise look the same, whichever comes first.
func caller() string {
	const pkg = "github.com/tailrace-streams/tailrace/coordinator."
	var pcs [48]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	var names []string
	for {
		f, more := frames.Next()
		if name, ok := strings.CutPrefix(f.Function, pkg); ok {
			name = strings.ReplaceAll(strings.TrimPrefix(name, "(*"), ")", "")
			names = append(names, name[strings.LastIndexByte(name, '.')+1:])
			if strings.Contains(name, ".func") {
				names[len(names)-1] = name
			}
		}
		if !more {
			return strings.Join(names, "<")
		}
	}
}

// callsOf lists the parked calls of a process, in order.
func (w *world) callsOf(p *process) (calls []*call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.pending {
		if c.p == p {
			calls = append(calls, c)
		}
	}
	sortCalls(calls)
	return calls
}

// crash ends a process between any two calls: what it has under way is carried out or not, maybe later; every later
// call fails.
func (w *world) crash(p *process) {
	calls := w.callsOf(p)
	w.mu.Lock()
	p.gone = true
	w.mu.Unlock()
	for _, c := range calls {
		if c.exec == nil {
			continue
		}
		switch w.rng.IntN(3) {
		case 0:
			_, answer := c.exec()
			w.note(c, "carried out at the crash: "+answer)
		case 1:
			if c.writes {
				w.late = append(w.late, late{w.later(), fmt.Sprintf("%s %s %s %s", p.name, c.on, c.op, c.what), c.exec})
			}
		}
	}
	for _, c := range calls {
		if c.exec != nil || c.op == "client" {
			c.fail(errGone)
		}
		w.finish(c)
	}
	w.bury(p)
}

// bury ends the goroutines of a process that is gone. Their calls fail at once, so nothing comes of it.
func (w *world) bury(p *process) {
	p.end()
	w.mu.Lock()
	again := p.closed
	p.closed = true
	w.mu.Unlock()
	if !again {
		w.closing.Go(p.Coordinator.Close)
	}
}

// anyProcess picks a process that lives.
func (w *world) anyProcess() *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	var live []*process
	for _, p := range w.procs {
		if !p.gone {
			live = append(live, p)
		}
	}
	if len(live) == 0 {
		return nil
	}
	return live[w.rng.IntN(len(live))]
}
