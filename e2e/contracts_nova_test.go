package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/wire"
)

// N1: the match check runs at the one point that serializes admissions, so two racing conditional appends cannot both pass:
// through both servers, by requests and sessions.
func TestN1_OneOfRacingConditionalAppendsPasses(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "contract-n1")
	for round := range uint64(20) {
		var mu sync.Mutex
		won, lost := 0, 0
		tell := func(err error, conflict bool) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Errorf("round %d: %v", round, err)
			case conflict:
				lost++
			default:
				won++
			}
		}
		var all sync.WaitGroup
		for i, c := range []*client{here, there, here, there} {
			s := c.open(t, i < 2, "Tailrace-Conflicts", "per-batch")
			all.Go(func() {
				s.submit(input(fmt.Sprint("session ", i), &round, nil))
				f, err := s.frames.Next()
				tell(err, f.Conflict)
				_ = s.finish()
			})
			all.Go(func() {
				a, err := c.append(t.Context(), "s", one(fmt.Sprint("request ", i), matching(round)))
				if err == nil && a.status != 200 && a.body != mismatchOfSeqNum(round+1) {
					err = fmt.Errorf("answer %v", a)
				}
				tell(err, a.status == 412)
			})
		}
		all.Wait()
		if won != 1 || lost != 7 || here.tail(t, "s") != round+1 {
			t.Fatalf("round %d: %d passed and %d were refused; the tail is %d", round, won, lost, here.tail(t, "s"))
		}
	}
}

// wantMiss reads a refusal of one batch: not the end of the session, with a terminal frame's body.
func (s *liveSession) wantMiss(next uint64) {
	s.t.Helper()
	f, err := s.frames.Next()
	var miss *wire.SeqNumMismatch
	if err != nil || !f.Conflict || f.Terminal || !errors.As(f.Err(), &miss) || miss.Next != next {
		s.t.Fatalf("instead of a refusal that tells %d: %+v, %v", next, f, err)
	}
	if got := string(f.Payload[2:]); got != mismatchOfSeqNum(next) {
		s.t.Fatalf("the refusal's body is %s", got)
	}
}

// N2: a hit appends normally. A miss rejects only that batch and reports the committed tail, which is the next value to try;
// in a session opened for it the session lives and later pipelined batches are unaffected.
func TestN2_MissRejectsOnlyItsBatch(t *testing.T) {
	t.Parallel()
	overTransports(t, func(t *testing.T, http2 bool) {
		here, there := bothWays(t, "contract-n2")
		s := here.open(t, http2, "Tailrace-Conflicts", "per-batch")
		at := func(seq uint64) *uint64 { return &seq }
		for _, in := range []wire.AppendInput{
			input("a", at(0), nil), input("missed", at(0), nil), input("b", at(1), nil), input("missed", at(7), nil), input("c", nil, nil),
			input("d", at(3), nil),
		} {
			s.submit(in)
		}
		s.wantAck(0)
		s.wantMiss(1)
		s.wantAck(1)
		s.wantMiss(2)
		s.wantAck(2)
		s.wantAck(3)
		// What the miss tells is the next value to try, also when the other server appended.
		there.mustAppend(t, "s", one("e"))
		s.submit(input("missed", at(4), nil))
		s.wantMiss(5)
		s.submit(input("f", at(5), nil))
		s.wantAck(5)
		there.refuses(t, one("missed", matching(4)), mismatchOfSeqNum(6), 6)
		there.mustAppend(t, "s", one("g", matching(6)))
		s.wantEnd()
		// Only a session that asked for it; and one cannot ask for anything else.
		plain := here.open(t, http2)
		plain.submit(input("missed", at(0), nil))
		plain.submit(input("behind", nil, nil))
		var miss *wire.SeqNumMismatch
		if err := plain.failure(); !errors.As(err, &miss) || miss.Next != 7 {
			t.Errorf("a session that did not ask ended with %v", err)
		}
		if _, err := here.tryOpen(t, http2, "Tailrace-Conflicts", "sometimes"); err == nil {
			t.Error("a session with other conflicts was opened")
		}
		var stored string
		for _, r := range there.readAll(t, "s", 0, there.tail(t, "s")) {
			stored += r.Body
		}
		if stored != "abcdefg" {
			t.Errorf("stored %q", stored)
		}
	})
}

