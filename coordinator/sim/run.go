package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/internal/hooks"
	"github.com/tailrace-streams/tailrace/segments"
)

// Config is one simulation. ForSeed makes one; the other fields are there for a failure to be shrunk.
type Config struct {
	Seed     uint64
	Ops      int // operations of clients
	MaxSteps int
	Nodes    int // long-lived processes at once
	Streams  int // names
	Writers  int // clients that append, per node

	Sessions int // clients that append in sessions, per node
	Keepers  int // clients that maintain and collect, per node

	FaultPerMille  int // of store calls
	DoubtPerMille  int // of commits, and of what follows when one is in doubt; if it is more
	EventPerMille  int // of steps: pauses, crashes, clock jumps, functions that start
	StartPercent   int // how readily new operations start while others are under way
	Burst          int // how many calls of one activity may go one after another, before those of others
	LargePercent   int // of batches
	CollectPercent int // of maintenance
	DeletePercent  int // of verbs
	Retention      bool

	Room       coordinator.Room
	PageRows   int // at which a page is full
	Cancelled  int // ids at which a head is cleared of them
	TrimDelay  time.Duration
	CacheBytes int64

	// Broken is the rule that is broken.
	Broken hooks.Rule
	// EffectsOnly leaves out the invariants that state a rule and not what it is for.
	EffectsOnly bool
	// Suppress are the faults that are left out, by their number.
	Suppress map[int]bool
	// Debug has the trace list what could have been chosen at every step.
	Debug bool
}

// Failure is an invariant that did not hold.
type Failure struct {
	Invariant, Detail string
	Step              int
}

func (f *Failure) Error() string {
	return fmt.Sprintf("%s: %s (step %d)", f.Invariant, f.Detail, f.Step)
}

// Result is what became of a simulation.
type Result struct {
	Config  Config
	Failure *Failure
	Trace   []string
	Stats   *Stats
	Faults  int // injected
	Steps   int
	Ops     int
}

// ForSeed draws the shape of a simulation: how many processes, streams and faults, and how much lies in a head.
func ForSeed(seed uint64) Config {
	r := rand.New(rand.NewPCG(seed, 1))
	pick := func(of ...int) int { return of[r.IntN(len(of))] }
	c := Config{
		Seed: seed, MaxSteps: 30_000,
		Ops: 15 + r.IntN(60), Nodes: 1 + r.IntN(3), Streams: pick(1, 1, 1, 2, 3), Writers: 1 + r.IntN(4),
		FaultPerMille: pick(0, 20, 60, 120, 250), EventPerMille: pick(0, 5, 15, 30),
		StartPercent: pick(3, 10, 30), Burst: pick(0, 10, 50), LargePercent: pick(10, 40, 80),
		CollectPercent: pick(20, 60, 90), DeletePercent: pick(0, 10, 25), Retention: r.IntN(6) == 0,
		PageRows: pick(4, 6, 8), Cancelled: pick(1, 1, 3, 32), TrimDelay: []time.Duration{-1, time.Second, 10 * time.Second}[r.IntN(3)],
		CacheBytes: []int64{-1, 1 << 20, 1 << 20}[r.IntN(3)],
	}
	c.Sessions, c.Keepers = 1, 1
	if r.IntN(3) == 0 { // many commits in doubt
		c.DoubtPerMille = 150 + r.IntN(350)
	}
	if r.IntN(3) == 0 { // much is collected while much is under way
		c.Keepers, c.CollectPercent, c.LargePercent = 3, 90, 80
	}
	if r.IntN(3) == 0 {
		c.Sessions = 3
	}
	c.Room = coordinator.Room{MoveEntries: 2 + r.IntN(4), InlineBatch: 64, MoveInline: 300, MaxInline: 600, MaxSplice: pick(0, 0, 3)}
	c.Room.MaxEntries = c.Room.MoveEntries * (2 + r.IntN(3))
	return c
}

