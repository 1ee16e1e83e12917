package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/e2e/faultproxy"
	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// segmentPut picks what an append of the large record asks of the objects.
var (
	segmentPut  = faultproxy.All(faultproxy.Op(faultproxy.PutObject), faultproxy.Key("/segments/"))
	largeRecord = appendInput{Records: bodies(strings.Repeat("large ", 4000))}
)

// commit picks what an append asks of the heads. In a bucket it looks like any other change of a head.
func commit(r faultproxy.Request) bool {
	if harness.BucketAlone() {
		return r.Op == faultproxy.PutObject && r.Header.Get("If-Match") != "" && strings.Contains(r.Key, "/heads/heads/")
	}
	return r.Op == faultproxy.UpdateItem && strings.Contains(string(r.Body), "list_append")
}

// headsFault is how the store of the heads says that something went wrong inside it.
func headsFault() *faultproxy.Refusal {
	if harness.BucketAlone() {
		return faultproxy.Objects(500, "InternalError")
	}
	return faultproxy.Items(500, "InternalServerError")
}

// turnedAway fails the test unless the answer is a definite failure that asks to come again.
func turnedAway(t *testing.T, a answer, err error) {
	t.Helper()
	if err != nil || a.status != 502 && a.status != 503 || !a.definite() || a.header.Get("Retry-After") == "" {
		t.Errorf("answered %v %v, %v; want a definite failure that asks to come again", a, a.header, err)
	}
}

// faulty is a server behind proxies, with a stream that it knows.
func faulty(t *testing.T, basin string) (c *client, s3, heads *faultproxy.Proxy) {
	t.Helper()
	s3, heads, flags := proxies(t)
	c = newClient(start(t, dataFolder(t), flags...).URL, basin)
	c.create(t, "s")
	c.mustAppend(t, "s", appendInput{Records: bodies("first")})
	s3.Counted()
	heads.Counted()
	return c, s3, heads
}

// BL-092: the object is stored and the answer lost. The same bytes are put again under the same key, which changes nothing:
// one acknowledgement, one record.
func TestSharedBL092LostAnswerOfAPut(t *testing.T) {
	t.Parallel()
	c, s3, _ := faulty(t, "lost-put")
	var mu sync.Mutex
	puts := map[string]int{}
	s3.Watch(func(r faultproxy.Request) {
		if segmentPut(r) {
			mu.Lock()
			defer mu.Unlock()
			puts[r.Key]++
		}
	})
	s3.On(faultproxy.First(1, segmentPut, faultproxy.Fault{LoseReply: true}))
	if got := c.mustAppend(t, "s", largeRecord); got.Start.SeqNum != 1 || got.Tail.SeqNum != 2 {
		t.Errorf("acknowledged as %+v", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(puts) != 1 {
		t.Errorf("put were %v, want one object", puts)
	}
	if got := c.readAll(t, "s", 0, c.tail(t, "s")); len(got) != 2 {
		t.Errorf("%d records are stored", len(got))
	}
}

// BL-093, BL-097, BL-099: what passes is waited for, whatever the store calls it; what does not pass is a definite failure
// that tells when to come again, and its text keeps the store's own word. The bytes are whole.
func TestSharedBL093RefusedPuts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		refusal *faultproxy.Refusal
		code    string
	}{
		"BL-093 409": {faultproxy.Objects(409, "ConditionalRequestConflict"), "ConditionalRequestConflict"},
		"BL-097 429": {faultproxy.Objects(429, "TooManyRequests"), "TooManyRequests"},
		"BL-099 503": {faultproxy.SlowDown, "SlowDown"},
		"500":        {faultproxy.Objects(500, "InternalError"), "InternalError"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s3, _, flags := proxies(t)
			server := start(t, dataFolder(t), flags...)
			c := newClient(server.URL, "refused-puts")
			c.create(t, "s")
			s3.On(faultproxy.First(2, segmentPut, faultproxy.Fault{Refuse: test.refusal}))
			if got := c.mustAppend(t, "s", largeRecord); got.Start.SeqNum != 0 {
				t.Errorf("acknowledged as %+v", got)
			}
			s3.On(faultproxy.Always(segmentPut, faultproxy.Fault{Refuse: test.refusal}))
			a, err := c.append(t.Context(), "s", largeRecord)
			turnedAway(t, a, err)
			eventually(t, "the store's own word in the log", func() bool { return strings.Contains(server.Logs(), test.code) })
			s3.On(nil)
			c.mustAppend(t, "s", largeRecord)
			got := c.readAll(t, "s", 0, c.tail(t, "s"))
			if len(got) != 2 || got[0].Body != largeRecord.Records[0].Body || got[1].Body != got[0].Body {
				t.Errorf("%d records are stored, or their bytes differ", len(got))
			}
		})
	}
}

