// Package audit keeps a record of every change of basins, streams' names, access tokens and accounts: who, when, what, and
// what came of it, in streams of the service itself. See README.md.
package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/tenancy"
)

// Entry is one record of the log, as JSON in a record's body. A change has two with the same ID: the intent, which is stored
// before the change is begun, and the result.
type Entry struct {
	ID    string    `json:"id"`
	Phase string    `json:"phase"`
	At    time.Time `json:"at"`
	// Account and Token are who: the id of the account and that of the token, never its text. Via says what the request
	// came by: api, or admin for the operator's verbs on the stores themselves.
	Account string `json:"account"`
	Token   string `json:"token,omitempty"`
	Via     string `json:"via"`
	// Operation is what, the rest on what.
	Operation string `json:"operation"`
	Basin     string `json:"basin,omitempty"`
	Stream    string `json:"stream,omitempty"`
	OnToken   string `json:"access_token_id,omitempty"`
	OnAccount string `json:"on_account,omitempty"`
	Location  string `json:"location,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	// Result is there in the phase result.
	Result *Result `json:"result,omitempty"`
}

// The phases.
const (
	Intent = "intent"
	Done   = "result"
)

// Result is what came of a change, as its client was told.
type Result struct {
	// Status is the HTTP status; 0 for a change that came by admin.
	Status int `json:"status,omitempty"`
	// Outcome is created, updated or noop where the API says so.
	Outcome string `json:"outcome,omitempty"`
	// Code and Applied are those of a failure.
	Code    string `json:"code,omitempty"`
	Applied string `json:"applied,omitempty"`
}

// Streams is what a Log needs of a coordinator.Coordinator.
type Streams interface {
	Append(ctx context.Context, ref coordinator.StreamRef, b coordinator.Batch) (coordinator.Ack, error)
}

// Directory is what a Log needs of a tenancy.Directory.
type Directory interface {
	Resolve(ctx context.Context, basin, stream string, use tenancy.Use) (coordinator.StreamRef, error)
	ResolveFresh(ctx context.Context, basin, stream string, use tenancy.Use) (coordinator.StreamRef, error)
	CreateBasin(ctx context.Context, name, location string, config tenancy.BasinConfig, token string) (tenancy.BasinInfo, tenancy.Outcome, error)
}

// Options are what a Log is made of; Streams and Directory are required.
type Options struct {
	Streams   Streams
	Directory Directory
	Log       zerolog.Logger
	// Now is the clock; time.Now.
	Now func() time.Time
}

// Log writes the audit log. It holds nothing between two changes. Its methods may be called at once.
type Log struct {
	o       Options
	records *prometheus.CounterVec
}

const (
	// keep is how long entries are kept, unless the operator reconfigures the basin.
	keep = 365 * 24 * time.Hour
	// resultTimeout bounds the writing of a result, for which the answer of its request waits.
	resultTimeout = 5 * time.Second
)

// ErrNotWritten refuses a change whose intent could not be stored. The change was not begun.
var ErrNotWritten = errors.New("the audit log cannot be written")

// New makes a Log. It starts nothing and writes nothing.
func New(o Options) *Log {
	if o.Now == nil {
		o.Now = time.Now
	}
	l := &Log{o: o, records: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tailrace_audit_records_total", Help: "Entries of the audit log, by phase and by whether they were written.",
	}, []string{"phase", "outcome"})}
	for _, phase := range []string{Intent, Done} {
		for _, outcome := range []string{"written", "failed"} {
			l.records.WithLabelValues(phase, outcome)
		}
	}
	return l
}

// Collectors are the metrics of the log.
func (l *Log) Collectors() []prometheus.Collector { return []prometheus.Collector{l.records} }

// End writes the result of a change. If it cannot be written, that is counted and logged.
type End func(Result)

// Begin stores the intent of a change, of which the caller says who, what and on what. Only if it succeeds may the change
// be begun; its End must then be called, also if it failed. Errors are definite for the change: ErrNotWritten,
// coordinator.ErrDraining, or that of the context.
func (l *Log) Begin(ctx context.Context, e Entry) (End, error) {
	e.ID, e.Phase, e.At = uuid.Must(uuid.NewV7()).String(), Intent, l.o.Now().UTC()
	if err := l.write(ctx, e); err != nil {
		switch {
		case errors.Is(err, coordinator.ErrDraining):
			return nil, coordinator.ErrDraining
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		// Whether the entry is stored does not matter: an intent alone says that nothing is known to have followed.
		return nil, fmt.Errorf("%w: %v", ErrNotWritten, err)
	}
	return func(r Result) {
		e.Phase, e.At, e.Result = Done, l.o.Now().UTC(), &r
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resultTimeout)
		defer cancel()
		if err := l.write(ctx, e); err != nil {
			l.o.Log.Error().Err(err).Str("audit_id", e.ID).Str("operation", e.Operation).Str("account", e.Account).
				Str("request_id", e.RequestID).Int("status", r.Status).Msg("the result of a change is missing in the audit log")
		}
	}, nil
}

// write appends an entry to the stream of its account, and counts it.
func (l *Log) write(ctx context.Context, e Entry) error {
	ctx = tenancy.WithPrincipal(ctx, tenancy.System())
	err := l.append(ctx, e)
	outcome := "written"
	if err != nil {
		outcome = "failed"
	}
	l.records.WithLabelValues(e.Phase, outcome).Inc()
	return err
}

func (l *Log) append(ctx context.Context, e Entry) error {
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode audit entry: %w", err)
	}
	ref, err := l.o.Directory.Resolve(ctx, tenancy.AuditBasin, e.Account, tenancy.Append)
	if errors.Is(err, tenancy.ErrBasinNotFound) {
		if err = l.makeBasin(ctx); err == nil {
			ref, err = l.o.Directory.Resolve(ctx, tenancy.AuditBasin, e.Account, tenancy.Append)
		}
	}
	if err != nil {
		return fmt.Errorf("find audit stream: %w", err)
	}
	batch := func() coordinator.Batch { return coordinator.Batch{Records: []segments.Record{{Body: body}}} }
	_, err = l.o.Streams.Append(ctx, ref, batch())
	if errors.Is(err, coordinator.ErrStreamNotFound) || errors.Is(err, coordinator.ErrStreamDeleting) {
		if ref, err = l.o.Directory.ResolveFresh(ctx, tenancy.AuditBasin, e.Account, tenancy.Append); err == nil {
			_, err = l.o.Streams.Append(ctx, ref, batch())
		}
	}
	if err != nil {
		return fmt.Errorf("append audit entry: %w", err)
	}
	return nil
}

// makeBasin makes the basin of the log, with the first entry ever.
func (l *Log) makeBasin(ctx context.Context) error {
	arrival := coordinator.ArrivalTime
	_, _, err := l.o.Directory.CreateBasin(ctx, tenancy.AuditBasin, "", tenancy.BasinConfig{
		CreateOnAppend: true,
		DefaultStream: tenancy.Settings{
			TimestampingMode: &arrival, Retention: &tenancy.Retention{Age: uint64(keep / time.Second)},
		},
	}, "")
	if errors.Is(err, tenancy.ErrBasinExists) {
		return nil // somebody was faster
	}
	return err
}
