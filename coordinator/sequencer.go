package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tailrace-streams/tailrace/segments"
)

// sequencer orders the appends of one active stream in this process (protocol 5). It admits batches against the head
// it knows and has at most one store call in flight that could change what they are judged by. Accept on cached
// state, refuse on fresh state: the commit verifies an acceptance, and a refusal is answered only from a store call
// that began after the batch arrived.
//
// There is one per stream with traffic; it goes when a minute passed without, and holds no goroutine while it has
// nothing to do.
type sequencer struct {
	c   *Coordinator
	ref StreamRef

	mu    sync.Mutex
	clock uint64 // counts arrivals and store calls, so that "began after it arrived" is a comparison
	// head is the newest head known, without its log, and begun the time at which the call that brought it began. No
	// head is known before the first load, and after an outcome that stayed unknown.
	head    *Head
	entries int // of its log
	begun   uint64
	sentAt  time.Time // when the store call under way began, for those who remember what it brings
	queue   []*item
	// running says that the goroutine is there; moving that a move is under way; owed that the last one failed.
	running bool
	moving  bool
	owed    bool
	lastUse time.Time
	// attempts counts failures of the store in a row; trouble is the last of them.
	attempts int
	trouble  error
	// users are callers between lookup and submit; under the coordinator's lock.
	users int
}

// idle reports whether the sequencer could go: nothing to do since the given time, nothing in doubt. The caller holds
// the coordinator's lock, which a sequencer takes while it holds its own: so one that is at work is not waited for.
func (s *sequencer) idle(since time.Time) bool {
	if !s.mu.TryLock() {
		return false
	}
	defer s.mu.Unlock()
	return len(s.queue) == 0 && !s.running && !s.moving && s.lastUse.Before(since)
}

// item is a batch in a sequencer's queue, until it is answered.
type item struct {
	ctx     context.Context
	batch   *Batch
	session *Session
	size    uint64 // metered
	n       uint64
	cmds    []placedCommand
	arrived uint64 // by the sequencer's clock
	arrival uint64 // milliseconds
	since   time.Time

	// stored are the records as they will be stored, by the config of version stampedV; maxTime the largest of
	// their times.
	stored   []segments.Record
	weight   uint64 // about what stored takes in the head: sealed records take more than they are metered by
	maxTime  uint64
	stampedV uint64
	// inline says that the batch goes into the head; otherwise it is placed in a segment, where loc tells the place
	// once it is there.
	inline  bool
	placing int // flushes under way for it
	loc     *location
	trouble error  // why the last PUT of a flush for it failed
	attempt uint32 // of an item that starts an entry: the entry's number
	// barrier says that the batch was accepted on those before it in the queue, and goes behind them.
	barrier bool
	// sent says that a commit with it is in flight or in doubt.
	sent     bool
	answered bool
	done     chan outcome // buffered
}

type outcome struct {
	ack Ack
	err error
}

