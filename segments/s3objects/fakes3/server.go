// Package fakes3 is a small S3 server in the test's own process that can be made to misbehave. It does what Tailrace asks of
// a store and no more, keeps everything in memory, and never lies unless it is told to: see Fault for one request, Quirks
// for a store that is always so.
package fakes3

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"
)

// Bucket is the one bucket that is there from the start.
const Bucket = "bucket"

// Server is the store. All methods may be called at once.
type Server struct {
	// URL is the endpoint.
	URL string
	// Roots is what an https endpoint is to be trusted by; nil for http.
	Roots *x509.CertPool
	// Dial connects to a server of StartPipe; nil for the others, which are on the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	http *httptest.Server
	late sync.WaitGroup // requests to be done after they were answered

	mu       sync.Mutex
	now      func() time.Time
	buckets  map[string]*bucket
	keys     *Keys
	rule     Rule
	quirks   Quirks
	requests []Request
	opened   int // connections so far; the n-th has number n
	frozen   int // those up to this number are silent
	racers   map[string]chan struct{}

	conflicts map[string]int // by key, how many there were since the last write
}

// Keys are the credentials a server insists on.
type Keys struct{ AccessKeyID, SessionToken string }

// Start runs a server on a loopback port until the test ends.
func Start(tb testing.TB) *Server {
	s := newServer()
	s.http = httptest.NewUnstartedServer(s)
	s.run(tb, s.http.Start)
	return s
}

// StartTLS is Start with https.
func StartTLS(tb testing.TB) *Server {
	s := newServer()
	s.http = httptest.NewUnstartedServer(s)
	s.run(tb, s.http.StartTLS)
	s.Roots = x509.NewCertPool()
	s.Roots.AddCert(s.http.Certificate())
	return s
}

// StartPipe runs a server on connections in memory, so that inside a testing/synctest bubble time passes only while all
// wait. Close it before the bubble ends.
func StartPipe(tb testing.TB) *Server {
	s := newServer()
	pipes := newPipes()
	s.http = &httptest.Server{Listener: pipes, Config: &http.Server{Handler: s}}
	s.run(tb, s.http.Start)
	s.URL, s.Dial = "http://fake.s3.test", pipes.dial
	return s
}

func newServer() *Server {
	return &Server{
		now: time.Now, buckets: map[string]*bucket{Bucket: newBucket()}, racers: map[string]chan struct{}{},
		conflicts: map[string]int{},
	}
}

func (s *Server) run(tb testing.TB, start func()) {
	s.http.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.opened++
		return context.WithValue(ctx, connKey{}, s.opened)
	}
	start()
	s.URL = s.http.URL
	tb.Cleanup(s.Close)
}

// Close ends the server, with what it holds back. It may be called again.
func (s *Server) Close() {
	s.CloseConnections() // some may wait for a request that never ends
	s.http.Close()
	s.late.Wait()
}

// connKey is where a request's context has the number of its connection.
type connKey struct{}

// CloseConnections ends all connections, as a restart does.
func (s *Server) CloseConnections() { s.http.CloseClientConnections() }

// FreezeConnections makes all connections that are open silent for good, as a lost route does: what is sent on them is
// neither done nor answered. New ones work.
func (s *Server) FreezeConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = s.opened
}

// SetClock sets the server's clock; time.Now is the default.
func (s *Server) SetClock(now func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

// Require makes the server refuse requests signed with other credentials. It looks at who signed and not at the signature.
func (s *Server) Require(keys Keys) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = &keys
}

// Requests returns all requests so far, in the order in which they came.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Count is how many requests of an operation came; all, if it is empty.
func (s *Server) Count(op Op) int {
	n := 0
	for _, r := range s.Requests() {
		if op == "" || r.Op == op {
			n++
		}
	}
	return n
}

// Keys are those of the objects in Bucket, in bytewise order.
func (s *Server) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(s.buckets[Bucket].names())
}

// Object returns the bytes of an object in Bucket.
func (s *Server) Object(key string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.buckets[Bucket].objects[key]
	if o == nil {
		return nil, false
	}
	return slices.Clone(o.data), true
}

// SetObject puts an object into Bucket, as if somebody else had.
func (s *Server) SetObject(key string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buckets[Bucket].put(key, slices.Clone(data), s.now(), s.quirks.OneETag)
}

// DeleteObject removes an object from Bucket, as if somebody else had.
func (s *Server) DeleteObject(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.buckets[Bucket].objects, key)
}

// pipes is a listener whose connections are pairs of net.Pipe.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.done:
		return nil, errors.New("fakes3: server is closed")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }
