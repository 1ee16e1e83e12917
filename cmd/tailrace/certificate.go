package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/functions/config"
)

// certificateTTL is how long the pair's files are taken as they were read: many handshakes cost one look.
const certificateTTL = time.Second

// certificate is the server's pair. A handshake looks into its files, at most once in certificateTTL, and whichever way
// they were replaced, a pair that fits together is taken from then on. It needs no timer, and what is compared are the
// contents: times of files are too coarse to tell two writes apart, and a folder swapped by a link changes none.
type certificate struct {
	certPath, keyPath string
	log               zerolog.Logger
	current           atomic.Pointer[tls.Certificate]
	failures          prometheus.Counter

	mu       sync.Mutex // of the handshake that looks
	looked   time.Time
	seen     pair   // the contents last judged
	readFail string // the last failure to read them
}

// pair is what the two files hold.
type pair struct{ cert, key []byte }

func (p pair) equal(o pair) bool { return bytes.Equal(p.cert, o.cert) && bytes.Equal(p.key, o.key) }

// openCertificate reads the pair that the settings name; without TLS it returns nil.
func openCertificate(cfg config.Config, log zerolog.Logger) (*certificate, error) {
	if !cfg.TLS() {
		return nil, nil
	}
	c := &certificate{
		certPath: cfg.TLSCert, keyPath: cfg.TLSKey, log: log,
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tailrace_tls_reload_failures_total", Help: "Changed certificates that could not be used.",
		}),
	}
	var err error
	if c.seen, err = c.read(); err != nil {
		return nil, fmt.Errorf("open certificate: %w", err)
	}
	loaded, err := c.seen.parse()
	if err != nil {
		return nil, fmt.Errorf("open certificate %s: %w", c.certPath, err)
	}
	c.looked = time.Now()
	c.take(loaded)
	return c, nil
}

// config is how the server speaks TLS: 1.2 and later, with the ciphers that Go holds to be safe. 1.3 is preferred, as by
// every client that has it.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			c.refresh()
			return c.current.Load(), nil
		},
	}
}

// collectors are of the certificate in use, so that one that is not renewed is noticed before it has expired.
func (c *certificate) collectors() []prometheus.Collector {
	expiry := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tailrace_tls_certificate_expiry_seconds", Help: "When the certificate in use expires, in seconds since the Unix epoch.",
	}, func() float64 { return float64(c.current.Load().Leaf.NotAfter.Unix()) })
	return []prometheus.Collector{expiry, c.failures}
}

// refresh takes over a changed pair. A file system that hangs holds up one handshake; the others go on with what there is.
func (c *certificate) refresh() {
	if !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	if time.Since(c.looked) < certificateTTL {
		return
	}
	defer func() { c.looked = time.Now() }()
	found, err := c.read()
	if err != nil {
		c.cannotRead(err)
		return
	}
	c.readFail = ""
	if found.equal(c.seen) {
		return
	}
	loaded, err := found.parse()
	if err != nil {
		// The folder may have been swapped between the two files.
		again, readErr := c.read()
		if readErr == nil && !again.equal(found) {
			found = again
			loaded, err = found.parse()
		}
	}
	c.seen = found
	if err != nil {
		c.failures.Inc()
		c.log.Error().Err(err).Str("file", c.certPath).Msg("the changed certificate and key cannot be used; the old ones stay in use")
		return
	}
	c.take(loaded)
}

// cannotRead tells of files that are gone or closed to us, once for each reason.
func (c *certificate) cannotRead(err error) {
	if c.readFail == err.Error() {
		return
	}
	c.readFail = err.Error()
	c.failures.Inc()
	c.log.Error().Err(err).Msg("the certificate cannot be read; the old one stays in use")
}

// take puts a pair into use.
func (c *certificate) take(loaded *tls.Certificate) {
	c.current.Store(loaded)
	level := zerolog.InfoLevel
	if time.Until(loaded.Leaf.NotAfter) <= 0 {
		level = zerolog.WarnLevel
	}
	c.log.WithLevel(level).Str("file", c.certPath).Time("expires", loaded.Leaf.NotAfter).Msg("certificate in use")
}

func (c *certificate) read() (p pair, err error) {
	if p.cert, err = os.ReadFile(c.certPath); err == nil {
		p.key, err = os.ReadFile(c.keyPath)
	}
	return p, err
}

// parse makes a certificate of a pair that fits together. Its errors say nothing of the key.
func (p pair) parse() (*tls.Certificate, error) {
	loaded, err := tls.X509KeyPair(p.cert, p.key)
	return &loaded, err
}