// N3: the one-shot form is always definite: a miss proves that nothing was appended.
func TestN3_MissProvesThatNothingWasAppended(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "contract-n3")
	stop := writers(t, 4, []*client{here, there}, func(int) []func(*appendInput) { return nil })
	missed, hit := 0, 0
	for i := range 200 {
		c := []*client{here, there}[i%2]
		in := one(fmt.Sprint("conditional ", i), matching(c.tail(t, "s")))
		a, err := c.append(t.Context(), "s", in)
		switch {
		case err != nil:
			t.Fatal(err)
		case a.status == 200:
			hit++
		case a.status == 412 && a.definite():
			missed++
		default:
			t.Fatalf("answer %v", a)
		}
	}
	acked, _ := stop()
	stored := 0
	for _, r := range here.readAll(t, "s", 0, here.tail(t, "s")) {
		if strings.HasPrefix(r.Body, "conditional") {
			stored++
		}
	}
	if stored != hit || here.tail(t, "s") != uint64(hit+len(acked)) {
		t.Errorf("%d conditional records are stored; %d were acknowledged and %d refused", stored, hit, missed)
	}
}

// N4: a conditional append re-sent after a reconnect re-evaluates its match and misses rather than duplicating; a plain one
// is at-least-once.
func TestN4_ResentConditionalAppendMisses(t *testing.T) {
	t.Parallel()
	overTransports(t, func(t *testing.T, http2 bool) {
		here, there := bothWays(t, "contract-n4")
		zero := uint64(0)
		first := here.open(t, http2)
		first.submit(input("conditional", &zero, nil))
		eventually(t, "the append", func() bool { return there.tail(t, "s") == 1 })
		first.close() // its client never saw the acknowledgement
		again := there.open(t, http2)
		again.submit(input("conditional", &zero, nil))
		var miss *wire.SeqNumMismatch
		if err := again.failure(); !errors.As(err, &miss) || miss.Next != 1 {
			t.Fatalf("sent again it ends with %v", err)
		}
		if got := there.readAll(t, "s", 0, 1)[0].Body; got != "conditional" {
			t.Errorf("reading back shows %q", got)
		}
		plain := here.open(t, http2)
		plain.submit(input("plain", nil, nil))
		eventually(t, "the append", func() bool { return there.tail(t, "s") == 2 })
		plain.close()
		plain = there.open(t, http2)
		plain.submit(input("plain", nil, nil))
		plain.wantAck(2)
		plain.wantEnd()
	})
}

// N5: a conditional batch never merges with others: its match names its own first record, whatever is under way beside it.
func TestN5_MatchNamesTheBatchsOwnFirstRecord(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "contract-n5")
	stop := writers(t, 6, []*client{here, there}, func(int) []func(*appendInput) { return nil })
	hits := 0
	for deadline := time.Now().Add(20 * time.Second); hits < 10 && time.Now().Before(deadline); {
		match := here.tail(t, "s")
		in := appendInput{Records: bodies("own first", "own second"), MatchSeqNum: &match}
		a, err := here.append(t.Context(), "s", in)
		if err != nil {
			t.Fatal(err)
		}
		var got ack
		if a.status != 200 {
			continue // the others were faster
		}
		must(t, 200, &got)(a, nil)
		stored := there.readAll(t, "s", match, match+2)
		if got.Start.SeqNum != match || got.End.SeqNum != match+2 || stored[0].Body != "own first" || stored[1].Body != "own second" {
			t.Fatalf("matched %d, acknowledged %+v, stored %+v", match, got, stored)
		}
		hits++
	}
	stop()
	match := here.tail(t, "s")
	if got := here.mustAppend(t, "s", one("alone", matching(match))); got.Start.SeqNum != match {
		t.Errorf("matched %d, acknowledged %+v", match, got)
	}
}

