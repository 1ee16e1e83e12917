package s3store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/s3objects"
)

const (
	// lastBegin is when an update begins no more requests. With one more that goes unanswered it still ends well before its
	// caller's patience does.
	lastBegin = 2 * time.Second
	// postponeFirst and postponeMost bound the pause before a request that the store has postponed is sent again.
	postponeFirst = 25 * time.Millisecond
	postponeMost  = 500 * time.Millisecond
	// contendedFor is how long after a write of others, or a lost race, more of them are expected.
	contendedFor = time.Second
	// backoffMost bounds the pause after a lost race, and maxDoublings how many writers are guessed at most.
	backoffMost  = 500 * time.Millisecond
	maxDoublings = 6
	// staleReads is how often a read is made again that shows less than an earlier one did.
	staleReads = 4
	// knownFor is how long a state is remembered after its last use.
	knownFor = time.Minute
)

// registers are values that several processes replace by conditional PUTs, one object each.
type registers[T any] struct {
	objects *s3objects.Store
	codec   codec[T]
	// remains says that an object is never removed, so that a state older than one seen before is the store's fault.
	remains bool
	locks   locks
	known   *otter.Cache[string, *state[T]]
	writer  writerID
	seq     atomic.Uint64 // of this writer's writes
	// took is what reading and writing takes, in nanoseconds, a mean of the last ones.
	took atomic.Int64

	writes, lost atomic.Uint64 // requests that write, and how many of them came too late
}

// codec is how a value becomes a payload. A dead one is written short.
type codec[T any] struct {
	encode func(*T) []byte
	decode func(payload []byte) (*T, error)
	dead   func(*T) bool
	weigh  func(*T) int
}

// state is one state of a register, as it was read or written. It is never changed.
type state[T any] struct {
	tag     s3objects.Tag // zero if there is no object, or if the store did not name it
	history history
	value   *T // nil if there is no object
	// othersAt is when another process's write was last noticed, lostAt when a race against one was lost.
	othersAt, lostAt time.Time
}

func (s *state[T]) absent() bool { return s.value == nil }

func newRegisters[T any](objects *s3objects.Store, c codec[T], cacheBytes uint64, remains bool) (*registers[T], error) {
	const perState = 600 // of the cache, the history and the fixed part of a value
	known, err := otter.New(&otter.Options[string, *state[T]]{
		MaximumWeight:    cacheBytes,
		Weigher:          func(key string, s *state[T]) uint32 { return uint32(perState + len(key) + c.weigh(s.value)) },
		ExpiryCalculator: otter.ExpiryAccessing[string, *state[T]](knownFor),
	})
	if err != nil {
		return nil, fmt.Errorf("make cache: %w", err)
	}
	return &registers[T]{objects: objects, codec: c, known: known, remains: remains, writer: newWriterID()}, nil
}

// read reads a register strongly; an absent state is an answer. Errors are those of the object store, ErrVersion and
// ErrCorrupt.
func (r *registers[T]) read(ctx context.Context, key string) (*state[T], error) {
	for n := range staleReads {
		if n > 0 && !pause(ctx, jitter(postponeFirst<<n)) {
			return nil, ctx.Err()
		}
		before, _ := r.known.GetIfPresent(key)
		data, tag, err := r.objects.GetTagged(ctx, key)
		if errors.Is(err, segments.ErrObjectNotFound) {
			if before != nil && r.remains && n < staleReads-1 {
				continue
			}
			r.known.Invalidate(key)
			return &state[T]{}, nil
		}
		if err != nil {
			return nil, err
		}
		s, err := r.decode(data, tag)
		if err != nil && n < staleReads-1 && errors.Is(err, ErrCorrupt) {
			continue // a store may answer with parts of two states while one is replaced
		}
		if err != nil {
			return nil, err
		}
		if before == nil || !r.remains || s.history.count >= before.history.count {
			if before != nil {
				if s.othersAt, s.lostAt = before.othersAt, before.lostAt; s.history.count > before.history.count {
					s.othersAt = time.Now()
				}
			}
			r.learn(key, s)
			return s, nil
		}
	}
	return nil, fmt.Errorf("it shows an older state than before: %w", s3objects.ErrMisbehaves)
}

func (r *registers[T]) decode(data []byte, tag s3objects.Tag) (*state[T], error) {
	h, payload, err := decodeBody(data)
	if err != nil {
		return nil, err
	}
	value, err := r.codec.decode(payload)
	if err != nil {
		return nil, err
	}
	return &state[T]{tag: tag, history: h, value: value}, nil
}

// learn remembers a state, unless a later one is remembered. Two at once may leave the older behind, which costs an attempt.
func (r *registers[T]) learn(key string, s *state[T]) {
	if old, ok := r.known.GetIfPresent(key); ok && old.history.count > s.history.count && r.remains {
		return
	}
	if s.tag == "" {
		r.known.Invalidate(key)
		return
	}
	r.known.Set(key, s)
}

// lostRace is the error of a write whose state was replaced by somebody else's.
type lostRace[T any] struct{ found *state[T] }

func (*lostRace[T]) Error() string { return "another write came first" }

