package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace-streams/tailrace/coordinator/internal/hooks"
	"github.com/tailrace-streams/tailrace/segments"
)

// move takes the log of a stream into its page tree, if it is over the mark (protocol 6). It builds on the head from,
// or loads one if that is nil, and returns the head after it, and whether it moved anything. Inline entries go into a
// new segment, with their ids; every page on the way is a new object. One that another process's move overtakes leaves
// the rest to that; one that was refused for something else starts again from the head that refused it; one in doubt
// from a fresh one, since the exact match of what it replaces lets at most one of them in.
func (c *Coordinator) move(ctx context.Context, ref StreamRef, from *Head) (Head, bool, error) {
	if err := c.moves.Acquire(ctx, 1); err != nil {
		return Head{}, false, err
	}
	defer c.moves.Release(1)
	for attempt := 0; ; attempt++ {
		if from == nil {
			h, err := c.loadRetrying(ctx, ref.Stream)
			if err != nil {
				return h, false, fmt.Errorf("move: load head: %w", err)
			}
			from = &h
		}
		if from.State != Active || !c.o.Room.owesMove(from) {
			return *from, false, nil
		}
		m, err := c.buildMove(ctx, from)
		if err == nil {
			var h Head
			if h, err = c.splice(ctx, ref.Stream, &Splice{Move: m}); err == nil {
				return h, true, nil
			}
		}
		var refusal *Refusal
		switch {
		case errors.As(err, &refusal) && refusal.Head.Base != from.Base:
			return refusal.Head, false, nil
		case attempt >= maxMoveAttempts, ctx.Err() != nil:
			return Head{}, false, fmt.Errorf("move: %w", err)
		case refusal != nil:
			from = &refusal.Head
		case !pause(ctx, c.backoff(attempt)):
			return Head{}, false, fmt.Errorf("move: %w", err)
		default:
			from = nil
		}
	}
}

// maxMoveAttempts bounds how often one move is tried; the next commit owes it again.
const maxMoveAttempts = 5

func (c *Coordinator) splice(ctx context.Context, id segments.StreamID, s *Splice) (Head, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.StoreTimeout)
	defer cancel()
	return c.o.Heads.Splice(ctx, id, s)
}

// buildMove stores what a move of the log names, or of as much of it as one splice may take: one segment, if anything is inline, and the new pages, in
// parallel.
func (c *Coordinator) buildMove(ctx context.Context, h *Head) (*Move, error) {
	b := c.newObjects(h)
	old := c.o.Room.bounded(h.Log)
	entries := b.outline(old)
	if c.o.Hooks.Breaks(hooks.DropID) {
		entries = dropIDs(entries)
	}
	rows := FoldRows(entries, h.Base, h.BaseTime)
	roots, err := b.grow(ctx, h.Pages, rows)
	if err != nil {
		return nil, err
	}
	if err := b.put(ctx); err != nil {
		return nil, err
	}
	last := rows[len(rows)-1]
	return &Move{
		Base: h.Base, Old: old, OldPages: h.Pages, Pages: roots,
		NewBase: last.End(), NewTime: last.TimeAfter, MinLabel: b.minLabel,
	}, nil
}

// dropIDs merges neighbours of one chunk under the id of the first: a rewrite as it must not be.
func dropIDs(entries []segments.Entry) (out []segments.Entry) {
	for i := range entries {
		if n := len(out); n > 0 && joinable(&out[n-1], &entries[i]) {
			last, e := &out[n-1], &entries[i]
			last.N, last.Bytes = last.N+e.N, last.Bytes+e.Bytes
			last.MaxTime, last.Arrival = max(last.MaxTime, e.MaxTime), max(last.Arrival, e.Arrival)
			continue
		}
		out = append(out, entries[i])
	}
	return out
}

// objects collects the objects that one splice newly names.
type objects struct {
	c        *Coordinator
	h        *Head
	minLabel segments.Label
	segment  *segments.SegmentWriter
	segID    segments.ObjectID
	pages    []newPage
}

type newPage struct {
	page *segments.Page
	data []byte
}

func (c *Coordinator) newObjects(h *Head) *objects {
	return &objects{c: c, h: h, minLabel: segments.MaxLabel}
}

func (b *objects) newID() segments.ObjectID {
	id := b.c.newObjectID(b.h.Basin, b.h.Horizon)
	b.minLabel = min(b.minLabel, id.Label())
	return id
}

// outline gives every inline entry a place in the new segment, packed together with its neighbours. Ids, ranges and
// times stay as they are.
func (b *objects) outline(log []segments.Entry) []segments.Entry {
	out := slices.Clone(log)
	for i := 0; i < len(out); {
		if !out[i].Inline() {
			i++
			continue
		}
		run, size := i, uint64(0)
		for i < len(out) && out[i].Inline() && (i == run || size+out[i].Bytes <= segments.ChunkBytes) {
			size += out[i].Bytes
			i++
		}
		b.outlineRun(out[run:i])
	}
	return out
}

