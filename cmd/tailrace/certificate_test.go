package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/functions/config"
)

// newPair makes a certificate for 127.0.0.1 that signs itself, and its key.
func newPair(t *testing.T, name string) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	}
}

// writePair puts a pair into a folder and returns the settings that name it.
func writePair(t *testing.T, dir string, p pair) config.Config {
	t.Helper()
	cfg := config.Config{TLSCert: filepath.Join(dir, "tls.crt"), TLSKey: filepath.Join(dir, "tls.key")}
	for path, content := range map[string][]byte{cfg.TLSCert: p.cert, cfg.TLSKey: p.key} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cfg
}

// trusting is a client that trusts a pair, over one protocol.
func trusting(p pair, set func(*http.Protocols, bool)) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.cert)
	protocols := new(http.Protocols)
	set(protocols, true)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, Protocols: protocols}}
}

func TestServeSpeaksTLS(t *testing.T) {
	t.Parallel()
	w, p := newWorld(), newPair(t, "one")
	cfg := writePair(t, t.TempDir(), p)
	url, status := w.serving(t, "--memory", "--tls-cert", cfg.TLSCert, "--tls-key", cfg.TLSKey)
	if !strings.HasPrefix(url, "https://") || !strings.Contains(w.out.String(), "curl -sSk -X PUT https://") {
		t.Errorf("the first lines are\n%s", w.out.String())
	}
	for proto, set := range map[string]func(*http.Protocols, bool){
		"HTTP/1.1": (*http.Protocols).SetHTTP1, "HTTP/2.0": (*http.Protocols).SetHTTP2,
	} {
		response, err := trusting(p, set).Get(url + "/health")
		if err != nil {
			t.Fatalf("%s: %v", proto, err)
		}
		response.Body.Close()
		if response.StatusCode != 200 || response.Proto != proto || response.TLS.Version != tls.VersionTLS13 {
			t.Errorf("%s: status %d by %s over TLS %x", proto, response.StatusCode, response.Proto, response.TLS.Version)
		}
	}
	address := strings.TrimPrefix(url, "https://")
	for version, ok := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true} {
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: version})
		if (err == nil) != ok {
			t.Errorf("TLS %x: %v, want ok %t", version, err, ok)
		}
		if err == nil {
			conn.Close()
		}
	}
	// In cleartext nothing is served, by either protocol.
	response, err := http.Get("http://" + address + "/health")
	if err == nil && response.StatusCode == 200 {
		t.Error("cleartext HTTP/1.1 was served")
	}
	if err == nil {
		response.Body.Close()
	}
	if response, err := trusting(p, (*http.Protocols).SetUnencryptedHTTP2).Get("http://" + address + "/health"); err == nil {
		response.Body.Close()
		t.Error("cleartext HTTP/2 was served")
	}
	metrics := get(t, trusting(p, (*http.Protocols).SetHTTP1), url+"/metrics")
	if !strings.Contains(metrics, "tailrace_tls_certificate_expiry_seconds 1.") || !strings.Contains(metrics, "tailrace_tls_reload_failures_total 0") {
		t.Errorf("the metrics lack the certificate's:\n%s", metrics)
	}
	w.signals <- syscall.SIGTERM
	if got := <-status; got != exitOK {
		t.Errorf("status is %d, want %d; log:\n%s", got, exitOK, w.log.String())
	}
	if strings.Contains(w.log.String(), "handshake") {
		t.Errorf("failed handshakes are logged above debug:\n%s", w.log.String())
	}
}

func get(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body := new(strings.Builder)
	if _, err := io.Copy(body, response.Body); err != nil {
		t.Fatal(err)
	}
	return body.String()
}

// However the files are replaced, the pair that fits is in use from the next look on, and a broken one never is.
func TestCertificateIsReadAgain(t *testing.T) {
	t.Parallel()
	dir, first, second := t.TempDir(), newPair(t, "first"), newPair(t, "second")
	w := newWorld()
	c, err := openCertificate(writePair(t, dir, first), testLog(w))
	if err != nil {
		t.Fatal(err)
	}
	inUse := func() string {
		c.mu.Lock()
		c.looked = time.Time{}
		c.mu.Unlock()
		cert, err := c.config().GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return cert.Leaf.Subject.CommonName
	}
	if got := inUse(); got != "first" {
		t.Fatalf("%s is in use", got)
	}
	for name, broken := range map[string]pair{
		"half": {second.cert, first.key}, "cut short": {second.cert[:40], second.key}, "empty": {nil, nil}, "swapped": {second.key, second.cert},
	} {
		writePair(t, dir, broken)
		before := strings.Count(w.log.String(), "cannot be used")
		for range 3 {
			if got := inUse(); got != "first" {
				t.Errorf("%s: %s is in use", name, got)
			}
		}
		if said := strings.Count(w.log.String(), "cannot be used") - before; said != 1 {
			t.Errorf("%s: told %d times, want once", name, said)
		}
	}
	if err := os.Remove(c.keyPath); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got := inUse(); got != "first" {
			t.Errorf("with the key gone %s is in use", got)
		}
	}
	if said := strings.Count(w.log.String(), "cannot be read"); said != 1 {
		t.Errorf("told %d times that it cannot be read, want once", said)
	}
	writePair(t, dir, second)
	if got := inUse(); got != "second" {
		t.Errorf("%s is in use after the change", got)
	}
	if strings.Contains(w.log.String(), "PRIVATE") {
		t.Error("the log has a key")
	}
	// Within its time nothing is looked at.
	writePair(t, dir, first)
	if cert, _ := c.config().GetCertificate(nil); cert.Leaf.Subject.CommonName != "second" {
		t.Error("the files were read at once")
	}
}

func TestOpenCertificateRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld()
	if c, err := openCertificate(config.Config{}, testLog(w)); c != nil || err != nil {
		t.Errorf("without settings: %v, %v", c, err)
	}
	cfg := writePair(t, t.TempDir(), pair{newPair(t, "a").cert, newPair(t, "b").key})
	if _, err := openCertificate(cfg, testLog(w)); err == nil {
		t.Error("a pair that does not fit was taken")
	}
	if got := w.run([]string{"serve", "--memory", "--tls-cert", cfg.TLSCert, "--tls-key", cfg.TLSKey}); got != exitUsage {
		t.Errorf("serve ends with %d", got)
	}
}

// Tokens that cross a network in cleartext are worth a line; on this machine, or with TLS, they do not.
func TestCleartextTokensAreTold(t *testing.T) {
	t.Parallel()
	cfg := writePair(t, t.TempDir(), newPair(t, "one"))
	withTLS := []string{"--tls-cert", cfg.TLSCert, "--tls-key", cfg.TLSKey}
	for _, c := range []struct {
		args []string
		told bool
	}{
		{[]string{"--auth", "--listen=0.0.0.0:0"}, true},
		{[]string{"--auth", "--listen=127.0.0.1:0"}, false},
		{append([]string{"--auth", "--listen=0.0.0.0:0"}, withTLS...), false},
		{[]string{"--insecure-no-auth", "--listen=0.0.0.0:0"}, false},
	} {
		w := newWorld()
		_, status := w.serving(t, append([]string{"--memory"}, c.args...)...)
		w.signals <- syscall.SIGTERM
		if got := <-status; got != exitOK {
			t.Errorf("%v: status %d", c.args, got)
		}
		if told := strings.Contains(w.log.String(), "cleartext"); told != c.told {
			t.Errorf("%v: told %t, want %t", c.args, told, c.told)
		}
	}
}
