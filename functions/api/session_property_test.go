package api_test

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace-streams/tailrace/wire"
)

// plannedInput is one input of a session that is drawn before anything is sent. What it must match is known only when it
// is sent.
type plannedInput struct {
	records int
	match   bool // the tail that the session believes in: the newest that anybody has seen, and its own inputs behind it
	off     int  // added to that, mostly 0
	token   *string
	fence   *string // the first record installs it
}

type plannedSession struct {
	http2  bool
	cutAt  int // sends half of this input and goes away; -1 ends by a half-close
	inputs []plannedInput
}

func drawSession(rt *rapid.T) plannedSession {
	token := rapid.SampledFrom([]*string{nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, text(""), text(""), text("a")})
	input := rapid.Custom(func(rt *rapid.T) plannedInput {
		p := plannedInput{
			records: rapid.IntRange(1, 4).Draw(rt, "records"), match: rapid.IntRange(0, 3).Draw(rt, "match") == 0,
			token: token.Draw(rt, "token"),
		}
		if rapid.IntRange(0, 9).Draw(rt, "miss") == 0 {
			p.off = rapid.IntRange(-1, 1).Draw(rt, "off")
		}
		if rapid.IntRange(0, 14).Draw(rt, "fences") == 0 {
			p.fence = rapid.SampledFrom([]*string{text(""), text("a")}).Draw(rt, "fence")
		}
		return p
	})
	s := plannedSession{http2: rapid.Bool().Draw(rt, "http2"), inputs: rapid.SliceOfN(input, 0, 12).Draw(rt, "inputs"), cutAt: -1}
	if len(s.inputs) > 0 && rapid.IntRange(0, 3).Draw(rt, "cut") == 0 {
		s.cutAt = rapid.IntRange(0, len(s.inputs)-1).Draw(rt, "cut at")
	}
	return s
}

// ranSession is what became of one.
type ranSession struct {
	plan  plannedSession
	sent  []wire.AppendInput // with the conditions that they had
	acks  []wire.AppendAck
	ended error // io.EOF, a terminal error, or what a cut connection gives
}

// body of record k of input i of session s.
func propertyBody(s, i, k int) string { return fmt.Sprintf("%d %d %d", s, i, k) }

func (r *sessionRig) run(path string, id int, plan plannedSession, seen *atomic.Uint64) *ranSession {
	open := (*sessionRig).openHTTP1
	if plan.http2 {
		open = (*sessionRig).openHTTP2
	}
	ran := &ranSession{plan: plan}
	d := open(r, "POST", path).mustOpen()
	received := make(chan struct{})
	go func() {
		defer close(received)
		for ran.ended == nil {
			ack, err := d.ack()
			if err != nil {
				ran.ended = err
				continue
			}
			ran.acks = append(ran.acks, ack)
			for was := seen.Load(); was < ack.End.SeqNum && !seen.CompareAndSwap(was, ack.End.SeqNum); was = seen.Load() {
			}
		}
	}()
	var believed uint64
	for i, p := range plan.inputs {
		believed = max(believed, seen.Load())
		in := p.input(id, i, believed)
		believed += uint64(len(in.Records))
		ran.sent = append(ran.sent, in)
		b := inputFrame(r.t, in)
		if i == plan.cutAt {
			_ = d.send(b[:len(b)/2])
			d.cut()
			break
		}
		if d.send(b) != nil {
			break // the session was poisoned and is over
		}
	}
	if plan.cutAt < 0 {
		_ = d.finish()
	}
	<-received
	return ran
}

func (p plannedInput) input(session, i int, believed uint64) wire.AppendInput {
	in := wire.AppendInput{FencingToken: p.token}
	for k := range p.records {
		in.Records = append(in.Records, wire.AppendRecord{Body: []byte(propertyBody(session, i, k))})
	}
	if p.fence != nil {
		in.Records[0] = wire.AppendRecord{Headers: []wire.Header{{Value: []byte("fence")}}, Body: []byte(*p.fence)}
		in.Records = append(in.Records, wire.AppendRecord{Body: []byte(propertyBody(session, i, p.records))})
	}
	if p.match {
		in.MatchSeqNum = u64(believed + uint64(p.off)) // off -1 of 0 is a number that nobody gets
	}
	return in
}

