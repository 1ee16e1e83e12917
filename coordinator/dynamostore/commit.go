package dynamostore

import (
	"math"
	"strings"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// commitUpdate states coordinator.Apply as an update. Where the trim point lands depends on the tail, and expressions
// know no minimum: k says which case to state. The condition holds in that case only, so a wrong k costs an attempt
// and never gives a wrong head.
func commitUpdate(c *coordinator.Commit, k known) *update {
	u := newUpdate()
	u.require(attrState, "=", number(uint64(coordinator.Active)))
	u.require(attrHorizon, "<", number(uint64(c.MinLabel())))
	u.require(attrExclusive, "=", boolean(c.Exclusive))
	u.require(attrConfigV, "=", number(c.ConfigV))
	if c.Token != nil {
		u.requireBytes(attrToken, []byte(*c.Token))
	}
	if c.Match != nil {
		u.require(attrTail, "=", number(*c.Match))
		k.tail = *c.Match
	}
	u.notCancelled(c.Entries)
	u.room(c)
	u.setFrom(attrTail, attrTail, "+", c.Records())
	log := u.name(attrLog)
	u.sets = append(u.sets, log+" = list_append("+log+", "+u.value(entryList(c.Entries))+")")
	u.plus(attrInline, c.InlineBytes())
	if c.SetToken != nil {
		u.setBytes(attrToken, []byte(*c.SetToken))
		u.setBytes(attrTokenID, opBytes(c.TokenID))
		u.plus(attrTokenV, 1)
	}
	u.commitTrims(c, k)
	if c.Lease != nil {
		u.setLease(c.Lease)
	}
	return u
}

// notCancelled demands that none of the ids was given up on.
func (u *update) notCancelled(entries []segments.Entry) {
	set := u.name(attrCancelled)
	each := make([]string, len(entries))
	for i := range entries {
		each[i] = "contains(" + set + ", " + u.value(text(cancelledText(entries[i].ID))) + ")"
	}
	u.condition("(attribute_not_exists(%s) OR NOT (%s))", set, strings.Join(each, " OR "))
}

func (u *update) room(c *coordinator.Commit) {
	u.condition("size(%s) < %s", u.name(attrLog), u.value(number(uint64(max(c.MaxEntries, 0)))))
	inline := c.InlineBytes()
	switch {
	case inline == 0:
	case inline > c.MaxInline:
		// A negative number states what never holds.
		u.require(attrInline, "<", number(0))
	default:
		u.require(attrInline, "<=", number(c.MaxInline-inline))
	}
}

func (u *update) setLease(l *coordinator.Lease) {
	u.setText(attrNode, l.Node)
	u.setText(attrAddress, l.Address)
	u.set(attrTerm, number(l.Term))
	u.set(attrExpiry, number(l.Expiry))
}

// commitTrims states the trim commands in the case that k is in.
func (u *update) commitTrims(c *coordinator.Commit, k known) {
	if len(c.Trims) == 0 {
		return
	}
	f := trimFormAt(c.Trims, k.tail)
	if !f.fromTail && f.value <= k.trim {
		// Nothing moves as long as the trim point is at or above all that is asked for.
		u.require(attrTrim, ">=", number(f.value))
		return
	}
	if f.low > 0 {
		u.require(attrTail, ">=", number(f.low))
	}
	if f.high < math.MaxUint64 {
		u.require(attrTail, "<=", number(f.high))
	}
	if f.fromTail {
		// The trim point is never above the tail, so this always raises it.
		u.setFrom(attrTrim, attrTail, "+", f.value)
	} else {
		u.require(attrTrim, "<", number(f.value))
		u.set(attrTrim, number(f.value))
	}
	u.set(attrTrimTime, number(c.Now))
}

// trimForm is what the trim commands of a commit come to, for every tail from low to high: the value itself, or the
// tail plus the value.
type trimForm struct {
	low, high uint64
	fromTail  bool
	value     uint64
}

// trimFormAt is the form at one tail, with a range of tails around it that have the same form. Each command
// asks for min(To, tail + Offset + 1), the largest of them counts; as the tail grows, that is a line with slope one,
// then level, and so on.
func trimFormAt(trims []coordinator.CommitTrim, tail uint64) trimForm {
	f := trimForm{high: math.MaxUint64}
	var level, above uint64 // the best of the commands whose To is in reach, and of the others
	for _, t := range trims {
		plus := t.Offset + 1
		if t.To <= tail+plus {
			level = max(level, t.To)
			if t.To > plus {
				f.low = max(f.low, t.To-plus)
			}
		} else {
			above = max(above, plus)
			f.high = min(f.high, t.To-plus)
		}
	}
	if above == 0 || tail+above <= level {
		f.value = level
		if above > 0 {
			f.high = min(f.high, level-above)
		}
		return f
	}
	f.fromTail, f.value = true, above
	if level > above {
		f.low = max(f.low, level-above)
	}
	return f
}
