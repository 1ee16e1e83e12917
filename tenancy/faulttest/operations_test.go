package faulttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/tenancy"
)

// operation is what is broken at every store call it makes.
type operation struct {
	name string
	// setup lays out the stores, past the faults. What it returns is handed to run.
	setup func(w *world) coordinator.StreamRef
	// run makes the operation in a process. It enters in the ledgers what it was told.
	run func(ctx context.Context, w *world, p *process, ref coordinator.StreamRef) error
	// after, unless nil, is what must hold once run has succeeded.
	after func(w *world, ref coordinator.StreamRef) error
}

// small and large are bodies that go into the head and into a segment.
var large = strings.Repeat("large ", 100)

func operations() []operation {
	return slices.Concat(appends(), upkeep(), directory())
}

// some is a stream with a few records.
func some(w *world) coordinator.StreamRef {
	ref := w.ref()
	w.fill(ref, 2, room)
	return ref
}

func appends() []operation {
	appending := func(batches ...coordinator.Batch) func(context.Context, *world, *process, coordinator.StreamRef) error {
		return func(ctx context.Context, w *world, p *process, ref coordinator.StreamRef) error {
			for _, b := range batches {
				if err := w.append(ctx, p, ref, b); err != nil {
					return err
				}
			}
			return nil
		}
	}
	match, token := records("conditional"), records("fenced")
	match.Match, token.Token = new(uint64), new(string)
	*match.Match, *token.Token = 2, "mine"
	installed := func(w *world, ref coordinator.StreamRef) error {
		h, err := w.inner.heads.Load(w.t.Context(), ref.Stream)
		if err == nil && h.Token != "mine" {
			err = fmt.Errorf("the token is %q", h.Token)
		}
		return err
	}
	return []operation{
		{"append inline", some, appending(records("inline")), nil},
		{"append by segment", some, appending(records("one "+large, "two "+large)), nil},
		{"append over the mark", func(w *world) coordinator.StreamRef {
			ref := w.ref()
			w.fill(ref, 3, wide)
			return ref
		}, appending(records("crosses"), records("crosses "+large)), nil},
		{"append by condition", some, appending(match), nil},
		{"fence by record", some, appending(records("fence:mine"), token), installed},
		{"fence", some, func(ctx context.Context, w *world, p *process, ref coordinator.StreamRef) error {
			f, err := p.Fence(ctx, ref, "mine")
			if err != nil {
				return err
			}
			if f.Token != "mine" || f.Previous != "" || f.Tail.SeqNum != 2 {
				return fmt.Errorf("%w: fenced %+v", errWrong, f)
			}
			return w.append(ctx, p, ref, token)
		}, installed},
		{"trim", some, appending(records("trim:1")), func(w *world, ref coordinator.StreamRef) error {
			h, err := w.inner.heads.Load(w.t.Context(), ref.Stream)
			if err == nil && h.Trim != 1 {
				err = fmt.Errorf("the trim point is %d", h.Trim)
			}
			return err
		}},
		{"append session", some, session, nil},
		{"read", func(w *world) coordinator.StreamRef {
			ref := w.ref()
			w.fill(ref, 11, room)
			return ref
		}, readBack, nil},
	}
}

// session submits batches one behind the other; the first failure ends it.
func session(ctx context.Context, w *world, p *process, ref coordinator.StreamRef) error {
	s, err := p.OpenSession(ctx, ref, coordinator.SessionOptions{})
	if err != nil {
		return err
	}
	defer s.Close()
	var pending []*coordinator.Pending
	var batches []coordinator.Batch
	for i, text := range []string{"first", "second " + large, "third"} {
		b := records(fmt.Sprintf("session %d a %s", i, text), fmt.Sprintf("session %d b %s", i, text))
		kept := b
		kept.Records = slices.Clone(b.Records)
		one, err := s.Submit(ctx, b)
		if err != nil {
			w.note(ref, kept, coordinator.Ack{}, err)
			break
		}
		pending, batches = append(pending, one), append(batches, kept)
	}
	var failed error
	for i, one := range pending {
		ack, err := one.Wait(ctx)
		w.note(ref, batches[i], ack, err)
		if failed == nil {
			failed = err
		} else if err == nil {
			return fmt.Errorf("batch %d of the session was acknowledged behind a failure: %w", i, failed)
		}
	}
	return failed
}

// readBack reads everything through the faults: what comes is right, or an error does.
func readBack(ctx context.Context, w *world, p *process, ref coordinator.StreamRef) error {
	where, first, err := p.readAll(ctx, ref)
	if err != nil {
		return err
	}
	l := w.ledger(ref)
	for i := range l.attempts {
		if _, err := l.attempts[i].verify(where, first); err != nil {
			return fmt.Errorf("%w: %w", errWrong, err)
		}
	}
	return nil
}

