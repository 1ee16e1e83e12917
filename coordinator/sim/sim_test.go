package sim

import (
	"bufio"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	seeds = flag.Int("sim.seeds", 400, "how many seeds TestSeeds simulates")
	first = flag.Uint64("sim.first", 0, "the first of them; 0 draws one")
	limit = flag.Duration("sim.limit", 30*time.Second, "how long TestSeeds may take before it stops early; 0 is no limit")
	trace = flag.Bool("sim.trace", false, "TestSeeds prints the trace of every seed")
)

// shrinkBudget is how many simulations may go into making a failure readable.
const shrinkBudget = 600

// TestSeeds simulates fresh seeds and prints which, so that any failure can be had again.
func TestSeeds(t *testing.T) {
	from := *first
	if from == 0 {
		from = rand.Uint64N(1 << 31)
	}
	began, all, n := time.Now(), NewStats(), 0
	for ; n < *seeds && (*limit == 0 || time.Since(began) < *limit); n++ {
		r := Run(t, ForSeed(from+uint64(n)))
		all.Add(r.Stats)
		if *trace {
			t.Log(r.Text(1 << 20))
		}
		if r.Failure != nil {
			t.Errorf("%s\nshrunk: %s", r.Text(0), report(Shrink(t, r, shrinkBudget)))
			break
		}
	}
	t.Logf("simulated %d seeds from %d on (again: make sim SEEDS=%d FIRST=%d)\n%s", n, from, n, from, all.Table())
}

func report(r Result) string { return r.Text(150) }

// TestKnownSeeds simulates the seeds that once found something.
func TestKnownSeeds(t *testing.T) {
	t.Parallel()
	f, err := os.Open("testdata/seeds.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		seed, err := strconv.ParseUint(line, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if r := Run(t, ForSeed(seed)); r.Failure != nil {
			t.Errorf("%s", r.Text(150))
		}
		n++
	}
	if n == 0 {
		t.Error("no seeds")
	}
}

// TestOneSeedOneTrace: a seed gives the same store calls and the same answers whenever it is simulated, and another
// seed others.
func TestOneSeedOneTrace(t *testing.T) {
	t.Parallel()
	var last []string
	for seed := uint64(1); seed <= 25; seed++ {
		a, b := Run(t, ForSeed(seed)), Run(t, ForSeed(seed))
		if a.Failure != nil {
			t.Errorf("%s", a.Text(150))
		}
		for i := range a.Trace {
			if i >= len(b.Trace) || a.Trace[i] != b.Trace[i] {
				t.Fatalf("seed %d: line %d of %d and %d differs, from\n%s", seed, i, len(a.Trace), len(b.Trace), a.Trace[i])
			}
		}
		if len(a.Trace) != len(b.Trace) || slices.Equal(a.Trace, last) {
			t.Fatalf("seed %d: traces of %d and %d lines", seed, len(a.Trace), len(b.Trace))
		}
		last = a.Trace
	}
}
