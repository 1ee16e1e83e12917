package coordinator

import (
	"slices"

	"github.com/tailrace-streams/tailrace/segments"
)

// Commit adds records to a stream: one atomic conditional update (protocol 2). It is a reduction of several batches
// to at most one token and one tail precondition, against the state before it, and one net effect.
type Commit struct {
	Entries []segments.Entry // at least one
	// Token is the token that must be installed, if a batch before the first fence command presents one, or
	// presents none on an exclusive stream (then the empty one).
	Token *string
	// Match is the tail that the commit needs.
	Match *uint64
	// Exclusive and ConfigV are what the batches were judged under.
	Exclusive bool
	ConfigV   uint64

	// SetToken is the token that the last fence command in it installs, TokenID the id of that change.
	SetToken *string
	TokenID  OpID
	Trims    []CommitTrim
	// Now is the committing process's time in milliseconds.
	Now uint64
	// Lease, if set, becomes the head's.
	Lease *Lease

	// MaxEntries and MaxInline are the store's room (protocol 3): the commit is refused unless the log has fewer
	// entries than MaxEntries before it, and no more inline bytes than MaxInline after it.
	MaxEntries int
	MaxInline  uint64
}

// CommitTrim is a trim command: To, asked for by the record at Offset of the commit.
type CommitTrim struct {
	Offset uint64
	To     uint64
}

// Records is the number of records the commit adds.
func (c *Commit) Records() (n uint64) {
	for i := range c.Entries {
		n += uint64(c.Entries[i].N)
	}
	return n
}

// InlineBytes is what the commit adds to the head's inline bytes.
func (c *Commit) InlineBytes() (n uint64) {
	for i := range c.Entries {
		n += uint64(len(c.Entries[i].Data))
	}
	return n
}

// MinLabel is the smallest label the commit newly names. Ids of inline entries count: a cancelled id that was
// cleared from the head is kept out by the horizon alone.
func (c *Commit) MinLabel() segments.Label {
	l := segments.MaxLabel
	for i := range c.Entries {
		l = min(l, c.Entries[i].ID.Label())
	}
	return l
}

// Reason says why a transition was refused.
type Reason uint8

// The reasons, in the order in which they are looked for.
const (
	RefusedState     Reason = iota + 1 // not active
	RefusedFencing                     // another token is installed
	RefusedMatch                       // the tail is not where the commit needs it
	RefusedMode                        // fencing mode other than judged under
	RefusedConfig                      // config changed since judged
	RefusedCancelled                   // an id was given up on
	RefusedHorizon                     // something newly named lies at or below the horizon
	RefusedRoom                        // entries or inline bytes are full; a move makes room
	RefusedChanged                     // what a splice or verb was built on is no longer so
)

var reasonText = [...]string{
	RefusedState: "not active", RefusedFencing: "fencing token", RefusedMatch: "tail", RefusedMode: "fencing mode",
	RefusedConfig: "config", RefusedCancelled: "cancelled", RefusedHorizon: "horizon", RefusedRoom: "room",
	RefusedChanged: "changed",
}

func (r Reason) String() string { return reasonText[r] }

// Refusal is the error of a transition that a head refused. It is definite: nothing was changed, and nothing of it
// will be.
type Refusal struct {
	Reason Reason
	// Head is the state that refused.
	Head Head
}

func (r *Refusal) Error() string { return "the head refused: " + r.Reason.String() }

func refuse(h *Head, r Reason) (Head, error) { return *h, &Refusal{Reason: r, Head: *h} }

// Apply is the one definition of a commit: it returns the head after c, or a *Refusal. It changes neither argument.
func Apply(h Head, c *Commit) (Head, error) {
	switch {
	case h.State != Active:
		return refuse(&h, RefusedState)
	case c.Token != nil && *c.Token != h.Token:
		return refuse(&h, RefusedFencing)
	case c.Match != nil && *c.Match != h.Tail:
		return refuse(&h, RefusedMatch)
	case c.Exclusive != h.Exclusive():
		return refuse(&h, RefusedMode)
	case c.ConfigV != h.ConfigV:
		return refuse(&h, RefusedConfig)
	case slices.ContainsFunc(c.Entries, func(e segments.Entry) bool { return slices.Contains(h.Cancelled, e.ID) }):
		return refuse(&h, RefusedCancelled)
	case c.MinLabel() <= h.Horizon:
		return refuse(&h, RefusedHorizon)
	case len(h.Log) >= c.MaxEntries, h.InlineBytes+c.InlineBytes() > c.MaxInline && c.InlineBytes() > 0:
		return refuse(&h, RefusedRoom)
	}
	for _, t := range c.Trims {
		if to := min(t.To, h.Tail+t.Offset+1); to > h.Trim {
			h.Trim, h.TrimTime = to, c.Now
		}
	}
	h.Log = append(slices.Clip(h.Log), c.Entries...)
	h.Tail += c.Records()
	h.InlineBytes += c.InlineBytes()
	if c.SetToken != nil {
		h.Token, h.TokenID = *c.SetToken, c.TokenID
		h.TokenV++
	}
	if c.Lease != nil {
		h.Lease = *c.Lease
	}
	h.V++
	return h, nil
}
