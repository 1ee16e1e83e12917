package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// What one connection may take. How long a body or an answer may take is the handler's to bound: a session or an event
// stream goes on for as long as it likes.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 5 * time.Minute
	headerBytes   = 64 << 10 // a stream's name is at most 1.5 KiB in a path, a bearer token a few
	// streamsPerConnection bounds the requests at once on one HTTP/2 connection; SDKs presume at least 100.
	streamsPerConnection = 1000
	pingAfter            = 30 * time.Second // a silent HTTP/2 connection is asked whether it lives
	pingTimeout          = 15 * time.Second
	stalledWrite         = 30 * time.Second
)

// listen opens the port.
func listen(address string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("the port of %s is in use by another program: stop it, or choose another port with --listen "+
			"(port 0 takes a free one)", address)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("the port of %s is not allowed to this user: choose one above 1023 with --listen", address)
	case err != nil:
		return nil, fmt.Errorf("listen: %w", err)
	}
	return listener, nil
}

// newServer makes the HTTP server: HTTP/1.1 and HTTP/2 on one port, since the SDKs speak both. In cleartext the client knows
// beforehand that it is HTTP/2, with TLS the two agree on it.
func newServer(handler http.Handler, logger zerolog.Logger) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           handler,
		Protocols:         protocols,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: streamsPerConnection,
			SendPingTimeout:      pingAfter,
			PingTimeout:          pingTimeout,
			WriteByteTimeout:     stalledWrite,
		},
		ErrorLog: log.New(serverErrors{logger}, "", 0),
	}
}

// reachableURL is a URL by which a program on this machine reaches the listener.
func reachableURL(address net.Addr, scheme string) string {
	at, err := netip.ParseAddrPort(address.String())
	if err != nil {
		return scheme + "://" + address.String()
	}
	if at.Addr().IsUnspecified() {
		at = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port())
	}
	return scheme + "://" + at.String()
}
