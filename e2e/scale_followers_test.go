package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// feed is a stream whose records tell by themselves whether they are the right ones. They have from half of fill bytes up
// to fill.
type feed struct {
	c    *client
	fill uint64
}

const feedName = "feed"

// theEnd is what the last record of a feed holds, and body what the others do.
const theEnd = "the end of the feed"

func (f *feed) body(seq uint64) string {
	return fmt.Sprintf("record %d %s", seq, strings.Repeat("~", int(f.fill/2+seq%(f.fill/2))))
}

// feedFollower follows a feed to its end and fails at the first record that is not the next one.
type feedFollower struct {
	*feed
	from uint64
	// restless followers hang up now and then, and come again with the id of the last event they saw.
	restless bool
	// stall, if there is one, is called after the first event: it returns when the follower reads on.
	stall func()
	// cuts is how often the server hung up, which it may do to who does not read.
	cuts, resumed int
	got           uint64 // records
	seen          atomic.Uint64
}

func (f *feedFollower) run(ctx context.Context) error {
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true, DialContext: f.dial}
	defer transport.CloseIdleConnections()
	next, lastID := f.from, ""
	for {
		over, err := f.connect(ctx, &http.Client{Transport: transport}, &next, &lastID)
		switch {
		case over:
			f.got = next - f.from
			return nil
		case err == nil:
			f.resumed++
		case f.stall != nil && ctx.Err() == nil:
			f.cuts++
		default:
			return fmt.Errorf("at record %d: %w", next, err)
		}
	}
}

// dial gives a follower that stalls a small buffer, so that the server notices.
func (f *feedFollower) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil && f.stall != nil {
		// Set before anything came, this is also what the window can grow to.
		err = conn.(*net.TCPConn).SetReadBuffer(64 << 10)
	}
	return conn, err
}

// connect follows on one connection. over says that the end was seen; no error, that it is time to come again.
func (f *feedFollower) connect(ctx context.Context, client *http.Client, next *uint64, lastID *string) (over bool, err error) {
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s%s?seq_num=%d", f.c.url, records(feedName), f.from), nil)
	if err != nil {
		return false, err
	}
	request.Header.Set("s2-basin", f.c.basin)
	request.Header.Set("accept", "text/event-stream")
	if *lastID != "" {
		request.Header.Set("last-event-id", *lastID)
	}
	response, err := client.Do(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	if response.StatusCode != 200 {
		return false, fmt.Errorf("status %d", response.StatusCode)
	}
	patience := 1 + rand.IntN(60) // events
	for stream := newEvents(response.Body); ; patience-- {
		e, err := stream.next()
		if err != nil || e.name == "error" {
			return false, fmt.Errorf("%s event, %w", e.name, errors.Join(err, errors.New(e.data)))
		}
		if e.name != "batch" {
			continue
		}
		if over, err = f.take(e, next); over || err != nil {
			return over, err
		}
		*lastID = e.id
		f.seen.Store(*next)
		if f.stall != nil && f.got == 0 {
			f.got = *next - f.from
			f.stall()
		}
		if f.restless && patience <= 0 {
			return false, nil
		}
	}
}

// take checks that a batch continues the feed.
func (f *feed) take(e event, next *uint64) (over bool, err error) {
	var batch struct{ Records []record }
	if err := json.Unmarshal([]byte(e.data), &batch); err != nil {
		return false, err
	}
	for _, r := range batch.Records {
		switch {
		case r.SeqNum != *next:
			return false, fmt.Errorf("record %d came where %d belongs", r.SeqNum, *next)
		case r.Body == theEnd:
			over = true
		case r.Body != f.body(r.SeqNum):
			return false, fmt.Errorf("record %d is %.60q", r.SeqNum, r.Body)
		}
		*next++
	}
	return over, nil
}

// feedWriter is the one writer of a feed.
type feedWriter struct {
	feed
	next uint64
}

func newFeed(t *testing.T, c *client, fill uint64) *feedWriter {
	t.Helper()
	c.create(t, feedName)
	return &feedWriter{feed: feed{c, fill}}
}

func (w *feedWriter) append(t *testing.T, n int) {
	t.Helper()
	var batch []newRecord
	for i := range uint64(n) {
		batch = append(batch, newRecord{Body: w.body(w.next + i)})
	}
	w.send(t, batch)
}

// end tells the followers that nothing more comes.
func (w *feedWriter) end(t *testing.T) {
	t.Helper()
	w.send(t, bodies(theEnd))
}

func (w *feedWriter) send(t *testing.T, batch []newRecord) {
	t.Helper()
	if got := w.c.mustAppend(t, feedName, appendInput{Records: batch}); got.Start.SeqNum != w.next {
		t.Fatalf("a batch expected at %d is at %d", w.next, got.Start.SeqNum)
	}
	w.next += uint64(len(batch))
}

// 500 followers by server-sent events each get every record once and in order, while a fifth of
// them hang up and come again, and one that is behind does not read for 5 s, or a minute with TAILRACE_SCALE=full.
// When they are gone, so is what they took.
func TestManyFollowersGetEverythingOnce(t *testing.T) {
	t.Parallel()
	followers := size(t, "FOLLOWERS", 500, 500)
	stall := time.Duration(size(t, "STALL_SECONDS", 5, 60)) * time.Second
	server := start(t, dataFolder(t))
	c := newClient(server.URL, "many-followers")
	w := newFeed(t, c, 200)
	for range 60 {
		w.append(t, 1000) // some 8 MiB, more than buffers hold
	}
	before := scrape(t, server)

	released := make(chan struct{})
	var stalled atomic.Bool
	all := []*feedFollower{{feed: &w.feed, stall: func() { stalled.Store(true); <-released }}}
	for i := range followers - 1 {
		all = append(all, &feedFollower{feed: &w.feed, from: w.next, restless: i%5 == 0})
	}
	errs := make(chan error, followers)
	for _, f := range all {
		go func() { errs <- f.run(t.Context()) }()
	}
	within(t, 60*time.Second, "all follow", func() bool { return scrape(t, server)["tailrace_http_streaming"] >= float64(followers*9/10) })
	eventually(t, "one is stalled", stalled.Load)
	since, batches := time.Now(), 0
	witness := all[len(all)-2]
	for time.Since(since) < stall {
		w.append(t, 1+rand.IntN(5))
		batches++
		// As fast as they can be told to so many, by this machine's two ends of each connection.
		eventually(t, "a follower goes along", func() bool { return witness.seen.Load()+20 >= w.next })
	}
	during := scrape(t, server)
	close(released)
	w.end(t)
	for range all {
		select {
		case err := <-errs:
			if err != nil {
				t.Fatalf("a follower: %v", err)
			}
		case <-time.After(2 * time.Minute):
			t.Fatal("a follower does not come to the end")
		}
	}
	resumed := 0
	for _, f := range all {
		resumed += f.resumed
		if f.got != w.next-f.from {
			t.Errorf("a follower from %d on got %d records, want %d", f.from, f.got, w.next-f.from)
		}
	}
	t.Logf("%d followers got %d batches in %s, coming again %d times; the stalled one was cut %d times",
		followers, batches, time.Since(since).Round(time.Second), resumed, all[0].cuts)
	c.http.CloseIdleConnections()
	awaitBaseline(t, server, before, during)
}
