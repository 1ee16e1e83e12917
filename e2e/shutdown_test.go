package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// follower reads a stream by server-sent events and keeps what a client keeps.
type follower struct {
	records int
	lastID  string
	last    event // the last event of any kind
	err     error // how the stream ended; io.EOF is a whole end
}

func (f *follower) run(ctx context.Context, c *client, stream string, ready *atomic.Int64, header ...string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+records(stream)+"?seq_num=0", nil)
	if err != nil {
		f.err = err
		return
	}
	request.Header.Set("s2-basin", c.basin)
	request.Header.Set("accept", "text/event-stream")
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := (&http.Client{Transport: c.http.Transport}).Do(request)
	if err != nil {
		f.err = err
		return
	}
	defer response.Body.Close()
	if response.StatusCode != 200 {
		f.err = fmt.Errorf("status %d", response.StatusCode)
		return
	}
	ready.Add(1)
	for stream := newEvents(response.Body); ; {
		e, err := stream.next()
		if err != nil {
			f.err = err
			return
		}
		f.last = e
		if e.name != "batch" {
			continue
		}
		f.lastID = e.id
		f.records += strings.Count(e.data, `"body":`) // to decode would be a hundred times the work of the server
	}
}

// BL-054 and BL-128: SIGTERM under 50 appenders and 100 followers. Every acknowledged append is stored, every refused one
// is not; each follower is told to go elsewhere, by an event and not by a clean end, and can resume; the process ends
// within its bound, with status 0. It does not run beside other tests: a client that gets no time to send for half a second
// finds its connection closed and learns nothing.
func TestBL054StopUnderLoad(t *testing.T) {
	const appenders, followers, bound = 50, 100, 20 * time.Second
	data := dataFolder(t)
	server := start(t, data)
	c := newClient(server.URL, "graceful-stop")
	c.create(t, "busy")

	following := make([]*follower, followers)
	var ready, acked atomic.Int64
	var reading, writing sync.WaitGroup
	for i := range following {
		following[i] = new(follower)
		reading.Go(func() { following[i].run(t.Context(), c, "busy", &ready) })
	}
	eventually(t, "all followers attached", func() bool { return ready.Load() == followers })
	logs := make([]appendLog, appenders)
	for i := range logs {
		writing.Go(func() { logs[i].run(t.Context(), c, i, &acked) })
	}
	eventually(t, "appends under way", func() bool { return acked.Load() > 3*appenders })

	since := time.Now()
	if err := server.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	status, err := server.Wait(bound)
	if err != nil || status != 0 {
		t.Fatalf("the server ended with status %d, %v", status, err)
	}
	t.Logf("ended %s after SIGTERM", time.Since(since).Round(time.Millisecond))
	writing.Wait()
	reading.Wait()

	server = start(t, data)
	c = c.at(server.URL)
	stored := c.readAll(t, "busy", 0, c.tail(t, "busy"))
	checkLogs(t, logs, stored)
	for i, f := range following {
		if f.last.name != "error" || !strings.Contains(f.last.data, "server_draining") || !errors.Is(f.err, io.EOF) {
			t.Fatalf("follower %d ended with event %+v and %v", i, f.last, f.err)
		}
	}
	checkResume(t, c, following[0], len(stored))
}

// appendLog is what one appender of single records was told.
type appendLog struct {
	acked, refused, unknown []string
	faults                  []string
}

