package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// errNotDrained says that the time for stopping was over before every accepted append had its outcome. What was
// acknowledged is stored all the same.
var errNotDrained = errors.New("appends were not finished in time; raise --shutdown-timeout")

// drainShare is how much of the time for stopping is for requests; the rest closes the stores.
const drainShare = 0.9

// stop ends the service within timeout. At once: no new connection is accepted, new appends are refused, followers are
// told to go elsewhere. Accepted appends are finished and answered. Connections that still read when the time is over
// are cut, which is no failure: every read can be resumed. quiet says that nothing uses the stores any more.
func (s *service) stop(timeout time.Duration) (quiet bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(float64(timeout)*drainShare))
	defer cancel()
	var drained, closed error
	var both sync.WaitGroup
	both.Go(func() { drained = s.streams.Drain(ctx) })
	// Shutdown waits for the answers that Drain brings about, so neither can go first.
	both.Go(func() { closed = s.server.Shutdown(ctx) })
	both.Wait()
	if closed != nil {
		s.log.Warn().Err(closed).Msg("cutting the connections that are still busy")
		// A listener or a connection that cannot be closed is closed by the end of the process.
		_ = s.server.Close()
	}
	if drained != nil {
		return false, fmt.Errorf("stop: %w: %w", errNotDrained, drained)
	}
	s.endUpkeep()
	s.upkeep.Wait()
	s.streams.Close()
	s.log.Info().Msg("stopped: every accepted append has been answered")
	return closed == nil, nil
}

// exitAnyway ends the process at a second signal, and when timeout is over whatever still hangs. The function returned
// calls it off.
func (p *process) exitAnyway(timeout time.Duration, logger zerolog.Logger) (callOff func()) {
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-done:
			return
		case <-p.signals:
			logger.Warn().Msg("second signal: ending at once")
		case <-time.After(timeout):
			logger.Error().Msg("the time for stopping is over: ending at once")
		}
		p.exit(exitFailed)
	})
	return func() {
		close(done)
		watching.Wait()
	}
}
