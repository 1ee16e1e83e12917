package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	tailrace "github.com/tailrace-streams/tailrace/client"
	"github.com/tailrace-streams/tailrace/e2e/faultproxy"
)

// An append lands and its answer is lost (BL-001). What the client does then is what its policy says, and what it says is
// what is so.
func TestN4_LostAnswerIsNeverASilentDouble(t *testing.T) {
	t.Parallel()
	server := start(t, dataFolder(t))
	for i, test := range []struct {
		name               string
		policy             tailrace.AppendRetry
		match              bool
		stored             int
		fine, missedResent bool
	}{
		{"plain, all: at least once", tailrace.RetryAll, false, 2, true, false},
		{"plain, no side effects: in doubt", tailrace.RetryNoSideEffects, false, 1, false, false},
		{"S2: conditional, all: refused, not doubled", tailrace.RetryAll, true, 1, false, true},
		{"conditional, none: in doubt", tailrace.RetryNone, true, 1, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			proxy := faultproxy.Start(t, server.URL)
			s := goStream(t, goClient(t, proxy.URL, tailrace.Options{}), fmt.Sprintf("client-lost-answer-%d", i))
			proxy.On(faultproxy.First(1, onRecords, faultproxy.Fault{LoseReply: true}))
			ctx := bounded(t, 30*time.Second)
			batch := tailrace.Batch{Records: []tailrace.AppendRecord{tailrace.Text("x")}}
			if test.match {
				batch.MatchSeqNum = new(uint64)
			}
			_, err := s.WithRetry(test.policy).AppendBatch(ctx, batch)
			if (err == nil) != test.fine || tailrace.Indefinite(err) == test.fine {
				t.Errorf("the append: %v", err)
			}
			if miss := new(tailrace.SequenceError); errors.As(err, &miss) != test.missedResent || miss.Resent != test.missedResent {
				t.Errorf("the append: %v", err)
			}
			if got := try(s.ReadBatch(ctx, tailrace.ReadOptions{}))(t).Records; len(got) != test.stored {
				t.Errorf("%d records are stored, want %d", len(got), test.stored)
			}
		})
	}
}

func onRecords(r faultproxy.Request) bool {
	return r.Method == http.MethodPost && bytes.HasSuffix([]byte(r.URL.Path), []byte("/records"))
}

// Whatever happens to its answer, a one-shot append is one request.
func TestN3_OneShotIsOneRequest(t *testing.T) {
	t.Parallel()
	server := start(t, dataFolder(t))
	proxy := faultproxy.Start(t, server.URL)
	s := goStream(t, goClient(t, proxy.URL, tailrace.Options{AttemptTimeout: time.Second}), "client-one-shot")
	ctx := bounded(t, 60*time.Second)
	next := uint64(0)
	for name, test := range map[string]struct {
		fault      faultproxy.Fault
		lands      bool
		indefinite bool
	}{
		"no fault":     {faultproxy.Fault{}, true, false},
		"refused":      {faultproxy.Fault{Refuse: faultproxy.Page(http.StatusBadGateway)}, false, true},
		"reset":        {faultproxy.Fault{Reset: true}, false, true},
		"answer lost":  {faultproxy.Fault{LoseReply: true}, true, true},
		"answer hangs": {faultproxy.Fault{SwallowReply: true}, true, true},
		"answer cut":   {faultproxy.Fault{CutAfter: 3}, true, true},
	} {
		proxy.On(faultproxy.Always(onRecords, test.fault))
		proxy.Counted()
		_, err := s.WithRetry(tailrace.RetryAll).AppendMatch(ctx, next, tailrace.Text("x"))
		if (err == nil) == test.indefinite || tailrace.Indefinite(err) != test.indefinite || proxy.Counted()[http.MethodPost] != 1 {
			t.Errorf("%s: %v", name, err)
		}
		proxy.On(nil)
		tail := try(s.CheckTail(ctx))(t).SeqNum
		if (tail == next+1) != test.lands {
			t.Errorf("%s: the tail is %d after %d", name, tail, next)
		}
		_, err = s.AppendMatch(ctx, tail+1, tailrace.Text("x"))
		if miss := new(tailrace.SequenceError); !errors.As(err, &miss) || miss.Tail != tail || tailrace.Indefinite(err) {
			t.Errorf("%s: the miss: %v", name, err)
		}
		next = tail
	}
}

// cutting cuts connections at random until the function it gives is called.
func cutting(p *proxy, every time.Duration, probability float64) (stop func()) {
	done := make(chan struct{})
	var cutter sync.WaitGroup
	cutter.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(every/2 + rand.N(every)):
				p.cut(probability)
			}
		}
	})
	return sync.OnceFunc(func() { close(done); cutter.Wait() })
}

// add increments a counter that is kept as records of its values, by the recipe: read the last value, and append the next on
// condition that nothing came between. id says whose increment a record is.
//
// After an append of unknown outcome the number it was for is what decides: once a record is there, it is ours or somebody
// else's for ever. Until one is, only an append for the same number may follow, of which at most one lands.
func add(ctx context.Context, s *tailrace.Stream, id string) error {
	for ctx.Err() == nil {
		last, next, err := lastRecord(ctx, s)
		if err != nil {
			continue // nothing was changed
		}
		value, err := strconv.Atoi(string(last.Body))
		if err != nil {
			return err
		}
		record := tailrace.Text(strconv.Itoa(value + 1))
		record.Headers = []tailrace.Header{{Name: []byte("by"), Value: []byte(id)}}
		if _, err = s.AppendMatch(ctx, next, record); err == nil {
			return nil
		}
		for doubt := tailrace.Indefinite(err); doubt && ctx.Err() == nil; {
			b, err := s.ReadBatch(ctx, tailrace.ReadOptions{Start: tailrace.FromSeqNum(next), Count: 1})
			switch {
			case errors.Is(err, tailrace.ErrOutOfRange):
				// Nobody is there yet; what may still come would be at this number.
				if _, err = s.AppendMatch(ctx, next, record); err == nil {
					return nil
				}
			case err == nil && string(b.Records[0].Headers[0].Value) == id:
				return nil
			case err == nil:
				doubt = false
			}
		}
	}
	return ctx.Err()
}

