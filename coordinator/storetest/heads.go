package storetest

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// RunHeads runs the conformance suite of coordinator.Heads. open returns a store that nothing else writes to and
// cleans up after itself; it is called once for each of the suite's tests.
func RunHeads(t *testing.T, open func(t *testing.T) coordinator.Heads) {
	for name, test := range map[string]func(*testing.T, coordinator.Heads){
		"answers as the pure functions":       headsModel,
		"create":                              headsCreate,
		"what is not there":                   headsNotFound,
		"a tombstone stays":                   headsTombstone,
		"neighbouring ids":                    headsNeighbours,
		"an ended context changes nothing":    headsEndedContext,
		"racing creates":                      headsRacingCreates,
		"racing conditional commits":          headsRacingConditional,
		"racing commits":                      headsRacingCommits,
		"racing commits, moves and exchanges": headsRacingMoves,
		"racing verbs":                        headsRacingVerbs,
		"what was answered is there to read":  headsReadYourWrites,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// headsModel holds every answer of the store against the pure function on the answer before.
func headsModel(t *testing.T, heads coordinator.Heads) {
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		g := NewGen(t)
		model := g.Head()
		if err := heads.Create(ctx, model); err != nil {
			t.Fatalf("Create: %v", err)
		}
		type seen struct {
			head  coordinator.Head
			bytes []byte
		}
		var answers []seen
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			step := g.Step(&model)
			want, wantErr := step.Apply(model)
			got, err := step.Send(ctx, heads, model.Stream)
			sameAnswer(t, got, err, want, wantErr)
			if err == nil {
				answers = append(answers, seen{got, Canonical(got)})
				model = got
			}
			if rapid.Bool().Draw(t, "load") {
				mustLoad(t, ctx, heads, want)
			}
		}
		mustLoad(t, ctx, heads, model)
		for _, a := range answers {
			if !bytes.Equal(a.bytes, Canonical(a.head)) {
				t.Fatal("a head that was handed out changed later")
			}
		}
	})
}

func sameAnswer(t *rapid.T, got coordinator.Head, err error, want coordinator.Head, wantErr error) {
	if wantErr == nil {
		if err != nil || !Equal(got, want) {
			t.Fatalf("answered %v with\n%+v, want\n%+v", err, got, want)
		}
		return
	}
	reason, refused := RefusedFor(err)
	if wantReason, _ := RefusedFor(wantErr); reason != wantReason || !Equal(refused, want) {
		t.Fatalf("answered %v of\n%+v, want %v of\n%+v", err, refused, wantErr, want)
	}
}

type fataler interface{ Fatalf(string, ...any) }

func mustLoad(t fataler, ctx context.Context, heads coordinator.Heads, want coordinator.Head) {
	got, err := heads.Load(ctx, want.Stream)
	if err != nil || !Equal(got, want) {
		t.Fatalf("loaded %v\n%+v, want\n%+v", err, got, want)
	}
}

func headsCreate(t *testing.T, heads coordinator.Heads) {
	first := NewHead()
	if err := heads.Create(t.Context(), first); err != nil {
		t.Fatalf("Create: %v", err)
	}
	mustLoad(t, t.Context(), heads, first)
	second := first
	second.CreatedAt = 2
	if err := heads.Create(t.Context(), second); !errors.Is(err, coordinator.ErrExists) {
		t.Errorf("second Create: %v, want ErrExists", err)
	}
	mustLoad(t, t.Context(), heads, first)
}

func headsNotFound(t *testing.T, heads coordinator.Heads) {
	ctx, id := t.Context(), segments.NewStreamID()
	_, load := heads.Load(ctx, id)
	_, commit := heads.Commit(ctx, id, plainCommit(1))
	_, splice := heads.Splice(ctx, id, &coordinator.Splice{Retire: &coordinator.Retire{MinLabel: segments.MaxLabel}})
	_, change := heads.Change(ctx, id, &coordinator.Change{RaiseHorizon: 5})
	for name, err := range map[string]error{"Load": load, "Commit": commit, "Splice": splice, "Change": change} {
		if !errors.Is(err, coordinator.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", name, err)
		}
	}
	if _, err := heads.Load(ctx, id); !errors.Is(err, coordinator.ErrNotFound) {
		t.Errorf("Load afterwards: %v: an update made a head", err)
	}
}

