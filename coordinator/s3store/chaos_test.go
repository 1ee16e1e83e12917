package s3store

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/s3objects/fakes3"
)

// chaos breaks about a third of the requests. What is told of a write does not say whether it is done, now or later, but for
// what a store says in its own words.
func chaos(seed uint64) fakes3.Rule {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, seed))
	return func(r fakes3.Request) fakes3.Fault {
		mu.Lock()
		defer mu.Unlock()
		late := time.Duration(1 + random.Int64N(int64([]time.Duration{1, time.Millisecond, time.Second, 5 * time.Second}[random.IntN(4)])))
		puts := []fakes3.Fault{
			{Status: 412, Code: "PreconditionFailed", Late: late}, {Status: 412, Late: late}, {Status: 409, Late: late}, {Status: 200, Late: late},
			{Status: 500, Code: "InternalError", Late: late}, {Status: 412, Code: "PreconditionFailed"}, {Status: 200}, {LoseReply: true},
			{SwallowReply: true}, {Reset: true}, {Status: 409, Code: "ConditionalRequestConflict"}, {Status: 503, Code: "SlowDown"}, {Delay: late},
		}
		gets := []fakes3.Fault{{Stale: true}, {Stale: true, Delay: late}, {Delay: late}, {Reset: true}, {Status: 500, Code: "InternalError"}}
		i := random.IntN(3 * len(puts))
		switch {
		case r.Op == fakes3.OpPut && i < len(puts):
			return puts[i]
		case r.Op == fakes3.OpGet && i < len(puts):
			return gets[i%len(gets)]
		}
		return fakes3.Fault{}
	}
}

// told is what the writers of one register were told of each of their writes, by id.
type told[ID comparable] struct {
	mu  sync.Mutex
	all map[ID]error
}

func (w *told[ID]) note(id ID, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all[id] = err
}

// Whatever becomes of requests, and whatever a process has forgotten: what succeeded is there once, what failed definitely is not,
// and no two writers have written one version of a row.
func TestChaos(t *testing.T) {
	t.Parallel()
	for range 12 {
		onPipe(t, func(t *testing.T, fake *fakes3.Server, first *Store) {
			seed := rand.Uint64()
			fake.SetQuirks(fakes3.Quirks{RepeatPuts: seed%3 == 0})
			ctx, h := t.Context(), storetest.NewHead()
			key := coordinator.Key{Part: "p", Sort: "s"}
			if err := first.Create(ctx, h); err != nil {
				t.Fatal(err)
			}
			fake.On(chaos(seed))
			commits, puts := told[segments.EntryID]{all: map[segments.EntryID]error{}}, told[uint64]{all: map[uint64]error{}}
			var running sync.WaitGroup
			for n := range uint64(5) {
				running.Go(func() {
					random := rand.New(rand.NewPCG(seed, n))
					s := first
					for range 10 {
						switch random.IntN(5) {
						case 0: // a new process
							s = mustDial(t, Options{Bucket: first.objectsOptions(fake)})
						case 1:
							s.heads.known.InvalidateAll()
							s.rows.known.InvalidateAll()
						}
						c := plainCommit(1)
						_, err := s.Commit(ctx, h.Stream, c)
						commits.note(c.Entries[0].ID, err)
						// Whoever is told that he made a version is the only one.
						row, _ := s.Get(ctx, key)
						if row, err = s.Put(ctx, coordinator.Row{Key: key, ID: coordinator.NewOpID()}, row.Version); err == nil {
							puts.mu.Lock()
							if _, twice := puts.all[row.Version]; twice {
								t.Errorf("seed %d: version %d was made twice", seed, row.Version)
							}
							puts.all[row.Version] = nil
							puts.mu.Unlock()
						}
					}
				})
			}
			running.Wait()
			fake.On(nil)
			time.Sleep(time.Minute)
			got, err := mustDial(t, Options{Bucket: first.objectsOptions(fake)}).Load(ctx, h.Stream)
			if err != nil {
				t.Fatal(err)
			}
			there := map[segments.EntryID]int{}
			for _, e := range got.Log {
				there[e.ID]++
			}
			succeeded := 0
			for id, err := range commits.all {
				n := there[id]
				if err == nil {
					succeeded++
				}
				if n > 1 || err == nil && n != 1 || err != nil && coordinator.Definite(err) && n != 0 {
					t.Errorf("seed %d: a commit that was told %v is there %d times", seed, err, n)
				}
				if err != nil && !coordinator.Definite(err) && !errors.Is(err, coordinator.ErrUnknown) {
					t.Errorf("seed %d: a commit has failed without a verdict: %v", seed, err)
				}
			}
			if succeeded == 0 || len(puts.all) == 0 {
				t.Errorf("seed %d: %d commits and %d puts succeeded", seed, succeeded, len(puts.all))
			}
		})
	}
}