// submit queues a batch and returns its item, whose done channel gets the outcome. The bytes in flight were
// acquired by the caller and are released when the item is answered.
func (s *sequencer) submit(ctx context.Context, b *Batch, session *Session, size uint64) *item {
	it := &item{
		ctx: ctx, batch: b, session: session, size: size, n: uint64(len(b.Records)), cmds: commandsOf(b.Records),
		arrival: s.c.nowMillis(), since: s.c.o.Now(), done: make(chan outcome, 1),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastUse = it.since
	if session != nil && (session.poisoned.Load() || session.superseded() != nil) {
		s.answer(it, Ack{}, ErrPoisoned)
		return it
	}
	s.clock++
	it.arrived = s.clock
	it.barrier = s.acceptedOnQueue(it)
	s.queue = append(s.queue, it)
	if s.head != nil {
		s.prepare(it)
	}
	s.kick()
	return it
}

// acceptedOnQueue reports whether a conditional batch is accepted only behind those in the queue, and so has to stay
// behind them.
func (s *sequencer) acceptedOnQueue(it *item) bool {
	if len(s.queue) == 0 || (it.batch.Match == nil && it.batch.Token == nil) {
		return false
	}
	fences, n := false, uint64(0)
	for _, q := range s.queue {
		n += q.n
		fences = fences || slices.ContainsFunc(q.cmds, func(c placedCommand) bool { return c.Kind == segments.FenceCommand })
	}
	if it.batch.Match != nil && s.head != nil && *it.batch.Match == s.head.Tail+n {
		return true
	}
	return it.batch.Token != nil && fences
}

// prepare stamps an item by the head's config, seals it if the stream is encrypted, and decides where it goes. An item
// without the key it needs is left unprepared, which the plan answers.
func (s *sequencer) prepare(it *item) {
	seal, err := sealer(s.head, it.batch.Key)
	if err != nil {
		it.stored, it.loc, it.inline = nil, nil, false
		return
	}
	it.stored, it.maxTime = stamp(&s.head.Config, it.batch.Records, it.arrival)
	for i := range it.stored {
		if seal != nil {
			it.stored[i] = seal.Seal(it.stored[i])
		}
	}
	it.stampedV = s.head.ConfigV
	it.loc, it.inline, it.weight = nil, false, weigh(it.stored)
	it.inline = it.weight <= s.c.o.Room.InlineBatch && s.head.InlineBytes+s.queuedInline()+it.weight <= s.c.o.Room.MaxInline
	if !it.inline {
		s.placeInSegment(it)
	}
}

// weigh is what records take as they are stored, roughly.
func weigh(stored []segments.Record) (n uint64) {
	for _, r := range stored {
		r.Sealed = 0
		n += r.MeteredSize()
	}
	return n
}

// queuedInline is roughly what the queue will add to the head's inline bytes.
func (s *sequencer) queuedInline() (n uint64) {
	for _, q := range s.queue {
		if q.inline {
			n += q.weight
		}
	}
	return n
}

// placeInSegment sends an item's records to the flusher. A place that comes too late, for records stamped anew
// meanwhile, is dropped: its object is named by nobody and will be collected.
func (s *sequencer) placeInSegment(it *item) {
	it.inline, it.loc = false, nil
	it.placing++
	stamped := it.stampedV
	// While everything queued is being placed nothing else looks at how long it has waited.
	late := time.AfterFunc(s.c.o.AppendTimeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.kick()
	})
	s.c.place(s.ref.Basin, &flushJob{
		stream: s.ref.Stream, batch: segments.StoredBatch{Arrival: it.arrival, Records: it.stored}, size: it.size, horizon: s.head.Horizon,
		trouble: func(err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			it.trouble = err
		},
		done: func(loc location, err error) {
			late.Stop()
			s.mu.Lock()
			defer s.mu.Unlock()
			if it.placing--; it.answered {
				s.releaseBytes(it)
				return
			}
			if it.stampedV != stamped {
				return
			}
			if err != nil {
				s.remove(it)
				s.fail(it, err)
			} else {
				it.loc = &loc
			}
			s.kick()
		},
	})
}

// kick starts the goroutine if there is something to do and it is not there.
func (s *sequencer) kick() {
	if s.running || len(s.queue) == 0 {
		return
	}
	if s.running = s.c.background.start(s.run); !s.running {
		s.failAll(ErrDraining)
	}
}

// answer gives an item its outcome, once, and releases its bytes.
func (s *sequencer) answer(it *item, ack Ack, err error) {
	if it.answered {
		return
	}
	it.answered = true
	it.done <- outcome{ack, err}
	s.releaseBytes(it)
}

// releaseBytes lets others have an item's bytes, once it is answered and no flusher holds its records any more: an
// item that was given up must not make room for the next one while it still waits for a slow store.
func (s *sequencer) releaseBytes(it *item) {
	if it.placing == 0 {
		s.c.budget.release(s.ref, it.size)
	}
}

// abandon gives up waiting for an item, whose outcome it returns: definite if no commit with it was sent.
func (s *sequencer) abandon(it *item, cause error) outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case it.answered:
		return <-it.done
	case it.sent:
		s.poison(it)
		return outcome{err: &Indefinite{cause}}
	}
	s.remove(it)
	s.fail(it, cause)
	return <-it.done
}

// remove takes an item out of the queue, if it is still there.
func (s *sequencer) remove(it *item) {
	if i := slices.Index(s.queue, it); i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
	}
}

// fail answers an item that is out of the queue, and poisons its session: what the session queued behind it fails
// too (s2-api 11), unless it outlives such a failure. What it queued before may be in flight and is left alone.
func (s *sequencer) fail(it *item, err error) {
	s.answer(it, Ack{}, err)
	if it.session == nil || !it.session.outlives(err) {
		s.poison(it)
	}
}

// poison ends the session of an item that failed. What of it is in a commit that was sent shares that commit's fate.
func (s *sequencer) poison(it *item) {
	if it.session == nil {
		return
	}
	it.session.poisoned.Store(true)
	s.queue = slices.DeleteFunc(s.queue, func(q *item) bool {
		if q.session == it.session && q.arrived > it.arrived && !q.sent {
			s.answer(q, Ack{}, ErrPoisoned)
			return true
		}
		return false
	})
}