// N6: refusals are decided on committed state: the record below the number that a refusal tells can be read, and the number
// is not the one that was asked for.
func TestN6_RefusalsAreNeverSpurious(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "contract-n6")
	via := []*client{here, there}
	var all sync.WaitGroup
	for w := range 6 {
		all.Go(func() {
			c, other := via[w%2], via[(w+1)%2]
			next := uint64(0)
			for i := range 30 {
				a, err := c.append(t.Context(), "s", one(fmt.Sprint(w, " ", i), matching(next)))
				switch {
				case err != nil:
					t.Error(err)
					return
				case a.status == 200:
					next++
					continue
				}
				var told uint64
				if _, err := fmt.Sscanf(a.body, `{"seq_num_mismatch":%d}`, &told); err != nil || told <= next {
					t.Errorf("matching %d is answered %v", next, a)
					return
				}
				read, err := other.do(t.Context(), http.MethodGet, fmt.Sprintf("%s?seq_num=%d&count=1", records("s"), told-1), nil)
				if err != nil || read.status != 200 || !strings.Contains(read.body, fmt.Sprintf(`"seq_num":%d`, told-1)) {
					t.Errorf("a refusal tells %d, and below it is %v, %v", told, read, err)
					return
				}
				next = told
			}
		})
	}
	all.Wait()
	// Alone nobody is refused.
	for range 20 {
		here.mustAppend(t, "s", one("alone", matching(there.tail(t, "s"))))
	}
}

// N7: presenting a token never installs it; the Fence verb and the fence command record do: they install, rotate and clear.
func TestN7_PresentingInstallsNothing(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "contract-n7")
	here.refuses(t, one("a", presenting("mine")), mismatchOfToken(""), 0)
	if _, err := here.tryOpen(t, false, "Tailrace-Fencing-Token", "mine"); err == nil {
		t.Error("a session that presents a token that is not installed was opened")
	}
	if got := there.token(t, "s"); got != "" {
		t.Fatalf("%q is installed by presenting it", got)
	}
	for i, token := range []string{"mine", "rotated", ""} {
		here.fence(t, "s", token)
		if got := there.token(t, "s"); got != token {
			t.Fatalf("the verb installed %q, not %q", got, token)
		}
		there.mustAppend(t, "s", one("b", presenting(token)))
		there.mustAppend(t, "s", fenceRecord(fmt.Sprint(token, i)))
		if got := here.token(t, "s"); got != fmt.Sprint(token, i) {
			t.Fatalf("the record installed %q", got)
		}
	}
}

// N8: on an exclusive stream a writer presenting the installed token is admitted and every other writer is refused on every
// append until the next fence; presenting none counts as presenting the empty token.
func TestN8_ExclusiveStreamsCheckEveryAppend(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "contract-n8")
	here.setFencing(t, "s", "exclusive")
	there.mustAppend(t, "s", one("nobody is fenced"))
	there.mustAppend(t, "s", one("and this is the same", presenting("")))
	here.fence(t, "s", "t")
	for range 3 {
		there.refuses(t, one("without"), mismatchOfToken("t"), 2)
		there.refuses(t, one("empty", presenting("")), mismatchOfToken("t"), 2)
		here.refuses(t, fenceRecord("u"), mismatchOfToken("t"), 2)
	}
	there.mustAppend(t, "s", one("with", presenting("t")))
	t.Run("sessions", func(t *testing.T) {
		overTransports(t, func(t *testing.T, http2 bool) {
			s := there.open(t, http2)
			s.submit(input("without", nil, nil))
			s.wantFenced("t")
		})
	})
	// The verb is not an append: anybody may fence.
	there.fence(t, "s", "")
	here.mustAppend(t, "s", one("without again"))
}

