package sim

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// checkCommit checks a commit that was just applied, and takes over its records: what they are, that each batch is
// whole and comes once, that its conditions held, and that its commands took effect.
func (t *truth) checkCommit(s *stream, next coordinator.Head, c *coordinator.Commit) {
	h := &s.head
	token, trim := h.Token, h.Trim
	for i := range c.Entries {
		e := &c.Entries[i]
		switch {
		case s.ids[e.ID]:
			t.fail(s, "an id is applied once", "%s.%d", short(e.ID.Object), e.ID.Attempt)
		case e.ID.Label() <= h.Horizon:
			t.fail(s, "nothing named at or below the horizon", "entry %s, the horizon is %s", short(e.ID.Object), labelText(h.Horizon))
		}
		s.ids[e.ID] = true
		records, err := t.recordsOf(h, e)
		if err != nil {
			t.fail(s, "what is named exists", "entry %s: %v", short(e.ID.Object), err)
			return
		}
		for len(records) > 0 {
			o := t.opOf(&records[0])
			if o == nil || o.stream != h.Stream || len(records) < len(o.batch.Records) {
				t.fail(s, "batches are whole", "a record in entry %s", short(e.ID.Object))
				return
			}
			n := len(o.batch.Records)
			t.takeOver(s, o, records[:n], &token, &trim)
			records = records[n:]
		}
	}
	if next.Token != token || next.Trim != trim {
		t.fail(s, "commands take effect", "token %q and trim %d, not %q and %d", next.Token, next.Trim, token, trim)
	}
}

// takeOver checks one batch of a commit and appends its records to those of the stream.
func (t *truth) takeOver(s *stream, o *op, records []segments.StoredRecord, token *string, trim *uint64) {
	start := uint64(len(s.recs))
	switch {
	case o.applied:
		t.fail(s, "a batch is applied once", "batch %d is at %d and comes again at %d", o.id, o.start, start)
	case o.definite:
		t.fail(s, "a definite failure is never applied", "batch %d, whose error was %v", o.id, o.err)
	case o.batch.Match != nil && *o.batch.Match != start:
		t.fail(s, "match_seq_num", "batch %d wants %d and is at %d", o.id, *o.batch.Match, start)
	case o.batch.Token != nil && *o.batch.Token != *token:
		t.fail(s, "fencing", "batch %d presents %q, installed is %q", o.id, *o.batch.Token, *token)
	case o.batch.Token == nil && s.head.Exclusive() && *token != "":
		t.fail(s, "exclusive fencing", "batch %d presents none, installed is %q", o.id, *token)
	case s.head.State != coordinator.Active:
		t.fail(s, "state", "batch %d on a stream that is %s", o.id, s.head.State)
	}
	o.applied, o.start, o.step = true, start, t.w.step
	before := s.timeBefore(start)
	for i := range records {
		want := &o.batch.Records[i]
		if !bytes.Equal(records[i].Body, want.Body) || len(records[i].Headers) != len(want.Headers) {
			t.fail(s, "records are what was appended", "record %d of batch %d", i, o.id)
			return
		}
		before = max(before, records[i].Timestamp)
		s.recs = append(s.recs, record{o, i, before})
		switch cmd, _ := segments.ParseCommand(want); cmd.Kind {
		case segments.FenceCommand:
			*token = cmd.Token
		case segments.TrimCommand:
			*trim = max(*trim, min(cmd.Trim, start+uint64(i)+1))
		}
	}
}

// opOf finds the append whose batch a record begins: its first record says which.
func (t *truth) opOf(r *segments.StoredRecord) *op {
	text, _, ok := strings.Cut(string(r.Body), "/")
	n, err := strconv.Atoi(text)
	if !ok || err != nil {
		return nil
	}
	return t.w.opNumber(n)
}

// checkSplice checks that the records stay what they are, and that only what lies below the floor is dropped.
func (t *truth) checkSplice(s *stream, next coordinator.Head, p *coordinator.Splice) {
	flat, _, err := t.reach(&next)
	if err != nil {
		t.fail(s, "what is named exists", "%v", err)
		return
	}
	old := s.flat
	if p.Retire != nil {
		for len(old) > 0 && old[0].Start < next.First() {
			if old[0].End() > s.head.Floor {
				t.fail(s, "only what is below the floor is retired", "records up to %d, the floor is %d", old[0].End(), s.head.Floor)
			}
			if old[0].Entry.ID.Label() > next.Horizon {
				t.fail(s, "a retired id is at or below the horizon", "%s", short(old[0].Entry.ID.Object))
			}
			old = old[1:]
		}
	}
	same := slices.EqualFunc(old, flat, func(a, b segments.Row) bool {
		return a.Start == b.Start && a.N == b.N && a.Entry.ID == b.Entry.ID && a.TimeBefore == b.TimeBefore &&
			a.TimeAfter == b.TimeAfter && a.Entry.Arrival == b.Entry.Arrival && a.Entry.Bytes == b.Entry.Bytes
	})
	if !same {
		t.fail(s, "a rewrite keeps every id", "%d entries become %d", len(old), len(flat))
	}
	for i := range flat {
		r := &flat[i]
		if i < len(old) && old[i].Entry.Object == r.Entry.Object && !old[i].Entry.Inline() {
			continue
		}
		t.checkRenamed(s, r)
	}
}

// checkRenamed reads an entry at its new place.
func (t *truth) checkRenamed(s *stream, r *segments.Row) {
	records, err := t.recordsOf(&s.head, r.Entry)
	if err != nil {
		t.fail(s, "what is named exists", "entry at %d: %v", r.Start, err)
		return
	}
	for i := range records {
		if rec := s.recs[r.Start+uint64(i)]; !bytes.Equal(records[i].Body, rec.op.batch.Records[rec.i].Body) {
			t.fail(s, "a rewrite keeps the records", "record %d", r.Start+uint64(i))
			return
		}
	}
}

// checkChange checks what verbs promise.
func (t *truth) checkChange(s *stream, next coordinator.Head, c *coordinator.Change) {
	o := t.verbs[c.ID]
	if o == nil {
		return
	}
	if c.State != 0 { // may be re-sent
		o.applied = true
		return
	}
	switch {
	case o.applied:
		t.fail(s, "a verb is applied once", "verb %d", o.id)
	case o.definite:
		t.fail(s, "a definite failure is never applied", "verb %d, whose error was %v", o.id, o.err)
	}
	o.applied, o.step, o.start = true, t.w.step, next.Tail
}
