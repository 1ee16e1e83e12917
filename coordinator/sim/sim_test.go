package sim

import (
	"flag"
	"slices"
	"testing"
)

var (
	seeds = flag.Int("sim.seeds", 20, "how many seeds to simulate")
	first = flag.Uint64("sim.first", 1, "the first of them")
)

func TestSeeds(t *testing.T) {
	all := NewStats()
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		r := Run(t, ForSeed(seed))
		all.Add(r.Stats)
		if r.Failure != nil {
			t.Errorf("%s", r.Text(60))
			break
		}
	}
	t.Logf("\n%s", all.Table())
}

func TestOneSeedOneTrace(t *testing.T) {
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		c := ForSeed(seed)
		c.Debug = true
		a, b := Run(t, c), Run(t, c)
		if !slices.Equal(a.Trace, b.Trace) {
			for i := range a.Trace {
				if i >= len(b.Trace) || a.Trace[i] != b.Trace[i] {
					t.Fatalf("seed %d differs at line %d of %d:\n%s\n%s", seed, i, len(a.Trace), a.Trace[i], b.Trace[min(i, len(b.Trace)-1)])
				}
			}
			t.Fatalf("seed %d: one trace goes on", seed)
		}
	}
}
