package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/e2e/harness"
	"github.com/tailrace-streams/tailrace/wire"
)

// This file has what the tests of the published contracts share (docs/coordination.md): contracts_s2_test.go those of S2's
// page on concurrency control, contracts_nova_test.go those of Nova's page on concurrency. Each is named after its statement.

// bothWays starts what a stream can be reached through in two ways: two servers on the same stores, or where a folder has
// one server, that one twice. The basin and the stream s are there.
func bothWays(t *testing.T, basin string) (here, there *client) {
	t.Helper()
	data := dataFolder(t)
	first := start(t, data)
	second := first
	if harness.Shared() {
		second = start(t, data)
	}
	here, there = newClient(first.URL, basin), newClient(second.URL, basin)
	here.create(t, "s")
	return here, there
}

func fencePath(stream string) string { return "/v1/streams/" + url.PathEscape(stream) + "/fence" }

// fenced is the answer to a fence.
type fenced struct {
	Tail         position `json:"tail"`
	FencingToken string   `json:"fencing_token"`
	Previous     string   `json:"previous"`
}

func (c *client) tryFence(ctx context.Context, stream, token string) (answer, error) {
	return c.do(ctx, http.MethodPut, fencePath(stream), map[string]string{"fencing_token": token})
}

func (c *client) fence(t *testing.T, stream, token string) fenced {
	t.Helper()
	var out fenced
	must(t, 200, &out)(c.tryFence(t.Context(), stream, token))
	return out
}

// token asks which token is installed.
func (c *client) token(t *testing.T, stream string) string {
	t.Helper()
	var out struct {
		FencingToken *string `json:"fencing_token"`
	}
	must(t, 200, &out)(c.do(t.Context(), http.MethodGet, fencePath(stream), nil))
	if out.FencingToken == nil {
		t.Fatal("the answer has no token")
	}
	return *out.FencingToken
}

// setFencing makes a stream cooperative or exclusive.
func (c *client) setFencing(t *testing.T, stream, mode string) {
	t.Helper()
	must(t, 200, nil)(c.do(t.Context(), http.MethodPatch, "/v1/streams/"+url.PathEscape(stream), map[string]string{"fencing": mode}))
}

// one is a batch of one record; its options follow.
func one(text string, options ...func(*appendInput)) appendInput {
	in := appendInput{Records: bodies(text)}
	for _, set := range options {
		set(&in)
	}
	return in
}

func presenting(token string) func(*appendInput) {
	return func(in *appendInput) { in.FencingToken = &token }
}

func matching(seq uint64) func(*appendInput) {
	return func(in *appendInput) { in.MatchSeqNum = &seq }
}

// fenceRecord is a batch with the command to install a token.
func fenceRecord(token string, options ...func(*appendInput)) appendInput {
	in := one(token, options...)
	in.Records[0].Headers = [][2]string{{"", "fence"}}
	return in
}

func mismatchOfToken(token string) string { return fmt.Sprintf(`{"fencing_token_mismatch":%q}`, token) }

func mismatchOfSeqNum(next uint64) string { return fmt.Sprintf(`{"seq_num_mismatch":%d}`, next) }

// refusedWith checks a 412: its exact body, that it is definite, and that it tells the tail.
func refusedWith(t *testing.T, a answer, err error, body string, tail uint64) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if a.status != 412 || a.body != body || !a.definite() {
		t.Fatalf("answer is %v, applied %q, want 412 %s", a, a.header.Get("Tailrace-Applied"), body)
	}
	if got := a.header.Get("Tailrace-Tail"); !strings.HasPrefix(got, fmt.Sprint(tail, ",")) {
		t.Fatalf("the refusal tells the tail %q, it is %d", got, tail)
	}
}

// refuses appends what must be refused.
func (c *client) refuses(t *testing.T, in appendInput, body string, tail uint64, header ...string) {
	t.Helper()
	a, err := c.do(t.Context(), http.MethodPost, records("s"), in, header...)
	refusedWith(t, a, err, body, tail)
}

// liveSession is a session whose every failure fails the test.
type liveSession struct {
	*session
	t *testing.T
}

