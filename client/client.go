package client

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tailrace-streams/tailrace/wire"
)

// Compression is how frames of sessions are compressed.
type Compression = wire.Compression

// The compressions of S2. None is the default.
const (
	CompressionNone = wire.CompressionNone
	CompressionZstd = wire.CompressionZstd
	CompressionGzip = wire.CompressionGzip
)

// Options configure a [Client]. The zero Options are fine for a server on this machine.
type Options struct {
	// Token is the access token; empty sends none.
	Token Secret
	// BasinEndpoint is where basins' own paths are; empty means the client's endpoint. With "{basin}" in its host the
	// basin is part of the host name, as in https://{basin}.b.example.com; without, it is a header.
	BasinEndpoint string
	// Retry says how often and when requests are sent again.
	Retry Retry
	// AttemptTimeout bounds one attempt of a call, and the wait for one acknowledgement in a session. Default 15 s: longer
	// than a Tailrace server takes to find out what became of an append, so that doubt is rarely of the client's making.
	// What a call itself asks the server to wait is added.
	AttemptTimeout time.Duration
	// ConnectTimeout bounds the making of a connection. Default 3 s.
	ConnectTimeout time.Duration
	// SilenceTimeout is after how long without a frame a read session counts as dead. Default 20 s: servers send a
	// heartbeat at least every 15.
	SilenceTimeout time.Duration
	// Compression compresses the frames of append sessions, and asks for compressed answers.
	Compression Compression
	// UserAgent is sent with every request.
	UserAgent string
	// TLS is for the client's own transports on https, calls and sessions alike: roots to trust, a certificate to present.
	// It is copied; HTTP/2 is agreed on whatever it says. Nil trusts the system's roots.
	TLS *tls.Config
	// Transport makes requests, and SessionTransport those of sessions; nil means the client's own. On http a session needs
	// HTTP/2 with prior knowledge, or an HTTP/1.1 that answers while it still reads.
	Transport, SessionTransport http.RoundTripper
}

const (
	attemptTimeoutDefault = 15 * time.Second
	connectTimeoutDefault = 3 * time.Second
	silenceTimeoutDefault = 20 * time.Second
	userAgentDefault      = "tailrace-go"
)

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		to   *time.Duration
		with time.Duration
	}{
		{&o.AttemptTimeout, attemptTimeoutDefault},
		{&o.ConnectTimeout, connectTimeoutDefault},
		{&o.SilenceTimeout, silenceTimeoutDefault},
	} {
		if *d.to <= 0 {
			*d.to = d.with
		}
	}
	if o.UserAgent == "" {
		o.UserAgent = userAgentDefault
	}
	o.Retry = o.Retry.withDefaults()
	return o
}

// Client talks to one server, or to many behind one address. It is safe for use by many goroutines at once, and one is
// enough for a program: its connections are shared.
type Client struct {
	account endpoint
	basins  endpoint
	token   sealed
	retry   Retry
	o       Options // without the token

	unary, sessions http.RoundTripper
	owned           []*http.Transport // the transports that Close closes
}

// New makes a client of the server at an endpoint, such as "http://127.0.0.1:8080". A path other than "/v1" is kept in
// front of that of requests. It makes no request.
func New(server string, o Options) (*Client, error) {
	account, err := parseEndpoint(server)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	basins := account
	if o.BasinEndpoint != "" {
		if basins, err = parseEndpoint(o.BasinEndpoint); err != nil {
			return nil, fmt.Errorf("make client: %w", err)
		}
	}
	o = o.withDefaults()
	c := &Client{account: account, basins: basins, token: seal(o.Token), retry: o.Retry}
	o.Token = ""
	c.o = o
	c.connect()
	return c, nil
}

// Close closes connections that are idle. Calls and sessions under way go on.
func (c *Client) Close() {
	for _, t := range c.owned {
		t.CloseIdleConnections()
	}
}

// String names the client by its server alone.
func (c *Client) String() string { return "client of " + c.account.base }

// GoString is String: what is printed of a client hides its token.
func (c *Client) GoString() string { return c.String() }

// basinMark stands for the basin in the host of an endpoint.
const basinMark = "{basin}"

// endpoint is where requests go: scheme, host and a path up to and with /v1.
type endpoint struct{ base string }

func parseEndpoint(text string) (endpoint, error) {
	if !strings.Contains(text, "://") {
		return endpoint{}, fmt.Errorf("endpoint: it has no scheme, which is http:// or https://")
	}
	// A host with braces is none to net/url, so the mark is looked at with a name in its place.
	u, err := url.Parse(strings.Replace(text, basinMark, "basin", 1))
	switch {
	case err != nil:
		return endpoint{}, fmt.Errorf("endpoint: it is no URL of the form http://HOST:PORT")
	case u.Scheme != "http" && u.Scheme != "https":
		return endpoint{}, fmt.Errorf("endpoint: its scheme is http or https, not %q", u.Scheme)
	case u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return endpoint{}, fmt.Errorf("endpoint: it is a scheme, a host and perhaps a path, nothing else")
	}
	return endpoint{base: strings.TrimSuffix(strings.TrimSuffix(text, "/"), "/v1") + "/v1"}, nil
}

// of is the endpoint for a basin, and whether the basin must be named by a header.
func (e endpoint) of(basin string) (base string, header bool) {
	if strings.Contains(e.base, basinMark) {
		// What is no basin's name must not become another host, which would get the token: escaped, it is none.
		return strings.Replace(e.base, basinMark, url.QueryEscape(basin), 1), false
	}
	return e.base, true
}
