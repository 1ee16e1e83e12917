package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// world stands in for the world around a process.
type world struct {
	process
	out, log buffer
	signals  chan os.Signal
	exited   chan int
}

func newWorld() *world {
	w := &world{signals: make(chan os.Signal, 2), exited: make(chan int, 1)}
	w.process = process{stdout: &w.out, stderr: &w.log, signals: w.signals, exit: func(code int) { w.exited <- code }}
	return w
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// await polls until cond holds.
func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in time", what)
		}
	}
}

// serving runs serve in the background and returns its URL and a channel of its exit status.
func (w *world) serving(t *testing.T, args ...string) (url string, status <-chan int) {
	t.Helper()
	ended := make(chan int, 1)
	go func() { ended <- w.run(append([]string{"serve", "--listen=127.0.0.1:0"}, args...)) }()
	await(t, "the first lines", func() bool { return strings.Contains(w.out.String(), "\ntry:") || len(ended) > 0 })
	line, _, _ := strings.Cut(w.out.String(), "\n")
	url, found := strings.CutPrefix(line, "tailrace listens on ")
	if !found {
		t.Fatalf("the first line is %q; log:\n%s", line, w.log.String())
	}
	return url, ended
}

func TestRunStatus(t *testing.T) {
	t.Parallel()
	occupied, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { occupied.Close() }) // after the parallel tests below
	tests := []struct {
		name   string
		args   []string
		status int
		says   string
	}{
		{"version", []string{"version"}, exitOK, "data folder format 1"},
		{"help", nil, exitOK, "serve"},
		{"help of serve", []string{"serve", "--help"}, exitOK, "TAILRACE_TRIM_DELAY"},
		{"an unknown command", []string{"server"}, exitUsage, "server"},
		{"an unknown flag", []string{"serve", "--prot=1"}, exitUsage, "--prot"},
		{"an argument", []string{"serve", "now"}, exitUsage, "now"},
		{"a bad setting", []string{"serve", "--memory", "--trim-delay=x"}, exitUsage, "trim-delay"},
		{"admin of nothing", []string{"admin", "check", "--data", filepath.Join(t.TempDir(), "mistyped")}, exitFailed, "no stores"},
		{"admin of memory", []string{"admin", "collect", "--memory"}, exitFailed, "no stores"},
		{"an unknown admin command", []string{"admin", "mend"}, exitUsage, "mend"},
		{"a port in use", []string{"serve", "--memory", "--listen", occupied.Addr().String()}, exitFailed, "is in use"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			if got := w.run(test.args); got != test.status {
				t.Errorf("status is %d, want %d", got, test.status)
			}
			if said := w.out.String() + w.log.String(); !strings.Contains(said, test.says) {
				t.Errorf("it says\n%s\nwithout %q", said, test.says)
			}
		})
	}
}

func TestServeSpeaksBothProtocolsAndStops(t *testing.T) {
	t.Parallel()
	w := newWorld()
	url, status := w.serving(t, "--memory")
	for name, set := range map[string]func(*http.Protocols, bool){
		"HTTP/1.1": (*http.Protocols).SetHTTP1, "HTTP/2.0": (*http.Protocols).SetUnencryptedHTTP2,
	} {
		protocols := new(http.Protocols)
		set(protocols, true)
		client := &http.Client{Transport: &http.Transport{Protocols: protocols}}
		response, err := client.Get(url + "/health")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		response.Body.Close()
		if response.StatusCode != 200 || response.Proto != name {
			t.Errorf("%s: status %d by %s", name, response.StatusCode, response.Proto)
		}
	}
	w.signals <- syscall.SIGTERM
	if got := <-status; got != exitOK {
		t.Errorf("status is %d, want %d; log:\n%s", got, exitOK, w.log.String())
	}
	if _, err := net.DialTimeout("tcp", strings.TrimPrefix(url, "http://"), time.Second); err == nil {
		t.Error("the port is still open")
	}
}

// A request that never ends cannot hold a stop up beyond its bound, and is no failure; a second signal does not wait.
func TestStopIsBounded(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]bool{"by time": false, "by a second signal": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			bound := "1s"
			if second {
				bound = "10m"
			}
			url, status := w.serving(t, "--memory", "--shutdown-timeout", bound)
			body, hold := io.Pipe()
			defer hold.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/basins", body)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("content-type", "application/json")
			go func() {
				if response, err := http.DefaultClient.Do(request); err == nil {
					response.Body.Close()
				}
			}()
			if _, err := hold.Write([]byte("{")); err != nil {
				t.Fatal(err)
			}
			since := time.Now()
			w.signals <- syscall.SIGTERM
			if second {
				var got int
				await(t, "the end by a second signal", func() bool {
					select {
					case got = <-w.exited:
						return true
					case w.signals <- syscall.SIGTERM: // the first of these are too soon
					default:
					}
					return false
				})
				if took := time.Since(since); got != exitFailed || took < secondSignalAfter {
					t.Errorf("the second signal exits with %d after %s", got, took)
				}
				cancel() // lets the first stop finish, which the end of the process would have cut
				<-status
				return
			}
			if got := <-status; got != exitOK {
				t.Errorf("status is %d, want %d; log:\n%s", got, exitOK, w.log.String())
			}
			if took := time.Since(since); took > 5*time.Second {
				t.Errorf("the stop took %s", took)
			}
		})
	}
}

