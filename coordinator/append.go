package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/tailrace-streams/tailrace/coordinator/internal/hooks"
	"github.com/tailrace-streams/tailrace/segments"
)

// Coordinator appends to, reads and follows the streams of one pair of stores. All methods may be called at once.
// An idle stream costs it nothing: no goroutine, no timer, no memory.
type Coordinator struct {
	o      Options
	loads  *loader
	labels *labels
	reader *segments.Reader
	hubs   *hubs
	// presenters are the open sessions that another token ends.
	presenters *presenters
	budget     *budget
	upkeep     *upkeep
	views      *views
	waits      *waits
	// openReaders are the readers that may go on for long.
	openReaders atomic.Int64
	moves       *semaphore.Weighted

	// life ends with Close; background are the goroutines that run until then.
	life       context.Context
	end        context.CancelFunc
	background background
	// draining is closed by Drain.
	draining  chan struct{}
	drainOnce sync.Once

	mu         sync.Mutex
	sequencers map[segments.StreamID]*sequencer
	flushers   map[segments.BasinID]*flusher
	sweeping   bool

	// full says that the last Put that the store of objects judged had no room; see probeRoom.
	full atomic.Bool
}

// New makes a coordinator. It starts nothing before the first call.
func New(o Options) (*Coordinator, error) {
	if o.Heads == nil || o.Objects == nil || o.Room.MaxEntries == 0 {
		return nil, errors.New("coordinator: Heads, Objects and Room are required")
	}
	o.setDefaults()
	c := &Coordinator{
		o:          o,
		labels:     newLabels(o.Now),
		reader:     segments.NewReader(o.Objects, o.CacheBytes),
		budget:     newBudget(o.InflightBytes),
		moves:      semaphore.NewWeighted(int64(o.MoveWorkers)),
		draining:   make(chan struct{}),
		sequencers: make(map[segments.StreamID]*sequencer),
		flushers:   make(map[segments.BasinID]*flusher),
		background: background{hooks: o.Hooks},
	}
	c.life, c.end = context.WithCancel(context.Background())
	c.loads, c.hubs, c.upkeep = newLoader(c), newHubs(c), newUpkeep(c)
	c.presenters = newPresenters(o.Hooks)
	c.views, c.waits = newViews(o.ViewBytes), newWaits(c)
	return c, nil
}

func (c *Coordinator) nowMillis() uint64 { return uint64(max(c.o.Now().UnixMilli(), 0)) }

// Append adds one batch to a stream and answers once it is durable. Its errors are definite unless they are
// *Indefinite: *FencingMismatch, *MatchMismatch, *KeyRequired, ErrTimestampRequired, ErrCipherExhausted, ErrStreamNotFound, ErrStreamDeleting,
// ErrOverloaded, ErrUnavailable, ErrDraining, and those of ctx.
func (c *Coordinator) Append(ctx context.Context, ref StreamRef, b Batch) (Ack, error) {
	wait, cancel := context.WithTimeout(ctx, c.o.AdmitWait)
	defer cancel()
	p, err := c.admit(wait, ctx, ref, b, nil)
	if err != nil {
		if ctx.Err() == nil && wait.Err() != nil {
			err = fmt.Errorf("append: too much is in flight: %w", ErrOverloaded)
		}
		return Ack{}, err
	}
	return p.Wait(ctx)
}

// Pending is a batch that was admitted and is not answered yet.
type Pending struct {
	s  *sequencer
	it *item
}

// Wait returns the outcome, with the errors of Append and ErrPoisoned. It is called once. If ctx ends first, the
// batch is given up.
func (p *Pending) Wait(ctx context.Context) (Ack, error) {
	var o outcome
	select {
	case o = <-p.it.done:
	case <-ctx.Done():
		o = p.s.abandon(p.it, ctx.Err())
	}
	return o.ack, o.err
}

// admit waits for room in flight, until wait ends, and queues the batch.
func (c *Coordinator) admit(wait, ctx context.Context, ref StreamRef, b Batch, session *Session) (*Pending, error) {
	size := segments.MeteredSize(b.Records)
	if err := c.budget.acquire(wait, ref, size); err != nil {
		return nil, err
	}
	s := c.sequencer(ref)
	defer c.release(s)
	return &Pending{s, s.submit(ctx, &b, session, size)}, nil
}

// sequencer returns the stream's, made if need be, and in use until release.
func (c *Coordinator) sequencer(ref StreamRef) *sequencer {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sequencers[ref.Stream]
	if s == nil || c.o.Hooks.Breaks(hooks.TwoCommits) {
		s = &sequencer{c: c, ref: ref, lastUse: c.o.Now()}
		c.sequencers[ref.Stream] = s
	}
	s.users++
	if !c.sweeping && !c.o.Intermittent {
		c.sweeping = c.background.start(c.sweep)
	}
	return s
}

