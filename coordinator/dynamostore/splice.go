package dynamostore

import (
	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// spliceUpdate states coordinator.ApplySplice as an update, of splices that do not lengthen the log.
func spliceUpdate(s *coordinator.Splice) *update {
	u := newUpdate()
	u.require(attrState, "=", number(uint64(coordinator.Active)))
	switch {
	case s.Exchange != nil:
		u.exchange(s.Exchange)
	case s.Move != nil:
		m := s.Move
		u.newlyNamed(m.MinLabel)
		u.prefix(m.Base, m.Old, m.NewBase, m.NewTime)
		u.pages(m.OldPages, m.Pages)
	case s.Repage != nil:
		u.newlyNamed(s.Repage.MinLabel)
		u.pages(s.Repage.OldPages, s.Repage.Pages)
	default:
		r := s.Retire
		u.newlyNamed(r.MinLabel)
		u.prefix(r.Base, r.Old, r.NewBase, r.NewTime)
		u.pages(r.OldPages, r.Pages)
		u.require(attrHorizon, "<=", number(uint64(r.Horizon)))
		u.set(attrHorizon, number(uint64(r.Horizon)))
	}
	return u
}

func (u *update) newlyNamed(smallest segments.Label) {
	u.require(attrHorizon, "<", number(uint64(smallest)))
}

// prefix takes leading entries out of the log, if they are exactly as read.
func (u *update) prefix(base uint64, old []segments.Entry, newBase, newTime uint64) {
	u.require(attrBase, "=", number(base))
	u.requireRun(0, old)
	u.removeRun(0, len(old))
	u.setFrom(attrInline, attrInline, "-", inlineBytes(old))
	u.set(attrBase, number(newBase))
	u.set(attrBaseTime, number(newTime))
}

// exchange overwrites the run from its start and takes the surplus out.
func (u *update) exchange(x *coordinator.Exchange) {
	if x.Index < 0 || len(x.Old) == 0 {
		u.never()
		return
	}
	u.newlyNamed(x.MinLabel)
	u.requireRun(x.Index, x.Old)
	for i := range x.New {
		u.sets = append(u.sets, u.element(x.Index+i)+" = "+u.value(entryValue(&x.New[i])))
	}
	u.removeRun(x.Index+len(x.New), x.Index+len(x.Old))
	before, after := inlineBytes(x.Old), inlineBytes(x.New)
	if after >= before {
		u.plus(attrInline, after-before)
	} else {
		u.setFrom(attrInline, attrInline, "-", before-after)
	}
}

// requireRun demands that the log has exactly these entries from index i on.
func (u *update) requireRun(i int, run []segments.Entry) {
	for k := range run {
		u.condition("%s = %s", u.element(i+k), u.value(entryValue(&run[k])))
	}
}

// removeRun takes out log[from] up to, not including, log[to]. All indexes mean the log as it was; the highest comes
// first because an emulator may remove one after the other.
func (u *update) removeRun(from, to int) {
	for i := to - 1; i >= from; i-- {
		u.remove(u.element(i))
	}
}

func (u *update) pages(old, pages []coordinator.Root) {
	u.requireBytes(attrPages, appendRoots(nil, old))
	u.setBytes(attrPages, appendRoots(nil, pages))
}

// never states a condition that no head fulfils.
func (u *update) never() { u.require(attrV, "<", number(0)) }

func inlineBytes(entries []segments.Entry) (n uint64) {
	for i := range entries {
		n += uint64(len(entries[i].Data))
	}
	return n
}

// lengthens reports whether a splice needs more room in the log than the run that it replaces. An update can overwrite
// elements of a list and take some out, but not put some in between.
func lengthens(s *coordinator.Splice) bool {
	return s.Exchange != nil && s.Exchange.Index >= 0 && len(s.Exchange.New) > len(s.Exchange.Old)
}

// rewriteUpdate replaces the log by that of next, if the head is still at version v.
func rewriteUpdate(v uint64, next *coordinator.Head) *update {
	u := newUpdate()
	u.require(attrV, "=", number(v))
	u.set(attrLog, entryList(next.Log))
	u.set(attrInline, number(next.InlineBytes))
	return u
}
