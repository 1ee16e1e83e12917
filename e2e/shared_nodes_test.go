package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// nodes starts n servers on the same bucket and table.
func nodes(t *testing.T, n int, args ...string) []*harness.Server {
	t.Helper()
	data, servers := dataFolder(t), make([]*harness.Server, n)
	for i := range servers {
		servers[i] = start(t, data, args...)
	}
	return servers
}

// A real text goes in through two servers over one bucket and table in turns, and comes back byte for byte from both. In
// the middle one of them is killed with an append of its own under way.
func TestSharedRealFileThroughTwoNodes(t *testing.T) {
	t.Parallel()
	text := goSources(t)
	data := dataFolder(t)
	first, second := start(t, data), start(t, data)
	c := newClient(first.URL, "two-nodes")
	c.create(t, "go/sources")
	batches := inBatches(text)
	via := []*client{c, c.at(second.URL)}
	var next uint64
	for i, batch := range batches {
		in := appendInput{Records: batch, MatchSeqNum: &next}
		if i == len(batches)/2 {
			killUnderAppend(t, first, via[0], in)
			via = via[1:]
			if tail := via[0].tail(t, "go/sources"); tail == next+uint64(len(batch)) {
				next = tail
				continue // it had been stored, and nobody was told
			} else if tail != next {
				t.Fatalf("after the kill the tail is %d; before it was %d, or with the batch %d", tail, next, next+uint64(len(batch)))
			}
		}
		if i == len(batches)*3/4 {
			first = start(t, data)
			via = append(via, c.at(first.URL))
		}
		got := via[i%len(via)].mustAppend(t, "go/sources", in)
		if got.Start.SeqNum != next || got.End.SeqNum != next+uint64(len(batch)) {
			t.Fatalf("batch %d of %d records at %d was acknowledged as %+v", i, len(batch), next, got)
		}
		next = got.End.SeqNum
	}
	for i, c := range via {
		if tail := c.tail(t, "go/sources"); tail != next {
			t.Errorf("the tail at node %d is %d, want %d", i, tail, next)
		}
		sameText(t, fmt.Sprintf("from node %d", i), joined(c.readAll(t, "go/sources", 0, next)), text)
	}
}

// killUnderAppend sends an append and kills the server somewhere on its way.
func killUnderAppend(t *testing.T, server *harness.Server, c *client, in appendInput) {
	t.Helper()
	sending := make(chan struct{})
	var sent sync.WaitGroup
	sent.Go(func() {
		close(sending)
		_, _ = c.append(t.Context(), "go/sources", in) // whatever the answer, the stream itself will say
	})
	<-sending
	time.Sleep(rand.N(20 * time.Millisecond)) // not for the timing of the test: any moment is right
	server.Kill()
	sent.Wait()
}

// Writers and followers on two servers over one bucket and table; one server is killed in the middle, again and again.
// Nothing acknowledged is lost, nothing is doubled, and every follower gets every record once, wherever it reads.
func TestSharedKillOneOfTwoNodes(t *testing.T) {
	t.Parallel()
	const writers, rounds = 8, 4
	data := dataFolder(t)
	// The first is the one that is killed.
	servers := []*harness.Server{start(t, data), start(t, data)}
	c := newClient(servers[0].URL, "kill-one-of-two")
	c.create(t, "log")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	all := make([]*writer, writers)
	for i := range all {
		all[i] = &writer{id: i, random: rand.New(rand.NewPCG(seed, uint64(i)))}
	}
	followers := []*resumingFollower{{c: c.at(servers[0].URL)}, {c: c.at(servers[1].URL)}}
	following, stopFollowing := context.WithCancel(t.Context())
	defer stopFollowing()
	var reading sync.WaitGroup
	for _, f := range followers {
		reading.Go(func() { f.run(following, "log") })
	}
	for round := range rounds {
		var acked atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for i, w := range all {
			running.Go(func() { w.run(ctx, c.at(servers[i%2].URL), "log", &acked) })
		}
		eventually(t, "appends before the kill", func() bool { return acked.Load() >= int64(60*(round+1)) })
		servers[0].Kill()
		survivors := acked.Load()
		eventually(t, "appends after the kill", func() bool { return acked.Load() >= survivors+20 })
		cancel()
		running.Wait()
		servers[0] = start(t, data)
		followers[0].moveTo(c.at(servers[0].URL))
		tail := c.at(servers[1].URL).tail(t, "log")
		checkWhole(t, all, c.at(servers[round%2].URL).readAll(t, "log", 0, tail))
		t.Logf("round %d: %d acknowledged, the tail is %d", round, acked.Load(), tail)
		for i, f := range followers {
			eventually(t, fmt.Sprintf("follower %d at the tail", i), func() bool { return f.next.Load() >= tail })
		}
	}
	stopFollowing()
	reading.Wait()
	for i, f := range followers {
		if f.fault != "" {
			t.Errorf("follower %d: %s", i, f.fault)
		}
		t.Logf("follower %d: %d connections", i, f.connections)
	}
}

// resumingFollower follows a stream by server-sent events as a browser does: when it is cut off, it comes again and says
// what it saw last. It moves on to another server when it is told to.
type resumingFollower struct {
	mu          sync.Mutex
	c           *client
	next        atomic.Uint64 // the sequence number it expects
	fault       string
	connections int
}

func (f *resumingFollower) moveTo(c *client) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.c = c
}

func (f *resumingFollower) client() *client {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.c
}

func (f *resumingFollower) run(ctx context.Context, stream string) {
	for lastID := ""; ctx.Err() == nil && f.fault == ""; {
		lastID = f.follow(ctx, f.client(), stream, lastID)
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// follow reads one connection to its end and returns the last id.
func (f *resumingFollower) follow(ctx context.Context, c *client, stream, lastID string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+records(stream)+"?seq_num=0", nil)
	if err != nil {
		f.fault = err.Error()
		return lastID
	}
	request.Header.Set("s2-basin", c.basin)
	request.Header.Set("accept", "text/event-stream")
	if lastID != "" {
		request.Header.Set("last-event-id", lastID)
	}
	response, err := (&http.Client{Transport: c.http.Transport}).Do(request)
	if err != nil {
		return lastID // the server is gone, or not yet there
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		f.fault = response.Status
		return lastID
	}
	f.connections++
	for stream := newEvents(response.Body); ; {
		e, err := stream.next()
		if err != nil {
			return lastID
		}
		if e.name == "batch" && !f.take(e.data) {
			return lastID
		}
		if e.id != "" {
			lastID = e.id
		}
	}
}

// take checks that a batch goes on where the last one ended.
func (f *resumingFollower) take(data string) bool {
	next := f.next.Load()
	for at := data; ; next++ {
		_, rest, found := strings.Cut(at, `{"seq_num":`)
		if !found || strings.Contains(at[:len(at)-len(rest)], `"tail":`) {
			break
		}
		if want := fmt.Sprintf("%d,", next); !strings.HasPrefix(rest, want) {
			f.fault = fmt.Sprintf("record %.20s came where %d belongs", rest, next)
			return false
		}
		at = rest
	}
	f.next.Store(next)
	return true
}