// outlineRun places a run of inline entries. Packing verifies them; damage is not hidden and does not hold the move
// up: then each entry's bytes are taken over as they are, and whoever reads the damaged ones is told.
func (b *objects) outlineRun(run []segments.Entry) {
	if b.segment == nil {
		b.segment, b.segID = segments.NewSegmentWriter(b.h.Basin), b.newID()
	}
	parts := make([]segments.ChunkRange, len(run))
	for i := range run {
		parts[i] = segments.ChunkRange{Chunk: run[i].Data, Skip: run[i].Skip, N: run[i].N}
	}
	chunk, err := segments.Rechunk(nil, b.h.Stream, parts...)
	if err != nil {
		b.c.o.Log.Error().Err(err).Stringer("stream", b.h.Stream).Msg("inline records are damaged")
		for i := range run {
			e := &run[i]
			offset, length, err := b.segment.Add(b.h.Stream, e.Data)
			if err != nil {
				offset, length = b.segment.AddDamaged(b.h.Stream, e.Data, e.Skip+e.N)
			}
			e.Data, e.Object, e.Offset, e.Length = nil, b.segID, offset, length
		}
		return
	}
	offset, length, err := b.segment.Add(b.h.Stream, chunk)
	if err != nil {
		panic("coordinator: a chunk just packed is refused: " + err.Error())
	}
	var skip uint32
	for i := range run {
		e := &run[i]
		e.Data, e.Object, e.Offset, e.Length, e.Skip = nil, b.segID, offset, length, skip
		skip += e.N
	}
}

// grow appends rows to the page tree: to the root of level 0, and a full root of level k as one row to that of level
// k+1. It returns the roots after it, highest level first, and keeps the new pages to be put.
func (b *objects) grow(ctx context.Context, old []Root, rows []segments.Row) ([]Root, error) {
	var byLevel [segments.PageLevels]*Root
	for i := range old {
		byLevel[old[i].Level] = &old[i]
	}
	for level := uint8(0); len(rows) > 0; level++ {
		if level == segments.PageLevels {
			return nil, fmt.Errorf("grow page tree: %w: all %d levels are full", ErrStorage, segments.PageLevels)
		}
		all := rows
		if r := byLevel[level]; r != nil {
			p, err := b.c.reader.Page(ctx, b.h.Basin, b.h.Stream, r.Page.Child)
			if err != nil {
				return nil, fmt.Errorf("grow page tree: %w", err)
			}
			all = slices.Concat(p.Rows, rows)
		}
		rows = nil
		for most := b.c.o.Hooks.MaxRows(segments.MaxPageRows); len(all) > most; {
			full, err := b.page(level, all[:most])
			if err != nil {
				return nil, err
			}
			rows = append(rows, full)
			all = all[most:]
		}
		root, err := b.page(level, all)
		if err != nil {
			return nil, err
		}
		byLevel[level] = &Root{level, root}
	}
	var roots []Root
	for level := segments.PageLevels - 1; level >= 0; level-- {
		if r := byLevel[level]; r != nil {
			roots = append(roots, *r)
		}
	}
	return roots, nil
}

// page makes a page of the rows and returns the row that stands for it.
func (b *objects) page(level uint8, rows []segments.Row) (segments.Row, error) {
	p := &segments.Page{ID: b.newID(), Basin: b.h.Basin, Stream: b.h.Stream, Level: level, Rows: slices.Clip(rows)}
	data, err := segments.EncodePage(p)
	if err != nil {
		return segments.Row{}, fmt.Errorf("grow page tree: %w: %w", ErrStorage, err)
	}
	b.pages = append(b.pages, newPage{p, data})
	return p.Summary(p.ID, len(data)), nil
}

// quietly is for PUTs of which nobody asks before they are over.
func quietly(error) {}

// put stores the objects, in parallel, and keeps the pages cached: the next move reads the last one again.
func (b *objects) put(ctx context.Context) error {
	var g errgroup.Group
	if b.segment != nil {
		g.Go(func() error {
			return b.c.putObject(segments.SegmentKey(b.h.Basin, b.segID), b.segment.Finish(b.segID), quietly)
		})
	}
	for _, p := range b.pages {
		g.Go(func() error { return b.c.putObject(segments.PageKey(b.h.Basin, p.page.ID), p.data, quietly) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, p := range b.pages {
		b.c.reader.AddPage(p.page)
	}
	return ctx.Err()
}
