package sim

import (
	"flag"
	"strings"
	"testing"

	"github.com/tailrace-streams/tailrace/coordinator/internal/hooks"
)

var (
	mutantRounds = flag.Int("sim.mutants", 1, "how often each mutant is looked for, from another first seed each time")
	mutantWithin = flag.Int("sim.within", 0, "in how many seeds a mutant must be found; 0 is what is stated for each")
	effects      = flag.Bool("sim.effects", false, "find mutants by what comes of them alone")
)

// mutant is a rule that is broken, and within how many seeds that is found out.
type mutant struct {
	rule   hooks.Rule
	within int
	// shape, if set, makes more of what the rule is about.
	shape func(*Config)
	// from is the first seed, 1 if it is zero. What takes hundreds of seeds on average starts where it does not take the
	// tests long; docs/results.md tells how many it takes from other seeds on.
	from uint64
}

// mutants are the rules of the protocol that are broken, one at a time.
var mutants = []mutant{
	{rule: NoHorizonInCommit, within: 400},
	{rule: NoHorizonInSplice, within: 400},
	{rule: HorizonLowered, within: 400},
	{rule: hooks.FreshLabelOldBytes, within: 400},
	{rule: hooks.ReadBeforeRaise, within: 400},
	{rule: hooks.RefuseOnSpeculation, within: 100},
	{rule: hooks.AckBeforeCommit, within: 20},
	{rule: hooks.NoCancel, within: 400},
	{rule: hooks.SearchBeforeCancel, within: 1500},
	{rule: hooks.SkipMissingPage, within: 3000, shape: doubtsWhilePagesGo, from: 1_000_001},
	{rule: hooks.DropID, within: 20},
	{rule: hooks.TwoCommits, within: 100},
	{rule: hooks.OldView, within: 100},
	{rule: VerbNoCounter, within: 400},
	{rule: ModeFromCache, within: 400},
	{rule: hooks.SessionOutlives, within: 400},
	{rule: hooks.FenceFromCache, within: 400},
	{rule: hooks.FenceNoBump, within: 1500, from: 1_000_001},
}

// doubtsWhilePagesGo makes it likely that a page is replaced and collected between the cancel of a commit and the search
// for it: no other process deletes anything that is searched, so nothing but that shows a skipped page.
func doubtsWhilePagesGo(c *Config) {
	c.Ops, c.Nodes, c.Streams, c.Writers, c.Keepers, c.CollectPercent = 120, 2, 1, 3, 3, 95
	c.DoubtPerMille, c.LargePercent, c.DeletePercent, c.CacheBytes = 500, 10, 0, -1
	c.FaultPerMille, c.EventPerMille, c.Room.MoveEntries, c.Burst = 0, 0, 2, 50
}

// TestMutantsAreCaught: a coordinator or a store that breaks a rule is found out.
func TestMutantsAreCaught(t *testing.T) {
	t.Parallel()
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(string(m.rule), " ", "-"), func(t *testing.T) {
			t.Parallel()
			for round := range *mutantRounds {
				m.hunt(t, max(1, m.from)+uint64(round)*1_000_000)
			}
		})
	}
}

func (m *mutant) hunt(t *testing.T, from uint64) {
	within := m.within
	if *mutantWithin > 0 {
		within = *mutantWithin
	}
	for n := range uint64(within) {
		c := ForSeed(from + n)
		c.Broken = m.rule
		c.EffectsOnly = *effects
		if m.shape != nil {
			m.shape(&c)
		}
		if r := Run(t, c); r.Failure != nil {
			t.Logf("| %s | %d of %d | %s |", m.rule, n+1, within, r.Failure.Invariant)
			return
		}
	}
	t.Errorf("%s: not found in %d seeds from %d on", m.rule, within, from)
}

// TestShrink: what is left of a failure breaks the same invariant, with fewer steps and faults.
func TestShrink(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); ; seed++ {
		c := ForSeed(seed)
		c.Broken = hooks.NoCancel
		r := Run(t, c)
		if r.Failure == nil {
			continue
		}
		small := Shrink(t, r, 200)
		if small.Failure == nil || small.Failure.Invariant != r.Failure.Invariant || small.Steps > r.Steps {
			t.Fatalf("%d steps (%v) became %d (%v)", r.Steps, r.Failure, small.Steps, small.Failure)
		}
		t.Logf("%d steps became %d:\n%s", r.Steps, small.Steps, report(small))
		return
	}
}
