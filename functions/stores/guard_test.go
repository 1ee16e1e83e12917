package stores

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/dynamostore"
	"github.com/tailrace-streams/tailrace/coordinator/memstore"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/memobjects"
	"github.com/tailrace-streams/tailrace/segments/objectstest"
	"github.com/tailrace-streams/tailrace/segments/s3objects"
)

// A guard with a backend in does what the backend does.
func TestGuardedStoresConform(t *testing.T) {
	t.Parallel()
	open := func() *guard {
		store := memstore.New()
		return guarded(Backend{store, store, memobjects.New()})
	}
	storetest.RunHeads(t, func(*testing.T) coordinator.Heads { return guardedHeads{open()} })
	storetest.RunTable(t, func(*testing.T) coordinator.Table { return guardedTable{open()} })
	objectstest.Run(t, func(*testing.T) segments.Objects { return guardedObjects{open()} })
}

// Without one, every call fails at once, and definitely.
func TestGuardRefusesUntilOpen(t *testing.T) {
	t.Parallel()
	g := newGuard()
	heads, table, objects, ctx, id := guardedHeads{g}, guardedTable{g}, guardedObjects{g}, t.Context(), segments.StreamID{1}
	calls := map[string]func() error{
		"heads create": func() error { return heads.Create(ctx, coordinator.Head{}) },
		"heads load":   func() error { _, err := heads.Load(ctx, id); return err },
		"heads commit": func() error { _, err := heads.Commit(ctx, id, &coordinator.Commit{}); return err },
		"heads splice": func() error { _, err := heads.Splice(ctx, id, &coordinator.Splice{}); return err },
		"heads change": func() error { _, err := heads.Change(ctx, id, &coordinator.Change{}); return err },
		"table get":    func() error { _, err := table.Get(ctx, objectsRow); return err },
		"table put":    func() error { _, err := table.Put(ctx, coordinator.Row{Key: objectsRow}, 0); return err },
		"table delete": func() error { return table.Delete(ctx, objectsRow, 1) },
		"table list":   func() error { _, err := table.List(ctx, "p", "", "", 1); return err },
		"objects put":  func() error { return objects.Put(ctx, "k", nil) },
		"objects get":  func() error { _, err := objects.Get(ctx, "k", 0, 1); return err },
		"objects list": func() error { _, err := objects.List(ctx, "", "", 1); return err },
		"objects delete": func() error {
			failed := objects.Delete(ctx, []string{"a", "b"})
			if len(failed) != 2 {
				return nil
			}
			return failed["b"]
		},
	}
	known := 0
	for store, names := range storeCalls {
		for _, call := range names {
			known++
			do := calls[store+" "+call]
			if do == nil {
				t.Errorf("%s %s is not tried", store, call)
			} else if err := do(); !errors.Is(err, errNotOpen) || !errors.Is(err, coordinator.ErrNotApplied) ||
				errors.Is(err, coordinator.ErrNotFound) || errors.Is(err, segments.ErrObjectNotFound) {
				t.Errorf("%s %s: %v, want a definite error", store, call, err)
			}
		}
	}
	if known != len(calls) {
		t.Errorf("%d calls are tried, %d are known", len(calls), known)
	}
}

func TestGuardCounts(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	g := guarded(Backend{store, store, memobjects.New()})
	before := len(seriesOf(t, g))
	table := guardedTable{g}
	if _, err := table.Put(t.Context(), coordinator.Row{Key: objectsRow}, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := table.Put(t.Context(), coordinator.Row{Key: objectsRow}, 0); err == nil {
			t.Fatal("a row was made twice")
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (guardedHeads{g}).Load(gone, segments.StreamID{1}); err == nil {
		t.Fatal("a load without a context worked")
	}
	after := seriesOf(t, g)
	for series, want := range map[string]float64{
		"table put ok": 1, "table put refused": 2, "table put failed": 0, "heads load failed": 1,
	} {
		if got, there := after[series]; !there || got != want {
			t.Errorf("%s is counted %v times, want %v", series, got, want)
		}
	}
	if len(after) != before {
		t.Errorf("there were %d series and are %d", before, len(after))
	}
}

// seriesOf are the counters of a guard by store, call and outcome.
func seriesOf(t *testing.T, g *guard) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(g.collectors()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "tailrace_store_calls_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range m.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			all[labels["store"]+" "+labels["call"]+" "+labels["outcome"]] = m.GetCounter().GetValue()
		}
	}
	return all
}

// answered is an error as the AWS SDK makes them of answers.
type answered struct {
	status int
	code   string
}

func (a answered) Error() string       { return a.code }
func (a answered) HTTPStatusCode() int { return a.status }
func (a answered) ErrorCode() string   { return a.code }

func TestTemporary(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"no route":           {errors.New("dial tcp: connection refused"), true},
		"too slow":           {context.DeadlineExceeded, true},
		"S3 is busy":         {&s3objects.Error{Status: 503, Code: "SlowDown", Temporary: true}, true},
		"S3 says no":         {&s3objects.Error{Status: 403, Code: "AccessDenied"}, false},
		"no credentials":     {s3objects.ErrNoCredentials, false},
		"S3 misbehaves":      {fmt.Errorf("list: %w", s3objects.ErrMisbehaves), false},
		"DynamoDB is busy":   {answered{400, "ThrottlingException"}, true},
		"DynamoDB is broken": {answered{500, "InternalServerError"}, true},
		"DynamoDB says no":   {answered{400, "UnrecognizedClientException"}, false},
		"no answer":          {answered{0, ""}, true},
		"no table":           {fmt.Errorf("%w: %w", dynamostore.ErrNoTable, answered{400, "ResourceNotFoundException"}), false},
		"a foreign table":    {dynamostore.ErrForeign, false},
		"a foreign bucket":   {ErrForeignBucket, false},
		"a certificate":      {fmt.Errorf("send: %w", &tls.CertificateVerificationError{Err: errors.New("x")}), false},
		"a version":          {dynamostore.ErrVersion, false},
	} {
		if got := temporary(fmt.Errorf("open: %w", test.err)); got != test.want {
			t.Errorf("%s: temporary is %t", name, got)
		}
	}
}