func (l *appendLog) run(ctx context.Context, c *client, id int, acked *atomic.Int64) {
	filler := strings.Repeat("x", id%5/4*20_000) // most go inline, every fifth appender's into segments
	for i := 0; ; i++ {
		name := fmt.Sprintf("appender %d record %d ", id, i)
		a, err := c.append(ctx, "busy", appendInput{Records: bodies(name + filler)})
		switch {
		case err != nil && errors.Is(err, syscall.ECONNREFUSED):
			l.refused = append(l.refused, name)
			return
		case err != nil:
			l.unknown = append(l.unknown, fmt.Sprintf("%s: %v", name, err))
			return
		case a.status == 200:
			l.acked = append(l.acked, name)
			acked.Add(1)
		case a.status == 503 && a.definite() && strings.Contains(a.body, "server_draining"):
			l.refused = append(l.refused, name)
			if a.header.Get("Retry-After") == "" {
				l.faults = append(l.faults, fmt.Sprintf("a refusal does not say when to come again: %v", a.header))
			}
			return
		default:
			l.faults = append(l.faults, a.String())
			return
		}
	}
}

func checkLogs(t *testing.T, logs []appendLog, stored []record) {
	t.Helper()
	times := map[string]int{}
	for _, r := range stored {
		times[strings.TrimRight(r.Body, "x")]++
	}
	var acked, refused, unknown int
	for i := range logs {
		l := &logs[i]
		acked, refused, unknown = acked+len(l.acked), refused+len(l.refused), unknown+len(l.unknown)
		for _, name := range l.acked {
			if times[name] != 1 {
				t.Errorf("%q was acknowledged and is stored %d times", name, times[name])
			}
		}
		for _, name := range l.refused {
			if times[name] != 0 {
				t.Errorf("%q was refused and is stored", name)
			}
		}
		for _, fault := range l.faults {
			t.Errorf("appender %d: %s", i, fault)
		}
	}
	t.Logf("%d acknowledged, %d refused, %d without an answer, %d stored", acked, refused, unknown, len(stored))
	// A request that reaches a connection in the instant in which the server closes it gets no answer. There must be few:
	// the last answer on a connection says that it is the last, and an idle one is not closed at once.
	if unknown > len(logs)/2 {
		t.Errorf("%d of %d appenders got no answer, as %q", unknown, len(logs), slices.Concat(logs[0].unknown, logs[1].unknown, logs[2].unknown))
	}
}

// checkResume lets a follower go on where it was cut, and expects every record once.
func checkResume(t *testing.T, c *client, f *follower, stored int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var more []record
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+records("busy")+"?wait=0", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("s2-basin", c.basin)
	request.Header.Set("accept", "text/event-stream")
	request.Header.Set("last-event-id", f.lastID)
	response, err := c.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for stream := newEvents(response.Body); ; {
		e, err := stream.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("resume at %s: %v", f.lastID, err)
		}
		if e.name == "batch" {
			var batch struct{ Records []record }
			if err := json.NewDecoder(bytes.NewReader([]byte(e.data))).Decode(&batch); err != nil {
				t.Fatal(err)
			}
			more = append(more, batch.Records...)
		}
	}
	if f.records+len(more) != stored {
		t.Errorf("a follower got %d records before the stop and %d after, %d are stored", f.records, len(more), stored)
	}
}

// A second signal, some time after the first, does not wait for what the first one waits for.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	server := start(t, "")
	c := newClient(server.URL, "two-signals")
	c.create(t, "s")
	// A request whose body does not come keeps a connection busy.
	body, hold := io.Pipe()
	defer hold.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url+records("s"), body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("s2-basin", c.basin)
	request.Header.Set("content-type", "application/json")
	go func() {
		if response, err := c.http.Do(request); err == nil {
			response.Body.Close()
		}
	}()
	if _, err := hold.Write([]byte(`{"records":`)); err != nil { // returns when it has been sent
		t.Fatal(err)
	}
	status := -1
	eventually(t, "the end by a second signal", func() bool {
		if err := server.Signal(syscall.SIGTERM); err != nil { // the first of these are too soon to be a second one
			t.Fatal(err)
		}
		ended, err := server.Wait(50 * time.Millisecond)
		status = ended
		return err == nil
	})
	if status != 1 || !strings.Contains(server.Logs(), "second signal") {
		t.Errorf("the server ended with status %d, want 1 by the second signal", status)
	}
}
