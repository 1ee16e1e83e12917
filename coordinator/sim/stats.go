package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Stats counts what became of store calls.
type Stats struct{ counts map[string]map[Fault]int }

// NewStats has counted nothing.
func NewStats() *Stats { return &Stats{map[string]map[Fault]int{}} }

func (s *Stats) count(op string, f Fault) {
	if s.counts[op] == nil {
		s.counts[op] = map[Fault]int{}
	}
	s.counts[op][f]++
}

// Add adds up.
func (s *Stats) Add(o *Stats) {
	for op, m := range o.counts {
		for f, n := range m {
			if s.counts[op] == nil {
				s.counts[op] = map[Fault]int{}
			}
			s.counts[op][f] += n
		}
	}
}

// Table is the counts as Markdown: a row for each kind of store call.
func (s *Stats) Table() string {
	var b strings.Builder
	b.WriteString("| store call |")
	for _, f := range Faults {
		fmt.Fprintf(&b, " %s |", f)
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", len(Faults)) + "\n")
	for _, op := range slices.Sorted(maps.Keys(s.counts)) {
		fmt.Fprintf(&b, "| %s |", op)
		read := op == "Load" || op == "List" || strings.HasPrefix(op, "Get")
		for _, f := range Faults {
			if read && (f == Lost || f == LostReply || f == Late) {
				b.WriteString(" |") // a read without an answer is an error, and has no effect: it counts as refused
				continue
			}
			fmt.Fprintf(&b, " %d |", s.counts[op][f])
		}
		b.WriteString("\n")
	}
	return b.String()
}
