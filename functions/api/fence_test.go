package api_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/wire"
)

const fenceOfS = "/v1/streams/s/fence"

// fence installs a token on the stream s, which must work.
func (r *rig) fence(token string) wire.FenceAck {
	r.t.Helper()
	a := r.want(r.do("PUT", fenceOfS, fmt.Appendf(nil, `{"fencing_token":%q}`, token)), http.StatusOK, "")
	return decode[wire.FenceAck](r.t, a.body)
}

// wantFenced checks that an error is a mismatch that names a token.
func wantFenced(t testing.TB, err error, installed string) {
	t.Helper()
	var fenced *wire.FencingTokenMismatch
	if !errors.As(err, &fenced) || fenced.Installed != installed {
		t.Fatalf("got %v, want a mismatch that names %q", err, installed)
	}
}

func presents(token string) with { return with{wire.HeaderFencingToken, token} }

func TestFenceEndpoint(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	r.want(r.append("s", `{"records":[{"body":"a","timestamp":7}]}`), 200, "")
	a := r.want(r.do("PUT", fenceOfS, []byte(`{"fencing_token":"one","more":[]}`)), 200, "")
	if want := `{"tail":{"seq_num":1,"timestamp":7},"fencing_token":"one","previous":""}`; a.body != want {
		t.Errorf("answer %s, want %s", a.body, want)
	}
	if rev := a.revision(t); rev.Stream != "s" || rev.Version < 2 {
		t.Errorf("revision %+v", rev)
	}
	if got := r.want(r.do("GET", fenceOfS, nil), 200, "").body; got != `{"fencing_token":"one"}` {
		t.Errorf("the token: %s", got)
	}
	if got := r.want(r.do("HEAD", fenceOfS, nil), 200, ""); got.body != "" {
		t.Errorf("HEAD has the body %s", got.body)
	}
	if got := r.want(r.do("DELETE", fenceOfS, nil), 405, ""); got.header.Get("Allow") != "GET, HEAD, PUT" || got.header.Get(wire.HeaderApplied) != "no" {
		t.Errorf("405 with %v", got.header)
	}
	r.want(r.do("OPTIONS", fenceOfS, nil, with{"Origin", "https://a.example"}, with{"Access-Control-Request-Method", "PUT"}), 204, "")
	r.want(r.append("s", `{"records":[{"headers":[["","fence"]],"body":"two"}]}`), 200, "")
	if ack := r.fence("two"); ack.Previous != "two" || ack.Tail.SeqNum != 2 {
		t.Errorf("equal token: %+v", ack)
	}
	if ack := r.fence(""); ack.Previous != "two" || ack.FencingToken != "" {
		t.Errorf("cleared: %+v", ack)
	}
	for _, refused := range []struct {
		body   string
		status int
		code   string
	}{
		{`{}`, 400, "bad_json"}, {`{"fencing_token":null}`, 400, "bad_json"}, {`{"fencing_token":1}`, 400, "bad_json"}, {``, 400, "bad_json"},
		{`{"fencing_token":"` + strings.Repeat("x", 37) + `"}`, 400, "bad_json"},
		{`{"fencing_token":"` + strings.Repeat("😀", 10) + `"}`, 400, "bad_json"},
	} {
		got := r.want(r.do("PUT", fenceOfS, []byte(refused.body)), refused.status, refused.code)
		if got.header.Get(wire.HeaderApplied) != "no" {
			t.Errorf("%s: applied %q", refused.body, got.header.Get(wire.HeaderApplied))
		}
	}
	for _, token := range []string{strings.Repeat("x", 36), strings.Repeat("😀", 9), "with \\\" and \n"} {
		body := []byte(`{"fencing_token":"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(token) + `"}`)
		if ack := decode[wire.FenceAck](t, r.want(r.do("PUT", fenceOfS, body), 200, "").body); ack.FencingToken != token {
			t.Errorf("installed %q, not %q", ack.FencingToken, token)
		}
	}
	if tail := r.tail("s"); tail != 2 {
		t.Errorf("the tail is %d: fencing appends nothing", tail)
	}
}

// A fence makes a stream where an append does, and is refused where an append is.
func TestFenceResolvesAsAppendsDo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	token := []byte(`{"fencing_token":"t"}`)
	r.want(r.do("PUT", fenceOfS, token), 404, "stream_not_found")
	r.want(r.do("GET", fenceOfS, nil), 404, "stream_not_found")
	r.want(r.do("PUT", fenceOfS, token, with{"S2-Basin", "no-such-basin"}), 404, "basin_not_found")
	r.want(r.do("PUT", fenceOfS, token, with{"S2-Basin", ""}), 400, "bad_header")
	r.want(r.do("PUT", "/v1/streams/"+strings.Repeat("x", 513)+"/fence", token), 400, "bad_path")
	r.want(r.do("PATCH", "/v1/basins/"+basin, []byte(`{"create_stream_on_append":true}`)), 200, "")
	r.want(r.do("PUT", fenceOfS, []byte(`{}`)), 400, "bad_json")
	r.want(r.do("GET", "/v1/streams/s", nil), 404, "stream_not_found")
	a := r.want(r.do("PUT", fenceOfS, token, with{wire.HeaderStreamConfig, `{"fencing":"exclusive"}`}), 200, "")
	if ack := decode[wire.FenceAck](t, a.body); ack != (wire.FenceAck{FencingToken: "t"}) {
		t.Errorf("the first fence: %+v", ack)
	}
	r.want(r.append("s", one), 412, "")
	r.want(r.append("s", one, presents("t")), 200, "")
	r.want(r.do("DELETE", "/v1/streams/s", nil), 202, "")
	r.want(r.do("PUT", fenceOfS, token), 409, "stream_deletion_pending")
	r.want(r.do("GET", fenceOfS, nil), 409, "stream_deletion_pending")
}

