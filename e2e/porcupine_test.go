package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/zeebo/xxh3"

	"github.com/tailrace-streams/tailrace/e2e/harness"
	"github.com/tailrace-streams/tailrace/wire"
)

const (
	// historiesVariable says how many histories of each workflow are collected: 3 if it is not set. The full measure is 50.
	historiesVariable = "TAILRACE_E2E_HISTORIES"
	// historiesDirVariable names a folder to keep the histories in, for the public checker.
	historiesDirVariable = "TAILRACE_E2E_HISTORIES_DIR"

	historyClients = 5
	historyOps     = 100 // a client
	historiesAt    = 5   // at once, on one server
	checkLimit     = 2 * time.Minute
)

// workflow is what the clients of a history do, after S2's own collector.
type workflow struct {
	name string
	// match: every append carries the tail that its client saw last. fence: clients install a token of their own now and
	// then, guarded by match_seq_num, and send it with all that they append.
	match, fence bool
}

// Histories of concurrent clients through kills, stops and cut connections are linearizable: an append, a check of the tail
// and a full read of a stream each take effect at one moment between their start and their end.
func TestHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	count := numberFrom(t, historiesVariable, 3)
	workflows := []workflow{{name: "regular"}, {name: "match-seq-num", match: true}, {name: "fencing", fence: true}}
	totals := make([]tally, len(workflows))
	t.Run("workflows", func(t *testing.T) {
		for i, w := range workflows {
			t.Run(w.name, func(t *testing.T) {
				t.Parallel()
				for done := 0; done < count; {
					n := min(historiesAt, count-done)
					totals[i].add(collectTogether(t, w, done, n))
					done += n
				}
			})
		}
	})
	var all tally
	for i, w := range workflows {
		t.Logf("%s, %d histories of %d clients with %d operations: %s", w.name, count, historyClients, historyOps, totals[i])
		all.add(totals[i])
	}
	// An append that was on its way when its connection was cut is in doubt; hardly anything else may be.
	failures := all.definite + all.indefinite
	t.Logf("%d of %d failed appends failed definitely", all.definite, failures)
	if 10*all.definite < 9*failures {
		t.Errorf("%d failures are indefinite", all.indefinite)
	}
}

// tally counts what happened in histories.
type tally struct {
	appended, definite, indefinite int
	tails, reads, failedReads      int
	kills, stops, cuts             int
	clients                        int
}

func (a *tally) add(b tally) {
	a.appended += b.appended
	a.definite += b.definite
	a.indefinite += b.indefinite
	a.tails += b.tails
	a.reads += b.reads
	a.failedReads += b.failedReads
	a.kills += b.kills
	a.stops += b.stops
	a.cuts += b.cuts
	a.clients += b.clients
}

func (a tally) String() string {
	return fmt.Sprintf("%d appends succeeded, %d failed definitely, %d indefinitely; %d tails, %d reads, %d of either failed; "+
		"%d clients; %d kills, %d stops, %d cuts", a.appended, a.definite, a.indefinite, a.tails, a.reads, a.failedReads,
		a.clients, a.kills, a.stops, a.cuts)
}

