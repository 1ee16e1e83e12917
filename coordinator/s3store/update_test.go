package s3store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/s3objects"
	"github.com/tailrace-streams/tailrace/segments/s3objects/fakes3"
)

// ops names the requests since the last call, in order.
func ops(fake *fakes3.Server, seen *int) string {
	var names []string
	all := fake.Requests()
	for _, r := range all[*seen:] {
		name := string(r.Op)
		if r.Op == fakes3.OpPut && r.Header.Get("If-None-Match") != "" {
			name = "create"
		}
		names = append(names, name)
	}
	*seen = len(all)
	return strings.Join(names, " ")
}

// behind is a commit that needs a tail where the tail is not.
func behind() *coordinator.Commit {
	c := plainCommit(segments.MaxLabel)
	c.Match = new(uint64)
	*c.Match = 1 << 40
	return c
}

// What each method costs in requests. An update by a process that knows the last state is one; a refusal is a read, since it
// may not come from memory.
func TestRequestCounts(t *testing.T) {
	t.Parallel()
	onPipe(t, func(t *testing.T, fake *fakes3.Server, s *Store) {
		other := mustDial(t, Options{Bucket: s.objectsOptions(fake)})
		s.usedOnce = func(part string) bool { return part == "work" }
		ctx, h, seen := t.Context(), storetest.NewHead(), 0
		var refusal *coordinator.Refusal
		refused := func(err error) bool { return errors.As(err, &refusal) }
		applied := func(err error) bool { return err == nil }
		is := func(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
		conflict := func(err error) bool { return errors.As(err, new(*coordinator.Conflict)) }
		row := coordinator.Row{Key: coordinator.Key{Part: "p", Sort: "s"}, Value: []byte("v")}
		work := coordinator.Row{Key: coordinator.Key{Part: "work", Sort: "s"}}
		for _, step := range []struct {
			name string
			call func() error
			is   func(error) bool
			ops  string
		}{
			{"Create", func() error { return s.Create(ctx, h) }, applied, "create"},
			{"Create again", func() error { return s.Create(ctx, h) }, is(coordinator.ErrExists), "get"},
			{"Create elsewhere", func() error { return other.Create(ctx, h) }, is(coordinator.ErrExists), "create get"},
			{"Load", func() error { return ignore(s.Load(ctx, h.Stream)) }, applied, "get"},
			{"Commit", func() error { return ignore(s.Commit(ctx, h.Stream, plainCommit(2))) }, applied, "put"},
			{"Commit refused", func() error { return ignore(s.Commit(ctx, h.Stream, behind())) }, refused, "get"},
			{"fence", func() error {
				return ignore(s.Change(ctx, h.Stream, &coordinator.Change{Fence: &coordinator.FenceChange{Token: "t"}}))
			}, applied, "put"},
			{"Commit elsewhere, which has seen an older state", func() error {
				return ignore(other.Commit(ctx, h.Stream, plainCommit(3)))
			}, applied, "put get put"},
			{"another there: it is known to be contended", func() error {
				return ignore(other.Commit(ctx, h.Stream, plainCommit(4)))
			}, applied, "get put"},
			{"a while later", func() error {
				time.Sleep(2 * contendedFor)
				return ignore(other.Commit(ctx, h.Stream, plainCommit(5)))
			}, applied, "put"},
			{"Load of nothing", func() error { return ignore(s.Load(ctx, segments.NewStreamID())) }, is(coordinator.ErrNotFound), "get"},
			{"Commit to nothing", func() error {
				return ignore(s.Commit(ctx, segments.NewStreamID(), plainCommit(1)))
			}, is(coordinator.ErrNotFound), "get"},
			{"Put", func() error { return ignore(s.Put(ctx, row, 0)) }, applied, "create"},
			{"Put in conflict", func() error { return ignore(s.Put(ctx, row, 0)) }, conflict, "get"},
			{"Put over", func() error { return ignore(s.Put(ctx, row, 1)) }, applied, "put"},
			{"Get", func() error { return ignore(s.Get(ctx, row.Key)) }, applied, "get"},
			{"List", func() error { return ignore(s.List(ctx, "p", "", "", 10)) }, applied, "list get"},
			{"Delete in conflict", func() error { return s.Delete(ctx, row.Key, 7) }, conflict, "get"},
			{"Delete", func() error { return s.Delete(ctx, row.Key, 2) }, applied, "put"},
			{"Delete again", func() error { return s.Delete(ctx, row.Key, 2) }, is(coordinator.ErrNotFound), "get"},
			{"List of a tombstone", func() error { return ignore(s.List(ctx, "p", "", "", 10)) }, applied, "list"},
			{"Put over a tombstone", func() error { return ignore(s.Put(ctx, row, 0)) }, applied, "put"},
			{"Put over a tombstone elsewhere", func() error {
				if err := s.Delete(ctx, row.Key, 1); err != nil {
					return err
				}
				return ignore(other.Put(ctx, row, 0))
			}, applied, "put create get put"},
			{"Put of work", func() error { return ignore(s.Put(ctx, work, 0)) }, applied, "create"},
			{"Delete of work", func() error { return s.Delete(ctx, work.Key, 1) }, applied, "put delete"},
			{"Get of work", func() error { return ignore(s.Get(ctx, work.Key)) }, is(coordinator.ErrNotFound), "get"},
		} {
			// Pauses after a lost race are random.
			err := step.call()
			got := strings.ReplaceAll(ops(fake, &seen), "get get", "get")
			if got != step.ops || !step.is(err) {
				t.Errorf("%s: %v after %q, want %q", step.name, err, got, step.ops)
			}
		}
	})
}

// objectsOptions are those of a second store in the same place.
func (s *Store) objectsOptions(fake *fakes3.Server) s3objects.Options {
	o := onFake(fake).Bucket
	o.Prefix = strings.TrimSuffix(s.objects.Key(""), "/")
	return o
}

// What a failed PUT says: the outcome of every write by what became of its one request.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault fakes3.Fault
		want  error
		puts  int // of one commit; 0: several
	}{
		"reset":                     {fakes3.Fault{Reset: true}, coordinator.ErrUnknown, 1},
		"reply lost":                {fakes3.Fault{LoseReply: true}, coordinator.ErrUnknown, 1},
		"no answer":                 {fakes3.Fault{BlackHole: true}, coordinator.ErrUnknown, 1},
		"done, and no answer":       {fakes3.Fault{SwallowReply: true}, coordinator.ErrUnknown, 1},
		"broken":                    {fakes3.Fault{Status: 500, Code: "InternalError"}, coordinator.ErrUnknown, 1},
		"done after all":            {fakes3.Fault{Status: 500, Code: "InternalError", Late: time.Minute}, coordinator.ErrUnknown, 1},
		"too slow for the store":    {fakes3.Fault{Status: 400, Code: "RequestTimeout"}, coordinator.ErrUnknown, 1},
		"too few drives":            {fakes3.Fault{Status: 503, Code: "SlowDownWrite"}, coordinator.ErrUnknown, 1},
		"no word of the store's":    {fakes3.Fault{Status: 503}, coordinator.ErrUnknown, 1},
		"a conflict, says a proxy":  {fakes3.Fault{Status: 409}, coordinator.ErrUnknown, 1},
		"yes, says a proxy":         {fakes3.Fault{Status: 200}, coordinator.ErrUnknown, 1},
		"no, and nothing was there": {fakes3.Fault{Status: 412, Code: "PreconditionFailed"}, coordinator.ErrUnknown, 1},
		"forbidden":                 {fakes3.Fault{Status: 403, Code: "AccessDenied"}, coordinator.ErrNotApplied, 1},
		"no bucket":                 {fakes3.Fault{Status: 404, Code: "NoSuchBucket"}, coordinator.ErrNotApplied, 1},
		"damaged on its way":        {fakes3.Fault{Status: 400, Code: "BadDigest"}, coordinator.ErrNotApplied, 1},
		"throttled BL-101":          {fakes3.Fault{Status: 503, Code: "SlowDown"}, coordinator.ErrNotApplied, 0},
		"too many BL-097":           {fakes3.Fault{Status: 429, Code: "SlowDown"}, coordinator.ErrNotApplied, 0},
		"conflicts for ever BL-093": {fakes3.Fault{Status: 409, Code: "ConditionalRequestConflict"}, coordinator.ErrNotApplied, 0},
		"an expired token":          {fakes3.Fault{Status: 400, Code: "ExpiredToken"}, coordinator.ErrNotApplied, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onPipe(t, func(t *testing.T, fake *fakes3.Server, s *Store) {
				ctx, h := t.Context(), storetest.NewHead()
				if err := s.Create(ctx, h); err != nil {
					t.Fatal(err)
				}
				row := coordinator.Row{Key: coordinator.Key{Part: "p", Sort: "s"}}
				if _, err := s.Put(ctx, row, 0); err != nil {
					t.Fatal(err)
				}
				fake.On(fakes3.Always(fakes3.Is(fakes3.OpPut), c.fault))
				for name, write := range map[string]func() error{
					"Create": func() error { return s.Create(ctx, storetest.NewHead()) },
					"Commit": func() error { return ignore(s.Commit(ctx, h.Stream, plainCommit(2))) },
					"Put": func() error {
						return ignore(s.Put(ctx, coordinator.Row{Key: coordinator.Key{Part: "p", Sort: "new"}}, 0))
					},
					"Delete": func() error { return s.Delete(ctx, row.Key, 1) },
				} {
					before, since := fake.Count(fakes3.OpPut), time.Now()
					err := write()
					puts := fake.Count(fakes3.OpPut) - before
					if !errors.Is(err, c.want) || coordinator.Definite(err) != (c.want == coordinator.ErrNotApplied) {
						t.Errorf("%s: %v, want %v", name, err, c.want)
					}
					if took := time.Since(since); c.puts != 0 && puts != c.puts || c.puts == 0 && puts < 4 || puts > 60 || took > 5*time.Second {
						t.Errorf("%s: %d PUTs in %s", name, puts, took)
					}
				}
				fake.On(nil)
				if _, err := s.Load(ctx, h.Stream); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			})
		})
	}
}