// The mode is judged where appends are, never from a cached config: while it is switched back and forth, no append without
// the token lies above the point at which the stream was known to be exclusive.
func TestN8_ModeChangesAreJudgedInTheHead(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "contract-n8-mode")
	here.fence(t, "s", "t")
	for round := range 6 {
		switcher, other := here, there
		if round%2 == 1 {
			switcher, other = there, here
		}
		stop := writers(t, 8, []*client{here, there}, func(w int) []func(*appendInput) {
			if w < 2 {
				return []func(*appendInput){presenting("t")}
			}
			return nil
		})
		switcher.setFencing(t, "s", "exclusive")
		exclusive := other.tail(t, "s")
		a, err := other.append(t.Context(), "s", one("without"))
		if err != nil || a.status != 412 || a.body != mismatchOfToken("t") {
			t.Fatalf("round %d: an append without a token: %v, %v", round, a, err)
		}
		stop()
		for _, r := range other.readAll(t, "s", exclusive, other.tail(t, "s")) {
			if !strings.HasPrefix(r.Body, "writer 0 ") && !strings.HasPrefix(r.Body, "writer 1 ") {
				t.Fatalf("round %d: record %d, %q, was admitted on an exclusive stream; it was one from %d on", round, r.SeqNum, r.Body, exclusive)
			}
		}
		other.setFencing(t, "s", "cooperative")
		switcher.mustAppend(t, "s", one("without again"))
	}
}

// The mode goes through creating, ensuring, reconfiguring and a basin's defaults. It is shown only where it is exclusive, is
// kept by a PUT that does not know it, and null of a PATCH is the basin's default.
func TestN8_FencingInConfigs(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "contract-n8-config")
	mode := func(stream string) string {
		t.Helper()
		var config map[string]any
		must(t, 200, &config)(there.do(t.Context(), http.MethodGet, "/v1/streams/"+stream, nil))
		text, _ := config["fencing"].(string)
		return text
	}
	want := func(stream, want string) {
		t.Helper()
		if got := mode(stream); got != want {
			t.Fatalf("the fencing of %s is %q, want %q", stream, got, want)
		}
	}
	exclusive := map[string]any{"fencing": "exclusive"}
	put := func(stream string, body any, status int) {
		t.Helper()
		must(t, status, nil)(here.do(t.Context(), http.MethodPut, "/v1/streams/"+stream, body))
	}
	patch := func(stream string, body any) {
		t.Helper()
		must(t, 200, nil)(here.do(t.Context(), http.MethodPatch, "/v1/streams/"+stream, body))
	}
	want("s", "")
	must(t, 201, nil)(here.do(t.Context(), http.MethodPost, "/v1/streams", map[string]any{"stream": "created", "config": exclusive}))
	want("created", "exclusive")
	put("ensured", exclusive, 201)
	want("ensured", "exclusive")
	put("ensured", map[string]any{"retention_policy": map[string]any{"age": 3600}}, 200)
	want("ensured", "exclusive")
	put("ensured", nil, 200)
	want("ensured", "exclusive")
	put("ensured", map[string]any{"fencing": "cooperative"}, 200)
	want("ensured", "")
	patch("ensured", exclusive)
	want("ensured", "exclusive")
	patch("ensured", map[string]any{"storage_class": "standard"})
	want("ensured", "exclusive")
	patch("ensured", map[string]any{"fencing": nil})
	want("ensured", "")
	must(t, 200, nil)(here.do(t.Context(), http.MethodPatch, "/v1/basins/"+here.basin, map[string]any{
		"default_stream_config": exclusive, "create_stream_on_append": true}))
	var basin struct {
		Defaults map[string]any `json:"default_stream_config"`
	}
	must(t, 200, &basin)(there.do(t.Context(), http.MethodGet, "/v1/basins/"+here.basin, nil))
	if basin.Defaults["fencing"] != "exclusive" {
		t.Errorf("the basin's defaults are %v", basin.Defaults)
	}
	want("s", "") // defaults are for streams that are made
	there.mustAppend(t, "made", one("first"))
	want("made", "exclusive")
	there.fence(t, "made", "t")
	must(t, 412, nil)(here.append(t.Context(), "made", one("without")))
	patch("ensured", map[string]any{"fencing": nil})
	want("ensured", "exclusive")
	must(t, 400, nil)(here.do(t.Context(), http.MethodPatch, "/v1/streams/s", map[string]any{"fencing": "picket"}))
}

