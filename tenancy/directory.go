package tenancy

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
	"unicode/utf8"

	"github.com/maypok86/otter/v2"
	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// Options are what a Directory is made of. Table and Heads are required; the zero value of everything else is a
// default.
type Options struct {
	Table coordinator.Table
	Heads coordinator.Heads
	Log   zerolog.Logger
	// Clock tells created_at and deleted_at, and what is due. Clocks of processes may differ by minutes: times
	// order nothing, and the only harm is a name freed that much sooner or later.
	Clock func() time.Time
	// DeleteLinger is how long a deleted stream answers "deletion pending" before its name is freed; 2 s.
	DeleteLinger time.Duration
	// TombstoneAge is how long a freed name keeps its tombstone, against delayed writes; 24 h, and not less in
	// production.
	TombstoneAge time.Duration
	// SweepPeriod is how often Run looks for due work; 2 s. WalkPeriod is how often it walks the whole directory
	// for what was missed; 24 h.
	SweepPeriod, WalkPeriod time.Duration
	// SettleTimeout bounds how long a call goes on, past the end of its context, to finish what it began or to learn
	// what became of it; 5 s.
	SettleTimeout time.Duration
	// Workers bounds how many streams are finished at once; 16.
	Workers int
	// CacheBytes bounds the names that Resolve remembers, idle streams' too; 4 MiB, which are 20,000.
	CacheBytes uint64
	// Ciphers lists the values of stream_cipher that the caller can serve; any other is refused.
	Ciphers []string
	// Location is where every basin is made, whatever the request leaves out; another is refused. Empty: a basin is where
	// its creator says, or nowhere.
	Location string
	// OnDeleted is called after a stream's head became a tombstone: possibly more than once for a stream, and for
	// several streams at once. It must not block.
	OnDeleted func(coordinator.StreamRef)
}

// Directory is the one way to make, find, change and delete basins and streams. It has no state that matters: every
// decision is a conditional write to the Table or a head.
type Directory struct {
	Options
	// streams remembers whole addresses, for appends and reads; basins only ids, for everything that reads a row
	// anyway. Neither is ever the reason for a "no".
	// The account is part of the key: for another one there is nothing to remember, so it pays the same reads to learn
	// nothing as for a name that nobody has.
	streams *otter.Cache[names, coordinator.StreamRef]
	basins  *otter.Cache[owned, segments.BasinID]
}

// names is a stream's address, as an account may use it.
type names struct {
	account       AccountID
	basin, stream string
}

// owned is a basin's name, as an account may use it.
type owned struct {
	account AccountID
	basin   string
}

// New makes a Directory. It starts nothing; Run does the work that is left over.
func New(o Options) (*Directory, error) {
	if o.Table == nil || o.Heads == nil {
		return nil, errors.New("make directory: a Table and Heads are required")
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	defaultTo(&o.DeleteLinger, 2*time.Second)
	defaultTo(&o.TombstoneAge, 24*time.Hour)
	defaultTo(&o.SweepPeriod, 2*time.Second)
	defaultTo(&o.WalkPeriod, 24*time.Hour)
	defaultTo(&o.SettleTimeout, 5*time.Second)
	defaultTo(&o.Workers, 16)
	defaultTo(&o.CacheBytes, 4<<20)
	d := &Directory{Options: o}
	var err error
	// A name costs its bytes, two ids and about a hundred bytes of the cache's own.
	d.streams, err = otter.New(&otter.Options[names, coordinator.StreamRef]{
		MaximumWeight: o.CacheBytes,
		Weigher: func(k names, _ coordinator.StreamRef) uint32 {
			return uint32(len(k.account) + len(k.basin) + len(k.stream) + 176)
		},
	})
	if err != nil {
		return nil, err
	}
	d.basins, err = otter.New(&otter.Options[owned, segments.BasinID]{MaximumSize: max(16, int(o.CacheBytes>>10))})
	return d, err
}

func defaultTo[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

func (d *Directory) now() uint64 { return toMillis(d.Clock()) }

// attempts bounds every loop that runs again because somebody else was faster or a reply was lost.
const attempts = 8

// pause waits before the n-th attempt, n from 0: nothing, then 5 ms doubling, jittered. False if ctx ended.
func pause(ctx context.Context, n int) bool {
	if n == 0 {
		return ctx.Err() == nil
	}
	limit := 5 * time.Millisecond << min(n-1, 6)
	timer := time.NewTimer(limit/2 + rand.N(limit/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// settle is the context of what has to be finished, or found out, although the caller may have gone: what was begun
// is on its way anyway, and a few more calls leave less behind for others.
func (d *Directory) settle(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), d.SettleTimeout)
}

// checkName refuses what no row can hold; the shape of names is the caller's to check.
func checkName(kind, name string) error {
	if name == "" || len(name) > 1024 || !utf8.ValidString(name) {
		return invalid("%s name: must be valid UTF-8 of 1 to 1024 bytes", kind)
	}
	return nil
}
