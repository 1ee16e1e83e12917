package api_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/functions/api"
	"github.com/tailrace-streams/tailrace/wire"
)

const one = `{"records":[{"body":"a"}]}`

// A conditional append whose answer is lost and that is sent again is refused, and the number says where it went.
func TestBL001_ConditionalRetryIsNotDoubled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	r.want(r.append("s", `{"match_seq_num":0,"records":[{"body":"x"}]}`), 200, "")
	a := r.want(r.append("s", `{"match_seq_num":0,"records":[{"body":"x"}]}`), 412, "")
	if a.body != `{"seq_num_mismatch":1}` {
		t.Errorf("body %s", a.body)
	}
	if got := r.records("s"); len(got) != 1 {
		t.Errorf("records %v", got)
	}
}

func TestBL003_OneOfManyEqualConditionsWins(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const writers, rounds = 64, 20
	for round := range rounds {
		name := fmt.Sprint("s", round)
		r.create(name)
		statuses := make([]answer, writers)
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() { statuses[i] = r.append(name, `{"match_seq_num":0,"records":[{"body":"x"}]}`) })
		}
		wg.Wait()
		won := 0
		for _, a := range statuses {
			switch {
			case a.status == 200:
				won++
			case a.status != 412 || a.body != `{"seq_num_mismatch":1}` || a.header.Get(wire.HeaderApplied) != "no":
				t.Fatalf("loser got %d %s", a.status, a.body)
			case !strings.HasPrefix(a.header.Get(wire.HeaderTail), "1,"):
				t.Fatalf("loser got the tail %q", a.header.Get(wire.HeaderTail))
			}
		}
		if won != 1 {
			t.Fatalf("%d writers won", won)
		}
	}
}

func TestBL006_ZeroIsACondition(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	r.want(r.append("s", one), 200, "")
	r.want(r.append("s", `{"records":[{"body":"a"}],"match_seq_num":0}`), 412, "")
	r.want(r.append("s", `{"records":[{"body":"a"}],"match_seq_num":null}`), 200, "")
	zero := uint64(0)
	in := wire.AppendInput{Records: []wire.AppendRecord{{Body: []byte("a")}}, MatchSeqNum: &zero}
	a := r.append("s", string(wire.EncodeAppendInputProto(nil, in)), with{"Content-Type", wire.MediaProto})
	if r.want(a, 412, ""); a.body != `{"seq_num_mismatch":2}` {
		t.Errorf("body %s", a.body)
	}
}

func TestBL009_ABatchIsAtomic(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	bodies := make([]string, 1000)
	for i := range bodies {
		bodies[i] = `{"body":"YQ=="}`
	}
	base64Format := with{"S2-Format", "base64"}
	for place, bad := range map[int]string{700: `{"body":"YQ"}`, 999: `{"headers":[["","Zm9v"]]}`, 0: `{"headers":[["",""]]}`} {
		spoiled := append([]string(nil), bodies...)
		spoiled[place] = bad
		r.want(r.append("s", `{"records":[`+strings.Join(spoiled, ",")+`]}`, base64Format), 422, "invalid")
	}
	if tail := r.tail("s"); tail != 0 {
		t.Errorf("tail %d", tail)
	}
	r.want(r.append("s", `{"records":[`+strings.Join(bodies, ",")+`]}`, base64Format), 200, "")
}

func TestBL016_ManyCreateByAppending(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want(r.do("PATCH", "/v1/basins/"+basin, []byte(`{"create_stream_on_append":true}`)), 200, "")
	var wg sync.WaitGroup
	answers := make([]answer, 32)
	for i := range answers {
		wg.Go(func() { answers[i] = r.append("new", one) })
	}
	wg.Wait()
	for _, a := range answers {
		r.want(a, 200, "")
	}
	if tail := r.tail("new"); tail != 32 {
		t.Errorf("tail %d", tail)
	}
}

func TestBL017_CreationOnUseIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sse := with{"Accept", wire.MediaSSE}
	uses := map[string]func(name string) answer{
		"append": func(n string) answer { return r.append(n, one) },
		"read":   func(n string) answer { return r.read(n, "seq_num=0") },
		"sse":    func(n string) answer { return r.read(n, "seq_num=0&wait=0", sse) },
		"tail":   func(n string) answer { return r.do("GET", "/v1/streams/"+n+"/records/tail", nil) },
	}
	for name, use := range uses {
		r.want(use("off-"+name), 404, "stream_not_found")
	}
	for _, flag := range []string{"create_stream_on_append", "create_stream_on_read"} {
		r.want(r.do("PATCH", "/v1/basins/"+basin, []byte(`{"`+flag+`":true}`)), 200, "")
	}
	for name, use := range uses {
		want := 200
		if name == "read" {
			want = 416 // an empty stream, without waiting
		}
		r.want(use("on-"+name), want, "")
		r.want(r.do("GET", "/v1/streams/on-"+name, nil), 200, "")
	}
}

func fence(token string) string {
	b, _ := json.Marshal(token)
	return `{"records":[{"headers":[["","fence"]],"body":` + string(b) + `}]}`
}

