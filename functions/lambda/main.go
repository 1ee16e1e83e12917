package lambda

import (
	"context"
	"fmt"
	"os"
	"time"

	awslambda "github.com/aws/aws-lambda-go/lambda"
	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/functions/compose"
	"github.com/tailrace-streams/tailrace/functions/config"
	"github.com/tailrace-streams/tailrace/functions/stores"
)

// Main runs a function until the platform ends the process. There is nothing to do at that end: what was answered is
// stored, and what was owed was done before the answer.
func Main(name Name) {
	log := zerolog.New(os.Stderr).With().Timestamp().Str("function", string(name)).Logger()
	s, err := open(context.Background(), name, os.Environ(), &log)
	if err != nil {
		log.Error().Err(err).Msg("the function cannot start")
		os.Exit(1)
	}
	awslambda.Start(s.Handle)
}

// openPatience is how long an invocation waits for stores that were out of reach when the process started.
const openPatience = 3 * time.Second

// open composes a function from its environment.
func open(ctx context.Context, name Name, environ []string, log *zerolog.Logger) (*Server, error) {
	cfg, err := config.LoadForFunction(environ)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	level, err := zerolog.ParseLevel(string(cfg.LogLevel))
	if err != nil {
		return nil, fmt.Errorf("make log: %w", err)
	}
	*log = log.Level(level)
	held, err := stores.OpenShared(ctx, cfg, *log, stores.Opening{Claim: true, Trust: true})
	if err != nil {
		return nil, err
	}
	made, err := compose.New(cfg, held, compose.Options{Log: *log, Version: version(), Intermittent: true})
	if err != nil {
		return nil, err
	}
	o := Options{
		Name: name, Handler: made.Handler, Log: *log,
		Streaming: cfg.FunctionURLMode == config.URLStream,
		Settle:    made.Streams.Settle,
		Await:     func(ctx context.Context) error { return held.Await(ctx, openPatience) },
	}
	if name == Maintain {
		o.Maintain = newMaintenance(made).run
	}
	return New(o), nil
}