// N9: fence is strong: when it returns, no append its token excludes can succeed; live sessions presenting another are
// superseded, their appends fail and their close is inert.
func TestN9_FenceIsStrong(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "contract-n9")
	here.setFencing(t, "s", "exclusive")
	token := ""
	for round := range 10 {
		old, next := token, fmt.Sprint("token ", round)
		stop := writers(t, 8, []*client{here, there}, func(w int) []func(*appendInput) {
			if old == "" && w%2 == 0 {
				return nil // which is the empty token
			}
			return []func(*appendInput){presenting(old)}
		})
		got := []*client{here, there}[round%2].fence(t, "s", next)
		for _, c := range []*client{here, there} {
			a, err := c.append(t.Context(), "s", one("late", presenting(old)))
			if err != nil || a.status != 412 || a.body != mismatchOfToken(next) {
				t.Fatalf("round %d: an append with the old token: %v, %v", round, a, err)
			}
		}
		acked, refused := stop()
		for _, seq := range acked {
			if seq >= got.Tail.SeqNum {
				t.Fatalf("round %d: record %d has the old token; the boundary is %d", round, seq, got.Tail.SeqNum)
			}
		}
		delete(refused, mismatchOfToken(next))
		if len(refused) > 0 || got.Previous != old {
			t.Fatalf("round %d: %+v; refused with %v", round, got, refused)
		}
		token = next
	}
}

func TestN9_FenceSupersedesSessions(t *testing.T) {
	t.Parallel()
	overTransports(t, func(t *testing.T, http2 bool) {
		here, there := bothWays(t, "contract-n9-sessions")
		here.fence(t, "s", "t")
		presents := []string{"Tailrace-Fencing-Token", "t"}
		idle, busy := here.open(t, http2, presents...), here.open(t, http2, presents...)
		far, closing := there.open(t, http2, presents...), there.open(t, http2, presents...)
		busy.submit(input("a", nil, nil))
		busy.wantAck(0)
		far.submit(input("b", nil, nil))
		far.wantAck(1)
		if got := here.fence(t, "s", "u"); got.Tail.SeqNum != 2 {
			t.Fatalf("the boundary is %+v", got)
		}
		// Where the fence went, at once; elsewhere at the next append. Until then nothing is told, and closing does nothing.
		idle.wantFenced("u")
		busy.wantFenced("u")
		if here.url != there.url {
			closing.wantEnd()
			far.submit(input("c", nil, nil))
		} else {
			closing.wantFenced("u")
		}
		far.wantFenced("u")
		_ = idle.finish()
		_ = busy.send([]byte{0, 0, 1, 0})
		if got := there.tail(t, "s"); got != 2 || there.token(t, "s") != "u" {
			t.Errorf("the tail is %d, and %q is installed", got, there.token(t, "s"))
		}
	})
}

// N10: fence answers the tail as the admission boundary: everything below it was admitted under the previous token.
func TestN10_FenceAnswersTheBoundary(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "contract-n10")
	here.setFencing(t, "s", "exclusive")
	token := ""
	boundary := uint64(0)
	for round := range 5 {
		old := token
		stop := writers(t, 4, []*client{here, there}, func(int) []func(*appendInput) {
			return []func(*appendInput){presenting(old)}
		})
		token = fmt.Sprint("token ", round)
		got := there.fence(t, "s", token)
		after := here.mustAppend(t, "s", one("after", presenting(token)))
		acked, _ := stop()
		if after.Start.SeqNum != got.Tail.SeqNum {
			t.Fatalf("round %d: the boundary is %d, and the next record %d", round, got.Tail.SeqNum, after.Start.SeqNum)
		}
		if uint64(len(acked)) != got.Tail.SeqNum-boundary || slices.Max(append(acked, 0)) >= got.Tail.SeqNum || got.Previous != old {
			t.Fatalf("round %d: %+v; %d records were admitted since %d", round, got, len(acked), boundary)
		}
		boundary = after.End.SeqNum
	}
}