func TestBL018_TokensAreMeasuredInBytes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, token := range []string{strings.Repeat("x", 36), strings.Repeat("😀", 9)} {
		name := fmt.Sprint("fits", i)
		r.create(name)
		r.want(r.append(name, fence(token)), 200, "")
		b, _ := json.Marshal(token)
		r.want(r.append(name, `{"records":[{}],"fencing_token":`+string(b)+`}`), 200, "")
	}
	r.create("s")
	for _, token := range []string{strings.Repeat("x", 37), strings.Repeat("😀", 10)} {
		r.want(r.append("s", fence(token)), 422, "invalid")
		b, _ := json.Marshal(token)
		r.want(r.append("s", `{"records":[{}],"fencing_token":`+string(b)+`}`), 400, "bad_json")
		in := wire.EncodeAppendInputProto(nil, wire.AppendInput{Records: []wire.AppendRecord{{}}, FencingToken: &token})
		r.want(r.append("s", string(in), with{"Content-Type", wire.MediaProto}), 422, "invalid")
	}
	if tail := r.tail("s"); tail != 0 {
		t.Errorf("tail %d", tail)
	}
}

func TestBL019_TheEmptyTokenIsAToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	unfenced := `{"records":[{}],"fencing_token":""}`
	r.want(r.append("s", unfenced), 200, "")
	r.want(r.append("s", fence("t1")), 200, "")
	a := r.want(r.append("s", unfenced), 412, "")
	if a.body != `{"fencing_token_mismatch":"t1"}` {
		t.Errorf("body %s", a.body)
	}
	r.want(r.append("s", `{"records":[{}]}`), 200, "")
	r.want(r.append("s", `{"records":[{"headers":[["","fence"]]}],"fencing_token":"t1"}`), 200, "")
	r.want(r.append("s", unfenced), 200, "")
	a = r.want(r.append("s", `{"records":[{}],"fencing_token":"t1"}`), 412, "")
	if a.body != `{"fencing_token_mismatch":""}` {
		t.Errorf("body %s", a.body)
	}
}

func TestBL023_ATokenIsEqualityNotALock(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	r.want(r.append("s", fence("t")), 200, "")
	for range 2 {
		r.want(r.append("s", `{"records":[{}],"fencing_token":"t"}`), 200, "")
	}
	takeover := `{"match_seq_num":3,"records":[{"headers":[["","fence"]],"body":"%s"}]}`
	r.want(r.append("s", fmt.Sprintf(takeover, "u1")), 200, "")
	r.want(r.append("s", fmt.Sprintf(takeover, "u2")), 412, "")
}

func TestBL033_NumbersAreExact(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want(r.do("POST", "/v1/streams", []byte(`{"stream":"s","config":{"timestamping":{"uncapped":true}}}`)), 201, "")
	a := r.want(r.append("s", `{"records":[{}],"match_seq_num":9007199254740993}`), 412, "")
	if a.body != `{"seq_num_mismatch":0}` {
		t.Errorf("body %s", a.body)
	}
	const big = 1<<53 + 1
	r.want(r.append("s", fmt.Sprintf(`{"records":[{"timestamp":%d}]}`, uint64(big))), 200, "")
	if got := r.records("s")[0].Timestamp; got != big {
		t.Errorf("timestamp %d", got)
	}
	for _, bad := range []string{"1.5", "1e3", "-1", `"5"`, "18446744073709551616", "true", "[]"} {
		r.want(r.append("s", `{"records":[{}],"match_seq_num":`+bad+`}`), 400, "bad_json")
		r.want(r.append("s", `{"records":[{"timestamp":`+bad+`}]}`), 400, "bad_json")
	}
	for _, bad := range []string{"1.5", "1e3", "-1", "%225%22", "18446744073709551616", "", "+1", "true"} {
		for _, name := range []string{"seq_num", "timestamp", "tail_offset", "count", "bytes", "until", "wait"} {
			r.want(r.read("s", name+"="+bad), 400, "bad_query")
		}
	}
}

func TestBL060_EmptyBatchesAndEmptyRecords(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	r.want(r.append("s", `{"records":[]}`), 422, "invalid")
	r.want(r.append("s", `{}`), 400, "bad_json")
	r.want(r.append("s", `{"records":null}`), 400, "bad_json")
	r.want(r.append("s", `{"records":[{}]}`), 200, "")
	r.want(r.append("s", `{"records":[{"body":""}]}`), 200, "")
	if a := r.read("s", "seq_num=0&bytes=15"); len(decode[batch](t, a.body).Records) != 1 {
		t.Errorf("an empty record does not count 8 bytes: %s", a.body)
	}
	if a := r.read("s", "seq_num=0&bytes=16"); len(decode[batch](t, a.body).Records) != 2 {
		t.Errorf("an empty record does not count 8 bytes: %s", a.body)
	}
}

