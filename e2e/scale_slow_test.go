package e2e

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// awaitBaseline waits until a server holds what it held before something, and says what it held during it. What lives
// in memory shows only after a collection of the runtime's, so there is some traffic meanwhile.
func awaitBaseline(t *testing.T, server *harness.Server, before, during gauges) {
	t.Helper()
	const heapSlack = 16 << 20 // caches that were cold before
	live := func(g gauges) float64 { return g["go_memstats_next_gc_bytes"] / 2 }
	c := newClient(server.URL, "a-basin-of-no-one")
	defer c.http.CloseIdleConnections()
	var now gauges
	defer func() {
		t.Logf("goroutines %d before, %d during, %d after; descriptors %d, %d, %d; live heap %.0f, %.0f, %.0f MiB; resident %.0f, %.0f, %.0f MiB",
			before.goroutines(), during.goroutines(), now.goroutines(), before.descriptors(), during.descriptors(), now.descriptors(),
			live(before)/(1<<20), live(during)/(1<<20), live(now)/(1<<20), before.resident(), during.resident(), now.resident())
	}()
	within(t, 90*time.Second, "the server is as it was", func() bool {
		for range 500 {
			if _, err := c.do(t.Context(), http.MethodGet, "/v1/streams", nil); err != nil {
				t.Fatal(err)
			}
		}
		c.http.CloseIdleConnections()
		now = scrape(t, server)
		return now.goroutines() <= before.goroutines() && now.descriptors() <= before.descriptors()+2 && live(now) <= live(before)+heapSlack
	})
}

// stalledReader asks for a stream by server-sent events and reads nothing.
func stalledReader(t *testing.T, server *harness.Server, basin, stream string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nS2-Basin: %s\r\nAccept: text/event-stream\r\n\r\n", records(stream), basin)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// BL-055: 200 followers that never read, while 50 MB are appended: the server's memory grows by less than 100 MB, neither
// appends nor a follower that reads are held up, and those that stall are dropped: after the write timeout, which only
// the run with TAILRACE_SCALE=full waits for.
func TestBL055StalledReadersCostLittle(t *testing.T) {
	t.Parallel()
	const growth, batches = 100, 55
	readers := size(t, "STALLED", 200, 200)
	server := start(t, dataFolder(t))
	c := newClient(server.URL, "stalled-readers")
	w := newFeed(t, c, 1200)
	w.append(t, 1000)
	before := scrape(t, server)
	stalled := make([]net.Conn, readers)
	for i := range stalled {
		stalled[i] = stalledReader(t, server, c.basin, feedName)
	}
	good := &feedFollower{feed: &w.feed, from: w.next}
	done := make(chan error, 1)
	go func() { done <- good.run(t.Context()) }()
	eventually(t, "all follow", func() bool { return scrape(t, server)["tailrace_http_streaming"] == float64(readers+1) })

	var peak gauges
	var slowest time.Duration
	for range batches {
		since := time.Now()
		w.append(t, 1000)
		slowest = max(slowest, time.Since(since))
		if now := scrape(t, server); now.resident() > peak.resident() {
			peak = now
		}
	}
	w.end(t)
	if err := <-done; err != nil {
		t.Errorf("the follower that reads: %v", err)
	}
	t.Logf("%d MiB appended beside %d followers that stall: resident %.0f MiB before, %.0f at most; the slowest append took %s",
		batches*920>>10, readers, before.resident(), peak.resident(), slowest)
	if peak.resident() > before.resident()+growth {
		t.Errorf("resident memory grew from %.0f to %.0f MiB", before.resident(), peak.resident())
	}
	c.http.CloseIdleConnections()
	if !fullScale() {
		for _, conn := range stalled {
			conn.Close() // the write timeout is half a minute
		}
	}
	within(t, 45*time.Second, "the stalled are dropped", func() bool { return scrape(t, server)["tailrace_http_streaming"] == 0 })
	awaitBaseline(t, server, before, peak)
}

// BL-058: thousands of requests that their clients give up: event streams, long polls, appends
// whose answer nobody waits for and appends whose body stops. Nothing of them stays.
func TestBL058AbortedRequestsLeaveNothing(t *testing.T) {
	t.Parallel()
	aborts := size(t, "ABORTS", 2000, 5000)
	server := start(t, dataFolder(t))
	c := newClient(server.URL, "aborted-requests")
	c.create(t, feedName)
	c.mustAppend(t, feedName, appendInput{Records: bodies("one record")})
	c.http.CloseIdleConnections()
	before := scrape(t, server)
	host := strings.TrimPrefix(server.URL, "http://")
	head := " " + records(feedName)
	common := " HTTP/1.1\r\nHost: x\r\nS2-Basin: " + c.basin + "\r\n"
	body := `{"records":[{"body":"a record"}]}`
	requests := []string{
		"GET" + head + "?seq_num=0" + common + "Accept: text/event-stream\r\n\r\n",
		"GET" + head + "?seq_num=1&wait=60" + common + "Accept: application/json\r\n\r\n",
		"POST" + head + common + fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body),
		"POST" + head + common + fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:20]),
	}
	var peak gauges
	since := time.Now()
	for i := range aborts {
		for _, request := range requests {
			abort(t, host, request, i%2 == 0)
		}
		if i == aborts/2 {
			peak = scrape(t, server)
		}
	}
	t.Logf("%d requests given up in %s", aborts*len(requests), time.Since(since).Round(time.Millisecond))
	awaitBaseline(t, server, before, peak)
	if now := scrape(t, server); now["tailrace_http_requests_in_flight"] != 1 || now["tailrace_http_streaming"] != 0 {
		t.Errorf("%.0f requests are in flight, %.0f streams open", now["tailrace_http_requests_in_flight"], now["tailrace_http_streaming"])
	}
}

// abort sends a request and hangs up: at once, or after the first byte of an answer or a moment without one.
func abort(t *testing.T, host, request string, atOnce bool) {
	t.Helper()
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	if !atOnce {
		_ = conn.SetReadDeadline(time.Now().Add(2 * time.Millisecond))
		_, _ = conn.Read(make([]byte, 1)) // whether something came does not matter
	}
}