// BL-098, BL-103, BL-112: what some store refuses, or takes for something else, is never asked of one: no chunks, no
// trailers or checksums, no uploads in parts; and every read of the table is a consistent one.
func TestSharedBL098PlainRequests(t *testing.T) {
	t.Parallel()
	s3, heads, flags := proxies(t)
	var reads, puts atomic.Int64
	s3.Watch(func(r faultproxy.Request) {
		if r.Op == faultproxy.PutObject {
			puts.Add(1)
		}
		if query := r.URL.Query(); query.Has("uploads") || query.Has("uploadId") {
			t.Errorf("an upload in parts: %s %s", r.Method, r.URL)
		}
		for name, values := range r.Header {
			if strings.Contains(name, "Checksum") || strings.Contains(name, "Trailer") || name == "Content-Encoding" ||
				name == "Transfer-Encoding" || strings.HasPrefix(values[0], "STREAMING") {
				t.Errorf("%s has the header %s: %s", r.Op, name, values)
			}
		}
	})
	heads.Watch(func(r faultproxy.Request) {
		var params struct{ ConsistentRead bool }
		switch r.Op {
		case faultproxy.GetItem, faultproxy.Query, "Scan", "BatchGetItem":
			reads.Add(1)
			if json.Unmarshal(r.Body, &params) != nil || !params.ConsistentRead {
				t.Errorf("%s without ConsistentRead", r.Op)
			}
		}
	})
	c := newClient(start(t, dataFolder(t), flags...).URL, "plain-requests")
	c.create(t, "s")
	for i := range 30 {
		c.mustAppend(t, "s", appendInput{Records: bodies(strings.Repeat("x", 1+i%3*30_000))})
	}
	c.readAll(t, "s", 0, c.tail(t, "s"))
	must(t, 202, nil)(c.do(t.Context(), http.MethodDelete, "/v1/streams/s", nil))
	if reads.Load() == 0 && !harness.BucketAlone() || puts.Load() < 10 {
		t.Errorf("only %d reads of the table and %d PUTs were seen", reads.Load(), puts.Load())
	}
}

// refusals are what the store of the heads says of a commit that it has not applied and will not.
func refusals() map[string]*faultproxy.Refusal {
	if harness.BucketAlone() {
		return map[string]*faultproxy.Refusal{
			"BL-093 conflict":     faultproxy.Objects(409, "ConditionalRequestConflict"),
			"BL-097 one a second": faultproxy.Objects(429, "SlowDown"),
			"slow down":           faultproxy.SlowDown,
		}
	}
	return map[string]*faultproxy.Refusal{
		"throttled":               faultproxy.Throttled,
		"throughput exceeded":     faultproxy.Items(400, "ProvisionedThroughputExceededException"),
		"conflict":                faultproxy.Items(400, "TransactionConflictException"),
		"cancelled, by condition": faultproxy.Cancelled("ConditionalCheckFailed", "None"),
		"cancelled, by conflict":  faultproxy.Cancelled("TransactionConflict"),
		"cancelled, mixed":        faultproxy.Cancelled("ThrottlingError", "ConditionalCheckFailed"),
		"cancelled, invalid":      faultproxy.Cancelled("ValidationError"),
	}
}

