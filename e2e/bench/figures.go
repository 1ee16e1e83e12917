package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// latencies are the durations of single calls.
type latencies []time.Duration

func (l latencies) total() time.Duration {
	var sum time.Duration
	for _, d := range l {
		sum += d
	}
	return sum
}

// at is the duration that a share of all calls does not exceed; zero if there was none.
func (l latencies) at(share float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(l))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

// report prints the table. The ratio of a duration is to the floor's median; of a rate, to what one writer that does
// nothing but synced writes reaches.
func report(w io.Writer, low floor, got figures) {
	line := func(what, value, ratio string) { fmt.Fprintf(w, "| %s | %s | %s |\n", what, value, ratio) }
	line("figure", "value", "to its floor")
	line("---", "---", "---")
	base := low.append1K.at(0.5)
	baseRate := float64(len(low.append1K)) / low.append1K.total().Seconds()
	line(fmt.Sprintf("floor: 1 KiB write + %s, p50 / p99", syncName), pair(low.append1K), fmt.Sprintf("1 (%.0f/s)", baseRate))
	line(fmt.Sprintf("floor: 1 MiB write + %s", syncName), fmt.Sprintf("%.0f MiB/s", low.write1M), "1")
	line("floor: read of that file", fmt.Sprintf("%.0f MiB/s", low.read1M), "1")
	for _, p := range got.acks {
		who := fmt.Sprintf("%d writers", p.writers)
		if p.writers == 1 {
			who = "1 writer"
		}
		line("ack p50 / p99, "+who, pair(p.acks), fmt.Sprintf("%.2f / %.2f", ratio(p.acks.at(0.5), base), ratio(p.acks.at(0.99), base)))
		rate := float64(len(p.acks)) / p.took.Seconds()
		line("records/s, "+who, fmt.Sprintf("%.0f", rate), fmt.Sprintf("%.2f", rate/baseRate))
	}
	line("MiB/s in", fmt.Sprintf("%.1f", got.in), fmt.Sprintf("%.2f", got.in/low.write1M))
	line("MiB/s out", fmt.Sprintf("%.1f", got.out), fmt.Sprintf("%.2f", got.out/low.read1M))
}

func pair(l latencies) string {
	return fmt.Sprintf("%.2f / %.2f ms", ms(l.at(0.5)), ms(l.at(0.99)))
}

func ms(d time.Duration) float64          { return float64(d) / float64(time.Millisecond) }
func ratio(d, base time.Duration) float64 { return float64(d) / float64(base) }