// Before anything has left, a failure is definite: the store is not there, or the caller has gone.
func TestNothingSent(t *testing.T) {
	t.Parallel()
	fake := fakes3.Start(t)
	s := mustDial(t, onFake(fake))
	h := storetest.NewHead()
	if err := s.Create(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Commit(ended, h.Stream, plainCommit(2)); !errors.Is(err, coordinator.ErrNotApplied) || !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has gone: %v", err)
	}
	fake.Close()
	for range 3 { // the first may still find a connection that has just been closed
		if _, err := s.Commit(t.Context(), h.Stream, plainCommit(2)); errors.Is(err, coordinator.ErrNotApplied) {
			return
		}
	}
	t.Error("a store that refuses connections leaves commits in doubt")
}

// Postponed a few times, a write succeeds, as one and the same request (BL-093, BL-099).
func TestPostponed(t *testing.T) {
	t.Parallel()
	for _, fault := range []fakes3.Fault{
		{Status: 409, Code: "ConditionalRequestConflict"}, {Status: 503, Code: "SlowDown", RetryAfter: 1}, {Status: 429, Code: "TooManyRequests"},
	} {
		onPipe(t, func(t *testing.T, fake *fakes3.Server, s *Store) {
			h := storetest.NewHead()
			if err := s.Create(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			fake.On(fakes3.First(1, fakes3.Is(fakes3.OpPut), fault))
			got, err := s.Commit(t.Context(), h.Stream, plainCommit(2))
			if err != nil || got.Tail != 1 || fake.Count(fakes3.OpPut) != 3 {
				t.Errorf("%d: %v, tail %d, %d PUTs", fault.Status, err, got.Tail, fake.Count(fakes3.OpPut))
			}
		})
	}
}

// BL-097: a store that takes one write a second of each key is not asked for more, and fails nobody.
func TestBL097OneWriteASecond(t *testing.T) {
	t.Parallel()
	onPipe(t, func(t *testing.T, fake *fakes3.Server, s *Store) {
		fake.SetQuirks(fakes3.Quirks{WriteEvery: time.Second})
		h := storetest.NewHead()
		if err := s.Create(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		for n := range uint64(5) {
			got, err := s.Commit(t.Context(), h.Stream, plainCommit(2))
			if err != nil || got.Tail != n+1 {
				t.Fatalf("commit %d: %v, tail %d", n, err, got.Tail)
			}
		}
	})
}

// Something before the store sends each request twice, so that a writer is told that his condition failed: by himself. He
// finds out, also when others have written since.
func TestOwnSuccessToldAsFailure(t *testing.T) {
	t.Parallel()
	onPipe(t, func(t *testing.T, fake *fakes3.Server, s *Store) {
		fake.SetQuirks(fakes3.Quirks{RepeatPuts: true})
		ctx, h := t.Context(), storetest.NewHead()
		row := coordinator.Row{Key: coordinator.Key{Part: "p", Sort: "s"}, ID: coordinator.NewOpID()}
		if err := s.Create(ctx, h); err != nil {
			t.Errorf("Create: %v", err)
		}
		for n := range uint64(5) {
			got, err := s.Commit(ctx, h.Stream, plainCommit(segments.Label(n+1)))
			if err != nil || got.Tail != n+1 || len(got.Log) != int(n)+1 {
				t.Fatalf("commit %d: %v, %+v", n, err, got)
			}
			if row, err = s.Put(ctx, row, n); err != nil || row.Version != n+1 {
				t.Fatalf("put %d: %v, version %d", n, err, row.Version)
			}
		}
		if err := s.Delete(ctx, row.Key, 5); err != nil {
			t.Errorf("Delete: %v", err)
		}
	})
}

// A process that has forgotten what it wrote does not take an earlier write of its own for the one that was just refused.
func TestOwnEarlierWriteIsNoSuccess(t *testing.T) {
	t.Parallel()
	onPipe(t, func(t *testing.T, fake *fakes3.Server, s *Store) {
		ctx, h := t.Context(), storetest.NewHead()
		row := coordinator.Row{Key: coordinator.Key{Part: "p", Sort: "s"}, ID: coordinator.NewOpID()}
		for n, want := range []bool{true, false, false} {
			s.heads.known.InvalidateAll()
			s.rows.known.InvalidateAll()
			row.ID = coordinator.NewOpID()
			_, put := s.Put(ctx, row, 0)
			if create := s.Create(ctx, h); (put == nil) != want || (create == nil) != want || !want && !errors.Is(create, coordinator.ErrExists) {
				t.Errorf("try %d: %v, %v", n, put, create)
			}
		}
	})
}

// settle judges by the history alone: ours, somebody else's, or too long ago to tell.
func TestSettle(t *testing.T) {
	t.Parallel()
	for others, want := range map[int]error{0: nil, 1: nil, keptWriters - 1: nil, keptWriters: coordinator.ErrUnknown, 2 * keptWriters: coordinator.ErrUnknown} {
		onPipe(t, func(t *testing.T, fake *fakes3.Server, s *Store) {
			ctx, h := t.Context(), storetest.NewHead()
			if err := s.Create(ctx, h); err != nil {
				t.Fatal(err)
			}
			// The PUT is done, though its writer is told 412, and others follow before he looks.
			var put, get atomic.Bool
			fake.On(func(r fakes3.Request) fakes3.Fault {
				switch {
				case r.Op == fakes3.OpPut && put.CompareAndSwap(false, true):
					return fakes3.Fault{Status: 412, Code: "PreconditionFailed", Late: time.Nanosecond}
				case r.Op == fakes3.OpGet && get.CompareAndSwap(false, true):
					return fakes3.Fault{Delay: time.Second}
				}
				return fakes3.Fault{}
			})
			answer := make(chan error, 1)
			var got coordinator.Head
			go func() {
				var err error
				got, err = s.Commit(ctx, h.Stream, plainCommit(1))
				answer <- err
			}()
			time.Sleep(time.Millisecond)
			other := mustDial(t, Options{Bucket: s.objectsOptions(fake)})
			for range others {
				other.heads.writer = newWriterID()
				for range 2 {
					if _, err := other.Commit(ctx, h.Stream, plainCommit(2)); err != nil {
						t.Fatal(err)
					}
				}
			}
			err := <-answer
			if want == nil && (err != nil || got.Tail != 1) || want != nil && !errors.Is(err, want) {
				t.Errorf("after %d others: %v, tail %d, want %v", others, err, got.Tail, want)
			}
		})
	}
}

// A writer is told that his state is no more, and reads that it is: then his write may be under way. Nothing is made of it, or it
// would be made twice.
func TestSettleBeforeItArrives(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*fakes3.Server){
		"late": func(f *fakes3.Server) {
			f.On(fakes3.First(1, fakes3.Is(fakes3.OpPut), fakes3.Fault{Status: 412, Code: "PreconditionFailed", Late: 1}))
		},
		"late, by a page": func(f *fakes3.Server) {
			f.On(fakes3.First(1, fakes3.Is(fakes3.OpPut), fakes3.Fault{Status: 412, Late: 1}))
		},
		"stale": func(f *fakes3.Server) {
			f.SetQuirks(fakes3.Quirks{RepeatPuts: true})
			f.On(fakes3.First(1, fakes3.Is(fakes3.OpGet), fakes3.Fault{Stale: true}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onPipe(t, func(t *testing.T, fake *fakes3.Server, s *Store) {
				ctx, h := t.Context(), storetest.NewHead()
				row := coordinator.Row{Key: coordinator.Key{Part: "p", Sort: "s"}, ID: coordinator.NewOpID()}
				if err := errors.Join(s.Create(ctx, h), ignore(s.Put(ctx, row, 0))); err != nil {
					t.Fatal(err)
				}
				for what, write := range map[string]func() error{
					"Commit": func() error { return ignore(s.Commit(ctx, h.Stream, plainCommit(1))) },
					"Put":    func() error { return ignore(s.Put(ctx, row, 1)) },
					"Create": func() error { return s.Create(ctx, storetest.NewHead()) },
				} {
					fault(fake)
					if err := write(); err != nil && !errors.Is(err, coordinator.ErrUnknown) {
						t.Errorf("%s: %v", what, err)
					}
					fake.On(nil)
					fake.SetQuirks(fakes3.Quirks{})
				}
				time.Sleep(time.Minute)
				if got, err := s.Load(ctx, h.Stream); err != nil || got.Tail != 1 {
					t.Errorf("one commit has made the tail %d: %v", got.Tail, err)
				}
			})
		})
	}
}

// A row that is gone, with its tombstone, does not tell whose the last write was.
func TestSettleWithoutATombstone(t *testing.T) {
	t.Parallel()
	for _, version := range []uint64{0, 1} {
		onPipe(t, func(t *testing.T, fake *fakes3.Server, s *Store) {
			ctx, row := t.Context(), coordinator.Row{Key: coordinator.Key{Part: "work", Sort: "s"}, ID: coordinator.NewOpID()}
			other := mustDial(t, Options{Bucket: s.objectsOptions(fake), UsedOnce: func(string) bool { return true }})
			if version == 1 {
				if _, err := s.Put(ctx, row, 0); err != nil {
					t.Fatal(err)
				}
			}
			var get atomic.Bool
			put := fakes3.First(1, fakes3.Is(fakes3.OpPut), fakes3.Fault{Status: 412, Code: "PreconditionFailed", Late: 1})
			fake.On(func(r fakes3.Request) fakes3.Fault {
				if r.Op == fakes3.OpGet && get.CompareAndSwap(false, true) {
					return fakes3.Fault{Delay: time.Second}
				}
				return put(r)
			})
			answer := make(chan error, 1)
			go func() { answer <- ignore(s.Put(ctx, row, version)) }()
			time.Sleep(time.Millisecond)
			if err := other.Delete(ctx, row.Key, version+1); err != nil {
				t.Fatal(err)
			}
			if err := <-answer; !errors.Is(err, coordinator.ErrUnknown) {
				t.Errorf("over version %d: %v", version, err)
			}
		})
	}
}

// A head that is known is not taken for absent at the store's first word.
func TestKnownHeadIsNotAbsent(t *testing.T) {
	t.Parallel()
	onPipe(t, func(t *testing.T, fake *fakes3.Server, s *Store) {
		h := storetest.NewHead()
		if err := s.Create(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		fake.On(fakes3.First(1, fakes3.Is(fakes3.OpGet), fakes3.Fault{Status: 404, Code: "NoSuchKey"}))
		if _, err := s.Load(t.Context(), h.Stream); err != nil {
			t.Errorf("Load: %v", err)
		}
	})
}

// BL-094: the object of a head goes under a running server, or becomes another's. The next write fails and makes nothing.
func TestBL094HeadVanishes(t *testing.T) {
	t.Parallel()
	for _, status := range []int{404, 412} {
		onPipe(t, func(t *testing.T, fake *fakes3.Server, s *Store) {
			fake.SetQuirks(fakes3.Quirks{MissingIfMatch: status})
			h := storetest.NewHead()
			if err := s.Create(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			fake.DeleteObject(s.objects.Key(headKey(h.Stream)))
			// Only the first of the two answers says that nothing was there before, either.
			first := map[int]error{404: coordinator.ErrNotFound, 412: coordinator.ErrUnknown}[status]
			for _, want := range []error{first, coordinator.ErrNotFound} {
				if _, err := s.Commit(t.Context(), h.Stream, plainCommit(1)); !errors.Is(err, want) {
					t.Errorf("%d: a commit to a head that is gone: %v", status, err)
				}
			}
			if keys := fake.Keys(); len(keys) != 0 {
				t.Errorf("%d: it has made %q", status, keys)
			}
		})
	}
}

// BL-104: reads that show what was, and answers without a tag, never lead to a write over what is.
func TestBL104StaleAndUntagged(t *testing.T) {
	t.Parallel()
	onPipe(t, func(t *testing.T, fake *fakes3.Server, s *Store) {
		ctx, h := t.Context(), storetest.NewHead()
		if err := s.Create(ctx, h); err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			if _, err := s.Commit(ctx, h.Stream, plainCommit(segments.Label(n+1))); err != nil {
				t.Fatal(err)
			}
		}
		stale := fakes3.First(1, fakes3.Is(fakes3.OpGet), fakes3.Fault{Stale: true})
		fake.On(stale)
		if got, err := s.Load(ctx, h.Stream); err != nil || got.Tail != 3 {
			t.Errorf("one stale read: %v, tail %d", err, got.Tail)
		}
		fake.SetQuirks(fakes3.Quirks{StaleGets: true})
		if got, err := s.Load(ctx, h.Stream); !errors.Is(err, s3objects.ErrMisbehaves) {
			t.Errorf("nothing but stale reads: %v, tail %d", err, got.Tail)
		}
		fresh := mustDial(t, Options{Bucket: s.objectsOptions(fake)}) // which cannot know
		if _, err := fresh.Commit(ctx, h.Stream, plainCommit(4)); !errors.Is(err, coordinator.ErrUnknown) {
			t.Errorf("a commit on stale reads: %v", err)
		}
		fake.SetQuirks(fakes3.Quirks{NoETag: true})
		if _, err := fresh.Commit(ctx, h.Stream, plainCommit(4)); err == nil {
			t.Error("a commit succeeds where nothing has a tag")
		}
		fake.SetQuirks(fakes3.Quirks{})
		if got, err := s.Load(ctx, h.Stream); err != nil || got.Tail != 3 {
			t.Errorf("in the end: %v, tail %d", err, got.Tail)
		}
	})
}

// Writers of one process wait for each other instead of losing races: each costs one request.
func TestOwnWritersDoNotRace(t *testing.T) {
	t.Parallel()
	fake := fakes3.Start(t)
	s := mustDial(t, onFake(fake))
	h := storetest.NewHead()
	if err := s.Create(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	const writers = 40
	errs := make(chan error, writers)
	for i := range writers {
		go func() { errs <- ignore(s.Commit(t.Context(), h.Stream, plainCommit(segments.Label(i+1)))) }()
	}
	for range writers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if puts, gets := fake.Count(fakes3.OpPut), fake.Count(fakes3.OpGet); puts != writers+1 || gets != 0 {
		t.Errorf("%d PUTs and %d GETs for %d commits", puts, gets, writers)
	}
	if len(s.heads.locks.all) != 0 {
		t.Error("locks are left")
	}
}

// Keys too long to be spelt out are listed in order among each other and all others, whatever the page.
func TestLongKeys(t *testing.T) {
	t.Parallel()
	fake := fakes3.Start(t)
	s := mustDial(t, onFake(fake))
	base := strings.Repeat("b", plainBytes)
	keys := []string{"a", base[:plainBytes-1], base}
	for i := range 20 {
		keys = append(keys, base+fmt.Sprintf("%02d", i))
	}
	keys = append(keys, base+"x"+strings.Repeat("y", 400), base[:plainBytes-1]+"c", base[:plainBytes-1]+"cc", "c")
	for _, key := range keys {
		if _, err := s.Put(t.Context(), coordinator.Row{Key: coordinator.Key{Part: "p", Sort: key}}, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range keys[3:10] { // a run that begins with tombstones
		if err := s.Delete(t.Context(), coordinator.Key{Part: "p", Sort: key}, 1); err != nil {
			t.Fatal(err)
		}
	}
	keys = append(keys[:3:3], keys[10:]...)
	for _, prefix := range []string{"", "b", base, base + "1", base + "x"} {
		for limit := range 8 {
			var want, got []string
			for _, key := range keys {
				if strings.HasPrefix(key, prefix) {
					want = append(want, key)
				}
			}
			for after := ""; ; after = got[len(got)-1] {
				rows, err := s.List(t.Context(), "p", prefix, after, limit+1)
				if err != nil {
					t.Fatal(err)
				}
				for _, row := range rows {
					got = append(got, row.Key.Sort)
				}
				if len(rows) <= limit {
					break
				}
			}
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("prefix of %d bytes, by %d: %d keys, want %d", len(prefix), limit+1, len(got), len(want))
			}
		}
	}
}

// Deleted rows whose keys are used once leave nothing, even if their removal has to wait for a listing.
func TestUsedOnceLeavesNothing(t *testing.T) {
	t.Parallel()
	onPipe(t, func(t *testing.T, fake *fakes3.Server, s *Store) {
		s.usedOnce = func(string) bool { return true }
		for i := range 5 {
			row, err := s.Put(t.Context(), coordinator.Row{Key: coordinator.Key{Part: "p", Sort: fmt.Sprint(i)}}, 0)
			if err != nil {
				t.Fatal(err)
			}
			fake.On(nil)
			if i%2 == 0 {
				fake.On(fakes3.Always(fakes3.Is(fakes3.OpDelete), fakes3.Fault{Status: 403, Code: "AccessDenied"}))
			}
			if err := s.Delete(t.Context(), row.Key, 1); err != nil {
				t.Errorf("Delete: %v", err)
			}
		}
		fake.On(nil)
		if n := len(fake.Keys()); n != 3 {
			t.Errorf("%d objects are left, want the 3 that could not be removed", n)
		}
		for _, wait := range []time.Duration{0, 2 * buryAfter} {
			time.Sleep(wait)
			if rows, err := s.List(t.Context(), "p", "", "", 10); err != nil || len(rows) != 0 {
				t.Errorf("List: %v, %v", rows, err)
			}
		}
		if keys := fake.Keys(); len(keys) != 0 {
			t.Errorf("left are %q", keys)
		}
	})
}
