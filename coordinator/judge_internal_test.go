package coordinator

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace-streams/tailrace/segments"
)

// TestReduction: the commit that a run of batches is reduced to does to the head what the admitted batches do one by
// one, each as a commit of its own, and the judge refuses exactly those that are refused one by one.
func TestReduction(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tokens := []string{"", "a", "b"}
		h := Head{
			V: 7, Stream: segments.NewStreamID(), State: Active, Tail: 5, Base: 5, ConfigV: 3,
			Token:  rapid.SampledFrom(tokens).Draw(t, "token"),
			Config: StreamConfig{Fencing: rapid.SampledFrom([]FencingMode{Cooperative, Exclusive}).Draw(t, "fencing")},
		}
		one := h // the head that batches are applied to one by one
		j := newJudge(&h)
		var entries []segments.Entry
		for range rapid.IntRange(1, 6).Draw(t, "batches") {
			b, cmds := drawBatch(t, tokens, one.Tail)
			single := newJudge(&one)
			wantErr := single.admit(b, uint64(len(b.Records)), cmds)
			err := j.admit(b, uint64(len(b.Records)), cmds)
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("judged together: %v, alone: %v", err, wantErr)
			}
			var f, wantF *FencingMismatch
			var m, wantM *MatchMismatch
			if errors.As(err, &f) && (!errors.As(wantErr, &wantF) || f.Installed != wantF.Installed) || errors.As(err, &m) && (!errors.As(wantErr, &wantM) || m.Next != wantM.Next) {
				t.Fatalf("judged together: %v, alone: %v", err, wantErr)
			}
			if err != nil {
				continue
			}
			e := segments.Entry{ID: segments.EntryID{Object: segments.NewObjectID(1)}, N: uint32(len(b.Records)), Data: []byte{1}}
			entries = append(entries, e)
			single.commit.Entries, single.commit.MaxEntries, single.commit.MaxInline = []segments.Entry{e}, 100, 100
			if one, err = Apply(one, &single.commit); err != nil {
				t.Fatalf("an admitted batch is refused: %v", err)
			}
		}
		if len(entries) == 0 {
			return
		}
		j.commit.Entries, j.commit.MaxEntries, j.commit.MaxInline = entries, 100, 100
		all, err := Apply(h, &j.commit)
		if err != nil {
			t.Fatalf("the reduction is refused: %v", err)
		}
		if all.Tail != one.Tail || all.Token != one.Token || all.Trim != one.Trim || !EntriesEqual(all.Log, one.Log) {
			t.Fatalf("together: %+v\none by one: %+v", all, one)
		}
	})
}

func drawBatch(t *rapid.T, tokens []string, tail uint64) (*Batch, []placedCommand) {
	var b Batch
	for range rapid.IntRange(1, 3).Draw(t, "records") {
		r := segments.Record{HasTimestamp: true}
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			r.Headers = []segments.Header{{Value: []byte("fence")}}
			r.Body = []byte(rapid.SampledFrom(tokens).Draw(t, "new token"))
		case 1:
			r.Headers = []segments.Header{{Value: []byte("trim")}}
			r.Body = []byte{0, 0, 0, 0, 0, 0, 0, byte(rapid.IntRange(0, 30).Draw(t, "trim"))}
		}
		b.Records = append(b.Records, r)
	}
	if rapid.Bool().Draw(t, "presents") {
		token := rapid.SampledFrom(tokens).Draw(t, "presented")
		b.Token = &token
	}
	if rapid.IntRange(0, 2).Draw(t, "matches") == 0 {
		match := tail + uint64(rapid.IntRange(0, 1).Draw(t, "off"))
		b.Match = &match
	}
	return &b, commandsOf(b.Records)
}
