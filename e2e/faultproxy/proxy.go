// Package faultproxy stands between a server and its stores and makes them misbehave: one request, or every one that a
// rule matches, is delayed, refused, lost, answered and forwarded minutes later, cut, or swallowed. It knows the requests
// of S3 and of DynamoDB by their operations, counts them, and passes signed ones, since it leaves the host they were
// signed for. README.md tells each fault from the next.
package faultproxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"
)

// maxBody bounds the body of a request or reply: more than an object, or a page of a listing.
const maxBody = 64 << 20

// forwardTimeout bounds a request to the store itself. It is longer than what any caller waits for.
const forwardTimeout = 2 * time.Minute

// Proxy is a server on a loopback port. All methods may be called at once.
type Proxy struct {
	*httptest.Server
	target    *url.URL
	transport *http.Transport
	life      context.Context // ends with Close
	end       context.CancelFunc
	late      sync.WaitGroup // of requests that are forwarded by themselves, later

	mu      sync.Mutex
	divert  Match // what is the other proxy's; nil: nothing
	to      *Proxy
	rule    Rule
	counts  map[string]int
	watch   func(Request)
	kept    []*kept
	forward map[string]int // requests that reached the store
}

// Start puts a proxy before the store at a URL until the test ends.
func Start(tb testing.TB, to string) *Proxy {
	tb.Helper()
	p, err := New(to)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// New is Start for whoever closes the proxy himself.
func New(to string) (*Proxy, error) {
	target, err := url.Parse(to)
	if err != nil || target.Host == "" {
		return nil, fmt.Errorf("fault proxy: %q is not the URL of a store: %v", to, err)
	}
	p := &Proxy{
		target:    target,
		transport: &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true},
		counts:    map[string]int{}, forward: map[string]int{},
	}
	p.life, p.end = context.WithCancel(context.Background())
	p.Server = httptest.NewServer(p)
	return p, nil
}

// Close ends the proxy, and what it swallows or holds. What is still to be forwarded later is dropped.
func (p *Proxy) Close() {
	p.end()
	p.CloseClientConnections()
	p.Server.Close()
	p.late.Wait()
	p.transport.CloseIdleConnections()
}

// On sets the rule from now on; nil for none.
func (p *Proxy) On(rule Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = rule
}

// Divert gives the requests that match to another proxy, as if they had come there: two stores that are one bucket fail apart.
func (p *Proxy) Divert(match Match, to *Proxy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.divert, p.to = match, to
}

// Watch has every request told before it is judged; nil ends it. Requests at once call it at once.
func (p *Proxy) Watch(watch func(Request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch = watch
}

// Counted is how many requests of each operation came since the last call.
func (p *Proxy) Counted() map[string]int { return p.take(p.counts) }

// Forwarded is how many requests of each operation the store was given since the last call, late ones too.
func (p *Proxy) Forwarded() map[string]int { return p.take(p.forward) }

func (p *Proxy) take(counts map[string]int) map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := maps.Clone(counts)
	clear(counts)
	return taken
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil || len(body) > maxBody {
		hangUp(w) // the client has gone, or is not one of ours
		return
	}
	request := newRequest(r, body)
	p.mu.Lock()
	divert, to := p.divert, p.to
	p.mu.Unlock()
	if divert != nil && divert(request) {
		p = to
	}
	p.mu.Lock()
	p.counts[request.Op]++
	rule, watch := p.rule, p.watch
	p.mu.Unlock()
	if watch != nil {
		watch(request)
	}
	var fault Fault
	if rule != nil {
		fault = rule(request)
	}
	p.play(fault, w, r, request)
}

// reply is what the store answered, read to its end.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// send gives the store a request and reads its answer.
func (p *Proxy) send(ctx context.Context, request Request) (reply, error) {
	p.mu.Lock()
	p.forward[request.Op]++
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	at := *request.URL
	at.Scheme, at.Host = p.target.Scheme, p.target.Host
	out, err := http.NewRequestWithContext(ctx, request.Method, at.String(), bytes.NewReader(request.Body))
	if err != nil {
		return reply{}, fmt.Errorf("forward %s: %w", request.Op, err)
	}
	out.URL = &at // as it was signed, also where a URL could be written otherwise
	out.Host, out.Header = request.Host, request.Header.Clone()
	out.Header.Del("Connection")
	answer, err := p.transport.RoundTrip(out)
	if err != nil {
		return reply{}, fmt.Errorf("forward %s: %w", request.Op, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxBody))
	if err != nil {
		return reply{}, fmt.Errorf("forward %s: read the answer: %w", request.Op, err)
	}
	return reply{answer.StatusCode, answer.Header, body}, nil
}
