package coordinator

import (
	"slices"

	"github.com/tailrace-streams/tailrace/segments"
)

// Splice exchanges how records are named, never which records there are (protocol 2). It does not depend on V or
// Tail, so that movers and compactors neither lose to appends nor stop them. Exactly one of the four is set.
type Splice struct {
	Exchange *Exchange
	Move     *Move
	Repage   *Repage
	Retire   *Retire
}

// Exchange replaces the run of the log that starts at Index by another with the same records in the same order.
type Exchange struct {
	Index    int
	Old, New []segments.Entry
	MinLabel segments.Label // smallest label newly named
}

// Move takes the prefix Old of the log, which starts at Base, into the page tree.
type Move struct {
	Base             uint64
	Old              []segments.Entry
	OldPages, Pages  []Root
	NewBase, NewTime uint64
	MinLabel         segments.Label // smallest label newly named: new pages and segments
}

// Repage replaces roots by roots over the same records.
type Repage struct {
	OldPages, Pages []Root
	MinLabel        segments.Label
}

// Retire drops leading entries, or page rows, that lie wholly below the floor; when rows inside a page are dropped,
// Pages names new pages.
type Retire struct {
	Base             uint64
	Old              []segments.Entry // prefix of the log to drop, maybe empty
	OldPages, Pages  []Root
	NewBase, NewTime uint64
	// Horizon is at least the label of every id dropped: the update raises the head's to it.
	Horizon segments.Label
	// MinLabel is the smallest label newly named, MaxLabel if nothing is.
	MinLabel segments.Label
}

// ApplySplice is the one definition of a splice: it returns the head after s, or a *Refusal.
func ApplySplice(h Head, s *Splice) (Head, error) {
	if h.State != Active {
		return refuse(&h, RefusedState)
	}
	switch {
	case s.Exchange != nil:
		return applyExchange(h, s.Exchange)
	case s.Move != nil:
		m := s.Move
		return applyPrefix(h, m.Base, m.Old, m.OldPages, m.Pages, m.NewBase, m.NewTime, m.MinLabel)
	case s.Repage != nil:
		r := s.Repage
		return applyPrefix(h, h.Base, nil, r.OldPages, r.Pages, h.Base, h.BaseTime, r.MinLabel)
	}
	r := s.Retire
	if h.Horizon > r.Horizon {
		// hz may only be set where hz <= h, on every store: the caller takes the head's horizon into account.
		return refuse(&h, RefusedHorizon)
	}
	next, err := applyPrefix(h, r.Base, r.Old, r.OldPages, r.Pages, r.NewBase, r.NewTime, r.MinLabel)
	if err == nil {
		next.Horizon = r.Horizon
	}
	return next, err
}

// applyPrefix drops the prefix old of the log and sets new roots, if both are exactly as read.
func applyPrefix(h Head, base uint64, old []segments.Entry, oldPages, pages []Root, newBase, newTime uint64, minLabel segments.Label) (Head, error) {
	switch {
	case h.Base != base, !RootsEqual(h.Pages, oldPages), len(old) > len(h.Log), !EntriesEqual(h.Log[:len(old)], old):
		return refuse(&h, RefusedChanged)
	case minLabel <= h.Horizon:
		return refuse(&h, RefusedHorizon)
	}
	for i := range old {
		h.InlineBytes -= uint64(len(old[i].Data))
	}
	h.Log = slices.Clone(h.Log[len(old):])
	h.Pages = slices.Clone(pages)
	h.Base, h.BaseTime = newBase, newTime
	h.V++
	return h, nil
}

func applyExchange(h Head, x *Exchange) (Head, error) {
	end := x.Index + len(x.Old)
	switch {
	case x.Index < 0, len(x.Old) == 0, end > len(h.Log), !EntriesEqual(h.Log[x.Index:end], x.Old):
		return refuse(&h, RefusedChanged)
	case x.MinLabel <= h.Horizon:
		return refuse(&h, RefusedHorizon)
	}
	log := make([]segments.Entry, 0, len(h.Log)-len(x.Old)+len(x.New))
	log = append(append(append(log, h.Log[:x.Index]...), x.New...), h.Log[end:]...)
	h.Log = log
	h.InlineBytes = 0
	for i := range log {
		h.InlineBytes += uint64(len(log[i].Data))
	}
	h.V++
	return h, nil
}

// EntriesEqual reports whether two runs are the same entry for entry, inline bytes included.
func EntriesEqual(a, b []segments.Entry) bool {
	return slices.EqualFunc(a, b, func(x, y segments.Entry) bool {
		return x.ID == y.ID && x.N == y.N && x.Skip == y.Skip && x.MaxTime == y.MaxTime && x.Arrival == y.Arrival &&
			x.Bytes == y.Bytes && x.Object == y.Object && x.Offset == y.Offset && x.Length == y.Length &&
			string(x.Data) == string(y.Data)
	})
}

// RootsEqual reports whether two lists of roots name the same pages.
func RootsEqual(a, b []Root) bool { return slices.Equal(a, b) }
