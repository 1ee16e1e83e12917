package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// S1: match_seq_num is the number the first record of the batch must get; a mismatch is 412 with the number it would have
// got, and nothing is appended. 0 is a number, not an absence.
func TestS1_MatchIsTheFirstNumber(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "contract-s1")
	three := appendInput{Records: bodies("a", "b", "c")}
	matching(0)(&three)
	if got := here.mustAppend(t, "s", three); got.Start.SeqNum != 0 || got.End.SeqNum != 3 {
		t.Fatalf("acknowledged %+v", got)
	}
	for _, match := range []uint64{0, 1, 2, 4, 1 << 53, 1<<53 + 1, 1<<64 - 1} {
		there.refuses(t, one("refused", matching(match)), mismatchOfSeqNum(3), 3)
	}
	if got := there.mustAppend(t, "s", one("d", matching(3))); got.Start.SeqNum != 3 {
		t.Fatalf("acknowledged %+v", got)
	}
	for _, bad := range []string{"1.5", "1e3", "-1", `"5"`, "18446744073709551616"} {
		a, err := here.do(t.Context(), http.MethodPost, records("s"), raw(`{"records":[{"body":"x"}],"match_seq_num":`+bad+`}`))
		must(t, 400, nil)(a, err)
	}
	if got := len(here.readAll(t, "s", 0, here.tail(t, "s"))); got != 4 {
		t.Errorf("%d records are stored, want 4", got)
	}
}

// S2: a retry whose first attempt landed is refused, not doubled.
func TestS2_RetriedConditionalAppendsAreExactlyOnce(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "contract-s2")
	next := uint64(0)
	for i := range 50 {
		in := one(fmt.Sprint(i), matching(next))
		here.mustAppend(t, "s", in)
		// As if that answer had been lost: the same again, elsewhere or here.
		next++
		[]*client{here, there}[i%2].refuses(t, in, mismatchOfSeqNum(next), next)
	}
	for i, r := range there.readAll(t, "s", 0, there.tail(t, "s")) {
		if r.Body != fmt.Sprint(i) {
			t.Fatalf("record %d is %q", i, r.Body)
		}
	}
}

// S3: fencing is cooperative by default: an append without a token is allowed whatever token is installed.
func TestS3_FencingIsCooperativeByDefault(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "contract-s3")
	here.mustAppend(t, "s", fenceRecord("t"))
	there.mustAppend(t, "s", one("by record"))
	there.fence(t, "s", "u")
	here.mustAppend(t, "s", one("by verb"))
	var config map[string]any
	must(t, 200, &config)(here.do(t.Context(), http.MethodGet, "/v1/streams/s", nil))
	if _, there := config["fencing"]; there {
		t.Errorf("a cooperative stream's config names its fencing: %v", config)
	}
}

// S4: an append that presents a token other than the installed one is 412 with the installed token; the empty one is a
// token too (BL-019).
func TestS4_AnotherTokenIsRefused(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "contract-s4")
	here.mustAppend(t, "s", one("a", presenting("")))
	here.refuses(t, one("b", presenting("t")), mismatchOfToken(""), 1)
	here.mustAppend(t, "s", fenceRecord("t"))
	for _, token := range []string{"", "T", "tt", "t "} {
		there.refuses(t, one("c", presenting(token)), mismatchOfToken("t"), 2)
	}
	there.mustAppend(t, "s", one("d", presenting("t")))
	here.mustAppend(t, "s", fenceRecord("", presenting("t")))
	there.mustAppend(t, "s", one("e", presenting("")))
}