// What is not known of a fence is said.
func TestFenceInDoubt(t *testing.T) {
	t.Parallel()
	r := newRig(t, change{coordinator: func(o *coordinator.Options) {
		o.StoreTimeout, o.DoubtTimeout = 50*time.Millisecond, 300*time.Millisecond
	}})
	r.create("s")
	r.heads.Set(storetest.Always(storetest.Lose, "Change"))
	r.want(r.do("PUT", fenceOfS, []byte(`{"fencing_token":"t"}`)), 200, "") // the load tells
	r.heads.Set(storetest.Always(storetest.Drop, "Change"))
	a := r.want(r.do("PUT", fenceOfS, []byte(`{"fencing_token":"u"}`)), 503, "unavailable")
	if a.header.Get(wire.HeaderApplied) != "unknown" {
		t.Errorf("applied %q", a.header.Get(wire.HeaderApplied))
	}
	r.heads.Set(storetest.Always(storetest.Refuse, "Change"))
	a = r.want(r.do("PUT", fenceOfS, []byte(`{"fencing_token":"u"}`)), 502, "hot_server")
	if a.header.Get(wire.HeaderApplied) != "no" {
		t.Errorf("applied %q", a.header.Get(wire.HeaderApplied))
	}
}

// The header presents a token for a batch that names none.
func TestFencingTokenHeader(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	r.fence("t")
	r.want(r.append("s", one, presents("t")), 200, "")
	a := r.want(r.append("s", one, presents("u")), 412, "")
	if a.body != `{"fencing_token_mismatch":"t"}` || a.header.Get(wire.HeaderTail) == "" || a.header.Get(wire.HeaderApplied) != "no" {
		t.Errorf("mismatch: %s with %v", a.body, a.header)
	}
	r.want(r.append("s", `{"records":[{"body":"x"}],"fencing_token":"t"}`, presents("t")), 200, "")
	for _, both := range [][2]string{{"t", "u"}, {"u", "t"}, {"", "t"}} {
		a := r.append("s", fmt.Sprintf(`{"records":[{"body":"x"}],"fencing_token":%q}`, both[0]), presents(both[1]))
		if r.want(a, 422, "invalid"); a.header.Get(wire.HeaderApplied) != "no" {
			t.Errorf("applied %q", a.header.Get(wire.HeaderApplied))
		}
	}
	// An empty header is there, and presents the empty token.
	q := r.request(t.Context(), "POST", recordsOfS, strings.NewReader(one), jsonBody)
	q.Header[wire.HeaderFencingToken] = []string{""}
	r.want(r.send(q), 412, "")
	r.want(r.append("s", one, presents(strings.Repeat("x", 37))), 400, "bad_header")
	r.want(r.append("s", one, presents("\xff")), 400, "bad_header")
	if tail := r.tail("s"); tail != 2 {
		t.Errorf("the tail is %d, want 2", tail)
	}
}