// overTransports runs a test with sessions over HTTP/1.1 and over HTTP/2.
func overTransports(t *testing.T, test func(t *testing.T, http2 bool)) {
	for _, http2 := range []bool{false, true} {
		t.Run(map[bool]string{false: "HTTP1", true: "HTTP2"}[http2], func(t *testing.T) {
			t.Parallel()
			test(t, http2)
		})
	}
}

func (c *client) tryOpen(t *testing.T, http2 bool, header ...string) (*session, error) {
	open := openSessionWith
	if http2 {
		open = openSessionHTTP2With
	}
	return open(t.Context(), c.url, c.basin, "s", "", header...)
}

func (c *client) open(t *testing.T, http2 bool, header ...string) *liveSession {
	t.Helper()
	s, err := c.tryOpen(t, http2, header...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return &liveSession{s, t}
}

func input(text string, match *uint64, token *string) wire.AppendInput {
	return wire.AppendInput{Records: []wire.AppendRecord{{Body: []byte(text)}}, MatchSeqNum: match, FencingToken: token}
}

func (s *liveSession) submit(in wire.AppendInput) {
	s.t.Helper()
	frame, err := encodeInput(in)
	if err == nil {
		err = s.send(frame)
	}
	if err != nil {
		s.t.Fatalf("send input: %v", err)
	}
}

func (s *liveSession) wantAck(start uint64) {
	s.t.Helper()
	ack, err := s.ack()
	if err != nil || ack.Start.SeqNum != start || ack.End.SeqNum != start+1 {
		s.t.Fatalf("acknowledgement %+v, %v; want record %d", ack, err, start)
	}
}

// failure reads the terminal frame, and the end behind it.
func (s *liveSession) failure() error {
	s.t.Helper()
	f, err := s.frames.Next()
	if err != nil || !f.Terminal {
		s.t.Fatalf("instead of a terminal frame: %+v, %v", f, err)
	}
	if next, err := s.frames.Next(); err == nil {
		s.t.Fatalf("behind the terminal frame: %+v", next)
	}
	return f.Err()
}

func (s *liveSession) wantFenced(token string) {
	s.t.Helper()
	var fenced *wire.FencingTokenMismatch
	if err := s.failure(); !errors.As(err, &fenced) || fenced.Installed != token {
		s.t.Fatalf("the session ended with %v, not for the token %q", err, token)
	}
}

// wantEnd closes the session's sending half and reads the clean end.
func (s *liveSession) wantEnd() {
	s.t.Helper()
	if err := s.finish(); err != nil {
		s.t.Fatal(err)
	}
	if f, err := s.frames.Next(); err == nil || f.Terminal {
		s.t.Fatalf("instead of the end: %+v, %v", f, err)
	}
}

// writers append one record after another through clients until the function returned is called, each presenting what its
// options say. What is not refused for its token must succeed. It returns the numbers that were acknowledged.
func writers(t *testing.T, n int, via []*client, options func(writer int) []func(*appendInput)) (stop func() (acked []uint64, refused map[string]int)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var acked []uint64
	refused := map[string]int{}
	begun := make(chan struct{}, n)
	var all sync.WaitGroup
	for w := range n {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				in := one(fmt.Sprintf("writer %d record %d", w, i), options(w)...)
				var got ack
				a, err := via[w%len(via)].append(context.WithoutCancel(ctx), "s", in)
				mu.Lock()
				switch {
				case err != nil:
					t.Errorf("append: %v", err)
				case a.status == 200:
					if err := json.Unmarshal([]byte(a.body), &got); err != nil {
						t.Errorf("decode %v: %v", a, err)
					}
					acked = append(acked, got.Start.SeqNum)
				case a.status == 412 && a.definite():
					refused[a.body]++
				default:
					t.Errorf("append: %v", a)
				}
				mu.Unlock()
				if i == 0 {
					begun <- struct{}{}
				}
				if a.status != 200 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	for range n {
		<-begun
	}
	return func() ([]uint64, map[string]int) {
		cancel()
		all.Wait()
		return acked, refused
	}
}

// raw is a body that is JSON already, or should be.
type raw string

// MarshalJSON is the text itself.
func (r raw) MarshalJSON() ([]byte, error) { return []byte(r), nil }
