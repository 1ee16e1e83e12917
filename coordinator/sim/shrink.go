package sim

import (
	"maps"
	"testing"
)

// Shrink looks for a smaller simulation that breaks the same invariant: less of everything, perhaps under another seed,
// then without the faults that it does not take. It runs at most budget simulations.
func Shrink(t *testing.T, failed Result, budget int) Result {
	s := &shrinker{t: t, best: failed, budget: budget}
	for s.smaller() {
	}
	s.fewerFaults()
	return s.best
}

type shrinker struct {
	t      *testing.T
	best   Result
	budget int
}

// try runs a simulation and keeps it if it fails alike and is no longer than the best so far.
func (s *shrinker) try(c Config) bool {
	if s.budget--; s.budget < 0 {
		return false
	}
	r := Run(s.t, c)
	if r.Failure == nil || r.Failure.Invariant != s.best.Failure.Invariant || r.Steps > s.best.Steps {
		return false
	}
	s.best = r
	return true
}

// smaller tries each way to make the simulation smaller, under a few seeds each.
func (s *shrinker) smaller() bool {
	for _, change := range []func(*Config){
		func(c *Config) { c.Ops = c.Ops * 2 / 3 },
		func(c *Config) { c.Nodes = 1 },
		func(c *Config) { c.Streams = 1 },
		func(c *Config) { c.Writers = max(1, c.Writers-1) },
		func(c *Config) { c.EventPerMille /= 2 },
		func(c *Config) { c.FaultPerMille /= 2 },
		func(c *Config) { c.DeletePercent = 0 },
		func(c *Config) { c.Retention = false },
	} {
		for k := range uint64(12) {
			c := s.best.Config
			if change(&c); same(&c, &s.best.Config) {
				break
			}
			c.Seed += k << 32
			if s.try(c) {
				return true
			}
		}
	}
	return false
}

func same(a, b *Config) bool {
	x, y := *a, *b
	x.Suppress, y.Suppress = nil, nil
	return x.Ops == y.Ops && x.Nodes == y.Nodes && x.Streams == y.Streams && x.Writers == y.Writers && x.Retention == y.Retention &&
		x.EventPerMille == y.EventPerMille && x.FaultPerMille == y.FaultPerMille && x.DeletePercent == y.DeletePercent
}

// fewerFaults leaves out one fault after another, the last first.
func (s *shrinker) fewerFaults() {
	for i := s.best.Faults; i > 0; i-- {
		c := s.best.Config
		c.Suppress = maps.Clone(c.Suppress)
		if c.Suppress == nil {
			c.Suppress = map[int]bool{}
		}
		c.Suppress[i] = true
		s.try(c)
	}
}