// Sessions that append to one stream at once, with conditions that hold for some and not for others, some of them cut:
// what is stored is a serial history of whole inputs whose conditions held, of each session a run from its first input on,
// with every acknowledgement where it said; who was refused was so for a state that the stream had.
func TestSessionsAreSerial(t *testing.T) {
	t.Parallel()
	r := newSessionRig(t)
	streams := 0
	var acked, refused, cut int
	rapid.Check(t, func(rt *rapid.T) {
		plans := rapid.SliceOfN(rapid.Custom(drawSession), 1, 5).Draw(rt, "sessions")
		streams++
		stream := fmt.Sprintf("s-%d", streams)
		r.create(stream)
		ran := make([]*ranSession, len(plans))
		var seen atomic.Uint64
		var wg sync.WaitGroup
		for i, p := range plans {
			wg.Go(func() { ran[i] = r.run("/v1/streams/"+stream+"/records", i, p, &seen) })
		}
		wg.Wait()
		r.quiet() // those that were cut may still be at work
		checkSerial(rt, ran, r.bodiesOf(stream))
		for _, s := range ran {
			acked += len(s.acks)
			switch {
			case s.plan.cutAt >= 0:
				cut++
			case s.ended != io.EOF:
				refused++
			}
		}
	})
	t.Logf("%d streams: %d inputs acknowledged, %d sessions refused, %d cut", streams, acked, refused, cut)
	if acked == 0 || refused == 0 || cut == 0 {
		t.Error("the draw leaves something out")
	}
}

// history is a stream as it was at each of its tails.
type history struct {
	stored []string
	tokens []string       // tokens[n] is the token in force at tail n
	starts map[[2]int]int // where an input of a session is
	count  map[int]int    // how many inputs of a session are stored
}

func checkSerial(rt *rapid.T, ran []*ranSession, stored []string) {
	h := history{stored: stored, tokens: []string{""}, starts: map[[2]int]int{}, count: map[int]int{}}
	for at := 0; at < len(stored); {
		s, i := h.inputAt(rt, ran, at)
		at += h.replay(rt, ran[s].sent[i], s, i, at)
	}
	for s, session := range ran {
		h.checkSession(rt, s, session)
	}
}

// inputAt tells which input begins at a position: the next one of some session.
func (h *history) inputAt(rt *rapid.T, ran []*ranSession, at int) (s, i int) {
	named := at
	if _, err := fmt.Sscanf(h.stored[named], "%d %d", &s, &i); err != nil { // the token of a fence: the next record tells
		named++
		if named == len(h.stored) {
			rt.Fatalf("a fence without its input at %d", at)
		}
		if _, err := fmt.Sscanf(h.stored[named], "%d %d", &s, &i); err != nil {
			rt.Fatalf("unknown record %q at %d", h.stored[named], named)
		}
	}
	if i != h.count[s] || i >= len(ran[s].sent) {
		rt.Fatalf("input %d of session %d is stored at %d, behind %d of its inputs", i, s, at, h.count[s])
	}
	return s, i
}

// replay checks an input's conditions and records, and takes its effect over.
func (h *history) replay(rt *rapid.T, in wire.AppendInput, s, i, at int) int {
	token := h.tokens[at]
	if in.MatchSeqNum != nil && *in.MatchSeqNum != uint64(at) {
		rt.Fatalf("input %d of session %d is stored at %d and had to match %d", i, s, at, *in.MatchSeqNum)
	}
	if in.FencingToken != nil && *in.FencingToken != token {
		rt.Fatalf("input %d of session %d is stored at %d under %q and presented %q", i, s, at, token, *in.FencingToken)
	}
	for k, rec := range in.Records {
		if at+k >= len(h.stored) || h.stored[at+k] != string(rec.Body) {
			rt.Fatalf("input %d of session %d is not whole at %d", i, s, at)
		}
		if len(rec.Headers) > 0 {
			token = string(rec.Body)
		}
		h.tokens = append(h.tokens, token)
	}
	h.starts[[2]int{s, i}] = at
	h.count[s]++
	return len(in.Records)
}