// Run simulates in a bubble of its own. It does not fail the test: the result says what was found.
func Run(t *testing.T, c Config) (res Result) {
	synctest.Test(t, func(*testing.T) {
		w := newWorld(c)
		w.everything()
		res = Result{Config: c, Failure: w.failed(), Trace: w.trace, Stats: w.stats, Faults: w.faults, Steps: w.step, Ops: len(w.ops)}
	})
	return res
}

func newWorld(c Config) *world {
	w := &world{cfg: c, rng: rand.New(rand.NewPCG(c.Seed, 2)), start: time.Now(), stats: NewStats(), opsLeft: c.Ops, revisions: map[segments.StreamID]revision{}}
	w.basin = segments.BasinID{0: 1}
	w.truth = newTruth(w)
	for i := range c.Streams {
		h := w.newHead(time.Now())
		if err := w.truth.create(h); err != nil {
			panic(err)
		}
		w.slots = append(w.slots, &slot{i, h.Stream})
	}
	return w
}

// everything is the run: work under faults; then peace, in which everything must come right; then the end.
func (w *world) everything() {
	for range w.cfg.Nodes {
		w.node()
	}
	w.run(func() bool { return w.done() && w.opsSpent() })
	w.calm = true
	w.mu.Lock()
	for _, p := range w.procs {
		p.paused = when{}
	}
	w.mu.Unlock()
	w.run(func() bool { return w.done() && len(w.late) == 0 })
	w.final()
	for _, p := range w.procs {
		w.mu.Lock()
		p.gone = true
		w.mu.Unlock()
	}
	for _, p := range w.procs {
		for _, c := range w.callsOf(p) {
			c.fail(errGone)
			w.finish(c)
		}
		w.bury(p)
	}
	w.closing.Wait()
}

func (w *world) done() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clients == 0
}

func (w *world) opsSpent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.opsLeft > 0 && w.clients == 0 {
		w.mu.Unlock()
		w.node()
		w.mu.Lock()
	}
	return w.opsLeft <= 0
}

// node starts a long-lived process and its clients.
func (w *world) node() {
	p := w.newProcess("n")
	for range w.cfg.Writers {
		w.startClient(p, "append", (*client).append)
	}
	for range w.cfg.Sessions {
		w.startClient(p, "session", (*client).session)
	}
	for range w.cfg.Keepers {
		w.startClient(p, "maintain", (*client).maintain)
	}
	w.startClient(p, "read", (*client).read)
	w.startClient(p, "check-tail", (*client).checkTail)
	w.startClient(p, "view", (*client).view)
	w.startClient(p, "verb", (*client).verb)
	synctest.Wait()
	w.logf("%-4s STARTS", p.name)
}

// function starts a short-lived process: one or a few appends, then its end, orderly or not.
func (w *world) function() {
	p := w.newProcess("f")
	p.offset.Store(int64(w.jump()))
	left := 1 + w.rng.IntN(3)
	orderly := w.rng.IntN(2) == 0
	w.startClient(p, "append", func(c *client) bool {
		c.append()
		if left--; left > 0 {
			return true
		}
		if orderly {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			_ = p.Drain(ctx)
			cancel()
			w.retire(p)
		}
		return false
	})
	synctest.Wait()
	w.logf("%-4s STARTS, its clock off by %s", p.name, time.Duration(p.offset.Load()))
}

// retire closes a process in order: its calls go on until they are over.
func (w *world) retire(p *process) {
	w.mu.Lock()
	again := p.closed
	p.closed = true
	w.mu.Unlock()
	if !again {
		w.closing.Go(p.Coordinator.Close)
	}
}

// spawn starts a process now and then, at least if one is missing.
func (w *world) spawn() bool {
	nodes := 0
	w.mu.Lock()
	for _, p := range w.procs {
		if !p.gone && p.name[0] == 'n' {
			nodes++
		}
	}
	spent := w.opsLeft <= 0
	w.mu.Unlock()
	switch {
	case spent:
		return false
	case nodes < w.cfg.Nodes:
		w.node()
	default:
		w.function()
	}
	w.step++
	return true
}

func (w *world) streamConfig() coordinator.StreamConfig {
	cfg := coordinator.DefaultStreamConfig()
	cfg.RetentionAge = 0
	if w.cfg.Retention {
		cfg.RetentionAge = 3600
	}
	return cfg
}

