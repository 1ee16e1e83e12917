package api_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/functions/api"
	"github.com/tailrace-streams/tailrace/wire"
)

// valid are requests that the API takes, as they come over the wire.
func valid(t testing.TB) [][]byte {
	t.Helper()
	proto := wire.EncodeAppendInputProto(nil, wire.AppendInput{Records: []wire.AppendRecord{
		{Timestamp: 7, HasTimestamp: true, Headers: []wire.Header{{Name: []byte("a"), Value: []byte("b")}}, Body: []byte("proto")}, {Body: []byte("x")},
	}})
	headers := "Host: x\r\nS2-Basin: " + basin + "\r\n"
	post := func(target, extra string, body []byte) []byte {
		return append(fmt.Appendf(nil, "%s HTTP/1.1\r\n%s%sContent-Length: %d\r\n\r\n", target, headers, extra, len(body)), body...)
	}
	const asJSON = "Content-Type: application/json\r\n"
	rich := []byte(`{"records":[{"body":"aGVsbG8=","headers":[["YQ==","Yg=="]],"timestamp":12},{"body":""},{}],"match_seq_num":null,"unknown":[{"a":[1e9,true]}]}`)
	config := []byte(`{"stream":"made","config":{"storage_class":"express","retention_policy":{"age":60},"timestamping":{"mode":"arrival","uncapped":true},"delete_on_empty":{"min_age_secs":9}}}`)
	return [][]byte{
		post("POST /v1/streams/s/records", asJSON, []byte(one)),
		post("POST /v1/streams/s/records", asJSON+"S2-Format: base64\r\n", rich),
		post("POST /v1/streams/s/records", asJSON+"Content-Encoding: gzip\r\n", gzipped(t, []byte(one))),
		post("POST /v1/streams/s/records", asJSON+"Content-Encoding: zstd\r\n", zstded(t, []byte(one))),
		post("POST /v1/streams/s/records", "Content-Type: application/protobuf\r\nAccept: application/protobuf\r\n", proto),
		post("GET /v1/streams/s/records?seq_num=0&count=2&bytes=100&clamp=true&until=99999999999999", "", nil),
		post("GET /v1/streams/s/records?timestamp=0&wait=0", "Accept: application/protobuf\r\n", nil),
		post("GET /v1/streams/s/records?tail_offset=1&count=1", "Accept: text/event-stream\r\nLast-Event-ID: 0,1,2\r\n", nil),
		post("GET /v1/streams/s/records/tail", "", nil),
		post("POST /v1/streams", asJSON+"S2-Request-Token: token\r\n", config),
		post("PUT /v1/streams/caf%C3%A9%2Fx", asJSON, []byte(`{"retention_policy":{"infinite":{}}}`)),
		post("PATCH /v1/streams/s", asJSON, []byte(`{"timestamping":{"mode":null,"uncapped":false},"delete_on_empty":null}`)),
		post("GET /v1/streams?prefix=s&start_after=a&limit=3", "", nil),
		post("POST /v1/basins", asJSON, []byte(`{"basin":"basin-test-09","config":{"create_stream_on_append":true,"default_stream_config":{"storage_class":"standard"}},"location":"local"}`)),
		post("PATCH /v1/basins/"+basin, asJSON, []byte(`{"default_stream_config":{"retention_policy":{"age":9}}}`)),
		post("GET /v1/basins?prefix=basin&limit=1", "", nil),
		post("GET /v1/metrics/"+basin+"?set=storage&start=1&end=2&interval=hour", "", nil),
		post("POST /v1/access-tokens", asJSON, []byte(`{"id":"x","scope":{"basins":{"prefix":""}}}`)),
		post("PUT /v1/locations/default", asJSON, []byte(`"local"`)),
	}
}

// splices are bytes that parsers have been caught on.
var splices = []string{
	"\x00", "\xff\xfe", "%00", "%2F", "%2e%2e", "..", "/../", "//", "\\u0000", "\\ud800", "\"", "{", "[[[[[[[[", "}", "null", "-1", "1e400",
	"18446744073709551616", "9007199254740993", ",", ":", "\r\n", "\n", "&", "=", "?", "#", "+", "%", "true", "é", "\u2028", "🏴", "[DONE]", " ",
	strings.Repeat("x", 512), strings.Repeat("A", 3000), strings.Repeat("{\"a\":", 200),
}

