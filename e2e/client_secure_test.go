package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tailrace "github.com/tailrace-streams/tailrace/client"
	"github.com/tailrace-streams/tailrace/e2e/harness"
	"github.com/tailrace-streams/tailrace/wire"
)

const encryptionKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

// The Go client and the command line over TLS, with access tokens, compressed frames and encrypted records: calls and
// sessions trust and present the same, and what lacks one of them is refused in words that show no secret.
func TestClientWithEverySecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeCertificate(t, dir, "everything")
	const root = "the-root-token-of-everything"
	ca := filepath.Join(dir, "tls.crt")
	server := startWith(t, harness.Options{
		Data: dataFolder(t), NotReady: true, Env: []string{"TAILRACE_ROOT_TOKEN=" + root},
		Args: []string{"--auth", "--tls-cert", ca, "--tls-key", filepath.Join(dir, "tls.key")},
	})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(try(os.ReadFile(ca))(t))
	trusting := func(token tailrace.Secret, how tailrace.Compression) *tailrace.Client {
		return goClient(t, server.URL, tailrace.Options{Token: token, TLS: &tls.Config{RootCAs: roots}, Compression: how})
	}
	ctx := bounded(t, 60*time.Second)
	admin := trusting(root, tailrace.CompressionNone)
	cipher := tailrace.Cipher("aes-256-gcm")
	basin := admin.Basin("client-secrets")
	eventually(t, "the server is ready", func() bool {
		_, err := basin.Ensure(ctx, tailrace.BasinSpec{Config: &tailrace.BasinConfig{StreamCipher: &cipher}})
		return err == nil
	})

	if places := try(admin.Locations(ctx))(t); len(places) == 0 || try(admin.DefaultLocation(ctx))(t).Name != places[0].Name {
		t.Errorf("the locations are %+v", places)
	}
	spec := tailrace.AccessTokenSpec{ID: "writer"}
	spec.Scope.Basins = &wire.ResourceSet{Name: "client-", IsPrefix: true}
	spec.Scope.Streams = &wire.ResourceSet{Name: "log-", IsPrefix: true}
	spec.Scope.OpGroups.Stream.Read, spec.Scope.OpGroups.Stream.Write = true, true
	secret := try(admin.IssueAccessToken(ctx, spec))(t)
	var ids []string
	for info, err := range admin.AccessTokens(ctx, tailrace.ListOptions{}) {
		ids = append(ids, try(info, err)(t).ID)
	}
	if !slices.Contains(ids, "writer") {
		t.Errorf("the tokens are %q", ids)
	}

	body := strings.Repeat("confidential ", 500)
	for i, how := range []tailrace.Compression{tailrace.CompressionNone, tailrace.CompressionZstd, tailrace.CompressionGzip} {
		mine := trusting(secret, how).Basin(basin.Name())
		s := mine.Stream(fmt.Sprintf("log-%d", i)).WithEncryptionKey(encryptionKey)
		try(basin.Stream(s.Name()).Create(ctx, nil))(t)
		try(s.Append(ctx, tailrace.Text(body)))(t)
		p := try(s.Produce(ctx, tailrace.ProducerOptions{}))(t)
		for range 50 {
			try(p.Submit(ctx, tailrace.Text(body)))(t)
		}
		if err := p.Close(ctx); err != nil {
			t.Fatal(err)
		}
		got := texts(collect(t, s.Read(ctx, tailrace.ReadOptions{})))
		if len(got) != 51 || slices.ContainsFunc(got, func(text string) bool { return text != body }) {
			t.Errorf("compression %d: %d records", how, len(got))
		}
		other := tailrace.Secret("/" + encryptionKey[1:])
		for name, err := range map[string]error{
			"no key":      firstError(s.WithEncryptionKey("").Read(ctx, tailrace.ReadOptions{})),
			"another key": firstError(s.WithEncryptionKey(other).Read(ctx, tailrace.ReadOptions{})),
			"a session":   errorOf(s.WithEncryptionKey("").OpenSession(ctx, tailrace.SessionOptions{})),
		} {
			if err == nil && name != "a session" || err != nil && strings.Contains(err.Error(), encryptionKey[1:]) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, err := range map[string]error{
			"another stream": errorOf(mine.Stream("ledger").WithEncryptionKey(encryptionKey).Append(ctx, tailrace.Text("x"))),
			"a session":      errorOf(mine.Stream("ledger").WithEncryptionKey(encryptionKey).OpenSession(ctx, tailrace.SessionOptions{})),
			"the account":    errorOf(mine.Create(ctx, tailrace.BasinSpec{})),
		} {
			if !errors.Is(err, tailrace.ErrPermission) || tailrace.Indefinite(err) || strings.Contains(err.Error(), string(secret)) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}

	stranger := goClient(t, server.URL, tailrace.Options{Token: root})
	if _, err := stranger.Basin(basin.Name()).Stream("log-0").OpenSession(ctx, tailrace.SessionOptions{}); err == nil || tailrace.Indefinite(err) {
		t.Errorf("without trust in the certificate: %v", err)
	}
	if err := admin.RevokeAccessToken(ctx, "writer"); err != nil {
		t.Fatal(err)
	}
	revoked := trusting(secret, tailrace.CompressionNone).Basin(basin.Name()).Stream("log-0").WithEncryptionKey(encryptionKey)
	eventually(t, "the token is revoked", func() bool {
		_, err := revoked.Append(ctx, tailrace.Text("late"))
		return errors.Is(err, tailrace.ErrPermission)
	})

	c := newCLI(t, server)
	c.env = append(c.env, "TAILRACE_ACCESS_TOKEN="+root, "TAILRACE_ENCRYPTION_KEY="+encryptionKey)
	const log = "tailrace://client-secrets/log-0"
	for _, test := range []struct {
		env, args string
		status    int
	}{
		{"", "--ca-file " + ca, 0}, {"TAILRACE_CA_FILE=" + ca, "", 0}, {"S2_SSL_NO_VERIFY=true", "", 0}, {"", "--insecure", 0},
		{"", "", 1}, {"S2_SSL_NO_VERIFY=true", "--ca-file " + filepath.Join(dir, "tls.key"), 2}, {"", "--ca-file none", 2},
	} {
		with := &cli{dir: c.dir, env: append(slices.Clone(c.env), test.env)}
		for _, verb := range []string{"check-tail ", "append "} {
			if out, text, status := with.run(t, "x\n", strings.Fields(verb+log+" "+test.args)...); status != test.status {
				t.Errorf("%s %s%s ends with %d: %s%s", test.env, verb, test.args, status, out, text)
			}
		}
	}
}