// errWrong: an operation succeeded with what is not so.
var errWrong = errors.New("wrong answer")

func upkeep() []operation {
	maintain := func(ctx context.Context, _ *world, p *process, ref coordinator.StreamRef) error {
		if _, err := p.Maintain(ctx, ref); err != nil {
			return fmt.Errorf("something is left to the next upkeep: %s", err) // which promises no more
		}
		return nil
	}
	logAtMost := func(n int) func(*world, coordinator.StreamRef) error {
		return func(w *world, ref coordinator.StreamRef) error {
			h, err := w.inner.heads.Load(w.t.Context(), ref.Stream)
			if err == nil && (len(h.Log) > n || len(h.Pages) == 0) {
				err = fmt.Errorf("%d entries are left in the log, with %d roots", len(h.Log), len(h.Pages))
			}
			return err
		}
	}
	return []operation{
		{"move", func(w *world) coordinator.StreamRef {
			ref := w.ref()
			w.fill(ref, 3, room)
			w.fill(ref, 7, wide)
			return ref
		}, maintain, logAtMost(3)},
		{"page fold", fullPage, maintain, func(w *world, ref coordinator.StreamRef) error {
			h, err := w.inner.heads.Load(w.t.Context(), ref.Stream)
			if err == nil && (len(h.Pages) != 2 || h.Pages[0].Level != 1) {
				err = fmt.Errorf("the page is not folded: %+v", h.Pages)
			}
			return err
		}},
		{"retire", func(w *world) coordinator.StreamRef {
			ref := w.ref()
			w.fill(ref, 9, room)
			w.fill(ref, 2, wide)
			p := w.process(false, wide)
			defer p.Close()
			if err := w.append(w.t.Context(), p, ref, records("trim:10")); err != nil {
				w.t.Fatal(err)
			}
			return ref
		}, maintain, func(w *world, ref coordinator.StreamRef) error {
			h, err := w.inner.heads.Load(w.t.Context(), ref.Stream)
			if err == nil && (h.Floor != 10 || h.First() < 8) {
				err = fmt.Errorf("the floor is %d, the first record %d", h.Floor, h.First())
			}
			return err
		}},
		{"collect", func(w *world) coordinator.StreamRef {
			ref := w.ref()
			w.fill(ref, 20, room) // whose moves leave pages behind
			return ref
		}, func(ctx context.Context, w *world, p *process, ref coordinator.StreamRef) error {
			report, err := p.collect(ctx, ref)
			if err == nil && report.Failed+report.Quarantined > 0 {
				err = fmt.Errorf("something is left to the next collection: %+v", report)
			}
			return err
		}, func(w *world, ref coordinator.StreamRef) error {
			p := w.process(false, room)
			defer p.Close()
			report, err := p.collect(w.t.Context(), ref)
			if err == nil && report.Deleted > 0 {
				err = fmt.Errorf("%d objects were left", report.Deleted)
			}
			return err
		}},
	}
}

// collect collects the basin of a stream, with no grace at all.
func (p *process) collect(ctx context.Context, ref coordinator.StreamRef) (coordinator.CollectReport, error) {
	return p.Collect(ctx, ref.Basin, coordinator.CollectOptions{
		Grace: -time.Hour, // also what a store whose clock is ahead has just been given
		Streams: func(ctx context.Context, visit func(segments.StreamID) error) error {
			return p.dir.Walk(ctx, func(s tenancy.Stream) error {
				if s.Ref.Basin != ref.Basin {
					return nil
				}
				return visit(s.Ref.Stream)
			})
		},
	})
}

// full is a stream whose lowest page lacks few rows to be full: made once, in memory, and copied, since it takes a thousand
// appends. A bubble's clock is behind its records, which never expire.
type fullStream struct {
	head     coordinator.Head
	objects  map[string][]byte
	attempts []attempt
}

var full *fullStream