// write replaces the state from by one with another value. Errors are *lostRace, or wrap coordinator.ErrNotApplied or
// ErrUnknown.
//
// It sends one and the same request until the store has judged it: what is postponed was not applied. Even if it was after
// all, no harm is done: at most one of them can be, since the state that they are for never comes back, and a body names
// its write.
func (r *registers[T]) write(ctx context.Context, key string, from *state[T], value *T, lostAt time.Time) (*state[T], error) {
	kept, dead := keptWriters, r.codec.dead(value)
	if dead {
		kept = 1
	}
	seq := r.seq.Add(1)
	next := &state[T]{history: from.history.then(r.writer, seq, kept), value: value, othersAt: from.othersAt, lostAt: lostAt}
	body := appendBody(nil, next.history, r.codec.encode(value), !dead)
	wait := postponeFirst
	for began := time.Now(); ; wait = min(2*wait, postponeMost) {
		r.writes.Add(1)
		tag, err := r.objects.PutIf(ctx, key, body, from.tag)
		if err == nil && tag != "" {
			next.tag = tag
			r.learn(key, next)
			return next, nil
		}
		if err == nil { // from something in between: a store that was probed has named a tag
			return r.settle(ctx, key, from, next, seq, errUntagged)
		}
		switch judge(err) {
		case lost:
			return r.settle(ctx, key, from, next, seq, err)
		case unknown:
			r.known.Invalidate(key)
			return nil, inDoubt(err)
		case refused:
			return nil, notApplied(err)
		}
		rest := wait/2 + jitter(wait/2)
		if e, ok := errors.AsType[*s3objects.Error](err); ok {
			rest = max(rest, e.RetryAfter)
		}
		if time.Since(began)+rest > lastBegin || !pause(ctx, rest) {
			return nil, notApplied(err)
		}
	}
}

// errUntagged is why an answer is not believed.
var errUntagged = fmt.Errorf("the answer to a write has no strong ETag: %w", s3objects.ErrMisbehaves)

// settle finds out who has replaced a state, after a write of ours was told that it is no more, or was not told enough. It may
// have been that write itself: something between us and the store may have sent it twice. Where the state is still there, or
// it cannot be seen who has replaced it, that write may be to come, or may have been: only what is known to be somebody
// else's is a lost race.
func (r *registers[T]) settle(ctx context.Context, key string, from, ours *state[T], seq uint64, cause error) (*state[T], error) {
	found, err := r.read(ctx, key)
	if err != nil {
		r.known.Invalidate(key)
		return nil, inDoubt(fmt.Errorf("%w, and then: %w", cause, err))
	}
	if found.absent() {
		// What was there is gone. That it was gone before our write came, the store has said itself, or does not matter to who
		// wants a row deleted.
		if !from.absent() && (isMissing(cause) || r.codec.dead(ours.value)) {
			return nil, &lostRace[T]{found}
		}
		return nil, inDoubt(fmt.Errorf("%w, and there is nothing", cause))
	}
	yes, known := found.history.made(ours.history.count, r.writer, seq)
	switch {
	case yes:
		// What we wrote was the state for a moment, whatever has come since.
		return ours, nil
	case !known:
		r.known.Invalidate(key)
		return nil, inDoubt(fmt.Errorf("%w, and what is there does not tell by whom", cause))
	}
	return nil, &lostRace[T]{found}
}

// update makes one transition. step returns the next value, or why there is none; it may be called several times, and gets nil
// where there is no object. guess is the state that the caller expects, nil for what is remembered: if it is right, the update
// is one request. An error of step counts only if the state it was given was read after the call began.
func (r *registers[T]) update(ctx context.Context, key string, guess *state[T], step func(*T) (*T, error)) (*T, error) {
	unlock, err := r.locks.lock(ctx, key)
	if err != nil {
		return nil, notApplied(err)
	}
	defer unlock()
	if known, ok := r.known.GetIfPresent(key); ok {
		guess = known
	}
	began, fresh, losses := time.Now(), false, 0
	var lostAt time.Time
	if guess != nil {
		if lostAt = guess.lostAt; began.Sub(lostAt) < contendedFor && !pause(ctx, r.backoff(guess, 0)) {
			return nil, notApplied(ctx.Err()) // who won the last time lets those have a chance who lost
		}
		if began.Sub(guess.othersAt) < contendedFor || began.Sub(lostAt) < contendedFor {
			guess = nil // it is likely not the last
		}
	}
	for {
		round := time.Now()
		if guess == nil {
			if guess, err = r.read(ctx, key); err != nil {
				return nil, notApplied(err)
			}
			fresh = true
		}
		value, err := step(guess.value)
		if err != nil && !fresh {
			guess = nil
			continue
		}
		if err != nil {
			return nil, err
		}
		next, err := r.write(ctx, key, guess, value, lostAt)
		if err == nil {
			if losses > 0 {
				r.observe(time.Since(round))
			}
			return next.value, nil
		}
		race, ok := errors.AsType[*lostRace[T]](err)
		if !ok {
			return nil, err
		}
		r.lost.Add(1)
		r.observe(time.Since(round))
		guess, fresh, losses, lostAt = race.found, true, losses+1, time.Now()
		rest := r.backoff(guess, losses)
		if time.Since(began)+rest > lastBegin || !pause(ctx, rest) {
			return nil, fmt.Errorf("%d other writers were faster: %w", losses, coordinator.ErrNotApplied)
		}
		if rest > time.Duration(r.took.Load())/4 {
			guess = nil // only after a moment is what was found still worth a try
		}
	}
}

// observe notes how long it took to read and write.
func (r *registers[T]) observe(took time.Duration) {
	r.took.Store((7*r.took.Load() + int64(took)) / 8)
}

// backoff is a random pause before an attempt in a contended register: on average a quarter of what it takes all who write to it to
// read and write one after the other, at which few attempts are in vain and little time is. How many that are is known from its history, or guessed from how often a race was lost.
func (r *registers[T]) backoff(s *state[T], losses int) time.Duration {
	took := max(time.Duration(r.took.Load()), time.Millisecond)
	writers := max(s.history.writers(), 1<<min(losses, maxDoublings))
	return jitter(min(took*time.Duration(writers)/2, backoffMost))
}
