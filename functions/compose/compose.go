// Package compose puts together, from settings and open stores, what answers requests: one composition for every main, the
// program and the functions. Who may come in, and what a process does besides answering, is its main's.
package compose

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/functions/api"
	"github.com/tailrace-streams/tailrace/functions/audit"
	"github.com/tailrace-streams/tailrace/functions/config"
	"github.com/tailrace-streams/tailrace/functions/stores"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/tenancy"
)

// Options are what a main knows of its process.
type Options struct {
	Log zerolog.Logger
	// Version is told to clients and in a metric; nothing is told.
	Version string
	// Intermittent says that the process may be stopped between requests (coordinator.Options has what follows).
	Intermittent bool
}

// Service is what answers requests, and what may work behind it; nothing is started.
type Service struct {
	Stores    *stores.Stores
	Streams   *coordinator.Coordinator
	Directory *tenancy.Directory
	// Accounts is there without authentication too, for operators.
	Accounts *tenancy.Accounts
	// Audit is the log of changes, for mains that make some by themselves.
	Audit *audit.Log
	// Registry has the metrics of all of it, and takes those of a main.
	Registry *prometheus.Registry
	// Handler is the whole API.
	Handler http.Handler
	// Upkeep walks over all streams for what is due.
	Upkeep *tenancy.Upkeep
}

// With these, after the two seconds that a commit waits for its own answer, an append has an answer within ten seconds when
// a store has gone silent, also one that waited for another's outcome (BL-130).
const (
	doubtTimeout  = 6 * time.Second
	appendTimeout = 7 * time.Second
)

// New composes a service. It starts nothing, and leaves the stores to its caller.
func New(cfg config.Config, held *stores.Stores, o Options) (*Service, error) {
	streams, err := coordinator.New(coordinator.Options{
		Heads: held.Heads, Objects: held.Objects, Room: held.Room,
		// A folder is locked, and memory cannot be shared.
		Exclusive:     !held.Shared,
		Intermittent:  o.Intermittent,
		DoubtTimeout:  doubtTimeout,
		AppendTimeout: appendTimeout,
		Now:           held.Now,
		Log:           o.Log,
		TrimDelay:     trimDelay(cfg),
		CacheBytes:    int64(cfg.CacheBytes),
		InflightBytes: int64(cfg.InflightBytes),
		ViewBytes:     int64(cfg.EventualBytes / 2),
	})
	if err != nil {
		return nil, fmt.Errorf("make coordinator: %w", err)
	}
	directory, err := tenancy.New(tenancy.Options{
		Table: held.Table, Heads: held.Heads, Log: o.Log, OnDeleted: streams.Poke, Clock: held.Now,
		Ciphers: []string{segments.CipherAES256GCM}, Location: string(cfg.Location),
	})
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	accounts, err := tenancy.NewAccounts(directory, tenancy.AccountsOptions{RootToken: cfg.RootToken.Reveal()})
	if err != nil {
		return nil, fmt.Errorf("make accounts: %w", err)
	}
	registry := newRegistry(held)
	log := audit.New(audit.Options{Streams: streams, Directory: directory, Log: o.Log, Now: held.Now})
	var access api.Access // nil, and no nil pointer, lets everybody in
	var audited api.Audit // where everybody is nobody, there is nothing to tell apart
	if cfg.Auth {
		access, audited = accounts, log
		registry.MustRegister(log.Collectors()...)
	}
	handler, err := api.New(api.Options{
		Streams: streams, Directory: directory, Access: access, Audit: audited, Log: o.Log, Registry: registry, Version: o.Version,
		DisableCORS: cfg.NoCORS, Domain: string(cfg.Domain), Location: string(cfg.Location),
		MaxAge: maxAge(cfg), PageBytes: int64(cfg.EventualBytes / 2),
	})
	if err != nil {
		return nil, fmt.Errorf("make API: %w", err)
	}
	return &Service{
		Stores: held, Streams: streams, Directory: directory, Accounts: accounts, Audit: log, Registry: registry, Handler: handler,
		Upkeep: &tenancy.Upkeep{
			Directory: directory, Coordinator: streams, Log: o.Log, Grace: cfg.CollectGrace, Interval: cfg.UpkeepInterval,
		},
	}, nil
}

func newRegistry(held *stores.Stores) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.MustRegister(held.Collectors...)
	return r
}

// maxAge is the setting as the API takes it, for which 0 is its default.
func maxAge(cfg config.Config) time.Duration {
	if cfg.EventualMaxAge == 0 {
		return -1
	}
	return cfg.EventualMaxAge
}

// trimDelay is the delay as the coordinator takes it, for which zero is its default and a negative one none.
func trimDelay(cfg config.Config) time.Duration {
	if cfg.TrimDelay == 0 {
		return -1
	}
	return cfg.TrimDelay
}