func (c *Coordinator) release(s *sequencer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.users--
}

// sweep removes sequencers without traffic, until there are none.
func (c *Coordinator) sweep() {
	t := time.NewTicker(max(c.o.IdleAfter/4, time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-c.life.Done():
			return
		case <-t.C:
		}
		if c.sweepOnce() {
			return
		}
	}
}

func (c *Coordinator) sweepOnce() (done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, s := range c.sequencers {
		if s.users == 0 && s.idle(c.o.Now().Add(-c.o.IdleAfter)) {
			delete(c.sequencers, id)
		}
	}
	if c.sweeping = len(c.sequencers) > 0; !c.sweeping {
		c.sequencers = make(map[segments.StreamID]*sequencer) // an emptied map keeps the room of its fullest time
	}
	return !c.sweeping
}

// Settle waits until nothing that earlier calls have led to is under way: moves that their commits owe, doubts, stores' late
// answers. Once it returns nil the process may be stopped for any time, and holds nothing that somebody waits for. An
// error is that of ctx: something goes on, which is safe to stop all the same. It is for an Intermittent coordinator; on
// others, and beside other calls, it may wait long. It also lets go of streams that were not used for a while.
func (c *Coordinator) Settle(ctx context.Context) error {
	if c.o.Intermittent {
		defer c.sweepOnce()
	}
	return c.background.settle(ctx)
}

// CheckTail returns the durable tail, as of a moment after the call began. Errors as OpenReader's.
func (c *Coordinator) CheckTail(ctx context.Context, ref StreamRef) (Position, error) {
	h, err := c.loads.active(ctx, ref.Stream)
	return h.TailPosition(), err
}

// Head returns the head of an active stream, as of a moment after the call began. Errors as OpenReader's.
func (c *Coordinator) Head(ctx context.Context, ref StreamRef) (Head, error) {
	return c.loads.active(ctx, ref.Stream)
}

// Poke tells the followers of a stream to look at its head, because it was changed by other means than an append.
// What is remembered of it is dropped.
func (c *Coordinator) Poke(ref StreamRef) {
	c.Forget(ref)
	c.hubs.wake(ref.Stream)
}

// Ready reports whether both stores answer, and the one of objects, if it had no room, has some again.
func (c *Coordinator) Ready(ctx context.Context) error {
	if _, err := c.o.Heads.Load(ctx, segments.StreamID{}); err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("heads: %w", err)
	}
	_, err := c.o.Objects.Get(ctx, probeKey, 0, 0)
	if err != nil && !errors.Is(err, segments.ErrObjectNotFound) {
		return fmt.Errorf("objects: %w", err)
	}
	if c.full.Load() {
		return c.probeRoom(ctx)
	}
	return nil
}

// probeRoom asks a store that had no room whether it has some now, by storing as much as a batch may have: what sends
// requests here no longer does, so no append would find out.
func (c *Coordinator) probeRoom(ctx context.Context) error {
	probe := make([]byte, segments.MaxBatchBytes)
	_, _ = rand.NewChaCha8([32]byte{}).Read(probe) // never fails; the same each time, and nothing that a disk compresses
	if err := c.o.Objects.Put(ctx, probeKey, probe); err != nil {
		return fmt.Errorf("objects: %w", err)
	}
	c.full.Store(false)
	if err := c.o.Objects.Delete(ctx, []string{probeKey})[probeKey]; err != nil {
		c.o.Log.Warn().Err(err).Msg("the probe of a full store stays there")
	}
	return nil
}

// probeKey is an object that is there only while a full store is probed.
const probeKey = "ready/probe"

func (c *Coordinator) isDraining() bool {
	select {
	case <-c.draining:
		return true
	default:
		return false
	}
}

// Draining is closed when Drain begins. A session that waits for its client learns from it that it has to end.
func (c *Coordinator) Draining() <-chan struct{} { return c.draining }

// Drain refuses new appends with ErrDraining, ends followers with it, and waits until every admitted batch has been
// answered, or ctx ends.
func (c *Coordinator) Drain(ctx context.Context) error {
	c.drainOnce.Do(func() { close(c.draining) })
	return c.budget.drain(ctx)
}

// Close stops what runs in the background, and what is being fetched for readers. The stores may be closed after it.
func (c *Coordinator) Close() {
	c.drainOnce.Do(func() { close(c.draining) })
	c.end()
	c.background.stop()
	c.reader.Close() // last: a commit in doubt may have to look into pages
}