// failAll answers everything in the queue. Nothing of it was ever sent, or the error is Indefinite.
func (s *sequencer) failAll(err error) {
	for len(s.queue) > 0 {
		it := s.queue[0]
		s.remove(it)
		s.fail(it, err)
	}
}

// run does what there is to do, one store call after another, until nothing is left that could go now.
func (s *sequencer) run() {
	for {
		s.mu.Lock()
		s.dropAbandoned()
		p := s.plan()
		if p.idle() {
			s.running = false
			s.lastUse = s.c.o.Now()
			s.mu.Unlock()
			return
		}
		s.clock++
		begun := s.clock
		s.sentAt = time.Now()
		s.mu.Unlock()
		switch {
		case p.load:
			s.reload(begun)
		case p.move:
			s.makeRoom(begun)
		default:
			s.commit(p, begun)
		}
	}
}

// dropAbandoned fails what nobody waits for any more and what waited too long. Queued items are not in any commit
// that is in flight, so this is definite.
func (s *sequencer) dropAbandoned() {
	now := s.c.o.Now()
	for i := 0; i < len(s.queue); {
		it := s.queue[i]
		var err error
		switch {
		case it.ctx.Err() != nil:
			err = it.ctx.Err()
		case now.Sub(it.since) > s.c.o.AppendTimeout:
			err = s.tooLate(it)
		default:
			i++
			continue
		}
		s.queue = slices.Delete(s.queue, i, i+1)
		s.fail(it, err)
		i = 0
	}
}

// tooLate is the error of an item that waited too long: the store's word, if it was the store that made it wait.
func (s *sequencer) tooLate(it *item) error {
	var trouble error
	switch {
	case it.placing > 0:
		trouble = it.trouble
	case s.attempts > 0:
		trouble = s.trouble
	}
	if trouble == nil {
		return fmt.Errorf("append waited too long: %w", ErrOverloaded)
	}
	// Only its text: it is about a call of ours, and may match what a caller's own context would end with.
	return fmt.Errorf("append waited too long: %w: %v", ErrUnavailable, trouble)
}

// reload brings a fresh head.
func (s *sequencer) reload(begun uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), s.c.o.StoreTimeout)
	defer cancel()
	h, err := s.c.o.Heads.Load(ctx, s.ref.Stream)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.attempts = 0
		s.learn(h, begun)
	case errors.Is(err, ErrNotFound):
		s.head = nil
		s.failAll(ErrStreamNotFound)
	default:
		s.storeFailed(err)
	}
}

// learn takes over a head that the store call under way brought.
func (s *sequencer) learn(h Head, begun uint64) {
	s.c.saw(h, s.sentAt)
	s.takeOver(h, begun)
}

// takeOver judges by a head from now on. Calls of other goroutines may have brought a newer one.
func (s *sequencer) takeOver(h Head, begun uint64) {
	if s.head == nil || h.V >= s.head.V {
		s.know(h)
	}
	// A head with a higher V is from a later moment, so it too is from after begun.
	s.begun = max(s.begun, begun)
}

// observe lets a move or a verb tell the head it brought about.
func (s *sequencer) observe(h Head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.head != nil && h.V > s.head.V {
		s.know(h)
	}
	s.kick()
}

// know keeps of a head what batches are judged by. The log, with the inline data in it, is not: it would be the
// largest thing by far that an active stream holds in memory.
func (s *sequencer) know(h Head) {
	s.c.presenters.look(&h)
	s.entries = len(h.Log)
	tail := h.TailPosition()
	h.Log, h.Pages, h.Base, h.BaseTime = nil, nil, tail.SeqNum, tail.Timestamp
	s.head = &h
}

// storeFailed backs off after a definite failure of the store, or gives up on what is queued. The lock is released
// meanwhile.
func (s *sequencer) storeFailed(err error) {
	s.attempts++
	s.trouble = err
	if s.attempts > maxStoreAttempts {
		s.attempts = 0
		s.failAll(fmt.Errorf("append: %w: %w", ErrUnavailable, err))
		return
	}
	wait := s.c.backoff(s.attempts)
	s.mu.Unlock()
	pause(context.Background(), wait)
	s.mu.Lock()
}

// maxStoreAttempts is how often a store may fail in a row, definitely, before the queue is refused: about 3 s.
const maxStoreAttempts = 10

// makeRoom moves the log into pages because the head is full.
func (s *sequencer) makeRoom(begun uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), s.c.o.AppendTimeout)
	defer cancel()
	h, _, err := s.c.move(ctx, s.ref, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.storeFailed(err)
		return
	}
	s.attempts = 0
	s.learn(h, begun)
}
