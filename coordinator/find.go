package coordinator

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/tailrace-streams/tailrace/segments"
)

// view is a head that is searched, maybe often: its log is folded once.
type view struct {
	Head
	folded []segments.Row
}

func (v *view) rows() []segments.Row {
	if v.folded == nil {
		v.folded = v.Head.Rows()
	}
	return v.folded
}

// run is a range of records in one place: neighbouring rows of one chunk, read as one.
type run struct {
	start      uint64 // sequence number of the first record
	timeBefore uint64
	entry      segments.Entry
	// after are the rows that follow, for read-ahead; maybe none.
	after []segments.Row
}

// rowsAt returns the rows of the page, or of the log, that holds the record seq, which the head must reach.
func (c *Coordinator) rowsAt(ctx context.Context, h *view, seq uint64) ([]segments.Row, error) {
	if seq >= h.Base {
		return h.rows(), nil
	}
	rows := make([]segments.Row, len(h.Pages))
	for i := range h.Pages {
		rows[i] = h.Pages[i].Page
	}
	for level := segments.PageLevels; ; level-- {
		i := rowAt(rows, seq)
		if i < 0 || level < 0 {
			return nil, fmt.Errorf("find record %d: %w: no page of the head holds it", seq, ErrStorage)
		}
		p, err := c.reader.Page(ctx, h.Basin, h.Stream, rows[i].Child)
		if err != nil {
			return nil, fmt.Errorf("find record %d: %w", seq, err)
		}
		if rows = p.Rows; p.Level == 0 {
			return rows, nil
		}
	}
}

// rowAt is the index of the row that holds seq, or -1.
func rowAt(rows []segments.Row, seq uint64) int {
	i := sort.Search(len(rows), func(i int) bool { return rows[i].End() > seq })
	if i == len(rows) || rows[i].Start > seq {
		return -1
	}
	return i
}

// runAt finds the run that holds the record seq.
func (c *Coordinator) runAt(ctx context.Context, h *view, seq uint64) (run, error) {
	rows, err := c.rowsAt(ctx, h, seq)
	if err != nil {
		return run{}, err
	}
	i := rowAt(rows, seq)
	if i < 0 {
		return run{}, fmt.Errorf("find record %d: %w: not in the rows that should hold it", seq, ErrStorage)
	}
	r := run{start: rows[i].Start, timeBefore: rows[i].TimeBefore, entry: *rows[i].Entry}
	for i++; i < len(rows) && joinable(&r.entry, rows[i].Entry); i++ {
		r.entry.N += rows[i].Entry.N
		r.entry.MaxTime = max(r.entry.MaxTime, rows[i].Entry.MaxTime)
		r.entry.Arrival = max(r.entry.Arrival, rows[i].Entry.Arrival)
		r.entry.Bytes += rows[i].Entry.Bytes
	}
	r.after = rows[i:]
	return r, nil
}

func joinable(e, next *segments.Entry) bool {
	return !e.Inline() && !next.Inline() && e.Object == next.Object && e.Offset == next.Offset &&
		e.Length == next.Length && e.Skip+e.N == next.Skip
}

// firstRow finds the first row, in order, that satisfies a condition which holds for every row from some point on,
// and for a page whenever it holds for a row in it. ok is false if there is none.
func (c *Coordinator) firstRow(ctx context.Context, h *view, holds func(*segments.Row) bool) (row segments.Row, ok bool, err error) {
	for i := range h.Pages {
		r := h.Pages[i].Page
		if !holds(&r) {
			continue
		}
		for r.Entry == nil {
			p, err := c.reader.Page(ctx, h.Basin, h.Stream, r.Child)
			if err != nil {
				return r, false, err
			}
			j := slices.IndexFunc(p.Rows, func(r segments.Row) bool { return holds(&r) })
			if j < 0 {
				return r, false, fmt.Errorf("search pages: %w: a page does not hold what its row says", ErrStorage)
			}
			r = p.Rows[j]
		}
		return r, true, nil
	}
	for _, r := range h.rows() {
		if holds(&r) {
			return r, true, nil
		}
	}
	return row, false, nil
}

// seqAtTime is the sequence number of the first record whose effective timestamp is at least t, or the tail.
func (c *Coordinator) seqAtTime(ctx context.Context, h *view, t uint64) (uint64, error) {
	row, ok, err := c.firstRow(ctx, h, func(r *segments.Row) bool { return r.TimeAfter >= t })
	if err != nil || !ok {
		return h.Tail, err
	}
	if row.TimeBefore >= t {
		return row.Start, nil // the oldest row, raised to the time of what was retired before it
	}
	return c.firstRecord(ctx, h, &row, func(r *segments.StoredRecord) bool { return r.Timestamp >= t })
}

// seqAtArrival is the sequence number of the first record that arrived at the given time or later, arrivals folded
// by their maximum (protocol 1), or the tail.
func (c *Coordinator) seqAtArrival(ctx context.Context, h *view, arrival uint64) (uint64, error) {
	if h.oldestArrival() >= arrival {
		return h.First(), nil
	}
	row, ok, err := c.firstRow(ctx, h, func(r *segments.Row) bool { return r.ArrivalMax >= arrival })
	if err != nil || !ok {
		return h.Tail, err
	}
	return c.firstRecord(ctx, h, &row, func(r *segments.StoredRecord) bool { return r.Arrival >= arrival })
}

// oldestArrival bounds the arrivals of all records from below.
func (h *Head) oldestArrival() uint64 {
	switch {
	case len(h.Pages) > 0:
		return h.Pages[0].Page.ArrivalMin
	case len(h.Log) > 0:
		return 0 // an entry tells its latest arrival only
	}
	return ^uint64(0)
}

// firstRecord is the sequence number of the first record of a row that satisfies the condition. A row says that one
// does; where its times were not lowered by the fold the last one is meant.
func (c *Coordinator) firstRecord(ctx context.Context, h *view, row *segments.Row, holds func(*segments.StoredRecord) bool) (uint64, error) {
	for i := uint32(0); i < row.Entry.N; {
		records, err := c.reader.Read(ctx, h.Basin, h.Stream, row.Entry, i, segments.BlockBytes)
		if err != nil {
			return 0, err
		}
		for k := range records {
			if holds(&records[k]) {
				return row.Start + uint64(i) + uint64(k), nil
			}
		}
		i += uint32(len(records))
	}
	return row.End(), nil
}
