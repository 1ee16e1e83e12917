package coordinator

import (
	"context"
	"errors"
	"slices"

	"github.com/tailrace-streams/tailrace/coordinator/internal/hooks"
	"github.com/tailrace-streams/tailrace/segments"
)

// verdict is what is known of a commit whose reply was lost.
type verdict struct {
	kind verdictKind
	head Head     // of wasApplied and notApplied
	at   Position // of wasApplied: the first record's sequence number, and the timestamp before it
}

type verdictKind uint8

const (
	stillUnknown verdictKind = iota
	wasApplied
	notApplied
)

func (k verdictKind) String() string { return [...]string{"unknown", "applied", "not applied"}[k] }

// maxCancelled is the number of cancelled ids at which a head is cleared of them (protocol 4).
const maxCancelled = 32

// resolve answers for a commit in doubt (protocol 4): first its ids are cancelled, so that it cannot be applied any
// more, and only then they are searched for, in the head that the cancel returned. The other order would miss a
// commit that arrives between the two. notApplied is definite; the batches may be committed again under new ids.
func (c *Coordinator) resolve(ctx context.Context, ref StreamRef, entries []segments.Entry) verdict {
	ids := make([]segments.EntryID, len(entries))
	for i := range entries {
		ids[i] = entries[i].ID
	}
	h, err := c.giveUp(ctx, ref, ids)
	for attempt := 0; err == nil; attempt++ {
		var at *Position
		if at, err = c.search(ctx, &h, ids[0]); err == nil {
			return c.judgeSearch(ctx, h, ids[0], at)
		}
		// A page that is missing was replaced: search another head from the start, and never skip one.
		if !pause(ctx, c.backoff(attempt)) {
			break
		}
		h, err = c.loadRetrying(ctx, ref.Stream)
	}
	return verdict{}
}

// giveUp is cancel, unless the simulation wants that broken.
func (c *Coordinator) giveUp(ctx context.Context, ref StreamRef, ids []segments.EntryID) (Head, error) {
	if c.o.Hooks.Breaks(hooks.NoCancel) {
		return c.loadRetrying(ctx, ref.Stream)
	}
	if c.o.Hooks.Breaks(hooks.SearchBeforeCancel) {
		before, err := c.loadRetrying(ctx, ref.Stream)
		if err == nil {
			_, err = c.cancel(ctx, ref.Stream, ids)
		}
		return before, err
	}
	return c.cancel(ctx, ref.Stream, ids)
}

func (c *Coordinator) judgeSearch(ctx context.Context, h Head, id segments.EntryID, at *Position) verdict {
	switch {
	case at != nil:
		return verdict{kind: wasApplied, head: c.clearCancelled(ctx, h), at: *at}
	case h.Horizon >= id.Label():
		return verdict{} // it may have been applied, and retired since
	}
	return verdict{kind: notApplied, head: c.clearCancelled(ctx, h)}
}

// cancel gives the ids up. Cancelling is idempotent, so it is sent until it is answered.
func (c *Coordinator) cancel(ctx context.Context, id segments.StreamID, ids []segments.EntryID) (Head, error) {
	for attempt := 0; ; attempt++ {
		h, err := c.change(ctx, id, &Change{ID: NewOpID(), Cancel: ids})
		if err == nil || errors.Is(err, ErrNotFound) || !pause(ctx, c.backoff(attempt)) {
			return h, err
		}
	}
}

func (c *Coordinator) change(ctx context.Context, id segments.StreamID, ch *Change) (Head, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.StoreTimeout)
	defer cancel()
	return c.o.Heads.Change(ctx, id, ch)
}

func (c *Coordinator) loadRetrying(ctx context.Context, id segments.StreamID) (Head, error) {
	for attempt := 0; ; attempt++ {
		call, cancel := context.WithTimeout(ctx, c.o.StoreTimeout)
		h, err := c.o.Heads.Load(call, id)
		cancel()
		if err == nil || errors.Is(err, ErrNotFound) || !pause(ctx, c.backoff(attempt)) {
			return h, err
		}
	}
}

// search looks for an entry id in the log and in every page whose range of ids covers it. It returns where the entry
// starts, or nil.
func (c *Coordinator) search(ctx context.Context, h *Head, id segments.EntryID) (*Position, error) {
	if at := rowOf(h.Rows(), id); at != nil {
		return at, nil
	}
	for i := range h.Pages {
		if at, err := c.searchPage(ctx, h, &h.Pages[i].Page, id); at != nil || err != nil {
			return at, err
		}
	}
	return nil, nil
}

func (c *Coordinator) searchPage(ctx context.Context, h *Head, row *segments.Row, id segments.EntryID) (*Position, error) {
	if !row.IDs.Contains(id.Label()) {
		return nil, nil
	}
	page, err := c.reader.Page(ctx, h.Basin, h.Stream, row.Child)
	if c.o.Hooks.Breaks(hooks.SkipMissingPage) && errors.Is(err, segments.ErrObjectNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if page.Level == 0 {
		return rowOf(page.Rows, id), nil
	}
	for i := range page.Rows {
		if at, err := c.searchPage(ctx, h, &page.Rows[i], id); at != nil || err != nil {
			return at, err
		}
	}
	return nil, nil
}

func rowOf(rows []segments.Row, id segments.EntryID) *Position {
	i := slices.IndexFunc(rows, func(r segments.Row) bool { return r.Entry.ID == id })
	if i < 0 {
		return nil
	}
	return &Position{rows[i].Start, rows[i].TimeBefore}
}

// clearCancelled keeps the list of cancelled ids short. It raises the horizon over them, so it costs the batches in
// flight with older labels another attempt, and is done rarely. If it fails, the next doubt does it.
func (c *Coordinator) clearCancelled(ctx context.Context, h Head) Head {
	if len(h.Cancelled) < c.o.Hooks.MaxCancelled(maxCancelled) {
		return h
	}
	clear := &ClearChange{Seen: h.Cancelled, Horizon: h.Horizon}
	for _, id := range h.Cancelled {
		clear.Horizon = max(clear.Horizon, id.Label())
	}
	if cleared, err := c.change(ctx, h.Stream, &Change{ID: NewOpID(), Clear: clear}); err == nil {
		return cleared
	}
	return h
}
