package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/tenancy"
	"github.com/tailrace-streams/tailrace/wire"
)

// headerRequestID carries the name of a request, given by the client or by us, to the answer and the log.
const headerRequestID = "X-Request-Id"

// requestIDMax bounds a request id from outside; it is written into every log line of the request.
const requestIDMax = 128

// pathLogMax bounds how much of a path is logged: a name can have 512 bytes, each three times as long when escaped.
const pathLogMax = 256

// ServeHTTP is the outermost layer: it names the request, answers for panics, and leaves one line in the log.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started := h.o.Now()
	x := &exchange{
		ResponseWriter: w, control: http.NewResponseController(w), id: requestID(r.Header.Get(headerRequestID)),
		writeTimeout: h.o.WriteTimeout, unread: unreadBody(r),
	}
	x.bounded, _ = w.(Bounded)
	x.Header().Set(headerRequestID, x.id)
	if h.server != "" {
		x.Header().Set("Server", h.server)
	}
	// A deadline of the last answer on this connection is still armed. This one is armed when the answer begins.
	_ = x.control.SetWriteDeadline(time.Time{})
	if r.ContentLength != 0 {
		// Until the body has been read. net/http drains what a handler leaves of one before it answers, so this bounds
		// a request that is refused early, too.
		_ = x.control.SetReadDeadline(time.Now().Add(h.o.BodyTimeout))
	}
	h.metrics.inFlight.Inc()
	defer func() {
		value := recover()
		begun := x.status != 0
		if value != nil && value != http.ErrAbortHandler {
			h.panicked(x, r, value)
		}
		h.finish(x, r, h.o.Now().Sub(started))
		if value != nil && (begun || x.status == 0) {
			panic(http.ErrAbortHandler) // cuts the connection: what the client has must not look whole
		}
	}()
	if !h.o.DisableCORS && cors(x, r) {
		return
	}
	asked, err := h.authenticate(x, r)
	if err != nil {
		h.refuseUnread(x, r, err)
		return
	}
	h.routing.ServeHTTP(x, asked)
}

// finish gives back what a request held and writes it up.
func (h *handler) finish(x *exchange, r *http.Request, took time.Duration) {
	x.endAudit()
	h.budget.release(x)
	h.metrics.inFlight.Dec()
	h.metrics.observe(x, took)
	h.logRequest(x, r, took)
}

// panicked answers for a handler that panicked, as far as an answer has not begun.
func (h *handler) panicked(x *exchange, r *http.Request, value any) {
	h.o.Log.Error().Str("request_id", x.id).Str("route", x.route).Str("panic", fmt.Sprint(value)).
		Bytes("stack", debug.Stack()).Msg("handler panicked")
	h.fail(x, r, errPanic)
}

var (
	errPanic = errors.New("handler panicked")
	// errHangup: a client that was being answered is gone, or too slow.
	errHangup = errors.New("the client does not take the answer")
)

// fail answers a request with an error, unless an answer has begun.
func (h *handler) fail(x *exchange, r *http.Request, err error) {
	if readOnly(r) {
		err = unapplied{err}
	}
	if x.good != nil && errors.Is(err, context.Canceled) {
		// What was under way was given up because of the token, and knows only that it was.
		if ended := authenticationEnded(x.good); ended != nil {
			err = unapplied{ended}
		}
	}
	x.failure = err
	if x.status != 0 {
		return
	}
	if errors.Is(err, tenancy.ErrUnauthenticated) {
		x.Header().Set("WWW-Authenticate", "Bearer")
	}
	wire.WriteError(x, wireError(err))
}

// readOnly reports whether a request asks to change nothing.
func readOnly(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// requestID takes over an id that is fit to be logged and sent back, or makes one.
func requestID(given string) string {
	if given == "" || len(given) > requestIDMax {
		return uuid.NewString()
	}
	for i := range len(given) {
		if c := given[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return uuid.NewString()
		}
	}
	return given
}

// logRequest writes the one line of a request. Headers, queries and bodies stay out of it: they hold tokens, keys and
// records. The cause of a failure is told for those that are ours; a client's own is in its code.
func (h *handler) logRequest(x *exchange, r *http.Request, took time.Duration) {
	level := zerolog.InfoLevel
	switch {
	case x.status >= http.StatusInternalServerError && x.status != http.StatusNotImplemented:
		level = zerolog.WarnLevel
	case x.status < http.StatusBadRequest && (x.failure == nil || gone(x.failure)):
		level = zerolog.DebugLevel // ending a stream by going away is what readers do
	}
	e := h.o.Log.WithLevel(level)
	if e == nil || h.o.Log.GetLevel() > level {
		return
	}
	path := r.URL.EscapedPath()
	e = e.Str("request_id", x.id).Str("method", r.Method).Str("path", path[:min(len(path), pathLogMax)]).
		Str("route", x.route).Int("status", x.status).Dur("took", took).Int64("bytes_in", x.in).Int64("bytes_out", x.out)
	if x.failure != nil {
		e = describeFailure(e, x.failure)
	}
	e.Msg("request")
}

func gone(err error) bool { return errors.Is(err, context.Canceled) || errors.Is(err, errHangup) }

func describeFailure(e *zerolog.Event, failure error) *zerolog.Event {
	var w *wire.Error
	if !errors.As(wireError(failure), &w) {
		return e // a condition that failed: its status says it
	}
	e = e.Str("code", string(w.Code)).Str("applied", string(w.Effect()))
	if w.Status() < http.StatusInternalServerError {
		return e
	}
	var doubt *coordinator.Indefinite
	if errors.As(failure, &doubt) {
		e = e.Bool("indefinite", true)
	}
	return e.Err(failure)
}