// fullPage copies it under the ids it was made with: the directory does not know it.
func fullPage(w *world) coordinator.StreamRef {
	ctx := w.t.Context()
	for key, data := range full.objects {
		if err := w.inner.objects.Put(ctx, key, data); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := w.inner.heads.Create(ctx, full.head); err != nil {
		w.t.Fatal(err)
	}
	ref := coordinator.StreamRef{Basin: full.head.Basin, Stream: full.head.Stream}
	w.ledger(ref).attempts = slices.Clone(full.attempts)
	return ref
}

func makeFull(t *testing.T) *fullStream {
	t.Helper()
	w := newWorld(t, &kind{open: openMemory})
	ref, ctx := w.ref(), t.Context()
	inline := wide // so that the move puts all of them into one segment
	inline.InlineBatch = 1 << 10
	w.fill(ref, segments.MaxPageRows-2, inline)
	folding := inline
	folding.MoveEntries, folding.MaxSplice = room.MoveEntries, 0
	p := w.process(false, folding)
	defer p.Close()
	if _, err := p.Maintain(ctx, ref); err != nil {
		t.Fatal(err)
	}
	w.fill(ref, 6, inline)
	made := &fullStream{objects: map[string][]byte{}, attempts: w.ledger(ref).attempts}
	var err error
	if made.head, err = w.inner.heads.Load(ctx, ref.Stream); err != nil || len(made.head.Pages) != 1 || len(made.head.Log) != 6 {
		t.Fatalf("the full page: %v, %d roots, %d entries", err, len(made.head.Pages), len(made.head.Log))
	}
	infos, err := w.inner.objects.List(ctx, "", "", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		if made.objects[info.Key], err = w.inner.objects.Get(ctx, info.Key, 0, -1); err != nil {
			t.Fatal(err)
		}
	}
	return made
}

func directory() []operation {
	create := func(ctx context.Context, w *world, p *process, _ coordinator.StreamRef) error {
		_, _, err := p.dir.CreateStream(ctx, basin, stream, tenancy.Settings{}, "once")
		return err
	}
	firstAppend := func(ctx context.Context, w *world, p *process, _ coordinator.StreamRef) error {
		ref, err := p.dir.Resolve(ctx, basin, stream, tenancy.Append)
		if err != nil {
			return err
		}
		return w.append(ctx, p, ref, records("first of all"))
	}
	none := func(*world) coordinator.StreamRef { return coordinator.StreamRef{} }
	remove := func(ctx context.Context, w *world, p *process, ref coordinator.StreamRef) error {
		l := w.ledger(ref)
		l.doomed = true
		_, err := p.dir.DeleteStream(ctx, basin, stream)
		switch {
		case err == nil:
			l.deleted = true
		case tenancy.Definite(err):
			l.doomed = false
		}
		return err
	}
	removed := func(linger bool) func(w *world) coordinator.StreamRef {
		return func(w *world) coordinator.StreamRef {
			ref := some(w)
			p := w.process(false, room)
			defer p.Close()
			if err := remove(w.t.Context(), w, p, ref); err != nil {
				w.t.Fatal(err)
			}
			w.pass(time.Minute)
			if !linger {
				if _, err := p.dir.Sweep(w.t.Context()); err != nil {
					w.t.Fatal(err)
				}
			}
			return ref
		}
	}
	// What is in the new stream, verify knows from its ledger.
	fresh := func(w *world, old coordinator.StreamRef) error {
		p := w.process(false, room)
		defer p.Close()
		ref, err := p.dir.ResolveFresh(w.t.Context(), basin, stream, tenancy.Read)
		if err == nil && ref == old {
			err = errors.New("the new stream is the old one")
		}
		w.ledger(ref)
		return err
	}
	gone := func(w *world, ref coordinator.StreamRef) error {
		p := w.process(false, room)
		defer p.Close()
		err := w.append(w.t.Context(), p, ref, records("too late"))
		if err == nil {
			return errors.New("a deleted stream takes records")
		}
		return nil
	}
	reconfigure := func(ctx context.Context, _ *world, p *process, _ coordinator.StreamRef) error {
		_, _, err := p.dir.ReconfigureStream(ctx, basin, stream, tenancy.Patch{TimestampingMode: tenancy.Value(coordinator.ArrivalTime)})
		return err
	}
	removeBasin := func(ctx context.Context, w *world, p *process, ref coordinator.StreamRef) error {
		l := w.ledger(ref)
		l.doomed = true
		_, err := p.dir.DeleteBasin(ctx, basin)
		switch {
		case err == nil:
			// The streams go afterwards. A sweep promises nothing but that the next one goes on.
			if s, err := p.dir.Sweep(ctx); err != nil || s.Failed > 0 {
				return fmt.Errorf("%d streams are left to the next sweep: %v", s.Failed, err)
			}
		case tenancy.Definite(err):
			l.doomed = false
		}
		return err
	}
	return []operation{
		{"create", none, create, fresh},
		{"create by an append", none, firstAppend, nil},
		{"reconfigure", some, reconfigure, func(w *world, ref coordinator.StreamRef) error {
			h, err := w.inner.heads.Load(w.t.Context(), ref.Stream)
			if err == nil && h.Config.Timestamping != coordinator.ArrivalTime {
				err = fmt.Errorf("the config is %+v", h.Config)
			}
			return err
		}},
		{"delete", some, remove, gone},
		{"create over a pending deletion", removed(true), create, fresh},
		{"create over a tombstone", removed(false), create, fresh},
		{"append over a tombstone", removed(false), firstAppend, nil},
		{"delete the basin", some, removeBasin, gone},
	}
}