// N11: an equal token is an idempotent no-op. An empty token clears, and supersedes token-presenting sessions too.
func TestN11_EqualTokensAndTheEmptyOne(t *testing.T) {
	t.Parallel()
	overTransports(t, func(t *testing.T, http2 bool) {
		here, there := bothWays(t, "contract-n11")
		here.fence(t, "s", "t")
		s := here.open(t, http2, "Tailrace-Fencing-Token", "t")
		s.submit(input("a", nil, nil))
		s.wantAck(0)
		for _, c := range []*client{here, there} {
			if got := c.fence(t, "s", "t"); got.Previous != "t" || got.FencingToken != "t" || got.Tail.SeqNum != 1 {
				t.Fatalf("an equal token: %+v", got)
			}
		}
		s.submit(input("b", nil, nil))
		s.wantAck(1)
		if got := here.fence(t, "s", ""); got.Previous != "t" || got.FencingToken != "" || got.Tail.SeqNum != 2 {
			t.Fatalf("an empty token: %+v", got)
		}
		s.wantFenced("")
		there.mustAppend(t, "s", one("c", presenting("")))
		if got := there.fence(t, "s", ""); got.Previous != "" || got.Tail.SeqNum != 3 {
			t.Fatalf("an empty token again: %+v", got)
		}
	})
}

// N12: takeover is fence-then-open: pick a fresh token, fence it, open presenting it; the current token need never be read.
func TestN12_TakeoverIsFenceThenOpen(t *testing.T) {
	t.Parallel()
	overTransports(t, func(t *testing.T, http2 bool) {
		here, there := bothWays(t, "contract-n12")
		here.setFencing(t, "s", "exclusive")
		next := uint64(0)
		var last *liveSession
		for generation := range 5 {
			c := []*client{here, there}[generation%2]
			token := fmt.Sprint("generation ", generation)
			if got := c.fence(t, "s", token); got.Tail.SeqNum != next {
				t.Fatalf("generation %d: the boundary is %d, want %d", generation, got.Tail.SeqNum, next)
			}
			s := c.open(t, http2, "Tailrace-Fencing-Token", token)
			for range 3 {
				match := next
				s.submit(input(token, &match, nil))
				s.wantAck(next)
				next++
			}
			if last != nil {
				_ = last.send(mustEncode(t, input("of the last generation", nil, nil)))
				last.wantFenced(token)
			}
			last = s
		}
	})
}

func mustEncode(t *testing.T, in wire.AppendInput) []byte {
	t.Helper()
	frame, err := encodeInput(in)
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

// N13: a mismatch carries the installed token and is permanent for the presenter: only another fence changes it. It is
// concurrency control, not authorization: whoever may fence may fence.
func TestN13_MismatchIsPermanentUntilFenced(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "contract-n13")
	here.fence(t, "s", "theirs")
	for i := range 10 {
		there.refuses(t, one("mine", presenting("mine")), mismatchOfToken("theirs"), uint64(i))
		here.mustAppend(t, "s", one("theirs", presenting("theirs")))
	}
	there.fence(t, "s", "mine")
	there.mustAppend(t, "s", one("mine", presenting("mine")))
	here.refuses(t, one("theirs", presenting("theirs")), mismatchOfToken("mine"), 11)
}

