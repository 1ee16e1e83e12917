package client_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/client"
	"github.com/tailrace-streams/tailrace/wire"
)

// scripted is a server that does to each request of one kind what the next step of a script says, and remembers what it
// was sent. It holds no stream: what a real one does is for the end-to-end tests.
type scripted struct {
	*httptest.Server
	t *testing.T

	mu    sync.Mutex
	steps []http.HandlerFunc
	seen  []*http.Request
}

func serve(t *testing.T, steps ...http.HandlerFunc) *scripted {
	t.Helper()
	s := &scripted{t: t, steps: steps}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.next))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// next plays a step; the last is played again and again.
func (s *scripted) next(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	step := s.steps[min(len(s.seen), len(s.steps)-1)]
	s.seen = append(s.seen, r)
	s.mu.Unlock()
	step(w, r)
}

func (s *scripted) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*http.Request(nil), s.seen...)
}

// stream is a handle by a client that does not wait long.
func (s *scripted) stream(o client.Options) *client.Stream {
	s.t.Helper()
	if o.Retry.MinDelay == 0 {
		o.Retry.MinDelay, o.Retry.MaxDelay = time.Millisecond, 5*time.Millisecond
	}
	c, err := client.New(s.URL, o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c.Basin("scripted").Stream("s")
}

// refuse answers with an error.
func refuse(err error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		arrived(r)
		wire.WriteError(w, err)
	}
}

// arrived reads the request, unless it is a session: that sends nothing before it has an answer.
func arrived(r *http.Request) {
	if r.Header.Get("Content-Type") != wire.MediaS2S {
		_, _ = io.Copy(io.Discard, r.Body)
	}
}

// hang never answers.
func hang(_ http.ResponseWriter, r *http.Request) {
	arrived(r) // without that the server does not notice that the client goes
	<-r.Context().Done()
}

// hangUp reads the request, which has then arrived, and closes the connection.
func hangUp(_ http.ResponseWriter, r *http.Request) {
	arrived(r)
	panic(http.ErrAbortHandler)
}

// acknowledge answers an append with a place.
func acknowledge(start, end uint64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", wire.MediaProto)
		_, _ = w.Write(wire.EncodeAckProto(nil, ackOf(start, end)))
	}
}

func ackOf(start, end uint64) wire.AppendAck {
	return wire.AppendAck{Start: client.Position{SeqNum: start}, End: client.Position{SeqNum: end}, Tail: client.Position{SeqNum: end}}
}

// sessionOf opens a session and plays it: in gives the inputs, out the answers.
func sessionOf(play func(in *wire.FrameReader, out *wire.FrameWriter)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", wire.MediaS2S)
		w.WriteHeader(http.StatusOK)
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		_ = control.Flush()
		play(wire.NewFrameReader(r.Body), wire.NewFrameWriter(flushing{w, control}, wire.CompressionNone))
	}
}

type flushing struct {
	w       io.Writer
	control *http.ResponseController
}

func (f flushing) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	if err == nil {
		err = f.control.Flush()
	}
	return n, err
}

// bounded is a context by which a test that hangs fails.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func text(s string) client.AppendRecord { return client.Text(s) }

// unavailable is in doubt, draining is not.
var (
	unavailable = wire.Errorf(wire.CodeUnavailable, "in doubt")
	draining    = wire.Errorf(wire.CodeServerDraining, "going away")
)

// proper fails the test if a text shows a secret.
func proper(t *testing.T, what, shown, secret string) {
	t.Helper()
	if strings.Contains(shown, secret) {
		t.Errorf("%s shows the secret: %s", what, shown)
	}
}