// BL-093, BL-097, BL-110, BL-111: each refusal of the store of the heads has its own meaning. What will not be applied is a
// definite failure, or is tried again; nothing becomes "no such stream" or a lost race, and nothing is repeated without a
// pause.
func TestSharedBL111RefusedCommits(t *testing.T) {
	t.Parallel()
	for name, refusal := range refusals() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _, heads := faulty(t, "refused-commits")
			before := c.tail(t, "s")
			heads.On(faultproxy.First(1, commit, faultproxy.Fault{Refuse: refusal}))
			a, err := c.append(t.Context(), "s", appendInput{Records: bodies("once")})
			if err != nil || a.status != 200 {
				turnedAway(t, a, err)
			}
			if tail := c.tail(t, "s"); tail != before+map[bool]uint64{true: 1}[a.status == 200] {
				t.Errorf("once: answered %v, and the tail went from %d to %d", a, before, tail)
			}
			heads.On(faultproxy.Always(commit, faultproxy.Fault{Refuse: refusal}))
			before = c.tail(t, "s")
			heads.Counted()
			a, err = c.append(t.Context(), "s", appendInput{Records: bodies("never")})
			turnedAway(t, a, err)
			asked := heads.Counted()
			if n := asked[faultproxy.UpdateItem] + asked[faultproxy.PutObject]; n > 200 {
				t.Errorf("%d updates for one append", n)
			}
			heads.On(nil)
			if tail := c.tail(t, "s"); tail != before {
				t.Errorf("the tail went from %d to %d", before, tail)
			}
		})
	}
}

