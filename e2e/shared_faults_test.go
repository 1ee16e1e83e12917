package e2e

import (
	"context"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/e2e/faultproxy"
	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// settles is within what time an append must have an answer, whatever the stores do.
const settles = 10 * time.Second

func status(t *testing.T, server *harness.Server, path string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), settles)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}

// BL-101: stores that ask for patience from the first request on do not end a server, and do not keep it down: it starts,
// is not ready, refuses definitely and says when to come again, and serves once they are well.
func TestSharedBL101StartWhileThrottled(t *testing.T) {
	t.Parallel()
	for name, which := range map[string]func(s3, dynamoDB *faultproxy.Proxy){
		"bucket":                   func(s3, _ *faultproxy.Proxy) { s3.On(refusing(faultproxy.SlowDown)) },
		"table":                    func(_, dynamoDB *faultproxy.Proxy) { dynamoDB.On(refusing(throttled())) },
		"neither of them answers":  func(s3, dynamoDB *faultproxy.Proxy) { s3.On(silent); dynamoDB.On(silent) },
		"the bucket has gone away": func(s3, _ *faultproxy.Proxy) { s3.On(gone) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := dataFolder(t)
			well := start(t, data) // makes the basin and the stream, and knows nothing of the trouble
			c := newClient(well.URL, "throttled-start")
			c.create(t, "s")
			s3, dynamoDB, flags := proxies(t)
			which(s3, dynamoDB)
			server := startWith(t, harness.Options{Data: data, Args: flags, NotReady: true})
			if got := status(t, server, "/health"); got != 200 {
				t.Errorf("/health is %d", got)
			}
			if got := status(t, server, "/ready"); got != 503 {
				t.Errorf("/ready is %d", got)
			}
			c = c.at(server.URL)
			for range 3 {
				a, err := c.append(t.Context(), "s", appendInput{Records: bodies("too early")})
				if err != nil || a.status != 502 && a.status != 503 || !a.definite() ||
					a.header.Get("Retry-After") == "" || a.header.Get("retry-after-ms") == "" {
					t.Fatalf("an append meanwhile: %v %v, %v", a, a.header, err)
				}
			}
			s3.On(nil)
			dynamoDB.On(nil)
			eventually(t, "ready once the stores are well", func() bool { return status(t, server, "/ready") == 200 })
			if got := c.mustAppend(t, "s", appendInput{Records: bodies("first")}); got.Start.SeqNum != 0 {
				t.Errorf("the first append after it got %+v", got)
			}
		})
	}
}

// BL-144: a server whose table is out of reach says that it is not ready within ten seconds, and is again when it is back;
// it lives all the while.
func TestSharedBL144Readiness(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"table", "bucket"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s3, dynamoDB, flags := proxies(t)
			server := start(t, dataFolder(t), flags...)
			cut := map[string]*faultproxy.Proxy{"table": dynamoDB, "bucket": s3}[name]
			cut.On(gone)
			since := time.Now()
			eventually(t, "not ready", func() bool { return status(t, server, "/ready") == 503 })
			if took := time.Since(since); took > settles {
				t.Errorf("it took %s to be not ready", took)
			}
			if got := status(t, server, "/health"); got != 200 {
				t.Errorf("/health is %d", got)
			}
			cut.On(nil)
			eventually(t, "ready again", func() bool { return status(t, server, "/ready") == 200 })
		})
	}
}

// BL-126: while a server is frozen, as a function is between two calls, all its connections to the stores end. After the
// thaw its next ten appends succeed, and quickly.
func TestSharedBL126Thaw(t *testing.T) {
	t.Parallel()
	s3, dynamoDB, flags := proxies(t)
	server := start(t, dataFolder(t), flags...)
	c := newClient(server.URL, "freeze-and-thaw")
	c.create(t, "s")
	bodyOf := map[bool]string{false: "small", true: strings.Repeat("large ", 4000)}
	// Several connections to each store are warm.
	var warm sync.WaitGroup
	for i := range 16 {
		warm.Go(func() { _, _ = c.append(t.Context(), "s", appendInput{Records: bodies(bodyOf[i%2 == 0])}) })
	}
	warm.Wait()
	before := c.tail(t, "s")
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s3.CloseClientConnections()
	dynamoDB.CloseClientConnections()
	time.Sleep(1200 * time.Millisecond) // a connection is looked at before its next use once it has rested for a second
	if err := server.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(10) {
		since := time.Now()
		got := c.mustAppend(t, "s", appendInput{Records: bodies(bodyOf[i%2 == 1])})
		if took := time.Since(since); got.Start.SeqNum != before+i || took > 2*time.Second {
			t.Errorf("append %d after the thaw got %+v after %s", i, got, took)
		}
	}
}

