package coordinator

import (
	"context"
	"fmt"

	"github.com/tailrace-streams/tailrace/segments"
)

// CheckReport counts what a check of one stream found good.
type CheckReport struct {
	First, Tail             uint64 // the records reached are First to Tail-1
	Pages, Entries, Records int
	Bytes                   uint64 // metered
}

// Check re-reads a whole stream from its stores, past every cache: the head, every page and every record (design
// 12). It fails at the first thing that is not as it must be: a gap or overlap in the numbers, a row that does not
// agree with what is below it, an object that is missing or damaged, a count that is off.
func Check(ctx context.Context, heads Heads, objects segments.Objects, id segments.StreamID) (CheckReport, error) {
	h, err := heads.Load(ctx, id)
	if err != nil {
		return CheckReport{}, fmt.Errorf("check: load head: %w", err)
	}
	k := &checker{reader: segments.NewReader(objects, 0), h: &h}
	k.report = CheckReport{First: h.First(), Tail: h.Tail}
	next, before := h.First(), h.BaseTime
	if len(h.Pages) > 0 {
		before = h.Pages[0].Page.TimeBefore
	}
	level := uint8(segments.PageLevels)
	for i := range h.Pages {
		r := &h.Pages[i]
		switch {
		case r.Level >= level:
			return k.report, fmt.Errorf("check: root %d is of level %d behind level %d", i, r.Level, level)
		case r.Page.Start != next || r.Page.TimeBefore != before:
			return k.report, fmt.Errorf("check: root %d starts at %d, not at %d", i, r.Page.Start, next)
		}
		level, next, before = r.Level, r.Page.End(), r.Page.TimeAfter
		if err := k.page(ctx, &r.Page, r.Level); err != nil {
			return k.report, fmt.Errorf("check: %w", err)
		}
	}
	return k.report, k.log(ctx, next, before)
}

type checker struct {
	reader *segments.Reader
	h      *Head
	report CheckReport
}

func (k *checker) log(ctx context.Context, next, before uint64) error {
	h := k.h
	if h.Base != next || (len(h.Pages) > 0 && h.BaseTime != before) {
		return fmt.Errorf("check: the log starts at %d, the pages end at %d", h.Base, next)
	}
	var inline uint64
	rows := h.Rows()
	for i := range rows {
		inline += uint64(len(h.Log[i].Data))
		next = rows[i].End()
		if err := k.entry(ctx, &rows[i]); err != nil {
			return fmt.Errorf("check: log: %w", err)
		}
	}
	if next != h.Tail || inline != h.InlineBytes || h.Floor > h.Tail || h.Trim > h.Tail {
		return fmt.Errorf("check: the log ends at %d with %d inline bytes; the head says %d and %d", next, inline, h.Tail, h.InlineBytes)
	}
	return nil
}

func (k *checker) page(ctx context.Context, row *segments.Row, level uint8) error {
	p, err := k.reader.Page(ctx, k.h.Basin, k.h.Stream, row.Child)
	if err != nil {
		return fmt.Errorf("page %s of level %d: %w", row.Child, level, err)
	}
	if p.Level != level || p.Summary(row.Child, int(row.ChildBytes)) != *row {
		return fmt.Errorf("page %s of level %d is not what its row says", row.Child, level)
	}
	k.report.Pages++
	for i := range p.Rows {
		if level > 0 {
			err = k.page(ctx, &p.Rows[i], level-1)
		} else {
			err = k.entry(ctx, &p.Rows[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entry reads every record of an entry and adds up what its row says of them.
func (k *checker) entry(ctx context.Context, row *segments.Row) error {
	var bytes, latest, arrival uint64
	for i := uint32(0); i < row.Entry.N; {
		records, err := k.reader.Read(ctx, k.h.Basin, k.h.Stream, row.Entry, i, segments.SegmentBytes)
		if err != nil {
			return fmt.Errorf("records from %d: %w", row.Start+uint64(i), err)
		}
		for j := range records {
			bytes += records[j].MeteredSize()
			latest, arrival = max(latest, records[j].Timestamp), max(arrival, records[j].Arrival)
		}
		i += uint32(len(records))
	}
	if e := row.Entry; bytes != e.Bytes || latest != e.MaxTime || arrival != e.Arrival {
		return fmt.Errorf("records from %d: metered %d, time %d, arrival %d; the entry says %d, %d, %d",
			row.Start, bytes, latest, arrival, e.Bytes, e.MaxTime, e.Arrival)
	}
	k.report.Entries++
	k.report.Records += int(row.Entry.N)
	k.report.Bytes += bytes
	return nil
}

// Check is the function of that name on the coordinator's own stores.
func (c *Coordinator) Check(ctx context.Context, ref StreamRef) (CheckReport, error) {
	return Check(ctx, c.o.Heads, c.o.Objects, ref.Stream)
}