// checkSession compares what a session was told with what is stored.
func (h *history) checkSession(rt *rapid.T, s int, ran *ranSession) {
	end := uint64(0)
	for i, ack := range ran.acks {
		at, there := h.starts[[2]int{s, i}]
		n := uint64(len(ran.sent[i].Records))
		if !there || ack.Start.SeqNum != uint64(at) || ack.End.SeqNum != uint64(at)+n || ack.Tail.SeqNum < ack.End.SeqNum {
			rt.Fatalf("input %d of session %d was acknowledged with %+v; stored: %v, at %d", i, s, ack, there, at)
		}
		end = ack.End.SeqNum
	}
	if ran.plan.cutAt >= 0 {
		if h.count[s] > ran.plan.cutAt || h.count[s] < len(ran.acks) {
			rt.Fatalf("of session %d, cut in input %d, %d inputs are stored and %d acknowledged", s, ran.plan.cutAt, h.count[s], len(ran.acks))
		}
		return
	}
	if h.count[s] != len(ran.acks) {
		rt.Fatalf("session %d had %d acknowledgements, and %d inputs are stored", s, len(ran.acks), h.count[s])
	}
	if ran.ended == io.EOF {
		if len(ran.acks) != len(ran.plan.inputs) {
			rt.Fatalf("session %d ended cleanly after %d of %d inputs", s, len(ran.acks), len(ran.plan.inputs))
		}
		return
	}
	h.checkRefusal(rt, s, ran, end)
}

// checkRefusal: the first input without an acknowledgement was refused for a state at or after the session's last one.
func (h *history) checkRefusal(rt *rapid.T, s int, ran *ranSession, since uint64) {
	var told terminal
	if !errors.As(ran.ended, &told) {
		rt.Fatalf("session %d ended with %v", s, ran.ended)
	}
	in := ran.sent[len(ran.acks)]
	var mismatch *wire.SeqNumMismatch
	var fenced *wire.FencingTokenMismatch
	switch {
	case errors.As(told.error, &mismatch):
		if in.MatchSeqNum == nil || mismatch.Next == *in.MatchSeqNum || mismatch.Next < since || mismatch.Next > uint64(len(h.stored)) {
			rt.Fatalf("session %d at %d: refused for the next number %d of %d: %+v", s, since, mismatch.Next, len(h.stored), in)
		}
	case errors.As(told.error, &fenced):
		if in.FencingToken == nil || fenced.Installed == *in.FencingToken || !slices.Contains(h.tokens[since:], fenced.Installed) {
			rt.Fatalf("session %d at %d: refused for the token %q: %+v", s, since, fenced.Installed, in)
		}
	default:
		rt.Fatalf("session %d was refused with %v", s, told)
	}
}

// Sessions of every fate leave no goroutine behind.
func TestSessionsLeaveNothingBehind(t *testing.T) {
	// Not parallel: it counts goroutines.
	r := newSessionRig(t)
	r.create("s")
	before := runtime.NumGoroutine()
	for range 10 {
		for _, tr := range transports {
			clean := tr.open(r, "POST", recordsOfS).mustOpen()
			clean.append(inputOf("a"))
			clean.halfClose()
			poisoned := tr.open(r, "POST", recordsOfS).mustOpen()
			poisoned.append(wire.AppendInput{Records: inputOf("x").Records, MatchSeqNum: u64(1 << 40)})
			bad := tr.open(r, "POST", recordsOfS).mustOpen()
			if err := bad.send([]byte{0, 0, 0, 0}); err != nil {
				t.Fatal(err)
			}
			vanished := tr.open(r, "POST", recordsOfS).mustOpen()
			vanished.append(inputOf("a"))
			if err := vanished.send(inputFrame(t, inputOf("b"))[:6]); err != nil {
				t.Fatal(err)
			}
			vanished.cut()
			refused := tr.open(r, "POST", "/v1/streams/unknown/records")
			follower := tr.open(r, "GET", recordsOfS).mustOpen()
			if _, err := follower.frames.Next(); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, clean.body); err != nil {
				t.Fatal(err)
			}
			for _, d := range []*duplex{poisoned, bad, refused, follower} {
				d.cut()
			}
		}
	}
	r.quiet()
	r.h2.CloseIdleConnections()
	r.server.CloseClientConnections()
	eventually(t, "the goroutines of before", func() bool { return runtime.NumGoroutine() <= before+2 })
}