// BL-130: the connections to a store go silent, without an end. An append has an answer within ten seconds, and when the
// store is back the next ones succeed at once.
func TestSharedBL130SilentStore(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"table", "bucket"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s3, dynamoDB, flags := proxies(t)
			server := start(t, dataFolder(t), flags...)
			c := newClient(server.URL, "silent-"+name)
			c.create(t, "s")
			in := appendInput{Records: bodies(strings.Repeat("large ", 4000))}
			c.mustAppend(t, "s", in)
			hole := map[string]*faultproxy.Proxy{"table": dynamoDB, "bucket": s3}[name]
			hole.On(silent)
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					since := time.Now()
					a, err := c.append(t.Context(), "s", in)
					took := time.Since(since)
					if err != nil || a.status != 502 && a.status != 503 || took > settles {
						t.Errorf("an append to a silent %s: %v, %v after %s", name, a, err, took)
					}
					t.Logf("an append to a silent %s: %d after %s", name, a.status, took.Round(time.Millisecond))
				})
			}
			all.Wait()
			hole.On(nil)
			since := time.Now()
			eventually(t, "an append after the silence", func() bool {
				a, err := c.append(t.Context(), "s", in)
				return err == nil && a.status == 200
			})
			if took := time.Since(since); took > settles {
				t.Errorf("it took %s to append again", took)
			}
			tail := c.tail(t, "s")
			if got := c.readAll(t, "s", 0, tail); len(got) != int(tail) {
				t.Errorf("%d records below the tail %d", len(got), tail)
			}
		})
	}
}

// What somebody has to mend is said at once, and nothing is served.
func TestSharedStoresThatAreNotOurs(t *testing.T) {
	t.Parallel()
	one, other := dataFolder(t), dataFolder(t)
	flagsOf := func(data string) []string {
		flags, err := harness.StoreFlags(t.Context(), bin, data)
		if err != nil {
			t.Fatal(err)
		}
		return flags
	}
	for _, data := range []string{one, other} {
		start(t, data)
	}
	value := func(flags []string, name string) string {
		for _, flag := range flags {
			if v, found := strings.CutPrefix(flag, "--"+name+"="); found {
				return v
			}
		}
		t.Fatalf("no %s in %v", name, flags)
		return ""
	}
	type refusal struct {
		args   []string
		status int
		says   string
	}
	refusals := map[string]refusal{
		"the objects of other heads": {[]string{"--objects=" + value(flagsOf(other), "objects")}, 1, "keeps its objects in"},
		"the heads of other objects": {[]string{"--heads=" + value(flagsOf(other), "heads")}, 1, "keeps its objects in"},
		"no such bucket":             {[]string{"--objects=s3://no-such-bucket"}, 1, "NoSuchBucket"},
		"a folder as well":           {[]string{"--data=x"}, 2, "--data"},
	}
	fresh := "--heads=" + value(flagsOf(t.TempDir()), "heads")
	if harness.BucketAlone() {
		refusals["a prefix above"] = refusal{[]string{"--objects=s3://tailrace-e2e", fresh}, 2, "overlaps"}
		refusals["heads where objects are"] = refusal{[]string{
			"--heads=" + value(flagsOf(one), "objects"), "--objects=s3://tailrace-e2e/nothing-here"}, 1, "holds something else"}
		refusals["no such bucket of heads"] = refusal{[]string{"--heads=s3://no-such-bucket/heads"}, 1, "NoSuchBucket"}
	} else {
		refusals["a prefix above"] = refusal{[]string{"--objects=s3://tailrace-e2e", fresh}, 1, "holds"}
		refusals["no such table"] = refusal{[]string{"--heads=dynamodb://nowhere"}, 1, "tailrace admin create-table"}
	}
	for name, test := range refusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append(append([]string{"serve", "--listen=127.0.0.1:0"}, flagsOf(one)...), test.args...)
			cmd := exec.CommandContext(t.Context(), bin, args...)
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != test.status || !strings.Contains(string(out), test.says) {
				t.Errorf("%v: status %d, want %d; it says %q\n%s", err, cmd.ProcessState.ExitCode(), test.status, test.says, out)
			}
		})
	}
}
