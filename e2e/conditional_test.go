package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Of 1,000 appends that expect the same number exactly one succeeds, and every other learns which number is next, in
// S2's exact words. Over as many HTTP/1.1 connections, and over few HTTP/2 ones.
func TestConditionalAppendsHaveOneWinner(t *testing.T) {
	t.Parallel()
	const racers = 1000
	server := start(t, dataFolder(t))
	for name, http2 := range map[string]bool{"HTTP1": false, "HTTP2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(server.URL, "conditional-"+map[bool]string{false: "http1", true: "http2"}[http2])
			if http2 {
				c.http.Transport.(*http.Transport).Protocols = new(http.Protocols)
				c.http.Transport.(*http.Transport).Protocols.SetUnencryptedHTTP2(true)
			}
			c.create(t, "contested")
			for round := range uint64(3) {
				answers := race(t, c, racers, round)
				won := 0
				for _, a := range answers {
					switch {
					case a.status == 200:
						won++
					case a.status != 412 || a.body != fmt.Sprintf(`{"seq_num_mismatch":%d}`, round+1):
						t.Fatalf("round %d: a loser's answer is %v", round, a)
					case !a.definite():
						t.Fatalf("round %d: the refusal is not marked as definite: %v", round, a.header)
					}
				}
				if won != 1 || c.tail(t, "contested") != round+1 {
					t.Fatalf("round %d: %d appends won, the tail is %d", round, won, c.tail(t, "contested"))
				}
			}
		})
	}
}

// race sends n appends at once that all expect the same number.
func race(t *testing.T, c *client, n int, match uint64) []answer {
	t.Helper()
	answers, errs := make([]answer, n), make([]error, n)
	begin := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-begin
			in := appendInput{Records: bodies(fmt.Sprintf("racer %d", i)), MatchSeqNum: &match}
			answers[i], errs[i] = c.append(t.Context(), "contested", in)
		})
	}
	since := time.Now()
	close(begin)
	all.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatalf("an append got no answer: %v", err)
		}
	}
	t.Logf("%d appends expecting %d took %s", n, match, time.Since(since).Round(time.Millisecond))
	return answers
}
