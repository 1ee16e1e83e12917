package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// errNotDrained says that the time for stopping was over before every accepted append had its outcome. What was
// acknowledged is stored all the same.
var errNotDrained = errors.New("appends were not finished in time; raise --shutdown-timeout")

const (
	// drainShare is how much of the time for stopping is for requests; the rest closes the stores.
	drainShare = 0.9
	// goodbye is how long no request must have come before idle connections are closed. One that is on its way to such a
	// connection gets an answer that says so, where a closed connection would leave its client in doubt.
	goodbye = 500 * time.Millisecond
	// goodbyeShare bounds that wait by a part of the time for stopping: connections that are never given up end it.
	goodbyeShare = 0.25
)

// stop ends the service within timeout. At once: no new connection is accepted, new appends are refused, followers are
// told to go elsewhere. Accepted appends are finished and answered. Connections that still read when the time is over
// are cut, which is no failure: every read can be resumed. quiet says that nothing uses the stores any more.
func (s *service) stop(timeout time.Duration, listener net.Listener) (quiet bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(float64(timeout)*drainShare))
	defer cancel()
	s.leaving.Store(true)
	// A listener that cannot be closed is closed by Shutdown, or by the end of the process.
	_ = listener.Close()
	drained := s.Streams.Drain(ctx)
	s.waitForGoodbye(time.Duration(float64(timeout) * goodbyeShare))
	s.closeUnused()
	closed := s.server.Shutdown(ctx)
	if closed != nil {
		s.log.Warn().Err(closed).Msg("cutting the connections that are still busy")
		_ = s.server.Close() // as above
	}
	if drained != nil {
		return false, fmt.Errorf("stop: %w: %w", errNotDrained, drained)
	}
	s.endUpkeep()
	s.background.Wait()
	s.Streams.Close()
	s.log.Info().Msg("stopped: every accepted append has been answered")
	return closed == nil, nil
}

// waitForGoodbye returns when no connection is open any more, or no request came for a while, or at most is over.
func (s *service) waitForGoodbye(most time.Duration) {
	for begin := time.Now(); s.connections.Load() > 0 && time.Since(begin) < most; time.Sleep(10 * time.Millisecond) {
		last := max(s.lastRequest.Load(), begin.UnixNano())
		if time.Now().UnixNano()-last > int64(goodbye) {
			return
		}
	}
}

// closeUnused closes the connections that no request has come on yet. Shutdown closes idle ones, but waits five seconds for
// the first request of a new one, and pools of clients open more than they use.
func (s *service) closeUnused() {
	s.unused.Range(func(conn, _ any) bool {
		_ = conn.(net.Conn).Close() // that of a client which is gone, or soon learns it
		return true
	})
}

// watchConnection keeps count of the open connections and of the unused ones, and notes when a request came.
func (s *service) watchConnection(conn net.Conn, state http.ConnState) {
	if state == http.StateNew {
		s.connections.Add(1)
		s.unused.Store(conn, nil)
		return
	}
	s.unused.Delete(conn)
	switch state {
	case http.StateActive:
		s.lastRequest.Store(time.Now().UnixNano())
	case http.StateClosed, http.StateHijacked:
		s.connections.Add(-1)
	}
}

// announceLeaving is a handler that, once the server is leaving, says with every answer that its connection will not be
// used again (over HTTP/2 this becomes a GOAWAY), so that clients do not send a next request into its end.
func (s *service) announceLeaving(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&leavingWriter{w, &s.leaving}, r)
	})
}

type leavingWriter struct {
	http.ResponseWriter
	leaving *atomic.Bool
}

// WriteHeader decides as late as possible: most requests under way at the signal began before it.
func (w *leavingWriter) WriteHeader(status int) {
	if w.leaving.Load() {
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets a ResponseController through.
func (w *leavingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// secondSignalAfter is when a signal counts as a second one. What comes sooner is the first once more: a supervisor that
// signals a process and its group, a shell and the program it runs both passing on one Ctrl-C.
const secondSignalAfter = time.Second

// exitAnyway ends the process at a second signal, and when timeout is over whatever still hangs. The function returned
// calls it off.
func (p *process) exitAnyway(timeout time.Duration, logger zerolog.Logger) (callOff func()) {
	done := make(chan struct{})
	begun := time.Now()
	over := time.After(timeout)
	var watching sync.WaitGroup
	watching.Go(func() {
		for waiting := true; waiting; {
			select {
			case <-done:
				return
			case <-p.signals:
				if waiting = time.Since(begun) < secondSignalAfter; !waiting {
					logger.Warn().Msg("second signal: ending at once")
				}
			case <-over:
				waiting = false
				logger.Error().Msg("the time for stopping is over: ending at once")
			}
		}
		p.exit(exitFailed)
	})
	return func() {
		close(done)
		watching.Wait()
	}
}