// mutate changes a request in a few places.
func mutate(rng *rand.Rand, text []byte) []byte {
	b := bytes.Clone(text)
	for range 1 + rng.IntN(3) {
		at := rng.IntN(len(b) + 1)
		switch rng.IntN(5) {
		case 0: // flip
			if at < len(b) {
				b[at] ^= 1 << rng.IntN(8)
			}
		case 1: // cut out
			end := min(len(b), at+1+rng.IntN(8))
			b = append(b[:at:at], b[end:]...)
		case 2: // splice in
			s := splices[rng.IntN(len(splices))]
			b = append(b[:at:at], append([]byte(s), b[at:]...)...)
		case 3: // repeat
			end := min(len(b), at+1+rng.IntN(16))
			b = append(b[:end:end], b[at:]...)
		default: // overwrite
			if at < len(b) {
				b[at] = byte(rng.IntN(256))
			}
		}
	}
	return b
}

// 10,000 mutations of valid requests, sent as bytes: whatever they turn into, the answer is a 2xx or a 4xx (or 501 for
// what is not served), nothing panics, and a 4xx has stored nothing.
func TestGarbageIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, change{api: func(o *api.Options) { o.Log = zerolog.New(o.Log).Level(zerolog.WarnLevel) }})
	seeds := valid(t)
	r.create("s")
	for i, seed := range seeds {
		if status := r.rawStatus(seed); status >= 300 && status != 501 {
			t.Fatalf("seed %d is refused: %d", i, status)
		}
	}
	const requests = 10_000
	rng := rand.New(rand.NewPCG(1, 2))
	counts := map[int]int{}
	before := r.state()
	for i := range requests {
		request := mutate(rng, seeds[i%len(seeds)])
		if bytes.HasPrefix(request, []byte("DELETE")) {
			continue
		}
		status := r.inProcess(request)
		counts[status]++
		switch {
		case status >= 500 && status != 501:
			t.Fatalf("%d for %q", status, request)
		case status >= 400:
			if after := r.state(); after != before {
				t.Fatalf("%d for %q, and\n%s\nbecame\n%s", status, request, before, after)
			}
		default:
			before = r.state()
		}
	}
	if counts[200] < requests/50 || counts[400] < requests/10 {
		t.Errorf("the mix of answers is poor: %v", counts)
	}
	if logs := r.logs.String(); strings.Contains(logs, "panic") {
		t.Errorf("logged: %s", logs)
	}
	t.Log(counts)
}

// state is everything that a request could have changed.
func (r *rig) state() string {
	counts := r.heads.Counts()
	return fmt.Sprint(counts["Create"], counts["Commit"], counts["Change"], counts["Put"], counts["Delete"], r.objects.Counts().Puts)
}

// rawStatus sends bytes over a connection and returns the status, 0 for none.
func (r *rig) rawStatus(request []byte) int {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.server.Listener.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(request); err != nil {
		return 0
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}

// inProcess parses bytes as the server would and has the handler answer; 400 for what the server itself refuses. It
// bounds the wait that a mutation may ask for.
func (r *rig) inProcess(request []byte) int {
	q, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(request)))
	if err != nil {
		return 400
	}
	if strings.Contains(q.URL.RawQuery, "wait") {
		return 200 // waiting is tested elsewhere
	}
	ctx, cancel := context.WithTimeout(q.Context(), time.Second) // for an event stream without an end
	defer cancel()
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, q.WithContext(ctx))
	return w.Code
}

// FuzzRequest is the same for whatever the fuzzer thinks of.
func FuzzRequest(f *testing.F) {
	for _, seed := range valid(f) {
		f.Add(seed)
	}
	r := newHandler(f, change{api: func(o *api.Options) { o.Log = zerolog.Nop() }})
	r.do("PUT", "/v1/basins/"+basin, nil)
	r.create("s")
	f.Fuzz(func(t *testing.T, request []byte) {
		if status := r.inProcess(request); status >= 500 && status != 501 {
			t.Errorf("%d", status)
		}
	})
}