// collectTogether collects some histories on one server that has faults meanwhile, and checks each.
func collectTogether(t *testing.T, w workflow, first, n int) tally {
	t.Helper()
	u := newUnsteady(t)
	newClient(u.proxy.url(), "porcupine").create(t, "warm")
	all := make([]*collector, n)
	var collecting sync.WaitGroup
	for i := range all {
		stream := fmt.Sprintf("%s-%d", w.name, first+i)
		newClient(u.proxy.url(), "porcupine").createStream(t, stream)
		all[i] = &collector{workflow: w, url: u.proxy.url(), basin: "porcupine", stream: stream, clients: historyClients}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for _, c := range all {
		for id := range historyClients {
			collecting.Go(func() { c.client(ctx, id) })
		}
	}
	finished := make(chan struct{})
	go func() { collecting.Wait(); close(finished) }()
	total := u.disturb(t, finished)
	for _, c := range all { // the server has no more faults
		c.finish(t)
		total.add(c.tally)
	}
	return total
}

// unsteady is a server behind a proxy.
type unsteady struct {
	data   string
	server *harness.Server
	proxy  *proxy
}

func newUnsteady(t *testing.T) *unsteady {
	t.Helper()
	u := &unsteady{data: dataFolder(t), proxy: newProxy(t)}
	u.server = start(t, u.data)
	u.proxy.serve(t, u.server.URL)
	return u
}

// disturb makes faults at random until the clients are done. Only so many: each can leave every client with an append in
// doubt, and the work of the checker doubles with those.
func (u *unsteady) disturb(t *testing.T, finished <-chan struct{}) (made tally) {
	t.Helper()
	for faults := 0; ; faults++ {
		pause := 150*time.Millisecond + rand.N(400*time.Millisecond)
		if faults >= 8 {
			<-finished
			return made
		}
		select {
		case <-finished:
			return made
		case <-time.After(pause):
		}
		switch rand.IntN(6) {
		case 0, 1:
			made.kills++
			u.server.Kill()
			u.proxy.refuse()
			u.restart(t)
		case 2, 3:
			made.stops++
			stop(t, u.server)
			u.proxy.refuse()
			u.restart(t)
		case 4:
			made.cuts++
			u.proxy.cut(1)
		default:
			made.cuts++
			u.proxy.cut(0.2)
		}
	}
}

func (u *unsteady) restart(t *testing.T) {
	t.Helper()
	u.server = start(t, u.data)
	u.proxy.serve(t, u.server.URL)
}

// collector collects one history.
type collector struct {
	workflow           workflow
	url, basin, stream string

	mu      sync.Mutex
	events  []logEvent
	clients int // ids given out
	ops     int
	tally   tally
	wrong   error
}

// begin writes the start of an operation down, and must be called before it is sent.
func (c *collector) begin(client int, in opInput) (op int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	op = c.ops
	c.ops++
	c.events = append(c.events, logEvent{client: client, op: op, input: in})
	return op
}

// end writes its end down, after its answer has come.
func (c *collector) end(client, op int, in opInput, out opOutput) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, logEvent{client: client, op: op, end: true, input: in, output: out})
	switch {
	case in.kind != opAppend && out.result != succeeded:
		c.tally.failedReads++
	case in.kind == opCheckTail:
		c.tally.tails++
	case in.kind == opRead:
		c.tally.reads++
	case out.result == succeeded:
		c.tally.appended++
	case out.result == definite:
		c.tally.definite++
	default:
		c.tally.indefinite++
	}
}

// newID retires a client's id, whose last operation stays open.
func (c *collector) newID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients++
	return c.clients - 1
}

// finish checks the history, and that a check of it can fail.
func (c *collector) finish(t *testing.T) {
	t.Helper()
	settled := c.verify(t)
	if spoilt := spoil(settled); spoilt != nil && check(spoilt, checkLimit) != porcupine.Illegal {
		t.Fatalf("%s: the checker does not find an acknowledgement that was moved", c.stream)
	}
}

// verify checks the history and returns it as it was checked.
func (c *collector) verify(t *testing.T) (settled []logEvent) {
	t.Helper()
	c.tally.clients = c.clients
	if c.wrong != nil {
		t.Errorf("%s: %v", c.stream, c.wrong)
	}
	content := c.lastRead(t)
	begun := time.Now()
	settled = settle(c.events, content)
	got := check(settled, checkLimit)
	t.Logf("%s: %s: %s, checked in %s", c.stream, c.tally, got, time.Since(begun).Round(time.Millisecond))
	if dir := os.Getenv(historiesDirVariable); dir != "" || got != porcupine.Ok {
		c.keep(t, dir)
	}
	if got != porcupine.Ok {
		t.Fatalf("%s: the history is %s", c.stream, got)
	}
	return settled
}

// lastRead reads the stream once more, as the last operation of the history, and returns the hashes of its records.
func (c *collector) lastRead(t *testing.T) (content []uint64) {
	t.Helper()
	in, id := opInput{kind: opRead}, c.newID()
	op := c.begin(id, in)
	out, err := readFully(t.Context(), c.url, c.basin, c.stream, func(hash uint64) { content = append(content, hash) })
	if err != nil {
		t.Fatalf("%s: last read: %v", c.stream, err)
	}
	c.end(id, op, in, out)
	return content
}

// spoil moves one acknowledgement in the middle of a history: it says one record more.
func spoil(events []logEvent) []logEvent {
	spoilt := append([]logEvent(nil), events...)
	for i := len(spoilt) / 2; i < len(spoilt); i++ {
		if e := &spoilt[i]; e.end && e.input.kind == opAppend && e.output.result == succeeded {
			e.output.tail++
			return spoilt
		}
	}
	return nil
}

func (c *collector) keep(t *testing.T, dir string) {
	t.Helper()
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "tailrace-history-"); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, c.stream+".jsonl")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := writeHistory(file, c.events); err != nil {
		t.Fatal(err)
	}
	t.Logf("kept in %s", path)
}

