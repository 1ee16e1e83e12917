package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// What many streams may cost, and how they are made.
const (
	idleMemory   = 50.0 // MiB above an empty server, once all are idle
	activeMemory = 8.0  // KiB for each stream that is not
	fewStreams   = 1000
	streamMakers = 16
	// idleBound is the minute after which a stream counts as idle, and what the runtime then takes to give memory back:
	// it collects every two minutes if nothing else makes it.
	idleBound = 8 * time.Minute
)

func streamName(i int) string { return fmt.Sprintf("tenant-%02d/device-%06d", i%100, i) }

// 15,000 streams in one basin, and 100,000 with TAILRACE_SCALE=full: the last are made as fast as the first, a page of a
// listing takes the same time whatever lies around it, and with a record in each they cost hardly any memory, no
// goroutine and no series of metrics (BL-138, BL-140). The full run waits until they are idle.
func TestBL140ManyIdleStreams(t *testing.T) {
	t.Parallel()
	streams := size(t, "STREAMS", 15_000, 100_000)
	empty := scrape(t, start(t, dataFolder(t)))
	server := start(t, dataFolder(t), "--upkeep-interval=5s")
	c := newClient(server.URL, "many-streams")
	must(t, 201, nil)(c.do(t.Context(), http.MethodPost, "/v1/basins", map[string]any{"basin": c.basin}))

	makeStreams(t, c, 0, fewStreams)
	appendOnce(t, c, 0, fewStreams)
	pageAmongFew := timePages(t, c, fewStreams)
	scrape(t, server) // the first one brings series of its own
	seriesOfFew := len(scrape(t, server))
	rates := makeStreams(t, c, fewStreams, streams)
	checkSteady(t, rates)
	pageAmongMany := timePages(t, c, streams)
	t.Logf("%d streams: made at %.0f/s (tenths %.0f); a page of 100 takes %s, among %d it took %s",
		streams, mean(rates), rates, pageAmongMany, fewStreams, pageAmongFew)
	if pageAmongMany > 2*pageAmongFew+time.Millisecond {
		t.Errorf("a page takes %s among %d streams, %s among %d", pageAmongFew, fewStreams, pageAmongMany, streams)
	}
	appendOnce(t, c, fewStreams, streams)
	if series := len(scrape(t, server)); series != seriesOfFew || series > 2000 {
		t.Errorf("there are %d series with %d streams, there were %d with %d", series, streams, seriesOfFew, fewStreams)
	}
	c.http.CloseIdleConnections()
	limit, sweeper := idleMemory+activeMemory*float64(streams)/1024, 1
	if fullScale() {
		limit, sweeper = idleMemory, 0
	}
	awaitIdle(t, server, empty, sweeper, limit)
	readCold(t, c, streams)
}

// makeStreams makes streams from..to over several connections, and returns the rate of each tenth.
func makeStreams(t *testing.T, c *client, from, to int) (rates []float64) {
	t.Helper()
	for tenth := range 10 {
		begin, end := from+(to-from)*tenth/10, from+(to-from)*(tenth+1)/10
		since := time.Now()
		each(t, begin, end, func(i int) error {
			a, err := c.do(t.Context(), http.MethodPost, "/v1/streams", map[string]any{"stream": streamName(i)})
			if err == nil && a.status != 201 {
				err = errors.New(a.String())
			}
			return err
		})
		rates = append(rates, float64(end-begin)/time.Since(since).Seconds())
	}
	return rates
}

// mean of rates over equal amounts: the harmonic one.
func mean(all []float64) float64 {
	sum := 0.0
	for _, v := range all {
		sum += 1 / v
	}
	return float64(len(all)) / sum
}

// checkSteady compares the last tenths with the first: the best of three with the middle one of three, since other work
// on the machine comes and goes.
func checkSteady(t *testing.T, rates []float64) {
	t.Helper()
	if first, last := slices.Sorted(slices.Values(rates[:3]))[1], slices.Max(rates[7:]); last < first/2 {
		t.Errorf("the rate fell from %.0f/s to %.0f/s", first, last)
	}
}

