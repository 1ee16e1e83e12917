package client

import (
	"net"
	"net/http"
	"time"
)

const (
	// idleTimeout closes connections that nobody uses, before the load balancers in between do (60 s is a usual bound).
	idleTimeout = 50 * time.Second
	// connsPerHostIdle is how many HTTP/1.1 connections are kept for the next call.
	connsPerHostIdle = 64
	// pingAfter is after how long without a byte an HTTP/2 connection is asked whether it lives, and pingTimeout how long
	// it has to answer. A dead one then fails what waits on it, instead of making it wait for its own time-out.
	pingAfter   = 5 * time.Second
	pingTimeout = 5 * time.Second
)

// connect sets the transports. On http, calls go over HTTP/1.1, which everything in between understands, and sessions over
// HTTP/2 with prior knowledge, as with the S2 SDKs. On https, HTTP/2 is agreed on for both.
func (c *Client) connect() {
	c.unary, c.sessions = c.o.Transport, c.o.SessionTransport
	if c.unary == nil {
		c.unary = c.transport(func(p *http.Protocols) {
			p.SetHTTP1(true)
			p.SetHTTP2(true)
		})
	}
	if c.sessions == nil {
		c.sessions = c.transport(func(p *http.Protocols) {
			p.SetUnencryptedHTTP2(true)
			p.SetHTTP2(true)
		})
	}
}

func (c *Client) transport(choose func(*http.Protocols)) *http.Transport {
	dialer := &net.Dialer{Timeout: c.o.ConnectTimeout, KeepAlive: 15 * time.Second}
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: c.o.ConnectTimeout,
		MaxIdleConnsPerHost: connsPerHostIdle,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  c.o.Compression == CompressionNone,
		Protocols:           new(http.Protocols),
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
	if c.o.TLS != nil {
		t.TLSClientConfig = c.o.TLS.Clone()
		t.TLSClientConfig.NextProtos = nil // the transport names its protocols
	}
	choose(t.Protocols)
	c.owned = append(c.owned, t)
	return t
}