// S5: a fence command record installs a token, in order with the records around it; at most 36 bytes of UTF-8; empty clears
// (BL-018).
func TestS5_FenceRecordsInstallInOrder(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "contract-s5")
	in := appendInput{Records: append(append(bodies("before"), fenceRecord("t").Records...), bodies("after")...)}
	here.mustAppend(t, "s", in)
	stored := there.readAll(t, "s", 0, 3)
	if stored[1].Body != "t" || len(stored[1].Headers) != 1 || stored[1].Headers[0] != [2]string{"", "fence"} {
		t.Fatalf("the command is stored as %+v", stored[1])
	}
	there.refuses(t, one("x", presenting("u")), mismatchOfToken("t"), 3)
	// The batch with the command is judged by the token before it, what follows by the one it installs.
	there.mustAppend(t, "s", fenceRecord("u", presenting("t")))
	here.refuses(t, fenceRecord("v", presenting("t")), mismatchOfToken("u"), 4)
	for _, token := range []string{strings.Repeat("x", 36), strings.Repeat("\U0001F600", 9)} {
		here.mustAppend(t, "s", fenceRecord(token))
		if got := there.token(t, "s"); got != token {
			t.Errorf("%q is installed, not %q", got, token)
		}
		there.mustAppend(t, "s", one("y", presenting(token)))
	}
	tail := here.tail(t, "s")
	for _, token := range []string{strings.Repeat("x", 37), strings.Repeat("\U0001F600", 10)} {
		must(t, 422, nil)(here.append(t.Context(), "s", fenceRecord(token)))
		must(t, 400, nil)(here.append(t.Context(), "s", one("z", presenting(token))))
		must(t, 400, nil)(here.tryFence(t.Context(), "s", token))
	}
	here.mustAppend(t, "s", fenceRecord(""))
	if got := there.token(t, "s"); got != "" || here.tail(t, "s") != tail+1 {
		t.Errorf("after it was cleared %q is installed, and the tail is %d", got, here.tail(t, "s"))
	}
}

// S6: once set, later appends presenting another token are refused at once, on every node: from the acknowledgement of the
// fence record on, nothing with the old token lies above it (BL-021).
func TestS6_FencingIsStronglyConsistent(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "contract-s6")
	token := ""
	for round := range 10 {
		old, next := token, fmt.Sprint("token ", round)
		stop := writers(t, 8, []*client{here, there}, func(int) []func(*appendInput) { return []func(*appendInput){presenting(old)} })
		at := []*client{here, there}[round%2].mustAppend(t, "s", fenceRecord(next))
		for _, c := range []*client{here, there} {
			a, err := c.append(t.Context(), "s", one("late", presenting(old)))
			if err != nil || a.status != 412 || a.body != mismatchOfToken(next) {
				t.Fatalf("round %d: an append with the old token: %v, %v", round, a, err)
			}
		}
		acked, refused := stop()
		for _, seq := range acked {
			if seq > at.Start.SeqNum {
				t.Fatalf("round %d: record %d has the old token, the fence is record %d", round, seq, at.Start.SeqNum)
			}
		}
		if delete(refused, mismatchOfToken(next)); len(refused) > 0 {
			t.Fatalf("round %d: refused with %v", round, refused)
		}
		token = next
	}
}

// S7: in an append session such a failure poisons the session: nothing after it is applied; a new session must be opened.
func TestS7_FailurePoisonsTheSession(t *testing.T) {
	t.Parallel()
	overTransports(t, func(t *testing.T, http2 bool) {
		here, there := bothWays(t, "contract-s7")
		here.fence(t, "s", "t")
		token, other := "t", "u"
		s := here.open(t, http2)
		s.submit(input("a", nil, &token))
		s.submit(input("b", nil, &other))
		s.submit(input("c", nil, &token))
		s.submit(input("d", nil, nil))
		s.wantAck(0)
		s.wantFenced("t")
		nine := uint64(9)
		s = there.open(t, http2)
		s.submit(input("e", nil, nil))
		s.submit(input("f", &nine, nil))
		s.submit(input("g", nil, nil))
		s.wantAck(1)
		if err := s.failure(); err == nil || !strings.Contains(err.Error(), "2") {
			t.Errorf("the session ended with %v", err)
		}
		s = here.open(t, http2)
		s.submit(input("h", nil, nil))
		s.wantAck(2)
		s.wantEnd()
		var stored string
		for _, r := range there.readAll(t, "s", 0, there.tail(t, "s")) {
			stored += r.Body
		}
		if stored != "aeh" {
			t.Errorf("stored %q", stored)
		}
	})
}

