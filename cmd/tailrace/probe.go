package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/functions/config"
	"github.com/tailrace-streams/tailrace/functions/stores"
	"github.com/tailrace-streams/tailrace/segments"
)

const (
	// probeRowBytes is about what the head of an idle stream has.
	probeRowBytes = 1 << 10
	// probeObjectBytes is a segment of one large append.
	probeObjectBytes = 64 << 10
)

// probeCommand measures the stores alone, with the same client libraries as a server and without one: what an append can at
// best take. A small one is a conditional write, a large one a PUT and a conditional write.
func (p *process) probeCommand() *cobra.Command {
	var each time.Duration
	var asJSON bool
	cmd := p.onStores(&cobra.Command{
		Use:   "probe",
		Short: "Check the stores, and measure what one write of them takes",
		Long: "Checks that the stores can be used, and then measures, one call after the other: a conditional write of 1 KiB, a\n" +
			"PUT of 64 KiB, and both in turn, which is the least that a small and a large append can take. Leaves nothing behind.",
		Example: "  tailrace admin probe --data ./tailrace-data --each 5s",
	}, func(ctx context.Context, s *service, _ config.Config) error {
		m := &measurement{table: s.Stores.Table, objects: s.Stores.Objects, key: coordinator.Key{Part: stores.ProbePart, Sort: "probe-" + rand.Text()}}
		figures, err := m.run(ctx, each)
		if err != nil {
			return err
		}
		if asJSON {
			return json.NewEncoder(p.stdout).Encode(figures)
		}
		for _, f := range figures {
			fmt.Fprintf(p.stdout, "%-30s p50 %.2f ms, p99 %.2f ms (%d calls)\n", f.What, f.P50, f.P99, f.Calls)
		}
		return nil
	})
	cmd.Flags().DurationVar(&each, "each", 2*time.Second, "how long each of the three is measured")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// figure is how long calls of one kind took, in milliseconds.
type figure struct {
	What  string  `json:"what"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Calls int     `json:"calls"`
}

// measurement writes one row again and again, and objects beside each other.
type measurement struct {
	table   coordinator.Table
	objects segments.Objects
	key     coordinator.Key
	version uint64
	objs    []string
}

func (m *measurement) run(ctx context.Context, each time.Duration) (figures []figure, err error) {
	defer func() {
		ctx := context.WithoutCancel(ctx)
		for _, failed := range m.objects.Delete(ctx, m.objs) {
			err = errors.Join(err, failed)
		}
		err = errors.Join(err, m.removeRow(ctx))
	}()
	for _, kind := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"conditional write", m.write}, {"PUT", m.put},
		{"PUT and conditional write", func(ctx context.Context) error {
			if err := m.put(ctx); err != nil {
				return err
			}
			return m.write(ctx)
		}},
	} {
		took, err := measure(ctx, each, kind.do)
		if err != nil {
			return nil, fmt.Errorf("measure %s: %w", kind.what, err)
		}
		at := func(share float64) float64 {
			return float64(took[min(len(took)-1, int(share*float64(len(took))))]) / float64(time.Millisecond)
		}
		figures = append(figures, figure{kind.what, at(0.5), at(0.99), len(took)})
	}
	return figures, nil
}

// measure calls do again and again for a while, at least once, and returns how long each call took, sorted.
func measure(ctx context.Context, each time.Duration, do func(context.Context) error) ([]time.Duration, error) {
	var took []time.Duration
	for end := time.Now().Add(each); len(took) == 0 || time.Now().Before(end); {
		since := time.Now()
		if err := do(ctx); err != nil {
			return nil, err
		}
		took = append(took, time.Since(since))
	}
	slices.Sort(took)
	return took, nil
}

func (m *measurement) write(ctx context.Context) error {
	row, err := m.table.Put(ctx, coordinator.Row{Key: m.key, Value: random(probeRowBytes), ID: coordinator.NewOpID()}, m.version)
	if err == nil {
		m.version = row.Version
	}
	return err
}

// removeRow removes the row as it is: a write whose answer was lost may have made it, or replaced it.
func (m *measurement) removeRow(ctx context.Context) error {
	row, err := m.table.Get(ctx, m.key)
	if err == nil {
		err = m.table.Delete(ctx, m.key, row.Version)
	}
	if err != nil && !errors.Is(err, coordinator.ErrNotFound) {
		return fmt.Errorf("remove the row of the probe: %w", err)
	}
	return nil
}

func (m *measurement) put(ctx context.Context) error {
	key := fmt.Sprintf("%s%s/%d", stores.ProbeFolder, m.key.Sort, len(m.objs))
	m.objs = append(m.objs, key)
	return m.objects.Put(ctx, key, random(probeObjectBytes))
}

// random bytes do not compress, as zeros would.
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it does not fail
	return b
}
