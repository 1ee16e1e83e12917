package e2e

import (
	"context"
	"fmt"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/e2e/faultproxy"
	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// Fifty processes of the append function and two servers append to one stream at once, some on conditions, some fenced, and
// some processes are killed meanwhile: the history is linearizable. Then all fifty append without conditions, and hardly an
// append needs a second attempt.
func TestSharedFunctionsManyWriters(t *testing.T) {
	writers := amount(t, "TAILRACE_E2E_FUNCTION_WRITERS", 50)
	_, heads, through, past := functionStores(t)
	serverFlags := harness.Options{OwnStores: true, Args: past}
	servers := []*harness.Server{startWith(t, serverFlags), startWith(t, serverFlags)}
	newClient(servers[0].URL, "porcupine").create(t, "warm")

	gateway := &harness.Gateway{Start: func(ctx context.Context, name string) (*harness.Function, error) {
		return harness.StartFunction(ctx, harness.FunctionOptions{Bin: functionBin(t, name), Env: append(harness.FunctionEnv(through), asURLStream)})
	}}
	t.Cleanup(func() {
		if logs := gateway.Close(); t.Failed() {
			t.Log(lastLines(logs, 60))
		}
	})
	for name, n := range map[string]int{"append": writers, "read": 4} {
		if err := gateway.Grow(t.Context(), name, n); err != nil {
			t.Fatal(err)
		}
	}
	front := httptest.NewServer(gateway)
	t.Cleanup(front.Close)

	const stream = "functions"
	newClient(servers[0].URL, "porcupine").createStream(t, stream)
	c := &collector{url: front.URL, basin: "porcupine", stream: stream, clients: writers + len(servers)}
	var collecting sync.WaitGroup
	for id := range c.clients {
		url := front.URL
		if id >= writers {
			url = servers[id-writers].URL
		}
		collecting.Go(func() { c.unaryClient(t.Context(), id, url, 10) })
	}
	finished := make(chan struct{})
	go func() { collecting.Wait(); close(finished) }()
	for running := true; running && c.kills() < 6; {
		select {
		case <-finished:
			running = false
		case <-time.After(300 * time.Millisecond):
			if err := gateway.KillOne(t.Context(), "append"); err != nil {
				t.Fatal(err)
			}
			c.killed()
		}
	}
	<-finished
	c.verify(t) // that it can fail, smaller histories show: to find that none of so many at once fits takes for ever
	countAttempts(t, front.URL, heads, writers)
}

func (c *collector) killed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tally.kills++
}

func (c *collector) kills() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tally.kills
}

// unaryClient is a client that appends and looks through single requests to a URL. One in ten has conditions, one installs
// tokens and presents them.
func (c *collector) unaryClient(ctx context.Context, id int, url string, ops int) {
	h := &historyClient{c: c, id: id, unary: newUnaryAppender(url, c.basin, c.stream), token: fmt.Sprintf("tok%03d", id)}
	h.workflow = workflow{match: id%10 == 0, fence: id%10 == 1}
	h.appender = h.unary
	defer h.unary.close()
	for n := range ops {
		if n%5 == 4 {
			h.step(ctx)
			continue
		}
		in, batch := h.plan()
		if in.fence != nil {
			// Not on a condition, which hardly any would meet here.
			in.match, batch.MatchSeqNum = nil, nil
		}
		h.perform(ctx, in, batch)
	}
}

// countAttempts has so many writers append at once to one stream, and counts the commits that this took.
func countAttempts(t *testing.T, url string, heads *faultproxy.Proxy, writers int) {
	t.Helper()
	if harness.BucketAlone() {
		return // there a commit is a PUT under a condition, and writers do collide
	}
	c, each := newClient(url, "porcupine"), 8
	c.http.Timeout = 2 * time.Minute
	var mu sync.Mutex
	commits := 0
	isCommit := faultproxy.All(faultproxy.Op(faultproxy.UpdateItem), faultproxy.Says("list_append"))
	heads.Watch(func(r faultproxy.Request) {
		if isCommit(r) {
			mu.Lock()
			defer mu.Unlock()
			commits++
		}
	})
	begun := time.Now()
	atOnce(t, writers, writers*each, func(i int) error {
		return succeed(200)(c.append(t.Context(), "functions", appendInput{Records: bodies(fmt.Sprint("attempt ", i))}))
	})
	heads.Watch(nil)
	appends := writers * each
	t.Logf("%d appends by %d processes at once took %s and %d commits, %.3f an append", appends, writers, time.Since(begun).Round(time.Millisecond), commits, float64(commits)/float64(appends))
	if float64(commits) > 1.05*float64(appends) || commits < appends {
		t.Errorf("%d commits for %d appends", commits, appends)
	}
}