// appendOnce appends a record to each of the streams from..to.
func appendOnce(t *testing.T, c *client, from, to int) {
	t.Helper()
	since := time.Now()
	each(t, from, to, func(i int) error {
		a, err := c.append(t.Context(), streamName(i), appendInput{Records: bodies("hello " + streamName(i))})
		if err == nil && a.status != 200 {
			err = errors.New(a.String())
		}
		return err
	})
	t.Logf("%d first appends at %.0f/s", to-from, float64(to-from)/time.Since(since).Seconds())
}

// each calls f for from..to-1 from several goroutines, and fails the test at the first error.
func each(t *testing.T, from, to int, f func(i int) error) {
	t.Helper()
	var next atomic.Int64
	next.Store(int64(from))
	errs := make(chan error, streamMakers)
	var all sync.WaitGroup
	for range streamMakers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < to; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					errs <- fmt.Errorf("stream %d: %w", i, err)
					return
				}
			}
		})
	}
	all.Wait()
	select {
	case err := <-errs:
		t.Fatal(err)
	default:
	}
}

// timePages is the median time of a page of 100 names from a random place on.
func timePages(t *testing.T, c *client, streams int) time.Duration {
	t.Helper()
	const pages = 200
	took := make([]time.Duration, 0, pages)
	for range pages {
		// A tenth of the streams of one tenant at most, so that a whole page follows.
		tenant := rand.IntN(fewStreams / 100)
		after := fmt.Sprintf("tenant-%02d/device-%06d", tenant, rand.IntN(streams))
		var page struct {
			Streams []struct{ Name string }
			HasMore bool `json:"has_more"`
		}
		since := time.Now()
		must(t, 200, &page)(c.do(t.Context(), http.MethodGet, "/v1/streams?limit=100&start_after="+after, nil))
		took = append(took, time.Since(since))
		if len(page.Streams) != 100 || !page.HasMore || page.Streams[0].Name <= after {
			t.Fatalf("a page after %s has %d names, the first %+v", after, len(page.Streams), page.Streams[:min(1, len(page.Streams))])
		}
	}
	return median(took)
}

// awaitIdle waits until a server has as many goroutines as an empty one, and sweeper more, and at most so many MiB more.
func awaitIdle(t *testing.T, server *harness.Server, empty gauges, sweeper int, limit float64) {
	t.Helper()
	since := time.Now()
	var now gauges
	peak := 0.0
	defer func() {
		t.Logf("after %s: %d goroutines, %d when empty; %.0f MiB resident, %.0f when empty, %.0f at most",
			time.Since(since).Round(time.Second), now.goroutines(), empty.goroutines(), now.resident(), empty.resident(), peak)
	}()
	within(t, idleBound, "streams cost next to nothing", func() bool {
		now = scrape(t, server)
		peak = max(peak, now.resident())
		return now.goroutines() <= empty.goroutines()+sweeper && now.resident() <= empty.resident()+limit
	})
}

// readCold reads records of streams that nobody has touched for a while.
func readCold(t *testing.T, c *client, streams int) {
	t.Helper()
	var took []time.Duration
	for range 500 {
		name := streamName(rand.IntN(streams))
		since := time.Now()
		a, err := c.do(t.Context(), http.MethodGet, records(name)+"?seq_num=0", nil)
		took = append(took, time.Since(since))
		var batch struct{ Records []record }
		if err != nil || a.status != 200 || json.Unmarshal([]byte(a.body), &batch) != nil ||
			len(batch.Records) != 1 || batch.Records[0].Body != "hello "+name {
			t.Fatalf("read of %s: %v, %v", name, a, err)
		}
	}
	t.Logf("a read of an idle stream takes %s, p99 %s", median(took), quantile(took, 0.99))
}