func headsTombstone(t *testing.T, heads coordinator.Heads) {
	ctx, h := t.Context(), NewHead()
	if err := heads.Create(ctx, h); err != nil {
		t.Fatalf("Create: %v", err)
	}
	id := coordinator.NewOpID()
	dead, err := heads.Change(ctx, h.Stream, &coordinator.Change{ID: id, State: coordinator.Deleted})
	if err != nil || dead.State != coordinator.Deleted || dead.StateID != id {
		t.Fatalf("delete: %v, %+v", err, dead)
	}
	if err := heads.Create(ctx, h); !errors.Is(err, coordinator.ErrExists) {
		t.Errorf("Create over a tombstone: %v", err)
	}
	_, err = heads.Commit(ctx, h.Stream, plainCommit(1))
	if reason, refused := RefusedFor(err); reason != coordinator.RefusedState || !Equal(refused, dead) {
		t.Errorf("commit to a tombstone: %v", err)
	}
	mustLoad(t, ctx, heads, dead)
}

// headsNeighbours writes to streams whose ids follow each other in any order of bytes: none sees another's.
func headsNeighbours(t *testing.T, heads coordinator.Heads) {
	ctx, base := t.Context(), segments.NewStreamID()
	var models []coordinator.Head
	for _, tail := range [][2]byte{{0, 0}, {0, 1}, {0, 0xff}, {1, 0}, {0xfe, 0xff}, {0xff, 0}, {0xff, 0xff}} {
		h := NewHead()
		h.Stream = base
		h.Stream[14], h.Stream[15] = tail[0], tail[1]
		models = append(models, h)
		if err := heads.Create(ctx, h); err != nil {
			t.Fatalf("Create: %v", err)
		}
	}
	for label := range segments.Label(3) {
		for i := range models {
			next, err := heads.Commit(ctx, models[i].Stream, plainCommit(label+1))
			if err != nil {
				t.Fatalf("Commit: %v", err)
			}
			models[i] = next
		}
	}
	for i := range models {
		if n := len(models[i].Log); n != 3 || models[i].Tail != 3 {
			t.Errorf("stream %d: %d entries, tail %d", i, n, models[i].Tail)
		}
		mustLoad(t, ctx, heads, models[i])
	}
}

func headsEndedContext(t *testing.T, heads coordinator.Heads) {
	h := NewHead()
	if err := heads.Create(t.Context(), h); err != nil {
		t.Fatalf("Create: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	other := NewHead()
	create := heads.Create(ended, other)
	_, load := heads.Load(ended, h.Stream)
	_, commit := heads.Commit(ended, h.Stream, plainCommit(1))
	_, splice := heads.Splice(ended, h.Stream, &coordinator.Splice{Retire: &coordinator.Retire{MinLabel: segments.MaxLabel}})
	_, change := heads.Change(ended, h.Stream, &coordinator.Change{RaiseHorizon: 5})
	for name, err := range map[string]error{
		"Create": create, "Load": load, "Commit": commit, "Splice": splice, "Change": change,
	} {
		if err == nil || errors.Is(err, coordinator.ErrNotFound) || errors.Is(err, coordinator.ErrExists) {
			t.Errorf("%s: %v", name, err)
		}
	}
	mustLoad(t, t.Context(), heads, h)
	if _, err := heads.Load(t.Context(), other.Stream); !errors.Is(err, coordinator.ErrNotFound) {
		t.Errorf("Load of what was not to be created: %v", err)
	}
}

// plainCommit adds one inline record with an id of its own, whatever is installed.
func plainCommit(label segments.Label) *coordinator.Commit {
	return &coordinator.Commit{
		Entries: []segments.Entry{{
			ID: segments.EntryID{Object: segments.NewObjectID(label)}, N: 1, MaxTime: uint64(label), Bytes: 9,
			Data: []byte("x"),
		}},
		MaxEntries: 4096, MaxInline: 1 << 20,
	}
}