func TestSessionThatPresentsIsSuperseded(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t)
		r.create("s")
		r.fence("t")
		refused := open(r, "POST", recordsOfS, presents("u"))
		body, _ := io.ReadAll(refused.body)
		if refused.status != 412 || string(body) != `{"fencing_token_mismatch":"t"}` || refused.header.Get(wire.HeaderTail) != "0,0" {
			t.Fatalf("opening with another token: %d %s, %v", refused.status, body, refused.header)
		}
		silent := open(r, "POST", recordsOfS).mustOpen()
		first := open(r, "POST", recordsOfS, presents("t")).mustOpen()
		idle := open(r, "POST", recordsOfS, presents("t")).mustOpen()
		first.append(inputOf("a"))
		first.wantAck(0, 1)
		r.fence("u")
		// At once, though neither appends: their clients are told before they do anything.
		wantFenced(t, first.failure(), "u")
		wantFenced(t, idle.failure(), "u")
		_ = first.send(inputFrame(t, inputOf("b"))) // has no effect, nor has closing
		_ = first.finish()
		_ = idle.finish()
		silent.append(inputOf("c"))
		silent.wantAck(1, 2)
		second := open(r, "POST", recordsOfS, presents("u")).mustOpen()
		second.append(inputOf("d"))
		second.wantAck(2, 3)
		r.fence("")
		wantFenced(t, second.failure(), "")
		silent.halfClose()
		silent.wantEnd()
		r.quiet()
	})
}

// A session that gives its token away by a command record of its own is not interrupted, and cannot append behind it. One
// that somebody else's record takes the token from is superseded.
func TestSessionAndFenceRecords(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t)
		r.create("s")
		r.fence("t")
		giving := open(r, "POST", recordsOfS, presents("t")).mustOpen()
		other := open(r, "POST", recordsOfS, presents("t")).mustOpen()
		giving.append(wire.AppendInput{Records: []wire.AppendRecord{{Headers: []wire.Header{{Value: []byte("fence")}}, Body: []byte("v")}}})
		giving.wantAck(0, 1)
		wantFenced(t, other.failure(), "v")
		giving.halfClose()
		giving.wantEnd()
		again := open(r, "POST", recordsOfS, presents("v")).mustOpen()
		again.append(wire.AppendInput{Records: []wire.AppendRecord{{Headers: []wire.Header{{Value: []byte("fence")}}, Body: []byte("w")}}})
		again.wantAck(1, 2)
		again.append(inputOf("too late"))
		wantFenced(t, again.failure(), "w")
		named := open(r, "POST", recordsOfS, presents("w")).mustOpen()
		in := inputOf("x")
		in.FencingToken = text("v")
		named.append(in)
		if e := named.wantTerminal(wire.CodeInvalid); e.Effect() != wire.AppliedNo {
			t.Errorf("applied %s", e.Effect())
		}
		r.quiet()
	})
}

// Batches that wait behind a commit when the token is taken away fail with what took it.
func TestSessionIsSupersededWithAppendsUnderWay(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t)
		r.create("s")
		r.fence("t")
		d := open(r, "POST", recordsOfS, presents("t")).mustOpen()
		d.append(inputOf("a"))
		d.wantAck(0, 1)
		r.heads.Set(storetest.Always(storetest.Hold, "Commit"))
		d.append(inputOf("b"))
		r.heads.WaitHeld(1)
		d.append(inputOf("c"))
		ack := r.fence("u")
		r.heads.Set(nil)
		r.heads.Release(-1)
		wantFenced(t, d.failure(), "u")
		if got := strings.Join(r.bodiesOf("s"), ""); got != "a" || ack.Tail.SeqNum != 1 {
			t.Errorf("stored %q, the boundary is %d", got, ack.Tail.SeqNum)
		}
		r.quiet()
	})
}