// N14: the installed token can be discovered without provoking a mismatch.
func TestN14_TokenCanBeDiscovered(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "contract-n14")
	if got := there.token(t, "s"); got != "" {
		t.Fatalf("a new stream has the token %q", got)
	}
	for i := range 30 {
		token := fmt.Sprintf("token %d with %q and \u00e9", i, "quotes")
		if i%2 == 0 {
			here.fence(t, "s", token)
		} else {
			here.mustAppend(t, "s", fenceRecord(token))
		}
		if got := there.token(t, "s"); got != token {
			t.Fatalf("%q is installed, the other server says %q", token, got)
		}
	}
	must(t, 404, nil)(here.do(t.Context(), http.MethodGet, fencePath("none"), nil))
	a := must(t, 405, nil)(here.do(t.Context(), http.MethodPost, fencePath("s"), map[string]string{}))
	if a.header.Get("Allow") != "GET, HEAD, PUT" {
		t.Errorf("allowed are %q", a.header.Get("Allow"))
	}
}

// N15: one-shot appends and opened sessions both can present a token, for batches that name none.
func TestN15_AppendsAndSessionsPresentTokens(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "contract-n15")
	here.setFencing(t, "s", "exclusive")
	here.fence(t, "s", "t")
	const header = "Tailrace-Fencing-Token"
	must(t, 200, nil)(there.do(t.Context(), http.MethodPost, records("s"), one("a"), header, "t"))
	must(t, 200, nil)(there.do(t.Context(), http.MethodPost, records("s"), one("b", presenting("t")), header, "t"))
	there.refuses(t, one("c"), mismatchOfToken("t"), 2, header, "u")
	there.refuses(t, one("c"), mismatchOfToken("t"), 2, header, "")
	for _, two := range [][2]string{{"t", "u"}, {"u", "t"}} {
		a := must(t, 422, nil)(there.do(t.Context(), http.MethodPost, records("s"), one("c", presenting(two[0])), header, two[1]))
		if !a.definite() {
			t.Errorf("two tokens are refused with %v", a.header)
		}
	}
	must(t, 400, nil)(there.do(t.Context(), http.MethodPost, records("s"), one("c"), header, strings.Repeat("x", 37)))
	next := uint64(2)
	for _, http2 := range []bool{false, true} {
		s := there.open(t, http2, header, "t")
		s.submit(input("d", nil, nil))
		s.wantAck(next)
		s.wantEnd()
		next++
		var fenced *wire.FencingTokenMismatch
		if _, err := there.tryOpen(t, http2, header, "u"); !errors.As(err, &fenced) || fenced.Installed != "t" || fenced.Tail == nil || fenced.Tail.SeqNum != next {
			t.Errorf("opening with another token: %v", err)
		}
	}
}

// N16: token and match combine: the token settles which writer is current, the match whether this write can go in
// (BL-023).
func TestN16_TokenAndMatchCombine(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "contract-n16")
	here.fence(t, "s", "t")
	here.mustAppend(t, "s", one("a", presenting("t"), matching(0)))
	there.refuses(t, one("b", presenting("t"), matching(0)), mismatchOfSeqNum(1), 1)
	there.refuses(t, one("b", presenting("u"), matching(1)), mismatchOfToken("t"), 1)
	there.refuses(t, one("b", presenting("u"), matching(0)), mismatchOfToken("t"), 1) // who is current comes first
	there.mustAppend(t, "s", one("b", presenting("t"), matching(1)))
	// Two who hold the same token: the match decides (a token is equality, not a lock).
	answers := make([]answer, 2)
	var both sync.WaitGroup
	for i, c := range []*client{here, there} {
		both.Go(func() {
			var err error
			if answers[i], err = c.append(t.Context(), "s", one(fmt.Sprint(i), presenting("t"), matching(2))); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if answers[0].status+answers[1].status != 200+412 {
		t.Errorf("two writers with one token are answered %v and %v", answers[0], answers[1])
	}
	here.mustAppend(t, "s", fenceRecord("v", presenting("t"), matching(3)))
	there.refuses(t, fenceRecord("w", presenting("t"), matching(4)), mismatchOfToken("v"), 4)
}
