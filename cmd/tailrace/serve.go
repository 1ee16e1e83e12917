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

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/tailrace-streams/tailrace/functions/compose"
	"github.com/tailrace-streams/tailrace/functions/config"
	"github.com/tailrace-streams/tailrace/functions/stores"
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
	if cfg.Auth && cfg.Exposed() && !cfg.TLS() {
		logger.Warn().Msg("access tokens come in cleartext: set tls-cert and tls-key, unless a proxy on this machine speaks TLS")
	}
	if err := printBanner(p.stdout, cfg, reachableURL(listener.Addr(), scheme), held.Where); err != nil {
		return errors.Join(err, held.Close())
	}
	s.begin()
	if cfg.Auth {
		if err := p.ensureRoot(ctx, s); err != nil {
			s.endUpkeep()
			s.background.Wait()
			return errors.Join(err, held.Close())
		}
	}
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
	*compose.Service
	server *http.Server
	log    zerolog.Logger

	leaving     atomic.Bool // set once the server stops
	connections atomic.Int64
	unused      sync.Map     // the net.Conns that no request has come on
	lastRequest atomic.Int64 // when, in Unix nanoseconds

	background   sync.WaitGroup
	whileServing context.Context // ends with endUpkeep
	endUpkeep    context.CancelFunc
}

func newService(cfg config.Config, held *stores.Stores, logger zerolog.Logger) (*service, error) {
	version, _ := build()
	made, err := compose.New(cfg, held, compose.Options{Log: logger, Version: version})
	if err != nil {
		return nil, err
	}
	s := &service{Service: made, log: logger}
	s.server = newServer(s.announceLeaving(made.Handler), logger)
	s.server.ConnState = s.watchConnection
	return s, nil
}

// useTLS has the server speak TLS with a pair, if there is one, and returns the scheme of its URLs.
func (s *service) useTLS(pair *certificate) (scheme string) {
	if pair == nil {
		return "http"
	}
	s.server.TLSConfig = pair.config()
	s.Registry.MustRegister(pair.collectors()...)
	return "https"
}

// begin starts what goes on without requests: finishing creations and deletions that were cut short, and the walk over
// all streams for what is due. Both wait until the stores are open.
func (s *service) begin() {
	s.whileServing, s.endUpkeep = context.WithCancel(context.Background())
	for _, run := range []func(context.Context){s.Directory.Run, s.Accounts.Run, s.Upkeep.Run} {
		s.whenOpen(run)
	}
}

// whenOpen runs something in the background once the stores are open, with a context that ends when the server stops.
func (s *service) whenOpen(run func(context.Context)) {
	s.background.Go(func() {
		select {
		case <-s.Stores.Opened:
			run(s.whileServing)
		case <-s.whileServing.Done():
		}
	})
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
