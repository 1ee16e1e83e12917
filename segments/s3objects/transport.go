package s3objects

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	dialTimeout   = 2 * time.Second
	idleTimeout   = 30 * time.Second
	idlePerHost   = 64
	bufferBytes   = 32 << 10
	maxRetryAfter = 30 * time.Second
)

// newTransport makes connections that die early. HTTP/1.1 only, which is what S3 speaks: there a request that is given up
// takes its connection with it, while one silent HTTP/2 connection holds all requests until TCP gives up (BL-130).
func newTransport(o Options) *http.Transport {
	dial := o.Dial
	if dial == nil {
		dial = (&net.Dialer{
			Timeout:         dialTimeout,
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3},
		}).DialContext
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dial,
		Protocols:           protocols,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs},
		TLSHandshakeTimeout: dialTimeout,
		MaxConnsPerHost:     o.MaxConnections,
		MaxIdleConns:        idlePerHost,
		MaxIdleConnsPerHost: idlePerHost,
		IdleConnTimeout:     idleTimeout,
		WriteBufferSize:     bufferBytes,
		ReadBufferSize:      bufferBytes,
		DisableCompression:  true, // objects come back as they are
	}
}

// Stats counts what was sent since the start, by this process.
type Stats struct {
	// Requests is all requests that left, Repeated those sent because one before them failed, Hedged those sent beside a
	// GET that was slow.
	Requests, Repeated, Hedged uint64
}

// meter is the layer under the client library: it sees every request and every answer.
type meter struct {
	next  *http.Transport
	clock storeClock
	keys  *keyring

	requests, repeated, hedged atomic.Uint64
}

// RoundTrip implements http.RoundTripper.
func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	m.requests.Add(1)
	sent := m.clock.now()
	if offset := m.clock.read().Offset; offset.Abs() >= maxSkew {
		req = resign(req, m.keys.current(), sent.Add(offset))
	}
	a := attemptOf(req.Context())
	if a != nil && a.body != nil && req.GetBody == nil {
		// On a connection that turned out dead before a byte of the request was written to it, net/http takes another.
		again := *req
		again.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(a.body)), nil }
		req = &again
	}
	resp, err := m.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	m.clock.observe(sent, resp.Header)
	if a != nil {
		if req.Method == http.MethodPut {
			a.tag = resp.Header.Get("ETag")
		}
		a.retryAfter.Store(int64(retryAfter(resp.Header.Get("Retry-After"))))
	}
	return resp, nil
}

// retryAfter reads the header of that name, of which stores send only the form in seconds; 0 if it asks for nothing.
func retryAfter(header string) time.Duration {
	seconds, err := strconv.ParseUint(header, 10, 32)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}

// attemptKey is where a context has the attempt it belongs to.
type attemptKey struct{}

// attemptOf is nil for requests that are none of a call's.
func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}