// historyClient is one client of a history: it has one operation open at a time.
type historyClient struct {
	c        *collector
	workflow workflow
	id       int
	unary    *unaryAppender
	appender appender
	seen     uint64 // the newest tail it knows
	token    string // its own; sent once it was installed
	fenced   bool
	ousted   bool // another token took its place
	batches  int
}

func (c *collector) client(ctx context.Context, id int) {
	h := &historyClient{c: c, workflow: c.workflow, id: id, unary: newUnaryAppender(c.url, c.basin, c.stream), token: fmt.Sprintf("tok%03d", id)}
	switch id % 3 {
	case 0:
		h.appender = h.unary
	case 1:
		h.appender = &sessionAppender{open: func(ctx context.Context) (*session, error) {
			return openSession(ctx, c.url, c.basin, c.stream, "")
		}}
	default:
		h.appender = &sessionAppender{open: func(ctx context.Context) (*session, error) {
			return openSessionHTTP2(ctx, c.url, c.basin, c.stream, "")
		}}
	}
	defer h.appender.close()
	defer h.unary.close()
	for range historyOps {
		h.step(ctx)
	}
}

// opTimeout is how long an operation may take before its client gives up on it.
const opTimeout = 10 * time.Second

func (h *historyClient) step(ctx context.Context) {
	in := opInput{kind: opAppend}
	var batch wire.AppendInput
	switch rand.IntN(10) {
	case 0, 1:
		in.kind = opRead
	case 2, 3, 4:
		in.kind = opCheckTail
	default:
		in, batch = h.plan()
	}
	h.perform(ctx, in, batch)
}

// perform does one operation and writes it down.
func (h *historyClient) perform(ctx context.Context, in opInput, batch wire.AppendInput) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	op := h.c.begin(h.id, in)
	out, err := h.do(ctx, in, batch)
	if errors.Is(err, errWrongAnswer) {
		h.c.mu.Lock()
		h.c.wrong = err
		h.c.mu.Unlock()
	}
	h.c.end(h.id, op, in, out)
	pause := rand.N(15 * time.Millisecond)
	switch {
	case out.result == indefinite && in.kind == opAppend:
		h.id = h.c.newID()
		pause = time.Second
	case out.result == succeeded:
		h.seen = max(h.seen, out.tail)
	case out.installed != nil:
		h.ousted = true
	case out.next != nil:
		h.seen = max(h.seen, *out.next)
	}
	time.Sleep(pause)
}

// plan draws a batch and its conditions.
func (h *historyClient) plan() (opInput, wire.AppendInput) {
	in := opInput{kind: opAppend}
	var batch wire.AppendInput
	h.batches++
	w := h.workflow
	if w.fence && (h.batches == 1 || rand.IntN(20) == 0 || h.ousted && rand.IntN(3) == 0) {
		batch.Records = []wire.AppendRecord{{Headers: []wire.Header{{Value: []byte("fence")}}, Body: []byte(h.token)}}
		in.fence = &h.token
		h.fenced, h.ousted = true, false
	} else {
		filler := 0
		if rand.IntN(10) == 0 {
			filler = 6000 // goes into a segment
		}
		for i := range 1 + rand.IntN(4) {
			body := fmt.Appendf(nil, "%s %d %d %d ", h.token, h.id, h.batches, i)
			batch.Records = append(batch.Records, wire.AppendRecord{Body: append(body, make([]byte, filler)...)})
		}
		if w.fence && h.fenced {
			in.token = &h.token
		}
	}
	if w.match || in.fence != nil {
		seen := h.seen
		in.match = &seen
	}
	for i := range batch.Records {
		in.hashes = append(in.hashes, hashOf(batch.Records[i].Body))
	}
	batch.MatchSeqNum, batch.FencingToken = in.match, in.token
	return in, batch
}

func (h *historyClient) do(ctx context.Context, in opInput, batch wire.AppendInput) (out opOutput, err error) {
	switch in.kind {
	case opRead:
		out, err = readFully(ctx, h.c.url, h.c.basin, h.c.stream, func(uint64) {})
	case opCheckTail:
		out.tail, err = h.unary.checkTail(ctx)
	default:
		out.tail, err = h.appender.append(ctx, batch)
	}
	if err == nil {
		return out, nil
	}
	out = opOutput{result: indefinite}
	if definiteError(err) {
		out.result = definite
	}
	var mismatch *wire.SeqNumMismatch
	var fenced *wire.FencingTokenMismatch
	switch {
	case errors.As(err, &mismatch):
		out.next = &mismatch.Next
	case errors.As(err, &fenced):
		out.installed = &fenced.Installed
	}
	return out, err
}

func hashOf(body []byte) uint64 { return xxh3.Hash(body) }

func unmarshal(text []byte, v any) error {
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	return nil
}
