package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/functions/api"
	"github.com/tailrace-streams/tailrace/functions/config"
	"github.com/tailrace-streams/tailrace/functions/stores"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/tenancy"
)

func (p *process) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the S2 v1 API, keeping data in a folder, or in a bucket and a table",
		Long: "Serves the S2 v1 API, keeping data in a folder, or in a bucket and a DynamoDB table that any number of servers use\n" +
			"at once. Every flag can also be set by an environment variable or in a YAML file; docs/configuration.md tells all\n" +
			"about each. SIGTERM or SIGINT stops it: accepted appends are finished.",
		Example: "  tailrace serve --data ./tailrace-data\n" +
			"  tailrace serve --objects s3://my-bucket/tailrace --heads dynamodb://tailrace --aws-region eu-central-1",
		Args: noArgs,
	}
	config.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := config.LoadForServing(cmd.Flags(), p.environ)
		if err != nil {
			return fmt.Errorf("read configuration: %w", err)
		}
		return p.serve(cmd.Context(), cfg)
	}
	return cmd
}

// serve runs a server until a signal, or a failure, ends it.
func (p *process) serve(ctx context.Context, cfg config.Config) error {
	logger, err := newLog(p.stderr, cfg)
	if err != nil {
		return err
	}
	pair, err := openCertificate(cfg, logger)
	if err != nil {
		return err
	}
	listener, err := listen(cfg.Listen)
	if err != nil {
		return err
	}
	defer listener.Close() // the server closes it too; this is for the ways out before
	if cfg.Shared() {
		logger = logger.With().Str("node", newNodeID()).Logger()
	}
	held, err := openStores(ctx, cfg, logger, true)
	if err != nil {
		return err
	}
	s, err := newService(cfg, held, logger)
	if err != nil {
		return errors.Join(err, held.Close())
	}
	scheme := s.useTLS(pair)
	if err := printBanner(p.stdout, cfg, reachableURL(listener.Addr(), scheme), held.Where); err != nil {
		return errors.Join(err, held.Close())
	}
	s.begin(held.Opened)
	if err := p.serveUntilSignal(ctx, s, listener, held.Failed); err != nil {
		return err
	}
	defer p.exitAnyway(cfg.ShutdownTimeout, logger)()
	quiet, err := s.stop(cfg.ShutdownTimeout, listener)
	if !quiet {
		// Somebody still uses the stores. They stay open: what was acknowledged in them outlives any end of the process.
		return err
	}
	return errors.Join(err, held.Close())
}

// service is what answers requests, and what works behind it.
type service struct {
	held      *stores.Stores
	streams   *coordinator.Coordinator
	directory *tenancy.Directory
	server    *http.Server
	registry  *prometheus.Registry
	log       zerolog.Logger

	leaving     atomic.Bool // set once the server stops
	connections atomic.Int64
	unused      sync.Map     // the net.Conns that no request has come on
	lastRequest atomic.Int64 // when, in Unix nanoseconds

	walk      *tenancy.Upkeep
	upkeep    sync.WaitGroup
	endUpkeep context.CancelFunc
}

func newService(cfg config.Config, held *stores.Stores, logger zerolog.Logger) (*service, error) {
	streams, err := coordinator.New(coordinator.Options{
		Heads: held.Heads, Objects: held.Objects, Room: held.Room,
		// A folder is locked, and memory cannot be shared.
		Exclusive:     !held.Shared,
		DoubtTimeout:  doubtTimeout,
		AppendTimeout: appendTimeout,
		Now:           held.Now,
		Log:           logger,
		TrimDelay:     trimDelay(cfg),
		CacheBytes:    int64(cfg.CacheBytes),
		InflightBytes: int64(cfg.InflightBytes),
	})
	if err != nil {
		return nil, fmt.Errorf("make coordinator: %w", err)
	}
	directory, err := tenancy.New(tenancy.Options{
		Table: held.Table, Heads: held.Heads, Log: logger, OnDeleted: streams.Poke, Clock: held.Now,
		Ciphers: []string{segments.CipherAES256GCM},
	})
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(held.Collectors...)
	version, _ := build()
	handler, err := api.New(api.Options{
		Streams: streams, Directory: directory, Log: logger, Registry: registry, Version: version,
		DisableCORS: cfg.NoCORS,
	})
	if err != nil {
		return nil, fmt.Errorf("make API: %w", err)
	}
	s := &service{
		held: held, streams: streams, directory: directory, registry: registry, log: logger,
		walk: &tenancy.Upkeep{
			Directory: directory, Coordinator: streams, Log: logger, Grace: cfg.CollectGrace, Interval: cfg.UpkeepInterval,
		},
	}
	s.server = newServer(s.announceLeaving(handler), logger)
	s.server.ConnState = s.watchConnection
	return s, nil
}

// useTLS has the server speak TLS with a pair, if there is one, and returns the scheme of its URLs.
func (s *service) useTLS(pair *certificate) (scheme string) {
	if pair == nil {
		return "http"
	}
	s.server.TLSConfig = pair.config()
	s.registry.MustRegister(pair.collectors()...)
	return "https"
}

// With these, after the two seconds that a commit waits for its own answer, an append has an answer within ten seconds when
// a store has gone silent, also one that waited for another's outcome (BL-130).
const (
	doubtTimeout  = 6 * time.Second
	appendTimeout = 7 * time.Second
)

// trimDelay is the delay as the coordinator takes it, for which zero is its default and a negative one none.
func trimDelay(cfg config.Config) time.Duration {
	if cfg.TrimDelay == 0 {
		return -1
	}
	return cfg.TrimDelay
}

// begin starts what goes on without requests: finishing creations and deletions that were cut short, and the walk over
// all streams for what is due. Both wait until the stores are open.
func (s *service) begin(opened <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	s.endUpkeep = cancel
	for _, run := range []func(context.Context){s.directory.Run, s.walk.Run} {
		s.upkeep.Go(func() {
			select {
			case <-opened:
				run(ctx)
			case <-ctx.Done():
			}
		})
	}
}

// newNodeID tells the processes that share stores apart, in logs: the machine's name and something random, since several
// may run on one and names of machines are used again.
func newNodeID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	return host + "-" + strings.ToLower(rand.Text()[:8])
}

// errStoreFailed ends a process whose store cannot go on. What was acknowledged is stored; a new start finds out how much
// of the rest is.
var errStoreFailed = errors.New("a store failed; the log says why")

// serveUntilSignal answers requests until the first signal. An error is that of the server or of a store, after which
// there is nothing to finish.
func (p *process) serveUntilSignal(ctx context.Context, s *service, listener net.Listener, failed <-chan struct{}) error {
	served := make(chan error, 1)
	go func() {
		if s.server.TLSConfig != nil {
			served <- s.server.ServeTLS(listener, "", "")
			return
		}
		served <- s.server.Serve(listener)
	}()
	s.log.Info().Stringer("address", listener.Addr()).Msg("serving")
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-failed:
		return fmt.Errorf("serve: %w", errStoreFailed)
	case <-ctx.Done():
	case signal := <-p.signals:
		s.log.Info().Stringer("signal", signal).Msg("stopping; another signal, in a second or later, does not wait")
	}
	return nil
}
