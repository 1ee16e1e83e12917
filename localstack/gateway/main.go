// Command gateway runs the Lambda functions on this machine behind what AWS puts before them: an address as functions' URLs have
// it, for all basins, and one HTTP API a basin. Settings of the functions are taken from its environment. See ../README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/tailrace-streams/tailrace/e2e/harness"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

// basins are the values of the flag --basin: NAME=ADDRESS.
type basins map[string]string

func (b basins) String() string { return fmt.Sprint(map[string]string(b)) }

func (b basins) Set(text string) error {
	name, address, ok := strings.Cut(text, "=")
	if !ok || name == "" || address == "" {
		return errors.New("write NAME=HOST:PORT")
	}
	b[name] = address
	return nil
}

func run(ctx context.Context) error {
	served := basins{}
	listen := flag.String("listen", "127.0.0.1:0", "the address of the service, for all basins")
	flag.Var(served, "basin", "NAME=HOST:PORT: an HTTP API for one basin; may be there several times")
	processes := flag.Int("processes", 2, "how many processes of append, read and control there are: as many requests are answered at once")
	every := flag.Duration("maintain", time.Minute, "how often maintain runs")
	flag.Parse()

	dir, err := os.MkdirTemp("", "tailrace-functions-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bins, err := harness.Functions(ctx, dir)
	if err != nil {
		return err
	}
	g := &harness.Gateway{Start: func(ctx context.Context, name string) (*harness.Function, error) {
		mode := "TAILRACE_FUNCTION_URL_MODE=response-stream"
		return harness.StartFunction(ctx, harness.FunctionOptions{Bin: bins + "/" + name, Env: append(settings(), mode)})
	}}
	defer func() { fmt.Fprint(os.Stderr, g.Close()) }()
	// The first process of control tries the bucket and claims it, as the first on AWS does; the others find it claimed.
	if err := prepare(ctx, g, *processes); err != nil {
		return err
	}
	go maintain(ctx, g, *every)
	return serve(ctx, g, *listen, served)
}

// settings are those of the functions in this process's environment.
func settings() (env []string) {
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		switch rest, ours := strings.CutPrefix(name, "TAILRACE_"); {
		case !ours:
		case strings.HasPrefix(rest, "E2E_"), strings.HasSuffix(rest, "_BIN"), rest == "BIN":
		default:
			env = append(env, variable)
		}
	}
	return env
}

func prepare(ctx context.Context, g *harness.Gateway, processes int) error {
	if err := g.Grow(ctx, "control", 1); err != nil {
		return err
	}
	for name, n := range map[string]int{"control": processes - 1, "append": processes, "read": processes, "maintain": 1} {
		if err := g.Grow(ctx, name, n); err != nil {
			return err
		}
	}
	return nil
}

// maintain is the schedule.
func maintain(ctx context.Context, g *harness.Gateway, every time.Duration) {
	for ticks := time.NewTicker(every); ; {
		select {
		case <-ticks.C:
			if err := g.Invoke(ctx, "maintain", []byte(`{"source":"aws.events","detail-type":"Scheduled Event"}`)); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "gateway: maintain:", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// serve serves until ctx ends, and says on standard output where.
func serve(ctx context.Context, g *harness.Gateway, listen string, served basins) error {
	failed := make(chan error, 1+len(served))
	var servers []*http.Server
	start := func(what, address string, h http.Handler) error {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, Protocols: new(http.Protocols)}
		s.Protocols.SetHTTP1(true)
		s.Protocols.SetUnencryptedHTTP2(true) // AWS speaks HTTP/2 too, there over TLS
		servers = append(servers, s)
		go func() { failed <- s.Serve(listener) }()
		fmt.Printf("%s http://%s\n", what, listener.Addr())
		return nil
	}
	err := start("service", listen, g)
	for basin, address := range served {
		if err == nil {
			err = start(basin, address, g.HTTPAPI(basin))
		}
	}
	if err == nil {
		select {
		case err = <-failed:
		case <-ctx.Done():
		}
	}
	for _, s := range servers {
		_ = s.Close()
	}
	return err
}