// newHead is the head of a stream that is new.
func (w *world) newHead(now time.Time) coordinator.Head {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made++
	id := segments.StreamID{0: 2, 14: byte(w.made >> 8), 15: byte(w.made)}
	return coordinator.Head{
		V: 1, Basin: w.basin, Stream: id, State: coordinator.Active, Config: w.streamConfig(), ConfigV: 1,
		CreatedAt: uint64(now.UnixMilli()),
	}
}

func (w *world) streamName(id segments.StreamID) string {
	return fmt.Sprintf("s%d", int(id[14])<<8|int(id[15]))
}

// final checks what must be so when everything has come to rest: every stream takes an append, can be read from end to
// end, and keeps everything it names through one more collection; and the history is linearizable.
func (w *world) final() {
	if w.failed() != nil {
		return
	}
	w.checkSessions()
	for _, s := range w.slots {
		w.finalStream(s)
	}
	if w.failed() == nil {
		w.checkHistory()
	}
}

// finalStream has one more process, whose calls all pass, work on a stream.
func (w *world) finalStream(s *slot) {
	st := w.truth.streams[s.current]
	if st.head.State != coordinator.Active {
		return
	}
	p := w.newProcess("z")
	ref := coordinator.StreamRef{Basin: w.basin, Stream: s.current}
	w.mu.Lock()
	w.opsLeft = 1
	w.mu.Unlock()
	w.startClient(p, "last", func(c *client) bool {
		if err := c.lastWords(st, ref); err != nil {
			w.truth.fail(st, "in peace everything works", "%v", err)
		}
		return false
	})
	w.run(w.done)
}

func (c *client) lastWords(s *stream, ref coordinator.StreamRef) error {
	ctx, t := context.Background(), c.w.truth
	o := c.w.begin(&op{kind: appendOp, p: c.p, stream: ref.Stream})
	o.batch.Records = []segments.Record{{Body: fmt.Appendf(nil, "%d/", o.id), Timestamp: 1, HasTimestamp: true}}
	if s.head.Exclusive() {
		o.batch.Token = &s.head.Token
	}
	ack, err := c.p.Append(ctx, ref, o.batch)
	o.ack = ack
	if c.w.end(o, err); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	for _, collect := range []bool{false, true} {
		if collect {
			grace := -coordinator.MaxClockError * 100_000
			if _, err := c.p.Collect(ctx, c.w.basin, coordinator.CollectOptions{Grace: grace, Streams: c.w.eachStream}); err != nil {
				return fmt.Errorf("collect: %w", err)
			}
		}
		if _, err := coordinator.Check(ctx, c.heads(), &objects{c.p}, ref.Stream); err != nil {
			return err
		}
		if err := c.readAll(ctx, &reading{s: s, t: t, who: "the last reader"}, ref); err != nil {
			return fmt.Errorf("read: %w", err)
		}
	}
	return nil
}

func (c *client) readAll(ctx context.Context, k *reading, ref coordinator.StreamRef) error {
	wait := time.Duration(0)
	r, err := c.p.OpenReader(ctx, ref, coordinator.ReadOptions{SeqNum: &k.next, Clamp: true, Wait: &wait})
	if err != nil {
		return err
	}
	defer r.Close()
	for k.next < k.s.head.Tail {
		e, err := r.Next(ctx)
		if err != nil {
			if k.s.head.Config.RetentionAge > 0 {
				return nil // what is too old is not read, whoever's clock says so
			}
			return err
		}
		k.check(&e)
	}
	return nil
}

// Text tells the failure, and the last lines of the trace. Starts of goroutines are left out.
func (r *Result) Text(lines int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %d operations, %d faults, %d steps: %v\n", r.Config.Seed, r.Ops, r.Faults-len(r.Config.Suppress), r.Steps, r.Failure)
	trace := slices.DeleteFunc(slices.Clone(r.Trace), func(l string) bool { return strings.Contains(l, "           go     ") })
	for _, l := range trace[max(0, len(trace)-lines):] {
		b.WriteString(l + "\n")
	}
	return b.String()
}