func TestBL061_LimitsAreOfDecodedBytes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	const most = 1<<20 - 8
	r.want(r.append("s", `{"records":[{"body":"`+strings.Repeat(`\"`, most-68)+`"}]}`), 200, "")
	r.want(r.append("s", `{"records":[{"body":"`+strings.Repeat(`x`, most)+`"}]}`), 200, "")
	r.want(r.append("s", `{"records":[{"body":"`+strings.Repeat(`x`, most+1)+`"}]}`), 422, "invalid")
	base64Format := with{"S2-Format", "base64"}
	encoded := func(n int) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xff}, n)) }
	r.want(r.append("s", `{"records":[{"body":"`+encoded(most)+`"}]}`, base64Format), 200, "")
	r.want(r.append("s", `{"records":[{"body":"`+encoded(most+1)+`"}]}`, base64Format), 422, "invalid")
	r.want(r.append("s", `{"records":[{"body":"`+strings.Repeat("x", 2<<20)+`"}]}`), 400, "bad_json")
	r.want(r.append("s", strings.Repeat("x", 2<<20+1), with{"Content-Type", wire.MediaProto}), 400, "bad_proto")
	many := func(n int) string { return `{"records":[` + strings.Repeat("{},", n-1) + "{}]}" }
	r.want(r.append("s", many(1000)), 200, "")
	r.want(r.append("s", many(1001)), 422, "invalid")
	if tail := r.tail("s"); tail != 1003 {
		t.Errorf("tail %d", tail)
	}
	a := r.want(r.read("s", "seq_num=2&count=1", base64Format), 200, "")
	if got := decode[batch](t, a.body).Records[0].Body; got != encoded(most) {
		t.Errorf("%d characters of base64 came back as %d", len(encoded(most)), len(got))
	}
}

func TestBL063_OnlyStandardBase64(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	for _, bad := range []string{"YQ", "_-8=", `YQ==\n`, "!!!!", "Y Q=", "YQ=", "YQ==YQ==", "YR=="} {
		for _, record := range []string{`{"body":"` + bad + `"}`, `{"headers":[["` + bad + `","YQ=="]]}`, `{"headers":[["YQ==","` + bad + `"]]}`} {
			a := r.want(r.append("s", `{"records":[{},`+record+`]}`, with{"S2-Format", "base64"}), 422, "invalid")
			if !strings.Contains(a.body, "1") {
				t.Errorf("the record is not named: %s", a.body)
			}
		}
	}
	if tail := r.tail("s"); tail != 0 {
		t.Errorf("tail %d", tail)
	}
}

// raw sends bytes over a connection of its own, ends them if told, and returns the status that comes back.
func (r *rig) raw(text string, end bool) string {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.server.Listener.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, text); err != nil {
		return ""
	}
	if end {
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return ""
	}
	response.Body.Close()
	return response.Status
}

func TestBL067_AnIncompleteBodyIsNotApplied(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	head := "POST /v1/streams/s/records HTTP/1.1\r\nHost: x\r\nS2-Basin: " + basin + "\r\nContent-Type: application/json\r\n"
	for name, request := range map[string]string{
		"chunked, cut after valid JSON": head + "Transfer-Encoding: chunked\r\n\r\n1a\r\n" + one + "\r\n",
		"chunked, cut inside":           head + "Transfer-Encoding: chunked\r\n\r\n1a\r\n" + one[:10],
		"length longer than sent":       head + "Content-Length: 100\r\n\r\n" + one,
	} {
		if got := r.raw(request, true); strings.HasPrefix(got, "2") || strings.HasPrefix(got, "5") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := r.raw(head+"Content-Length: 26\r\n\r\n"+one, false); got != "200 OK" {
		t.Errorf("whole: %s", got)
	}
	if tail := r.tail("s"); tail != 1 {
		t.Errorf("tail %d", tail)
	}
}

func TestASlowBodyIsGivenUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, change{api: func(o *api.Options) { o.BodyTimeout = 200 * time.Millisecond }})
	r.create("s")
	conn, err := net.Dial("tcp", r.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(conn, "POST /v1/streams/s/records HTTP/1.1\r\nHost: x\r\nS2-Basin: %s\r\nContent-Type: application/json\r\nContent-Length: 26\r\n\r\n{", basin)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusRequestTimeout || response.Header.Get(wire.HeaderApplied) != "no" {
		t.Errorf("got %s", response.Status)
	}
	if tail := r.tail("s"); tail != 0 {
		t.Errorf("tail %d", tail)
	}
}

// The deadline for a body must not end a long poll behind it, nor the next request on the connection.
func TestBodyDeadlineEndsWithTheBody(t *testing.T) {
	t.Parallel()
	r := newRig(t, change{api: func(o *api.Options) { o.BodyTimeout, o.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond }})
	r.create("s")
	for range 3 {
		r.want(r.append("s", one), 200, "")
		begun := time.Now()
		a := r.do("GET", "/v1/streams/s/records?tail_offset=0&wait=1", nil)
		if r.want(a, 200, ""); time.Since(begun) < 900*time.Millisecond {
			t.Errorf("the long poll took %s", time.Since(begun))
		}
	}
}
