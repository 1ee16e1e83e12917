package coordinator

import (
	"slices"

	"github.com/tailrace-streams/tailrace/segments"
)

// Change is every update of a head that neither adds records nor renames them (protocol 2). Exactly one of the
// pointers or non-zero values below ID is set.
type Change struct {
	ID OpID
	// Fence and Config are compare-and-set on their own counters and leave ID behind.
	Fence  *FenceChange
	Config *ConfigChange
	// Bump moves a counter only: it makes a Fence or Config in doubt definitely not applied.
	Bump *BumpChange
	// State moves the state forward; at or beyond it already, nothing changes. It may be re-sent. With IfTail it is
	// refused if the tail is another: a stream that is deleted for being empty must not take a new record with it.
	State  State
	IfTail *uint64
	// Trim raises the trim point, at most to the tail, and RaiseFloor the floor. They only rise and may be re-sent.
	Trim       *TrimChange
	RaiseFloor uint64
	// RaiseHorizon raises the horizon. It may be re-sent.
	RaiseHorizon segments.Label
	// Cancel gives ids up: no commit that carries one is applied from then on. It may be re-sent.
	Cancel []segments.EntryID
	// Clear forgets cancelled ids by raising the horizon over them.
	Clear *ClearChange
	// Lease replaces the lease if it is still held by OldNode.
	Lease *LeaseChange
}

// FenceChange installs a token if the token's counter is IfV.
type FenceChange struct {
	Token string
	IfV   uint64
}

// ConfigChange installs a config if the config's counter is IfV.
type ConfigChange struct {
	Config StreamConfig
	IfV    uint64
}

// BumpChange raises the named counter by one if it is IfV.
type BumpChange struct {
	Fence bool // the token's counter, else the config's
	IfV   uint64
}

// TrimChange raises the trim point to To at time Now (ms).
type TrimChange struct {
	To  uint64
	Now uint64
}

// ClearChange forgets the ids Seen and raises the horizon to Horizon, their largest label.
type ClearChange struct {
	Seen    []segments.EntryID
	Horizon segments.Label
}

// LeaseChange sets the lease if its node and term are Old's.
type LeaseChange struct {
	OldNode string
	OldTerm uint64
	Lease   Lease
}

// ApplyChange is the one definition of a change: it returns the head after c, or a *Refusal. A change that only
// rises and has nothing to raise still counts V, as an update of a store does.
func ApplyChange(h Head, c *Change) (Head, error) {
	switch {
	case c.Fence != nil:
		if h.State != Active {
			return refuse(&h, RefusedState)
		}
		if h.TokenV != c.Fence.IfV {
			return refuse(&h, RefusedChanged)
		}
		h.Token, h.TokenID = c.Fence.Token, c.ID
		h.TokenV++
	case c.Config != nil:
		if h.State != Active {
			return refuse(&h, RefusedState)
		}
		if h.ConfigV != c.Config.IfV {
			return refuse(&h, RefusedChanged)
		}
		h.Config, h.ConfigID = c.Config.Config, c.ID
		h.ConfigV++
	case c.Bump != nil:
		v := &h.ConfigV
		if c.Bump.Fence {
			v = &h.TokenV
		}
		if *v != c.Bump.IfV {
			return refuse(&h, RefusedChanged)
		}
		*v++
	case c.State != 0:
		if h.State < c.State && c.IfTail != nil && *c.IfTail != h.Tail {
			return refuse(&h, RefusedMatch)
		}
		if h.State < c.State {
			h.State, h.StateID = c.State, c.ID
		}
	case c.Trim != nil:
		if h.State != Active {
			return refuse(&h, RefusedState)
		}
		if to := min(c.Trim.To, h.Tail); to > h.Trim {
			h.Trim, h.TrimTime = to, c.Trim.Now
		}
	case c.RaiseFloor != 0:
		h.Floor = max(h.Floor, min(c.RaiseFloor, h.Tail))
	case c.RaiseHorizon != 0:
		h.Horizon = max(h.Horizon, c.RaiseHorizon)
	case len(c.Cancel) > 0:
		h.Cancelled = slices.Clone(h.Cancelled)
		for _, id := range c.Cancel {
			if !slices.Contains(h.Cancelled, id) {
				h.Cancelled = append(h.Cancelled, id)
			}
		}
	case c.Clear != nil:
		if h.Horizon > c.Clear.Horizon {
			return refuse(&h, RefusedHorizon)
		}
		h.Horizon = c.Clear.Horizon
		h.Cancelled = slices.DeleteFunc(slices.Clone(h.Cancelled), func(id segments.EntryID) bool {
			return slices.Contains(c.Clear.Seen, id)
		})
	case c.Lease != nil:
		if h.Lease.Node != c.Lease.OldNode || h.Lease.Term != c.Lease.OldTerm {
			return refuse(&h, RefusedChanged)
		}
		h.Lease = c.Lease.Lease
	}
	h.V++
	return h, nil
}
