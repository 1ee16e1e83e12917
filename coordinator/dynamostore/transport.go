package dynamostore

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

const (
	dialTimeout = time.Second
	// idleTimeout is less than what the service and balancers before it allow.
	idleTimeout = 20 * time.Second
	// maxAnswer is more than a page of a query can be: 1 MiB, in base64, with every name spelt out.
	maxAnswer = 16 << 20
)

// httpClient sends one request, once, and knows whether any of it left the process.
type httpClient struct {
	transport *http.Transport
	timeout   time.Duration
}

// newHTTPClient makes connections that are noticed when they die: HTTP/1.1 only, so that a silent one holds up one
// request and not all of them; keep-alive probes by the system; and a look at each idle one before its next use.
func newHTTPClient(o *Options) *httpClient {
	dialer := &net.Dialer{
		Timeout:         min(dialTimeout, o.Timeout),
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3},
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		Protocols:           protocols,
		TLSHandshakeTimeout: o.Timeout,
		MaxIdleConns:        o.MaxConns,
		MaxIdleConnsPerHost: o.MaxConns,
		MaxConnsPerHost:     o.MaxConns,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return newConn(c), nil
		},
	}
	// The configuration may bring its own certificate authorities.
	if given, ok := o.AWS.HTTPClient.(*awshttp.BuildableClient); ok {
		t.TLSClientConfig = given.GetTransport().TLSClientConfig.Clone()
	}
	return &httpClient{transport: t, timeout: o.Timeout}
}

// sending is what is known of one write on its way.
type sending struct{ sent bool }

type sendingKey struct{}

// track makes a context whose requests note in sending whether they left.
func track(ctx context.Context) (context.Context, *sending) {
	s := &sending{}
	return context.WithValue(ctx, sendingKey{}, s), s
}

// Do implements the SDK's HTTPClient. The answer is read whole: what fails after its first byte fails here.
func (c *httpClient) Do(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), c.timeout)
	defer cancel()
	used := &connUse{}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: used.got})
	r, err := replayable(r.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	answer, err := c.transport.RoundTrip(r)
	// The transport has ended its writing when it returns: what has not left by then will not.
	if s, ok := ctx.Value(sendingKey{}).(*sending); ok && (err == nil || used.wrote()) {
		s.sent = true
	}
	if err == nil {
		err = slurp(answer)
	}
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			// Where one connection went silent, the idle ones of the same path may have too.
			c.transport.CloseIdleConnections()
		}
		return nil, err
	}
	return answer, nil
}

// replayable gives the request a body that the transport can send again. It does so only when a connection turned out
// dead before a byte of the request was written to it.
func replayable(r *http.Request) (*http.Request, error) {
	if r.Body == nil {
		return r, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, err = r.GetBody()
	return r, err
}

func slurp(answer *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	closeErr := answer.Body.Close()
	switch {
	case err != nil:
		return fmt.Errorf("read answer: %w", err)
	case closeErr != nil:
		return fmt.Errorf("close answer: %w", closeErr)
	case len(body) > maxAnswer:
		return fmt.Errorf("read answer: it has more than %d bytes", maxAnswer)
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// connUse watches the connection that a request was given last.
type connUse struct {
	conn   net.Conn
	ours   *conn
	before int64
}

func (u *connUse) got(info httptrace.GotConnInfo) {
	u.conn, u.ours = info.Conn, nil
	under := info.Conn
	for {
		if ours, ok := under.(*conn); ok {
			u.ours, u.before = ours, ours.written.Load()
			return
		}
		over, ok := under.(*tls.Conn)
		if !ok {
			return
		}
		under = over.NetConn()
	}
}

// wrote reports whether a byte has left on the connection since the request got it; if that cannot be known, it says
// yes.
func (u *connUse) wrote() bool {
	return u.conn != nil && (u.ours == nil || u.ours.written.Load() != u.before)
}
