package dynamostore

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/memobjects"
)

// fleet is coordinators that know nothing of each other but one table, reached through a proxy, and one object store.
type fleet struct {
	proxy   *proxy
	ref     coordinator.StreamRef
	members []*coordinator.Coordinator
}

func newFleet(t *testing.T, size int) *fleet {
	t.Helper()
	f := &fleet{proxy: newProxy(t)}
	f.proxy.completes = true
	table, objects := newTable(t), memobjects.New()
	for range size {
		c, err := coordinator.New(coordinator.Options{
			Heads: open(t, options(f.proxy.URL, table)), Objects: objects, Room: Room, Log: zerolog.Nop(),
			// The machine may be busy; nothing here is about how long a call may take.
			StoreTimeout: 30 * time.Second, AppendTimeout: 2 * time.Minute, DoubtTimeout: time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		f.members = append(f.members, c)
	}
	h := storetest.NewHead()
	f.ref = coordinator.StreamRef{Basin: h.Basin, Stream: h.Stream}
	mustCreate(t, t.Context(), open(t, options(f.proxy.URL, table)), h)
	f.proxy.take()
	return f
}

// tally is what became of the records of a workload.
type tally struct {
	mu         sync.Mutex
	acked      map[string]uint64 // body to sequence number
	indefinite map[string]bool
	failed     int
}

// append has every member's writers append records of their own, one at a time.
func (f *fleet) append(t *testing.T, writers, each int) *tally {
	t.Helper()
	got := &tally{acked: map[string]uint64{}, indefinite: map[string]bool{}}
	var wg sync.WaitGroup
	for m, c := range f.members {
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					body := fmt.Sprintf("%d/%d/%d %s", m, w, i, strings.Repeat(".", 80))
					ack, err := c.Append(t.Context(), f.ref, coordinator.Batch{Records: []segments.Record{{Body: []byte(body)}}})
					got.note(t, body, ack, err)
				}
			})
		}
	}
	wg.Wait()
	return got
}

func (y *tally) note(t *testing.T, body string, ack coordinator.Ack, err error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	var indefinite *coordinator.Indefinite
	switch {
	case err == nil:
		y.acked[body] = ack.Start.SeqNum
	case errors.As(err, &indefinite):
		y.indefinite[body] = true
	default:
		y.failed++
		t.Logf("append: %v", err)
	}
}

// check reads the whole stream: every acknowledged record is at its number, nothing is there twice, and what was not
// acknowledged only if that was not known.
func (f *fleet) check(t *testing.T, y *tally) {
	t.Helper()
	report, err := f.members[0].Check(t.Context(), f.ref)
	if err != nil {
		t.Errorf("check of the stream: %v, %+v", err, report)
	}
	from, wait := uint64(0), time.Duration(0)
	r, err := f.members[0].OpenReader(t.Context(), f.ref, coordinator.ReadOptions{SeqNum: &from, Wait: &wait})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	seen := map[string]bool{}
	for {
		e, err := r.Next(t.Context())
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range e.Records {
			body := string(e.Records[i].Body)
			at, acked := y.acked[body]
			if seen[body] || acked && at != e.Start+uint64(i) || !acked && !y.indefinite[body] {
				t.Fatalf("%q at %d: twice %v, acknowledged %v at %d", body, e.Start+uint64(i), seen[body], acked, at)
			}
			seen[body] = true
		}
	}
	for body := range y.acked {
		if !seen[body] {
			t.Errorf("%q was acknowledged and is not there", body)
		}
	}
}

// commits counts the updates among the requests that add records, and all others.
func commits(requests []request) (n, others int) {
	for _, r := range requests {
		if set, _ := r.params["UpdateExpression"].(string); strings.Contains(set, "list_append") {
			n++
		} else {
			others++
		}
	}
	return n, others
}

// Writers that know nothing of each other do not collide: an append is one attempt, hardly ever more.
func TestAttemptsPerAppend(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ members, writers, each int }{{64, 1, 12}, {4, 16, 24}, {1, 64, 24}} {
		t.Run(fmt.Sprintf("%d coordinators with %d writers", test.members, test.writers), func(t *testing.T) {
			f := newFleet(t, test.members)
			begun := time.Now()
			y := f.append(t, test.writers, test.each)
			took := time.Since(begun)
			n, others := commits(f.proxy.take())
			perAppend := float64(n) / float64(len(y.acked))
			t.Logf("%d appends in %v: %d commits (%.3f an append), %d other requests", len(y.acked), took.Round(time.Millisecond), n, perAppend, others)
			if perAppend > 1.05 || y.failed+len(y.indefinite) > 0 {
				t.Errorf("%.3f attempts an append, %d failed, %d in doubt", perAppend, y.failed, len(y.indefinite))
			}
			f.check(t, y)
		})
	}
}

// Answers are lost, and requests too: what was acknowledged is there once, what failed for good is not.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4)
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(1, 2))
	f.proxy.failing(func(r request) fault {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.op != "UpdateItem":
		case random.IntN(12) == 0:
			return losesAnswer
		case random.IntN(12) == 0:
			return dropsRequest
		case random.IntN(12) == 0:
			return refuses(400, "ThrottlingException")
		}
		return nil
	})
	y := f.append(t, 4, 12)
	f.proxy.failing(nil)
	t.Logf("%d acknowledged, %d in doubt, %d failed", len(y.acked), len(y.indefinite), y.failed)
	if len(y.acked) < 100 {
		t.Errorf("only %d appends were acknowledged", len(y.acked))
	}
	f.check(t, y)
}

// losesAnswer passes the request on, whatever comes of it, and closes the connection instead of answering.
func losesAnswer(p *proxy, w http.ResponseWriter, r *http.Request, body []byte) {
	if _, _, _, err := p.forward(r, "UpdateItem", body); err != nil {
		p.t.Logf("forward: %v", err)
	}
	drop(w)
}
