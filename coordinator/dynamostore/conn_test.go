package dynamostore

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
)

// pair is a connection that has rested, and its other end.
func pair(t *testing.T) (*conn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	c := newConn(near)
	c.used.Store(time.Now().Add(-2 * lookAfter).UnixNano())
	return c, far
}

func TestConnLooksBeforeItWrites(t *testing.T) {
	t.Parallel()
	c, _ := pair(t)
	if _, err := c.Write([]byte("request")); err != nil || c.written.Load() != 7 {
		t.Errorf("a good connection: %v, %d bytes counted", err, c.written.Load())
	}
	for name, end := range map[string]func(net.Conn) error{
		"closed":       net.Conn.Close,
		"unread bytes": func(far net.Conn) error { return second(far.Write([]byte("x"))) },
		"reset": func(far net.Conn) error {
			return errors.Join(far.(*net.TCPConn).SetLinger(0), far.Close())
		},
	} {
		c, far := pair(t)
		if err := end(far); err != nil {
			t.Fatal(err)
		}
		for !ended(c.Conn) { // until the loopback has delivered it
			time.Sleep(time.Millisecond)
		}
		if n, err := c.Write([]byte("request")); n != 0 || !errors.Is(err, errStale) || c.written.Load() != 0 {
			t.Errorf("%s: %d bytes written, %v", name, n, err)
		}
	}
}

// A connection that went silent holds up its own request and no other, and the next one takes a new connection.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	o := options(p.URL, newTable(t))
	o.Timeout = 2 * time.Second
	s := open(t, o)
	h := storetest.NewHead()
	mustCreate(t, t.Context(), s, h)
	const warm = 8
	commit := func(from segments.Label) (errs [warm]error, longest time.Duration) {
		var wg sync.WaitGroup
		begun := time.Now()
		for i := range errs {
			wg.Go(func() { _, errs[i] = s.Commit(t.Context(), h.Stream, plainCommit(from+segments.Label(i))) })
		}
		wg.Wait()
		return errs, time.Since(begun)
	}
	commit(1)
	var mu sync.Mutex
	silent := map[string]bool{} // the first connections that are used from now on
	p.failing(always(func(p *proxy, w http.ResponseWriter, r *http.Request, body []byte) {
		mu.Lock()
		if len(silent) < warm {
			silent[r.RemoteAddr] = true
		}
		hang := silent[r.RemoteAddr]
		mu.Unlock()
		if hang {
			hangs(p, w, r, body)
			return
		}
		p.pass(w, r, request{op: "UpdateItem"}, body)
	}))
	errs, took := commit(100)
	for _, err := range errs {
		checkClass(t, err, false)
	}
	if took > 4*o.Timeout {
		t.Errorf("the requests on silent connections took %v", took)
	}
	for i := range 10 {
		if _, err := s.Commit(t.Context(), h.Stream, plainCommit(200+segments.Label(i))); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
}

// frozenVariable has the test binary play the process that is frozen; it holds the endpoint and the table.
const frozenVariable = "TAILRACE_TEST_FROZEN"

// A process that was frozen while the other side closed its connections: the first requests after the thaw succeed, on
// new ones, and none of them is in doubt.
func TestFrozenProcess(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestFrozenHelper$", "-test.v")
	cmd.Env = append(os.Environ(), frozenVariable+"="+p.URL+" "+newTable(t))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	next := func(want string) {
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), want) {
				t.Log(lines.Text())
				return
			}
			if strings.Contains(lines.Text(), "FAIL") {
				t.Fatal(lines.Text())
			}
		}
		t.Fatalf("the process ended before it said %q", want)
	}
	next("warm")
	freeze(t, cmd.Process)
	p.CloseClientConnections()
	time.Sleep(lookAfter + lookAfter/4) // a thaw within lookAfter is not looked for
	fmt.Fprintln(in, "go")
	thaw(t, cmd.Process)
	next("all applied")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestFrozenHelper is the process that TestFrozenProcess freezes.
func TestFrozenHelper(t *testing.T) {
	endpoint, table, ok := strings.Cut(os.Getenv(frozenVariable), " ")
	if !ok {
		return
	}
	s := open(t, options(endpoint, table))
	h := storetest.NewHead()
	mustCreate(t, t.Context(), s, h)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, err := s.Commit(t.Context(), h.Stream, plainCommit(segments.Label(i)+1)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	fmt.Println("warm")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for i := range 10 {
		if _, err := s.Commit(t.Context(), h.Stream, plainCommit(segments.Label(i)+100)); err != nil {
			t.Fatalf("request %d after the thaw: FAIL %v", i, err)
		}
	}
	fmt.Println("all applied in", time.Since(begun))
}

// The endpoint is the one that was given, wherever credentials come from, and a session token goes along. A TLS
// endpoint is believed by the configuration's own authorities, and a lost answer is in doubt there too.
func TestEndpointAndCredentials(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		for _, token := range []string{"", "session"} {
			t.Run(fmt.Sprintf("tls %v, token %q", secure, token), func(t *testing.T) {
				t.Parallel()
				p := startProxy(t, secure)
				o := options(p.URL, newTable(t))
				creds := aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret", SessionToken: token, AccountID: "123456789012"}
				o.AWS.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return creds, nil })
				if secure {
					o.AWS.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(tr *http.Transport) {
						tr.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
						p.trusting(tr.TLSClientConfig)
					})
				}
				s := open(t, o)
				h := storetest.NewHead()
				mustCreate(t, t.Context(), s, h)
				if _, err := s.Commit(t.Context(), h.Stream, plainCommit(1)); err != nil {
					t.Fatal(err)
				}
				for _, r := range p.take() {
					if r.header.Get("X-Amz-Security-Token") != token || !strings.Contains(r.header.Get("Authorization"), "Credential=id/") {
						t.Errorf("%s was signed otherwise", r.op)
					}
				}
				p.failing(writesOnly(dropsAnswer))
				checkClass(t, second(s.Commit(t.Context(), h.Stream, plainCommit(2))), false)
				p.failing(nil)
				if got, err := s.Load(t.Context(), h.Stream); err != nil || got.Tail != 2 {
					t.Errorf("after a lost answer: %v, tail %d", err, got.Tail)
				}
			})
		}
	}
}

// Neither credentials nor records are in errors.
func TestErrorsKeepSecrets(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	s := newStoreAt(t, p.URL)
	h := storetest.NewHead()
	mustCreate(t, t.Context(), s, h)
	p.failing(always(refuses(400, "ValidationException")))
	secret := "hunter2"
	c := plainCommit(1)
	c.Token, c.Entries[0].Data = &secret, []byte(secret)
	_, commit := s.Commit(t.Context(), h.Stream, c)
	_, put := s.Put(t.Context(), coordinator.Row{Key: coordinator.Key{Part: "p", Sort: "s"}, Value: []byte(secret)}, 0)
	for _, err := range []error{commit, put} {
		if err == nil || strings.Contains(fmt.Sprintf("%v %+v", err, err), secret) {
			t.Errorf("%v", err)
		}
	}
}
