package lambda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/wire"
)

// Options are what a function is made of.
type Options struct {
	Name Name
	// Handler is the whole API; of it only the function's own part is served.
	Handler http.Handler
	// Streaming says that the function's URL is in the mode RESPONSE_STREAM. Events do not tell.
	Streaming bool
	// Settle waits until nothing that answers have led to is under way (coordinator.Coordinator.Settle).
	Settle func(context.Context) error
	// Await returns once the stores are open, which is mostly at once.
	Await func(context.Context) error
	// Maintain does what is due, until its context ends; for the maintain function.
	Maintain func(context.Context) (json.RawMessage, error)
	Log      zerolog.Logger
}

// Server answers the events of one function. Its methods may be called at once.
type Server struct{ o Options }

// New makes a server. It starts nothing.
func New(o Options) *Server {
	nothing := func(context.Context) error { return nil }
	if o.Settle == nil {
		o.Settle = nothing
	}
	if o.Await == nil {
		o.Await = nothing
	}
	return &Server{o}
}

// What is kept of the time that the platform gives an invocation: for the answer, and for what has to be done before it.
const (
	marginShare = 10
	marginMost  = time.Second
	// gatewayTime is how long API Gateway waits for a function, less the way there and back.
	gatewayTime = 28 * time.Second
)

// deadlines gives the times by which a request should be answered, and after which an answer that is on its way is cut.
func deadlines(ctx context.Context, k kind) (answer, cut time.Time) {
	now := time.Now()
	end, ok := ctx.Deadline()
	if !ok {
		end = now.Add(15 * time.Minute)
	}
	if k == gatewayV1 || k == gatewayV2 {
		end = minTime(end, now.Add(gatewayTime))
	}
	margin := min(max(end.Sub(now), 0)/marginShare, marginMost)
	return end.Add(-margin), end.Add(-margin / 4)
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Handle answers an event: with a json.RawMessage, or with an answer that streams. An error is for the platform, which
// counts it as a failure of the function and may send an asynchronous event or a batch again: it is returned only for
// events that nobody could answer, and where nothing was done.
func (s *Server) Handle(ctx context.Context, event json.RawMessage) (any, error) {
	k, err := kindOf(event)
	if err != nil {
		return nil, err
	}
	if err := s.takes(k); err != nil {
		return nil, err
	}
	if err := s.o.Await(ctx); err != nil {
		s.o.Log.Error().Err(err).Msg("the stores are not open")
		// Their calls fail at once, definitely: requests are answered so.
	}
	switch k {
	case direct:
		return s.direct(ctx, event)
	case queue:
		return s.batch(ctx, event)
	case schedule:
		return s.maintain(ctx)
	}
	return s.http(ctx, k, event)
}

// takes refuses the kinds of events that belong to another function.
func (s *Server) takes(k kind) error {
	switch {
	case k == queue && s.o.Name != Append:
		return fmt.Errorf("%w: this is the function %s; SQS batches belong to append", ErrEvent, s.o.Name)
	case k == schedule && s.o.Name != Maintain:
		return fmt.Errorf("%w: this is the function %s; schedules belong to maintain", ErrEvent, s.o.Name)
	}
	return nil
}

// http answers an HTTP request.
func (s *Server) http(ctx context.Context, k kind, event []byte) (any, error) {
	answer, cut := deadlines(ctx, k)
	within, cancel := context.WithDeadline(ctx, answer)
	r, refusal := requestOf(within, k, event)
	if errors.Is(refusal, ErrEvent) {
		cancel()
		return nil, refusal
	}
	var h http.Handler = refuse{refusal}
	if refusal == nil {
		h = s.mine(r)
	} else {
		r, _ = http.NewRequestWithContext(within, http.MethodGet, "/", nil) // constants
	}
	if k == functionURL && s.o.Streaming {
		until, stop := context.WithDeadline(ctx, cut)
		return stream(until, h, r, func() {
			s.settle(until)
			cancel()
			stop()
		}), nil
	}
	defer cancel()
	w := newRecorder(k)
	if err := serve(h, w, r); err != nil {
		return nil, err
	}
	s.settleBy(ctx, cut)
	return w.answer(k)
}

// requestOf turns an event into a request. An error that does not match ErrEvent is the client's to read.
func requestOf(ctx context.Context, k kind, event []byte) (*http.Request, error) {
	c, err := parse(k, event)
	if errors.Is(err, errBody) {
		return nil, wire.Errorf(wire.CodeBadJSON, "the body is not the base64 that the event says it is").Because(err)
	}
	if err != nil {
		return nil, err
	}
	return c.request(ctx)
}

// settle waits for what the answer has led to. What does not end in time is safe to stop: the next commit of the stream, or
// maintenance, does it again.
func (s *Server) settle(ctx context.Context) {
	if err := s.o.Settle(ctx); err != nil {
		s.o.Log.Warn().Err(err).Msg("answering before all that was owed is done")
	}
}

func (s *Server) settleBy(ctx context.Context, end time.Time) {
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	s.settle(ctx)
}

// mine is the handler of a request: the API's, if the request belongs to this function.
func (s *Server) mine(r *http.Request) http.Handler {
	owner := owner(r.Method, r.URL.EscapedPath())
	switch {
	case owner != "" && owner != s.o.Name:
		return refuse{wire.Errorf(wire.CodeNotImplemented, "this is the function %s; %s %s is served by the function %s",
			s.o.Name, r.Method, shape(r.URL.EscapedPath()), owner)}
	case r.Method == http.MethodPost && isSession(r.Header):
		return refuse{wire.Errorf(wire.CodeNotImplemented, "append sessions need a connection that is open both ways, which functions "+
			"do not have: append with one request a batch, in JSON or protobuf, or through a server (tailrace serve)")}
	}
	return s.o.Handler
}

func isSession(h http.Header) bool {
	mode, _ := wire.NegotiateAppend(h.Get("Content-Type"), h.Get("Accept"))
	return mode == wire.AppendSession
}

// shape is a path without its names, for messages.
func shape(path string) string {
	elements := strings.Split(path, "/")
	if len(elements) > 3 {
		elements[3] = "…"
	}
	return strings.Join(elements, "/")
}

// refuse answers with an error, whatever is asked.
type refuse struct{ err error }

// ServeHTTP implements http.Handler.
func (h refuse) ServeHTTP(w http.ResponseWriter, _ *http.Request) { wire.WriteError(w, h.err) }
