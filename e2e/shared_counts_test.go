package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tailrace-streams/tailrace/e2e/faultproxy"
	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// What appends cost in requests, counted before the stores (protocol 10): TAILRACE_COUNTED_APPENDS of them, 1,000 for the
// figures in docs/results.md. Every count but that of PUTs which appends share is asserted: they are the same on every
// machine.
func countedAppends(t *testing.T) int { return amount(t, "TAILRACE_COUNTED_APPENDS", 240) }

// moveEntries is how many entries a head keeps before they are moved into a page.
func moveEntries() int {
	if harness.BucketAlone() {
		return 64
	}
	return 12 // in a table, whose writes are billed by size
}

// headOps are the operations by which heads are written, and they and rows are read.
func headOps() (write, read string) {
	if harness.BucketAlone() {
		return faultproxy.PutObject, faultproxy.GetObject
	}
	return faultproxy.UpdateItem, faultproxy.GetItem
}

// Appends one after the other to one stream: a commit each, and at every twelfth, or 64th, a move, which is a head write, a page, and
// a segment for the entries that were inline.
func TestSharedCountsOfOneStream(t *testing.T) {
	t.Parallel()
	headWrite, headRead := headOps()
	for name, test := range map[string]struct {
		body        string
		putsPerMove int
		putsEach    int
	}{
		"small": {strings.Repeat("s", 100), 2, 0},
		"large": {strings.Repeat("l", 20_000), 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s3, dynamoDB, flags := proxies(t)
			server := start(t, dataFolder(t), flags...)
			c, n := newClient(server.URL, "counts-one-"+name), countedAppends(t)
			c.create(t, "s")
			c.mustAppend(t, "s", appendInput{Records: bodies(test.body)}) // finds the stream and makes its sequencer
			s3.Counted()
			dynamoDB.Counted()
			for range n {
				c.mustAppend(t, "s", appendInput{Records: bodies(test.body)})
			}
			puts, updates := s3.Counted(), dynamoDB.Counted()
			t.Logf("%d %s appends to one stream, one after the other: %d PUTs, %d GETs, %d head writes, %d reads of the table",
				n, name, puts[faultproxy.PutObject], puts[faultproxy.GetObject], updates[headWrite], updates[headRead])
			// Appends go on while a move is under way, so that it takes more entries where a PUT takes longer.
			moves := updates[headWrite] - n
			if most := n/moveEntries() + 1; moves > most || moves < most/2 {
				t.Errorf("%d moves, want %d or a few less", moves, most)
			}
			wantCount(t, "PUTs", puts[faultproxy.PutObject], n*test.putsEach+moves*test.putsPerMove)
			wantCount(t, "GETs", puts[faultproxy.GetObject], 0)
			wantCount(t, "reads of the table", updates[headRead], 0)
		})
	}
}

// wantCount allows for a move that is under way when counting begins or ends.
func wantCount(t *testing.T, what string, got, want int) {
	t.Helper()
	const slack = 3
	if got < want-slack || got > want+slack {
		t.Errorf("%d %s, want about %d", got, what, want)
	}
}

// One append to each of many streams: a read of the directory and one of the head, since this server does not know the
// stream yet, and a commit. Small records need no PUT. Large ones that come at once share them.
func TestSharedCountsOfManyStreams(t *testing.T) {
	t.Parallel()
	headWrite, headRead := headOps()
	s3, dynamoDB, flags := proxies(t)
	server := start(t, dataFolder(t), flags...)
	c, n := newClient(server.URL, "counts-of-many"), countedAppends(t)
	must(t, 201, nil)(c.do(t.Context(), http.MethodPost, "/v1/basins", map[string]any{"basin": c.basin}))
	atOnce(t, 16, n, func(i int) error {
		return succeed(201)(c.do(t.Context(), http.MethodPost, "/v1/streams", map[string]any{"stream": fmt.Sprintf("s-%d", i)}))
	})
	appendToAll := func(workers int, body string) (puts, updates map[string]int) {
		s3.Counted()
		dynamoDB.Counted()
		atOnce(t, workers, n, func(i int) error {
			return succeed(200)(c.append(t.Context(), fmt.Sprintf("s-%d", i), appendInput{Records: bodies(body)}))
		})
		puts, updates = s3.Counted(), dynamoDB.Counted()
		t.Logf("%d appends of %d bytes to as many streams, %d at once: %d PUTs, %d GETs, %d head writes, %d reads of the table",
			n, len(body), workers, puts[faultproxy.PutObject], puts[faultproxy.GetObject], updates[headWrite], updates[headRead])
		return puts, updates
	}
	puts, updates := appendToAll(16, strings.Repeat("s", 100))
	wantCount(t, "head writes", updates[headWrite], n)
	wantCount(t, "reads of the table", updates[headRead], 2*n)
	wantCount(t, "PUTs", puts[faultproxy.PutObject], 0)
	puts, updates = appendToAll(32, strings.Repeat("l", 4000))
	wantCount(t, "head writes", updates[headWrite], n)
	wantCount(t, "reads of the table", updates[headRead], 0)
	if puts[faultproxy.PutObject] > n/2 {
		t.Errorf("%d PUTs: appends that come at once do not share them", puts[faultproxy.PutObject])
	}
}

// succeed makes an error of any other answer.
func succeed(status int) func(answer, error) error {
	return func(a answer, err error) error {
		if err == nil && a.status != status {
			err = errors.New(a.String())
		}
		return err
	}
}

// atOnce calls f for 0..n-1 from several goroutines, and fails the test at the first error.
func atOnce(t *testing.T, workers, n int, f func(i int) error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					cancel(fmt.Errorf("number %d: %w", i, err))
				}
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		t.Fatal(err)
	}
}