// A request that is being sent at the signal is read to its end and answered, over both protocols.
func TestStopFinishesRequestsUnderWay(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*http.Protocols, bool){
		"http1": (*http.Protocols).SetHTTP1, "http2": (*http.Protocols).SetUnencryptedHTTP2,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			url, status := w.serving(t, "--memory")
			unused, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer unused.Close()
			protocols := new(http.Protocols)
			set(protocols, true)
			client := &http.Client{Transport: &http.Transport{Protocols: protocols}}
			// The request goes over a connection that the server has accepted, and is not lost in the port's queue.
			first, err := client.Get(url + "/health")
			if err != nil {
				t.Fatal(err)
			}
			first.Body.Close()
			body, rest := io.Pipe()
			answers := make(chan string, 1)
			go func() {
				response, err := client.Post(url+"/v1/basins", "application/json", body)
				if err != nil {
					answers <- err.Error()
					return
				}
				response.Body.Close()
				answers <- response.Status
			}()
			if _, err := rest.Write([]byte(`{"basin":`)); err != nil { // returns when it has been sent
				t.Fatal(err)
			}
			w.signals <- syscall.SIGTERM
			// When the server closes the connection that nobody used, it is past its patience with idle ones.
			if _, err := unused.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
				t.Fatal(err)
			}
			if _, err := rest.Write([]byte(`"under-way"}`)); err != nil {
				t.Fatal(err)
			}
			rest.Close()
			if got := <-answers; got != "201 Created" {
				t.Errorf("the answer is %s", got)
			}
			if got := <-status; got != exitOK {
				t.Errorf("status is %d, want %d", got, exitOK)
			}
		})
	}
}

// Connections that clients hold open without a request do not hold a stop up.
func TestStopDoesNotWaitForUnusedConnections(t *testing.T) {
	t.Parallel()
	w := newWorld()
	url, status := w.serving(t, "--memory")
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// Connections are accepted in order, so once a later one is served this one is known to the server.
	response, err := http.Get(url + "/health")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	since := time.Now()
	w.signals <- syscall.SIGTERM
	if got := <-status; got != exitOK || time.Since(since) > 4*time.Second {
		t.Errorf("status is %d after %s", got, time.Since(since))
	}
}

// Whatever keeps a stop from ending, the process ends.
func TestExitAnyway(t *testing.T) {
	t.Parallel()
	w := newWorld()
	callOff := w.exitAnyway(time.Millisecond, testLog(w))
	defer callOff()
	if got := <-w.exited; got != exitFailed {
		t.Errorf("exit status is %d, want %d", got, exitFailed)
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		since := time.Now()
		defer w.exitAnyway(time.Hour, testLog(w))()
		for time.Since(since) < secondSignalAfter {
			w.signals <- syscall.SIGTERM // one signal, passed on by several
			time.Sleep(secondSignalAfter / 10)
			if len(w.exited) > 0 {
				t.Fatalf("ended %s after the first", time.Since(since))
			}
		}
		w.signals <- syscall.SIGTERM
		if got := <-w.exited; got != exitFailed {
			t.Errorf("exit status is %d, want %d", got, exitFailed)
		}
	})
	w = newWorld()
	w.exitAnyway(time.Hour, testLog(w))()
	w.signals <- syscall.SIGINT
	select {
	case got := <-w.exited:
		t.Errorf("exited with %d after it was called off", got)
	case <-time.After(20 * time.Millisecond):
	}
}

func TestReachableURL(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"127.0.0.1:80": "http://127.0.0.1:80", "0.0.0.0:81": "http://127.0.0.1:81", "[::]:82": "http://127.0.0.1:82",
		"[::1]:83": "http://[::1]:83", "10.1.2.3:84": "http://10.1.2.3:84",
	} {
		at, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if got := reachableURL(at, "http"); got != want {
			t.Errorf("URL of %s is %s, want %s", address, got, want)
		}
		if got := reachableURL(at, "https"); got != strings.Replace(want, "http", "https", 1) {
			t.Errorf("URL of %s with TLS is %s", address, got)
		}
	}
}

// A broken pipe on stdout must not leave a server behind that nobody knows the port of.
func TestServeNeedsItsFirstLines(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.stdout = failing{}
	if got := w.run([]string{"serve", "--memory", "--listen=127.0.0.1:0"}); got != exitFailed {
		t.Errorf("status is %d, want %d", got, exitFailed)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }
