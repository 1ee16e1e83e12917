package e2e

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// amount is how much of something a test does: the number in the variable, or the usual one.
func amount(t *testing.T, variable string, usual int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		t.Fatalf("%s is %q, not a number above 0", variable, text)
	}
	return n
}

// share is the duration that a share of all does not exceed.
func share(all []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)].Round(10 * time.Microsecond)
}

// BL-003: of 64 appends that expect the same number and go to four servers at once, one succeeds and the others learn the
// number that is next; 200 rounds (TAILRACE_RACE_ROUNDS).
func TestSharedBL003ConditionalRace(t *testing.T) {
	t.Parallel()
	const racers = 64
	rounds := uint64(amount(t, "TAILRACE_RACE_ROUNDS", 200))
	var via []*client
	for _, server := range nodes(t, 4) {
		via = append(via, newClient(server.URL, "race-over-nodes"))
	}
	via[0].create(t, "contested")
	since := time.Now()
	for round := range rounds {
		answers, errs := make([]answer, racers), make([]error, racers)
		begin := make(chan struct{})
		var all sync.WaitGroup
		for i := range racers {
			all.Go(func() {
				<-begin
				in := appendInput{Records: bodies(fmt.Sprintf("round %d racer %d", round, i)), MatchSeqNum: &round}
				answers[i], errs[i] = via[i%len(via)].append(t.Context(), "contested", in)
			})
		}
		close(begin)
		all.Wait()
		won := 0
		for i, a := range answers {
			switch {
			case errs[i] != nil:
				t.Fatalf("round %d: an append got no answer: %v", round, errs[i])
			case a.status == 200:
				won++
			case a.status != 412 || a.body != fmt.Sprintf(`{"seq_num_mismatch":%d}`, round+1) || !a.definite():
				t.Fatalf("round %d: a loser's answer is %v", round, a)
			}
		}
		if won != 1 {
			t.Fatalf("round %d: %d appends won", round, won)
		}
	}
	t.Logf("%d rounds of %d took %s", rounds, racers, time.Since(since).Round(time.Millisecond))
	if stored := via[1].readAll(t, "contested", 0, rounds); len(stored) != int(rounds) || via[2].tail(t, "contested") != rounds {
		t.Errorf("%d records are stored after %d rounds", len(stored), rounds)
	}
}

// BL-079: what one server creates, changes or deletes, the other sees at once; 100 rounds (TAILRACE_VISIBLE_ROUNDS).
func TestSharedBL079CreateHereUseThere(t *testing.T) {
	t.Parallel()
	servers := nodes(t, 2)
	here, there := newClient(servers[0].URL, "here-and-there"), newClient(servers[1].URL, "here-and-there")
	must(t, 201, nil)(here.do(t.Context(), http.MethodPost, "/v1/basins", map[string]any{"basin": here.basin}))
	must(t, 200, nil)(there.do(t.Context(), http.MethodGet, "/v1/basins/"+here.basin, nil))
	rounds := amount(t, "TAILRACE_VISIBLE_ROUNDS", 100)
	var took []time.Duration
	for round := range rounds {
		name := fmt.Sprintf("s-%d", round)
		// Known there as missing, so that a cache of absences would show.
		must(t, 404, nil)(there.do(t.Context(), http.MethodGet, records(name)+"/tail", nil))
		here.createStream(t, name)
		since := time.Now()
		if tail := there.tail(t, name); tail != 0 {
			t.Fatalf("the tail of a new stream is %d", tail)
		}
		took = append(took, time.Since(since))
		must(t, 200, nil)(there.do(t.Context(), http.MethodGet, "/v1/streams/"+name, nil))
		var page struct{ Streams []struct{ Name string } }
		must(t, 200, &page)(there.do(t.Context(), http.MethodGet, "/v1/streams?prefix="+name+"&limit=1", nil))
		if len(page.Streams) != 1 || page.Streams[0].Name != name {
			t.Fatalf("round %d: a listing elsewhere shows %+v", round, page)
		}
		there.mustAppend(t, name, appendInput{Records: bodies("from there")})
		if got := here.readAll(t, name, 0, here.tail(t, name)); len(got) != 1 || got[0].Body != "from there" {
			t.Fatalf("round %d: read %+v", round, got)
		}
		must(t, 200, nil)(there.do(t.Context(), http.MethodPatch, "/v1/streams/"+name, map[string]any{"storage_class": "standard"}))
		must(t, 202, nil)(here.do(t.Context(), http.MethodDelete, "/v1/streams/"+name, nil))
		a, err := there.append(t.Context(), name, appendInput{Records: bodies("too late")})
		if err != nil || a.status != 404 && a.status != 409 || !a.definite() {
			t.Fatalf("round %d: an append after the deletion elsewhere: %v, %v", round, a, err)
		}
	}
	t.Logf("a check-tail elsewhere right after a creation takes %s, p99 %s", share(took, 0.5), share(took, 0.99))
}

// BL-016: 32 first appends at once to a stream that nobody has made yet, over two servers: each makes it or finds it made.
func TestSharedBL016FirstAppendsAtOnce(t *testing.T) {
	t.Parallel()
	const writers = 32
	servers := nodes(t, 2)
	via := []*client{newClient(servers[0].URL, "first-appends"), newClient(servers[1].URL, "first-appends")}
	must(t, 201, nil)(via[0].do(t.Context(), http.MethodPost, "/v1/basins", map[string]any{
		"basin": "first-appends", "config": map[string]any{"create_stream_on_append": true}}))
	for round := range 5 {
		name := fmt.Sprintf("new/%d", round)
		answers, errs := make([]answer, writers), make([]error, writers)
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() {
				answers[i], errs[i] = via[i%2].append(t.Context(), name, appendInput{Records: bodies(fmt.Sprint(i))})
			})
		}
		all.Wait()
		for i, a := range answers {
			if errs[i] != nil || a.status != 200 {
				t.Fatalf("round %d: append %d: %v, %v", round, i, a, errs[i])
			}
		}
		if tail := via[1].tail(t, name); tail != writers {
			t.Errorf("round %d: the tail is %d, want %d", round, tail, writers)
		}
	}
}
