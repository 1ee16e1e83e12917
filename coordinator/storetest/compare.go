package storetest

import (
	"bytes"
	"errors"
	"slices"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// Canonical is a head as bytes: equal heads, and only they, give equal bytes. Cancelled ids are a set, and an empty
// slice is as good as none.
func Canonical(h coordinator.Head) []byte {
	h.Cancelled = slices.Clone(h.Cancelled)
	slices.SortFunc(h.Cancelled, segments.EntryID.Compare)
	return coordinator.AppendHead(nil, &h, true)
}

// Equal reports whether two heads are the same but for what Canonical leaves out.
func Equal(a, b coordinator.Head) bool { return bytes.Equal(Canonical(a), Canonical(b)) }

// RefusedFor is the reason and the head of err, if it is a refusal.
func RefusedFor(err error) (coordinator.Reason, coordinator.Head) {
	var r *coordinator.Refusal
	if errors.As(err, &r) {
		return r.Reason, r.Head
	}
	return 0, coordinator.Head{}
}

// Check says what is inconsistent in a head, or "".
func Check(h *coordinator.Head) string {
	n, inline, _ := sums(h.Log, 0)
	switch {
	case h.Base+n != h.Tail:
		return "the log does not reach from the base to the tail"
	case inline != h.InlineBytes:
		return "the inline bytes are not the sum over the log"
	case h.Trim > h.Tail || h.Floor > h.Tail:
		return "trim point or floor are above the tail"
	}
	at := h.First()
	level := segments.PageLevels
	for i := range h.Pages {
		r := &h.Pages[i]
		if r.Page.Start != at || int(r.Level) >= level {
			return "the roots leave a gap or are out of order"
		}
		at, level = r.Page.End(), int(r.Level)
	}
	if at != h.Base {
		return "the roots do not reach the base"
	}
	return ""
}