// One commit is one request, whatever becomes of it: a commit that is repeated has another id, under which it may be looked
// for, and the one before it was cancelled.
func TestSharedCommitsAreSentOnce(t *testing.T) {
	t.Parallel()
	c, _, heads := faulty(t, "sent-once")
	var mu sync.Mutex
	sent := map[string]int{}
	heads.Watch(func(r faultproxy.Request) {
		if commit(r) {
			mu.Lock()
			defer mu.Unlock()
			sent[string(r.Body)]++
		}
	})
	for name, fault := range map[string]faultproxy.Fault{
		"500":           {Refuse: headsFault()},
		"503":           {Refuse: faultproxy.Page(503)},
		"reset":         {Reset: true},
		"lost answer":   {LoseReply: true},
		"cut answer":    {CutAfter: 20},
		"silence":       {BlackHole: true},
		"answered 500":  {Replace: headsFault()},
		"silent answer": {SwallowReply: true},
	} {
		before := c.tail(t, "s")
		heads.On(faultproxy.First(1, commit, fault))
		if got := c.mustAppend(t, "s", appendInput{Records: bodies(name)}); got.Start.SeqNum != before || got.End.SeqNum != before+1 {
			t.Errorf("%s: acknowledged as %+v after %d", name, got, before)
		}
		if got := c.readAll(t, "s", before, c.tail(t, "s")); len(got) != 1 || got[0].Body != name {
			t.Errorf("%s: stored are %v", name, got)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, n := range sent {
		if n > 1 {
			t.Errorf("one commit came %d times", n)
		}
	}
	if len(sent) < 8 {
		t.Errorf("%d commits were seen", len(sent))
	}
}

// stubborn is a writer that goes on whatever it is told, and writes down what it was told.
func (w *writer) stubborn(ctx context.Context, c *client, stream string, acked *atomic.Int64) {
	for ctx.Err() == nil {
		s := sent{writer: w.id, batch: len(w.log), size: 1 + w.random.IntN(6)}
		if w.random.IntN(3) == 0 {
			s.fill = 2000 + w.random.IntN(2000)
		}
		a, err := c.append(context.WithoutCancel(ctx), stream, s.input())
		var got ack
		switch {
		case err != nil:
			w.faults = append(w.faults, "no answer: "+err.Error())
			return
		case a.status == 200:
			if err := json.Unmarshal([]byte(a.body), &got); err != nil {
				w.faults = append(w.faults, a.String())
			}
			s.acked, s.start = true, got.Start.SeqNum
			acked.Add(1)
		case a.status == 502 || a.status == 503:
			s.refused = a.definite()
		case a.definite() || a.status != 500 && a.status != 504:
			w.faults = append(w.faults, a.String())
		}
		w.log = append(w.log, s)
	}
}

// between is what something between a server and its store of heads says of commits, in words that mean something else in a
// store's mouth, while it has passed them on, passes them on later, or never does.
func between(seed uint64) faultproxy.Rule {
	statuses := []int{200, 400, 500}
	if harness.BucketAlone() {
		statuses = []int{200, 409, 412}
	}
	var faults []faultproxy.Fault
	for _, status := range statuses {
		said := faultproxy.Page(status)
		faults = append(faults, faultproxy.Fault{Refuse: said}, faultproxy.Fault{Refuse: said, Late: 20 * time.Millisecond},
			faultproxy.Fault{Refuse: said, Keep: true}, faultproxy.Fault{Replace: said})
	}
	return faultproxy.Sometimes(seed, 0.05, commit, faults...)
}

// BL-117 and the promise under it: several servers write one stream while both stores refuse, lose, cut and swallow a share of
// what they are asked, and do much of it seconds later, or when everything is over. Every append has an answer; what was
// acknowledged is there once, what failed definitely is nowhere, and no writer starves.
func TestSharedMisbehavingStores(t *testing.T) {
	t.Parallel()
	const writers = 6
	s3, heads, flags := proxies(t)
	data := dataFolder(t)
	via := make([]*client, 2)
	for i := range via {
		via[i] = newClient(start(t, data, flags...).URL, "misbehaving")
	}
	via[0].create(t, "log")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	conflict := faultproxy.Items(400, "TransactionConflictException")
	if harness.BucketAlone() {
		conflict = faultproxy.Objects(409, "ConditionalRequestConflict")
	}
	common := []faultproxy.Fault{
		{Reset: true}, {LoseReply: true}, {CutAfter: 10}, {Delay: 50 * time.Millisecond}, {Reset: true, Late: 500 * time.Millisecond},
		{Reset: true, Keep: true}, {BlackHole: true, Late: 3 * time.Second}, {SwallowReply: true}, {Delay: 2500 * time.Millisecond},
	}
	s3.On(faultproxy.Either(
		faultproxy.Sometimes(seed+3, 0.05, segmentPut, faultproxy.Fault{Refuse: faultproxy.Page(200)}, faultproxy.Fault{Replace: faultproxy.Page(200)}),
		faultproxy.Sometimes(seed, 0.05, faultproxy.Any, append(common,
			faultproxy.Fault{Refuse: faultproxy.SlowDown}, faultproxy.Fault{Refuse: faultproxy.Objects(500, "InternalError")},
			faultproxy.Fault{Refuse: faultproxy.Objects(409, "OperationAborted")})...)))
	heads.On(faultproxy.Either(between(seed+2), faultproxy.Sometimes(seed+1, 0.05, faultproxy.Any, append(common,
		faultproxy.Fault{Refuse: throttled()}, faultproxy.Fault{Refuse: headsFault()},
		faultproxy.Fault{Replace: headsFault()}, faultproxy.Fault{Refuse: conflict})...)))
	all := make([]*writer, writers)
	var acked atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(amount(t, "TAILRACE_MISBEHAVE_SECONDS", 8))*time.Second)
	defer cancel()
	var running sync.WaitGroup
	for i := range all {
		all[i] = &writer{id: i, random: rand.New(rand.NewPCG(seed, uint64(i)))}
		running.Go(func() { all[i].stubborn(ctx, via[i%2], "log", &acked) })
	}
	running.Wait()
	s3.On(nil)
	heads.On(nil)
	whole := func(when string) {
		t.Helper()
		for i, c := range via {
			tail := c.tail(t, "log")
			checkWhole(t, all, c.readAll(t, "log", 0, tail))
			t.Logf("%s, at server %d: the tail is %d", when, i, tail)
		}
	}
	whole("after the faults")
	for _, p := range []*faultproxy.Proxy{s3, heads} {
		t.Logf("%d requests arrive when everything is over", p.Kept())
		p.Deliver(t.Context())
	}
	whole("after what was very late")
	for i, c := range via {
		c.mustAppend(t, "log", appendInput{Records: bodies(fmt.Sprintf("w%d b0 0/1 ", writers+i))})
	}
	turnedAway, doubts := 0, 0
	for _, w := range all {
		mine := 0
		for _, s := range w.log {
			switch {
			case s.acked:
				mine++
			case s.refused:
				turnedAway++
			default:
				doubts++
			}
		}
		if mine == 0 {
			t.Errorf("writer %d got nothing in", w.id)
		}
	}
	t.Logf("%d batches acknowledged, %d refused, %d in doubt", acked.Load(), turnedAway, doubts)
}
