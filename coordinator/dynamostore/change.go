package dynamostore

import (
	"github.com/tailrace-streams/tailrace/coordinator"
)

// known is what was last seen of a head, by which updates choose among the cases of what expressions cannot say.
// Every field only ever rises, and none is trusted: each case is stated with the condition under which it is right.
type known struct {
	state             coordinator.State
	tail, trim, floor uint64
	horizon           uint64
}

// unknown is the usual case: an active stream, and what is asked for lies below the tail and above what there is.
var unknown = known{state: coordinator.Active, tail: 1 << 62}

func knownOf(h *coordinator.Head) known {
	return known{state: h.State, tail: h.Tail, trim: h.Trim, floor: h.Floor, horizon: uint64(h.Horizon)}
}

// changeUpdate states coordinator.ApplyChange as an update, in the case that k is in.
func changeUpdate(c *coordinator.Change, k known) *update {
	u := newUpdate()
	active := func() { u.require(attrState, "=", number(uint64(coordinator.Active))) }
	switch {
	case c.Fence != nil:
		active()
		u.setBytes(attrToken, []byte(c.Fence.Token))
		u.verb(attrTokenV, attrTokenID, c.Fence.IfV, c.ID)
	case c.Config != nil:
		active()
		u.set(attrConfig, configMap(&c.Config.Config))
		u.set(attrExclusive, boolean(c.Config.Config.Fencing == coordinator.Exclusive))
		u.verb(attrConfigV, attrConfigID, c.Config.IfV, c.ID)
	case c.Bump != nil:
		counter := attrConfigV
		if c.Bump.Fence {
			counter = attrTokenV
		}
		u.require(counter, "=", number(c.Bump.IfV))
		u.plus(counter, 1)
	case c.State != 0:
		u.state(c, k)
	case c.Trim != nil:
		active()
		if u.raise(attrTrim, k.trim, c.Trim.To, k.tail) {
			u.set(attrTrimTime, number(c.Trim.Now))
		}
	case c.RaiseFloor != 0:
		u.raise(attrFloor, k.floor, c.RaiseFloor, k.tail)
	case c.RaiseHorizon != 0:
		u.raiseHorizon(uint64(c.RaiseHorizon), k)
	case len(c.Cancel) > 0:
		u.adds = append(u.adds, u.name(attrCancelled)+" "+u.value(cancelledSet(c.Cancel)))
	case c.Clear != nil:
		u.require(attrHorizon, "<=", number(uint64(c.Clear.Horizon)))
		u.set(attrHorizon, number(uint64(c.Clear.Horizon)))
		if len(c.Clear.Seen) > 0 {
			u.takes = append(u.takes, u.name(attrCancelled)+" "+u.value(cancelledSet(c.Clear.Seen)))
		}
	case c.Lease != nil:
		u.requireText(attrNode, c.Lease.OldNode)
		u.require(attrTerm, "=", number(c.Lease.OldTerm))
		u.setLease(&c.Lease.Lease)
	}
	return u
}

// verb is a compare-and-set on its own counter that leaves the change's id behind.
func (u *update) verb(counter, idAttr string, ifV uint64, id coordinator.OpID) {
	u.require(counter, "=", number(ifV))
	u.plus(counter, 1)
	u.setBytes(idAttr, opBytes(id))
}

// opBytes is an id as it is stored: a zero one is absent.
func opBytes(id coordinator.OpID) []byte {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

// state moves a state forward. At or beyond it already, nothing but v changes.
func (u *update) state(c *coordinator.Change, k known) {
	to := number(uint64(c.State))
	if k.state >= c.State {
		u.require(attrState, ">=", to)
		return
	}
	u.require(attrState, "<", to)
	if c.IfTail != nil {
		u.require(attrTail, "=", number(*c.IfTail))
	}
	u.set(attrState, to)
	u.setBytes(attrStateID, opBytes(c.ID))
}

// raise states max(attr, min(to, tail)) in one of three cases: to lies below the tail, or it is the tail that counts,
// or the attribute is there already. It reports whether the attribute moves.
func (u *update) raise(attr string, from, to, tail uint64) bool {
	value := u.value(number(to))
	name, tailName := u.name(attr), u.name(attrTail)
	switch {
	case min(to, tail) <= from:
		u.condition("(%s >= %s OR %s >= %s)", name, value, name, tailName)
		return false
	case to <= tail:
		u.condition("%s < %s AND %s >= %s", name, value, tailName, value)
		u.sets = append(u.sets, name+" = "+value)
	default:
		u.condition("%s < %s AND %s < %s", name, tailName, tailName, value)
		u.sets = append(u.sets, name+" = "+tailName)
	}
	return true
}

// raiseHorizon sets the horizon only where it is not above already: lowering it loses data.
func (u *update) raiseHorizon(to uint64, k known) {
	if k.horizon > to {
		u.require(attrHorizon, ">", number(to))
		return
	}
	u.require(attrHorizon, "<=", number(to))
	u.set(attrHorizon, number(to))
}