// S8: check-tail tells any reader whether its knowledge of the stream is current, whoever appended.
func TestS8_CheckTailIsLinearizable(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "contract-s8")
	var known uint64
	for i := range 100 {
		writer, reader := here, there
		if i%3 == 0 {
			writer, reader = there, here
		}
		known = writer.mustAppend(t, "s", one(fmt.Sprint(i))).End.SeqNum
		if got := reader.tail(t, "s"); got != known {
			t.Fatalf("after %d records were acknowledged the tail is %d", known, got)
		}
	}
}

// S9: a single logical owner avoids that round trip with a lease modelled on the stream itself: while its newest heartbeat
// record is younger than the lease it answers from memory; whoever takes over waits until the heartbeats have lapsed, and
// is the only one who does (docs/coordination.md).
func TestS9_LeaseByHeartbeatRecords(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "contract-s9")
	const lease = 2 * time.Second
	// beat appends a heartbeat that names the owner, and is one only if the owner knows the whole stream.
	beat := func(c *client, owner string, next uint64) (answer, error) {
		in := one(owner, matching(next))
		in.Records[0].Headers = [][2]string{{"lease", "heartbeat"}}
		return c.append(t.Context(), "s", in)
	}
	must(t, 200, nil)(beat(here, "first", 0))
	owner := time.Now()
	// A candidate sees the heartbeat and waits; the owner prolongs, and stops.
	last := there.readAll(t, "s", 0, there.tail(t, "s"))[0]
	if last.Body != "first" || last.Headers[0] != [2]string{"lease", "heartbeat"} {
		t.Fatalf("the candidate reads %+v", last)
	}
	must(t, 200, nil)(beat(here, "first", 1))
	if time.Since(owner) > lease {
		t.Log("the owner was too slow to prolong; what follows does not depend on it")
	}
	// Two candidates saw the same last heartbeat and waited it out by their own clocks: one becomes the owner.
	seen := there.tail(t, "s")
	answers, errs := make([]answer, 2), make([]error, 2)
	var both sync.WaitGroup
	for i, c := range []*client{here, there} {
		both.Go(func() { answers[i], errs[i] = beat(c, fmt.Sprint("candidate ", i), seen) })
	}
	both.Wait()
	if errs[0] != nil || errs[1] != nil || answers[0].status+answers[1].status != 200+412 {
		t.Fatalf("the candidates are answered %v, %v (%v)", answers[0], answers[1], errs)
	}
	// The first owner, should it wake, is told so when it prolongs, and answers from memory no more.
	a, err := beat(here, "first", seen)
	refusedWith(t, a, err, mismatchOfSeqNum(seen+1), seen+1)
}

// S10: a replacement writer can inspect the stream, learn the next position, and append against exactly that state.
func TestS10_ReplacementWriterAppendsAgainstWhatItSaw(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "contract-s10")
	for i := range 20 {
		here.mustAppend(t, "s", one(fmt.Sprint(i)))
	}
	next := there.tail(t, "s")
	if got := there.readAll(t, "s", 0, next); len(got) != 20 || got[19].Body != "19" {
		t.Fatalf("the replacement reads %d records", len(got))
	}
	there.mustAppend(t, "s", one("replacement", matching(next)))
	// The one it replaces believed in the same state.
	here.refuses(t, one("replaced", matching(next)), mismatchOfSeqNum(next+1), next+1)
	// And had something come in between, the replacement would have been refused, and would read on.
	next = there.tail(t, "s")
	here.mustAppend(t, "s", one("in between"))
	there.refuses(t, one("too soon", matching(next)), mismatchOfSeqNum(next+1), next+1)
	if got := there.readAll(t, "s", next, next+1); got[0].Body != "in between" {
		t.Errorf("it reads %+v", got)
	}
	there.mustAppend(t, "s", one("now", matching(next+1)))
}
