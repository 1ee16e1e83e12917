// Package hooks is how the simulation takes the place of chance in a coordinator, and breaks one rule of the protocol
// on purpose to see whether anybody notices. No hooks, which is what everything but the simulation has, cost a
// comparison with nil.
package hooks

import (
	"crypto/rand"
	"encoding/binary"
	"time"
)

// Hooks are handed to a coordinator in its options. A nil *Hooks is production.
type Hooks struct {
	// Go is given every function that the coordinator is about to run in a goroutine of its own, by the goroutine that
	// starts it, and returns what to run instead.
	Go func(f func()) func()
	// Random fills b.
	Random func(b []byte)
	// PageRows is the number of rows at which a page is full, if it is not zero: so that a tree grows early.
	PageRows int
	// Cancelled is the number of cancelled ids at which a head is cleared of them, if it is not zero.
	Cancelled int
	// Broken is the rule to break.
	Broken Rule
}

// Rule is a rule of the protocol whose breaking the simulation must notice.
type Rule string

// The rules that are broken inside the coordinator; those that a store has to keep are broken in the simulated store.
const (
	None                Rule = ""
	FreshLabelOldBytes  Rule = "a fresh label over old bytes"
	ReadBeforeRaise     Rule = "entries read before the horizon is raised"
	RefuseOnSpeculation Rule = "refusal on speculative state"
	AckBeforeCommit     Rule = "acknowledgement before commit"
	NoCancel            Rule = "no cancel on doubt"
	SearchBeforeCancel  Rule = "search before cancel"
	SkipMissingPage     Rule = "a skipped page"
	DropID              Rule = "a rewrite that drops an id"
	TwoCommits          Rule = "two commits in flight"
	OldView             Rule = "an older state than the read demands"
	SessionOutlives     Rule = "a session outlives its token"
	FenceFromCache      Rule = "a fence judged from a cache"
	FenceNoBump         Rule = "a fence in doubt without a bump"
)

// Breaks reports whether the rule is to be broken.
func (h *Hooks) Breaks(r Rule) bool { return h != nil && h.Broken == r }

// Wrap is what to run in a goroutine instead of f.
func (h *Hooks) Wrap(f func()) func() {
	if h == nil || h.Go == nil {
		return f
	}
	return h.Go(f)
}

// Read fills b with random bytes.
func (h *Hooks) Read(b []byte) {
	if h == nil || h.Random == nil {
		rand.Read(b)
		return
	}
	h.Random(b)
}

// Duration is a random duration below d, which is positive. The bias of the remainder is far below what anybody times.
func (h *Hooks) Duration(d time.Duration) time.Duration {
	var b [8]byte
	h.Read(b[:])
	return time.Duration(binary.BigEndian.Uint64(b[:])>>1) % d
}

// MaxRows is the number of rows of a full page, where it is most otherwise.
func (h *Hooks) MaxRows(most int) int {
	if h == nil || h.PageRows == 0 {
		return most
	}
	return h.PageRows
}

// MaxCancelled is the number of cancelled ids in a full list, where it is most otherwise.
func (h *Hooks) MaxCancelled(most int) int {
	if h == nil || h.Cancelled == 0 {
		return most
	}
	return h.Cancelled
}