// lastRecord is the record at the tail, and the number after it.
func lastRecord(ctx context.Context, s *tailrace.Stream) (tailrace.Record, uint64, error) {
	b, err := s.ReadBatch(ctx, tailrace.ReadOptions{Start: tailrace.FromTail(1), Count: 1})
	if err != nil {
		return tailrace.Record{}, 0, err
	}
	return b.Records[0], b.Records[0].SeqNum + 1, nil
}

// 16 writers increment one counter while connections are cut at random: no increment is lost, none is there twice.
func TestCounterThroughCutConnections(t *testing.T) {
	t.Parallel()
	const writers, each = 16, 12
	server := start(t, dataFolder(t))
	relay := newProxy(t)
	relay.serve(t, server.URL)
	s := goStream(t, goClient(t, server.URL, tailrace.Options{}), "client-counter")
	ctx := bounded(t, 120*time.Second)
	try(s.Append(ctx, tailrace.AppendRecord{Body: []byte("0"), Headers: []tailrace.Header{{Name: []byte("by"), Value: []byte("nobody")}}}))(t)
	stop := cutting(relay, 20*time.Millisecond, 0.3)
	defer stop()
	var all sync.WaitGroup
	for w := range writers {
		c := goClient(t, relay.url(), tailrace.Options{})
		all.Go(func() {
			mine := c.Basin(s.Basin().Name()).Stream(s.Name())
			for i := range each {
				id := fmt.Sprintf("writer %d, increment %d", w, i)
				if err := add(ctx, mine, id); err != nil {
					t.Errorf("%s: %v", id, err)
					return
				}
			}
		})
	}
	all.Wait()
	stop()
	got := collect(t, s.Read(ctx, tailrace.ReadOptions{}))
	seen := map[string]bool{}
	for i, r := range got {
		id := string(r.Headers[0].Value)
		if string(r.Body) != strconv.Itoa(i) || seen[id] {
			t.Fatalf("record %d is %q by %q, there before: %v", i, r.Body, id, seen[id])
		}
		seen[id] = true
	}
	if len(got)-1 != writers*each {
		t.Errorf("the counter is at %d after %d increments", len(got)-1, writers*each)
	}
}

// Followers whose connections are cut, and whose server is killed and comes again, get everything once and in order, while a
// producer chained by its sequence numbers puts everything there once (BL-010).
func TestFollowersAndProducerThroughCuts(t *testing.T) {
	t.Parallel()
	const records = 3000
	data := dataFolder(t)
	server := start(t, data)
	relay := newProxy(t)
	relay.serve(t, server.URL)
	c := goClient(t, relay.url(), tailrace.Options{})
	s := goStream(t, c, "client-cuts")
	ctx := bounded(t, 150*time.Second)
	var want []string
	for i := range records {
		want = append(want, fmt.Sprintf("record %d", i))
	}
	var followers sync.WaitGroup
	for i := range 4 {
		followers.Go(func() {
			var got []string
			for r, err := range s.Follow(ctx, tailrace.ReadOptions{Count: records}) {
				if err != nil {
					t.Errorf("follower %d after %d records: %v", i, len(got), err)
					return
				}
				got = append(got, string(r.Body))
			}
			if !slices.Equal(got, want) {
				t.Errorf("follower %d got %d records", i, len(got))
			}
		})
	}
	stop := cutting(relay, 20*time.Millisecond, 0.5)
	defer stop()
	killed := false
	for next := uint64(0); next < records; {
		next = ingest(ctx, t, s, want, next)
		if !killed && next > records/2 {
			killed = true
			server.Kill()
			server = start(t, data)
			relay.refuse()
			relay.serve(t, server.URL)
		}
	}
	followers.Wait()
	stop()
	if got := texts(collect(t, s.Read(ctx, tailrace.ReadOptions{}))); !slices.Equal(got, want) {
		t.Errorf("%d records are stored", len(got))
	}
}

// ingest appends what follows from a number on until something fails, and gives the number to go on at. What is stored is
// the source's beginning, so the tail alone says how far it came: the recipe for exactly-once ingestion.
func ingest(ctx context.Context, t *testing.T, s *tailrace.Stream, source []string, next uint64) uint64 {
	t.Helper()
	p, err := s.WithRetry(tailrace.RetryAll).Produce(ctx, tailrace.ProducerOptions{Match: &next, BatchRecords: 20})
	if err == nil {
		for _, body := range source[next:min(len(source), int(next)+400)] {
			if _, err = p.Submit(ctx, tailrace.Text(body)); err != nil {
				break
			}
		}
		if closed := p.Close(ctx); closed == nil {
			return p.Expected()
		}
	}
	for ctx.Err() == nil {
		if tail, err := s.CheckTail(ctx); err == nil {
			return tail.SeqNum
		}
	}
	t.Fatal(ctx.Err())
	return 0
}
