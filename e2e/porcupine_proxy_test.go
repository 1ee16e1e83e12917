package e2e

import (
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
)

// proxy is a relay between clients and a server, whose connections can be cut. Its address stays when the server's changes.
// While it refuses, connecting to it fails as connecting to a server that is down does.
type proxy struct {
	address string

	mu       sync.Mutex
	listener net.Listener // nil while it refuses
	target   string
	links    map[*link]struct{}
	running  sync.WaitGroup
}

// link is one relayed connection.
type link struct{ client, server net.Conn }

func (l *link) cut() {
	l.client.Close()
	l.server.Close()
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{address: listener.Addr().String(), links: map[*link]struct{}{}}
	listener.Close()
	t.Cleanup(func() {
		p.refuse()
		p.running.Wait()
	})
	return p
}

// url is where clients reach the server.
func (p *proxy) url() string { return "http://" + p.address }

// serve relays to a server from now on.
func (p *proxy) serve(t *testing.T, url string) {
	t.Helper()
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener, p.target = listener, strings.TrimPrefix(url, "http://")
	p.running.Go(func() { p.accept(listener) })
}

// refuse cuts every connection and accepts no more.
func (p *proxy) refuse() {
	p.mu.Lock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	p.mu.Unlock()
	p.cut(1)
}

// cut cuts each connection with a probability, wherever it is.
func (p *proxy) cut(probability float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if rand.Float64() < probability {
			l.cut()
		}
	}
}

func (p *proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target, serving := p.target, p.listener == listener
		p.mu.Unlock()
		server, err := net.Dial("tcp", target)
		if err != nil || !serving {
			client.Close()
			continue
		}
		p.relay(&link{client, server})
	}
}

func (p *proxy) relay(l *link) {
	p.mu.Lock()
	p.links[l] = struct{}{}
	p.mu.Unlock()
	var both sync.WaitGroup
	one := func(dst, src net.Conn) {
		_, _ = io.Copy(dst, src)
		l.cut() // half-closes are not relayed: HTTP does not need them
	}
	both.Go(func() { one(l.server, l.client) })
	both.Go(func() { one(l.client, l.server) })
	p.running.Go(func() {
		both.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	})
}
