package e2e

import (
	"context"
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
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// writeCertificate puts a certificate for this machine and for *.streams.test, which signs itself, and its key into a folder.
func writeCertificate(t *testing.T, dir, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:  []string{"streams.test", "*.streams.test"},
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
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: cert}, "tls.key": {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// swapLink points a link at another folder in one step, as Kubernetes does with the secrets it mounts.
func swapLink(t *testing.T, link, target string) {
	t.Helper()
	next := link + ".next"
	if err := os.Symlink(target, next); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, link); err != nil {
		t.Fatal(err)
	}
}

// A server over TLS: by name below its domain and by the public SDK, with a certificate that is exchanged under it, and then
// for a broken one, while connections go on.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"first", "second", "broken"} {
		writeCertificate(t, filepath.Join(dir, name), name)
	}
	if err := os.WriteFile(filepath.Join(dir, "broken", "tls.key"), []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	mounted := filepath.Join(dir, "mounted")
	swapLink(t, mounted, "first")
	server := startWith(t, harness.Options{
		Data: dataFolder(t), NotReady: true, // which is asked without trust in the certificate
		Args: []string{"--tls-cert", filepath.Join(mounted, "tls.crt"), "--tls-key", filepath.Join(mounted, "tls.key"), "--domain", "Streams.test"},
	})
	if !strings.HasPrefix(server.URL, "https://127.0.0.1:") {
		t.Fatalf("it listens on %s", server.URL)
	}
	c := newClient(server.URL, "tls-basin")
	transport := c.http.Transport.(*http.Transport)
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	eventually(t, "ready", func() bool {
		a, err := c.do(t.Context(), http.MethodGet, "/ready", nil)
		return err == nil && a.status == 200
	})
	c.create(t, "s")
	long := heldConnection(t, server.URL)

	trustedAs := func(name, host string) string {
		return commonName(t, server.URL, filepath.Join(dir, name, "tls.crt"), host)
	}
	if got := trustedAs("first", "tls-basin.streams.test"); got != "first" {
		t.Fatalf("the certificate is %q", got)
	}
	byHost := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(server.URL, "https://"))
		},
		ForceAttemptHTTP2: true,
	}}
	for host, want := range map[string]int{"tls-basin.streams.test": 200, "Other-Basin.streams.test": 404, "streams.test": 400} {
		response, err := byHost.Get("https://" + host + "/v1/streams/s")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want || response.Proto != "HTTP/2.0" {
			t.Errorf("by the host %s: %s over %s, want %d", host, response.Status, response.Proto, want)
		}
	}
	sdkOverTLS(t, server, filepath.Join(dir, "first", "tls.crt"))

	swapLink(t, mounted, "second")
	eventually(t, "the second certificate in use", func() bool { return trustedAs("second", "127.0.0.1") == "second" })
	swapLink(t, mounted, "broken")
	eventually(t, "the broken pair told", func() bool {
		trustedAs("second", "127.0.0.1")
		return strings.Contains(server.Logs(), "the old ones stay in use")
	})
	if got := trustedAs("second", "127.0.0.1"); got != "second" {
		t.Errorf("with a broken pair the certificate is %q", got)
	}
	if strings.Contains(server.Logs(), "no key") {
		t.Error("the log has what the key's file holds")
	}
	long() // has not noticed anything
	stop(t, server)
}

// heldConnection opens a connection, and returns a function that uses it once more.
func heldConnection(t *testing.T, url string) func() {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	use := func() {
		response, err := client.Get(url + "/health")
		if err != nil || response.StatusCode != 200 {
			t.Fatalf("on a held connection: %v, %v", response, err)
		}
		_, _ = io.Copy(io.Discard, response.Body) // or it cannot be used again
		response.Body.Close()
		if name := response.TLS.PeerCertificates[0].Subject.CommonName; name != "first" {
			t.Fatalf("the connection was not held: its certificate is %q", name)
		}
	}
	use()
	return use
}

// commonName connects anew, trusting one certificate alone, and returns whose certificate it is; empty without trust.
func commonName(t *testing.T, url, trusted, host string) string {
	t.Helper()
	roots := x509.NewCertPool()
	text, err := os.ReadFile(trusted)
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatalf("read %s: %v", trusted, err)
	}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{RootCAs: roots, ServerName: host})
	if err != nil {
		return ""
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// sdkOverTLS has the public TypeScript SDK append and read, unary, over TLS that it verifies.
func sdkOverTLS(t *testing.T, server *harness.Server, trusted string) {
	t.Helper()
	node := tool(t, "node", "TAILRACE_NODE")
	if os.Getenv("TAILRACE_NODE_DIR") == "" {
		leaveOut(t, "TAILRACE_NODE_DIR is not set (tools/setup node-sdk installs the SDK and sets it)")
	}
	file := filepath.Join(t.TempDir(), "lines.txt")
	if err := os.WriteFile(file, []byte(strings.Repeat("a line\n", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, filepath.Join("node", "roundtrip.mjs"), "--file", file, "--basin", "tls-sdk-basin", "--stream", "s")
	cmd.Env = append(os.Environ(), "S2_ACCESS_TOKEN=any", "S2_ACCOUNT_ENDPOINT="+server.URL, "S2_BASIN_ENDPOINT="+server.URL,
		"NODE_EXTRA_CA_CERTS="+trusted)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), `"ok":true`) {
		t.Errorf("the SDK over TLS: %v\n%s", err, out)
	}
}

// Two signals that come at once are one: the stop is a clean one.
func TestTwoSignalsAtOnceAreOne(t *testing.T) {
	t.Parallel()
	server := start(t, dataFolder(t))
	for range 3 {
		if err := server.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	status, err := server.Wait(25 * time.Second)
	if err != nil || status != 0 || !strings.Contains(server.Logs(), "every accepted append has been answered") {
		t.Errorf("status %d, %v; log:\n%s", status, err, server.Logs())
	}
}