// Where another process took the token away, the next append tells, or any load of the head; closing tells nothing.
func TestSessionIsSupersededElsewhere(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		shared := change{coordinator: func(o *coordinator.Options) { o.Exclusive = false }}
		r := newSessionRig(t, shared)
		r.create("s")
		other := newRig(t, shared, change{share: r.rig})
		r.fence("t")
		appends := open(r, "POST", recordsOfS, presents("t")).mustOpen()
		closes := open(r, "POST", recordsOfS, presents("t")).mustOpen()
		appends.append(inputOf("a"))
		appends.wantAck(0, 1)
		other.fence("u")
		closes.halfClose()
		closes.wantEnd()
		appends.append(inputOf("b"))
		wantFenced(t, appends.failure(), "u")
		waits := open(r, "POST", recordsOfS, presents("u")).mustOpen()
		other.fence("v")
		if got := r.want(r.do("GET", fenceOfS, nil), 200, "").body; got != `{"fencing_token":"v"}` {
			t.Errorf("the token here: %s", got)
		}
		wantFenced(t, waits.failure(), "v")
		r.quiet()
	})
}

// A session that asks for it outlives missed conditions, and nothing else.
func TestSessionWithConflictsPerBatch(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open opener) {
		r := newSessionRig(t)
		r.create("s")
		d := open(r, "POST", recordsOfS, with{wire.HeaderConflicts, wire.ConflictsPerBatch}).mustOpen()
		wantMiss := func(next uint64) {
			t.Helper()
			f, err := d.frames.Next()
			var miss *wire.SeqNumMismatch
			if err != nil || f.Terminal || !f.Conflict || !errors.As(f.Err(), &miss) || miss.Next != next {
				t.Fatalf("instead of a conflict at %d: %+v, %v", next, f, err)
			}
			if want := fmt.Sprintf(`{"seq_num_mismatch":%d}`, next); string(f.Payload[2:]) != want {
				t.Fatalf("the conflict's body is %s", f.Payload[2:])
			}
		}
		at := func(match uint64, bodies ...string) {
			t.Helper()
			in := inputOf(bodies...)
			in.MatchSeqNum = &match
			d.append(in)
		}
		// All on their way before the first is answered.
		r.heads.Set(storetest.Always(storetest.Hold, "Commit"))
		at(0, "a", "b")
		at(0, "refused")
		at(2, "c")
		at(9, "refused")
		d.append(inputOf("d"))
		at(4, "e")
		r.heads.WaitHeld(1)
		r.heads.Set(nil)
		r.heads.Release(-1)
		d.wantAck(0, 2)
		wantMiss(2)
		d.wantAck(2, 3)
		wantMiss(3)
		d.wantAck(3, 4)
		d.wantAck(4, 5)
		for range 3 {
			at(0, "refused")
			wantMiss(5)
		}
		in := inputOf("f")
		in.FencingToken = text("none")
		d.append(in)
		d.append(inputOf("g"))
		wantFenced(t, d.failure(), "")
		if got := strings.Join(r.bodiesOf("s"), ""); got != "abcde" {
			t.Errorf("stored %q", got)
		}
		r.quiet()
	})
}

// Where the tail has no room in a body it is in a header.
func TestTailHeaderOnRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	r.want(r.append("s", `{"records":[{"body":"a","timestamp":7}]}`), 200, "")
	for name, a := range map[string]answer{
		"match":   r.want(r.append("s", `{"records":[{"body":"a"}],"match_seq_num":5}`), 412, ""),
		"fencing": r.want(r.append("s", `{"records":[{"body":"a"}],"fencing_token":"x"}`), 412, ""),
		"range":   r.want(r.read("s", "seq_num=5"), 416, ""),
		"events":  r.want(r.read("s", "seq_num=5", with{"Accept", "text/event-stream"}), 416, ""),
	} {
		if a.header.Get(wire.HeaderTail) != "1,7" || a.header.Get(wire.HeaderApplied) != "no" {
			t.Errorf("%s: %v", name, a.header)
		}
	}
}
