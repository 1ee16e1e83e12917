package coordinator

import (
	"time"

	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator/internal/hooks"
	"github.com/tailrace-streams/tailrace/segments"
)

// Options is what a Coordinator is made of. The zero value of every field but Heads, Objects and Room means the
// default that its comment states.
type Options struct {
	Heads   Heads
	Objects segments.Objects
	// Room is the policy of the store behind Heads.
	Room Room
	// Exclusive says that no other process commits to these heads, so that followers need no poll.
	Exclusive bool
	// Intermittent says that the process may be stopped between calls, or for good, as functions are: nothing is started
	// that is to go on after them. What is due later is left to others' upkeep, and Settle waits for the rest.
	Intermittent bool
	Log          zerolog.Logger
	// Now is the clock; time.Now.
	Now func() time.Time

	// TrimDelay is how long readers still see what was trimmed (design 7); 10 s. Negative means none.
	TrimDelay time.Duration
	// CacheBytes bounds the cache of chunks and pages; 64 MiB.
	CacheBytes int64
	// ViewBytes bounds the heads remembered of streams that are read eventually, of which one basin may have half;
	// 16 MiB. Negative remembers none.
	ViewBytes int64
	// InflightBytes bounds the batches admitted and not yet answered, in the whole process; 128 MiB. One basin may
	// use half of it, one stream a quarter.
	InflightBytes int64
	// AdmitWait is how long an append waits for room among them before it is refused; 1 s.
	AdmitWait time.Duration
	// IdleAfter is how long a sequencer outlives its last append; 1 min.
	IdleAfter time.Duration
	// StoreTimeout bounds each call to a store; 5 s.
	StoreTimeout time.Duration
	// DoubtTimeout bounds what it takes to learn the outcome of a commit; 10 s.
	DoubtTimeout time.Duration
	// AppendTimeout bounds how long a batch may wait to be sent; 10 s.
	AppendTimeout time.Duration
	// FlushWorkers bounds the segments of one basin that are being PUT at once; 4.
	FlushWorkers int
	// MoveWorkers bounds the moves under way in the process; 4.
	MoveWorkers int
	// PollInterval is how often the head of a followed stream is loaded where others may commit; 250 ms.
	PollInterval time.Duration
	// HeartbeatMin and HeartbeatMax bound the random gap between heartbeats of an idle follower; 5 s and 15 s.
	HeartbeatMin, HeartbeatMax time.Duration

	// Hooks are the simulation's; nil.
	Hooks *hooks.Hooks
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func (o *Options) setDefaults() {
	if o.Now == nil {
		o.Now = time.Now
	}
	orDefault(&o.TrimDelay, 10*time.Second)
	o.TrimDelay = max(o.TrimDelay, 0)
	orDefault(&o.CacheBytes, 64<<20)
	orDefault(&o.ViewBytes, 16<<20)
	orDefault(&o.InflightBytes, 128<<20)
	orDefault(&o.AdmitWait, time.Second)
	orDefault(&o.IdleAfter, time.Minute)
	orDefault(&o.StoreTimeout, 5*time.Second)
	orDefault(&o.DoubtTimeout, 10*time.Second)
	orDefault(&o.AppendTimeout, 10*time.Second)
	orDefault(&o.FlushWorkers, 4)
	orDefault(&o.MoveWorkers, 4)
	orDefault(&o.PollInterval, 250*time.Millisecond)
	orDefault(&o.HeartbeatMin, 5*time.Second)
	orDefault(&o.HeartbeatMax, 15*time.Second)
}
