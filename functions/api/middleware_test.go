package api_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/functions/api"
	"github.com/tailrace-streams/tailrace/wire"
)

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	seen := map[string]bool{}
	for given, kept := range map[string]bool{
		"": false, "abc-123": true, strings.Repeat("x", 128): true, strings.Repeat("x", 129): false, "a b": false, `a"b`: false, "ü": false,
	} {
		a := r.do("GET", "/v1/streams/absent", nil, with{"X-Request-Id", given})
		got := a.header.Get("X-Request-Id")
		if got == "" || kept != (got == given) || seen[got] {
			t.Errorf("gave %q, got %q", given, got)
		}
		seen[got] = true
		if !strings.Contains(r.logs.String(), `"request_id":"`+got+`"`) {
			t.Errorf("%q is not in the log", got)
		}
	}
}

func TestTheLogTellsNoSecrets(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	const secret = "sesame-open-c2VzYW1l"
	for _, status := range []int{200, 412} {
		a := r.append("s", `{"records":[{"body":"`+secret+`","headers":[["h","`+secret+`"]]},{"body":"x"}],"match_seq_num":0,"fencing_token":""}`,
			with{"Authorization", "Bearer " + secret}, with{"S2-Encryption-Key", secret}, with{"S2-Request-Token", secret})
		r.want(a, status, "")
	}
	r.want(r.append("s", fence(secret)), 200, "")
	r.want(r.append("s", `{"records":[{}],"fencing_token":"x`+secret+`"}`), 412, "")
	r.want(r.read("s", "seq_num="+secret), 400, "bad_query")
	r.want(r.append("s", `{"records":[{"body":"`+secret), 400, "bad_json")
	r.want(r.append("s", `{"records":[{"body":"`+secret+`"}]}`, with{"S2-Format", "base64"}), 422, "invalid")
	if logs := r.logs.String(); strings.Contains(logs, secret) || !strings.Contains(logs, `"status":412`) {
		t.Errorf("logged: %s", logs)
	}
}

func TestLogLevels(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	line := func(id string) string {
		for line := range strings.Lines(r.logs.String()) {
			if strings.Contains(line, `"`+id+`"`) {
				return line
			}
		}
		return ""
	}
	r.append("s", one, with{"X-Request-Id", "good"})
	r.append("absent", one, with{"X-Request-Id", "bad"})
	r.heads.Set(func(storetest.Call) storetest.Outcome { return storetest.Refuse })
	r.do("GET", "/v1/basins", nil, with{"X-Request-Id", "ugly"})
	for id, want := range map[string]string{"good": "debug", "bad": "info", "ugly": "warn"} {
		if got := line(id); !strings.Contains(got, `"level":"`+want+`"`) {
			t.Errorf("%s: %s", id, got)
		}
	}
	if got := line("ugly"); !strings.Contains(got, `"error":`) || !strings.Contains(got, `"code":"hot_server"`) {
		t.Errorf("the cause is not told: %s", got)
	}
}

// broken panics instead of answering.
type broken struct{ api.Streams }

func (broken) CheckTail(context.Context, coordinator.StreamRef) (coordinator.Position, error) {
	panic("sesame")
}

func TestAPanicIsAnswered(t *testing.T) {
	t.Parallel()
	r := newRig(t, change{api: func(o *api.Options) { o.Streams = broken{o.Streams} }})
	r.create("s")
	for range 3 {
		a := r.want(r.do("GET", "/v1/streams/s/records/tail", nil), 500, "other")
		if strings.Contains(a.body, "sesame") {
			t.Errorf("the client learns %s", a.body)
		}
	}
	if logs := r.logs.String(); !strings.Contains(logs, "sesame") || !strings.Contains(logs, "middleware_test.go") {
		t.Errorf("the log has no stack: %s", logs)
	}
	r.want(r.append("s", one), 200, "")
}

func TestMethodsAndPaths(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"POST", "/v1/basins/" + basin, 405, "DELETE, GET, HEAD, PATCH, PUT"},
		{"PUT", "/v1/streams/s/records", 405, "GET, HEAD, POST"},
		{"DELETE", "/health", 405, "GET, HEAD"},
		{"OPTIONS", "/v1/basins", 405, "GET, HEAD, POST"},
		{"GET", "/v1/access-tokens/x", 405, "DELETE"},
		{"GET", "/v1/streams/s/records/tail/x", 404, ""},
		{"GET", "/nowhere", 404, ""},
		{"HEAD", "/v1/basins", 200, ""},
		{"HEAD", "/v1/streams/s/records/tail", 200, ""},
		{"HEAD", "/health", 200, ""},
	} {
		a := r.do(c.method, c.path, nil)
		if a.status != c.status || a.body != "" || a.header.Get("Allow") != c.allow || a.status >= 400 != (a.header.Get(wire.HeaderApplied) == "no") {
			t.Errorf("%+v: %d %q %q", c, a.status, a.body, a.header.Get("Allow"))
		}
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	origin := with{"Origin", "https://page.example"}
	preflight := []with{origin, {"Access-Control-Request-Method", "PATCH"}, {"Access-Control-Request-Headers", "s2-basin, authorization"}}
	r := newRig(t)
	a := r.do("OPTIONS", "/v1/streams/s", nil, preflight...)
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin": origin.value, "Access-Control-Allow-Methods": "PATCH",
		"Access-Control-Allow-Headers": "s2-basin, authorization", "Access-Control-Allow-Credentials": "true",
	} {
		if a.status != 204 || a.header.Get(name) != want {
			t.Errorf("preflight: %d %s %q", a.status, name, a.header.Get(name))
		}
	}
	a = r.do("GET", "/v1/streams/s", nil, origin)
	if r.want(a, 404, ""); a.header.Get("Access-Control-Allow-Origin") != origin.value ||
		!strings.Contains(strings.ToLower(a.header.Get("Access-Control-Expose-Headers")), "s2-provision-result") ||
		!strings.Contains(strings.Join(a.header.Values("Vary"), ","), "Origin") {
		t.Errorf("headers %v", a.header)
	}
	closed := newRig(t, change{api: func(o *api.Options) { o.DisableCORS = true }})
	a = closed.do("OPTIONS", "/v1/streams/s", nil, preflight...)
	if closed.want(a, 405, ""); a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("headers %v", a.header)
	}
}

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	return out.Bytes()
}

func zstded(t testing.TB, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(b, nil)
}

func TestCompressedRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	body := []byte(`{"records":[{"body":"` + strings.Repeat("x", 4000) + `"}]}`)
	bomb := append(append([]byte(`{"records":[{"body":"`), bytes.Repeat([]byte("x"), 64<<20)...), `"}]}`...)
	for _, c := range []struct {
		encoding string
		body     []byte
		status   int
		code     string
	}{
		{"gzip", gzipped(t, body), 200, ""}, {"zstd", zstded(t, body), 200, ""}, {"GZIP", gzipped(t, body), 200, ""}, {"identity", body, 200, ""},
		{"gzip", gzipped(t, bomb), 400, "bad_json"}, {"zstd", zstded(t, bomb), 400, "bad_json"},
		{"gzip", body, 400, "bad_json"}, {"zstd", body, 400, "bad_json"}, {"gzip", nil, 400, "bad_json"}, {"zstd", gzipped(t, body), 400, "bad_json"},
		{"gzip", gzipped(t, body)[:30], 400, "bad_json"}, {"zstd", zstded(t, body)[:20], 400, "bad_json"},
		{"br", body, 415, ""}, {"gzip, zstd", gzipped(t, body), 415, ""}, {"deflate", body, 415, ""},
		{"gzip", bytes.Repeat(gzipped(t, nil), 200_000), 400, "bad_json"}, // nothing, at length
	} {
		q := r.request(t.Context(), "POST", "/v1/streams/s/records", bytes.NewReader(c.body), jsonBody, with{"Content-Encoding", c.encoding})
		a := r.send(q)
		if a.status != c.status || a.code() != c.code {
			t.Errorf("%s of %d bytes: %d %s", c.encoding, len(c.body), a.status, a.body)
		}
		if c.status == 415 && (a.body != "" || a.header.Get("Accept-Encoding") == "") {
			t.Errorf("%s: %v %q", c.encoding, a.header, a.body)
		}
	}
	proto := wire.EncodeAppendInputProto(nil, wire.AppendInput{Records: []wire.AppendRecord{{Body: []byte("p")}}})
	r.want(r.do("POST", "/v1/streams/s/records", zstded(t, proto), with{"Content-Type", wire.MediaProto}, with{"Content-Encoding", "zstd"}), 200, "")
	if tail := r.tail("s"); tail != 5 {
		t.Errorf("tail %d", tail)
	}
}

func TestCompressedAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	r.want(r.append("s", `{"records":[{"body":"`+strings.Repeat("x", 4000)+`"}]}`), 200, "")
	for accept, want := range map[string]string{
		"zstd, gzip": "zstd", "gzip": "gzip", "gzip, zstd;q=0": "gzip", "br": "", "identity": "", "gzip;q=0": "",
	} {
		for _, media := range []string{wire.MediaJSON, wire.MediaProto} {
			q := r.request(t.Context(), "GET", "/v1/streams/s/records?seq_num=0", nil, with{"Accept-Encoding", accept}, with{"Accept", media})
			a := r.send(q)
			if a.header.Get("Content-Encoding") != want || !strings.Contains(strings.Join(a.header.Values("Vary"), ","), "Accept-Encoding") {
				t.Errorf("%s: %v", accept, a.header)
			}
			if plain := decompress(t, want, a.body); !strings.Contains(plain, strings.Repeat("x", 4000)) {
				t.Errorf("%s: %d bytes", accept, len(plain))
			}
		}
	}
	small := r.send(r.request(t.Context(), "GET", "/v1/streams/s/records/tail", nil, with{"Accept-Encoding", "gzip, zstd"}))
	failed := r.send(r.request(t.Context(), "GET", "/v1/streams/"+strings.Repeat("x", 600), nil, with{"Accept-Encoding", "gzip, zstd"}))
	for _, a := range []answer{small, failed} {
		if a.header.Get("Content-Encoding") != "" || a.header.Get("Content-Length") == "" {
			t.Errorf("headers %v", a.header)
		}
	}
}

func decompress(t testing.TB, encoding, body string) string {
	t.Helper()
	var src io.Reader = strings.NewReader(body)
	var err error
	switch encoding {
	case "gzip":
		src, err = gzip.NewReader(src)
	case "zstd":
		src, err = zstd.NewReader(src)
	}
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(src)
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}

func TestBodiesInFlightAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, change{api: func(o *api.Options) { o.BodyBytes = 100 << 10 }})
	r.create("s")
	body := `{"records":[{"body":"` + strings.Repeat("x", 90<<10) + `"}]}`
	r.want(r.append("s", body), 200, "")
	a := r.want(r.append("s", `{"records":[{"body":"`+strings.Repeat("x", 200<<10)+`"}]}`), 502, "hot_server")
	if a.header.Get(wire.HeaderApplied) != "no" {
		t.Errorf("headers %v", a.header)
	}
	for range 5 {
		r.want(r.append("s", body), 200, "") // what was booked is given back
	}
}

func TestBL138_MetricsDoNotGrowWithStreams(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	scrape := func() string { return r.want(r.do("GET", "/metrics", nil), 200, "").body }
	use := func(name string) {
		r.create(name)
		r.append(name, one)
		r.read(name, "seq_num=0")
		r.do("GET", "/nowhere/"+name, nil)
		r.do("BREW", "/v1/streams/"+name, nil)
		r.do("DELETE", "/v1/streams/"+name, nil)
	}
	use("first")
	scrape()
	before := strings.Count(scrape(), "\n")
	for i := range 300 {
		use(fmt.Sprint("s", i))
	}
	text := scrape()
	if after := strings.Count(text, "\n"); after > before+20 || after > 2000 {
		t.Errorf("%d lines, before %d", after, before)
	}
	if want := `tailrace_http_requests_total{class="2xx",route="POST /v1/streams/{stream}/records"} 301`; !strings.Contains(text, want) {
		t.Errorf("%s is not in %s", want, text)
	}
}

func TestBL144_ReadinessAsksTheStoresAndHealthDoesNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHandler(t)
		r.want(r.do("GET", "/ready", nil), 200, "")
		r.heads.Set(func(c storetest.Call) storetest.Outcome { return storetest.Drop })
		time.Sleep(10 * time.Second)
		r.want(r.do("GET", "/ready", nil), 503, "unavailable")
		r.want(r.do("GET", "/health", nil), 200, "")
		calls := r.heads.Counts()["Load"]
		for range 100 {
			r.want(r.do("GET", "/ready", nil), 503, "unavailable")
			r.want(r.do("GET", "/ping", nil), 200, "")
		}
		if more := r.heads.Counts()["Load"] - calls; more != 0 {
			t.Errorf("100 probes cost %d loads", more)
		}
		r.heads.Set(nil)
		time.Sleep(2 * time.Second)
		r.want(r.do("GET", "/ready", nil), 200, "")
		r.objects.Decide(func(string, string) (bool, error) { return false, errors.New("out of reach") })
		time.Sleep(2 * time.Second)
		r.want(r.do("GET", "/ready", nil), 503, "unavailable")
		r.heads.Set(func(c storetest.Call) storetest.Outcome { return storetest.Hold })
		time.Sleep(2 * time.Second)
		begun := time.Now()
		r.want(r.do("GET", "/ready", nil), 503, "unavailable")
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("a store that hangs holds the probe for %s", took)
		}
		r.heads.Release(-1)
		r.streams.Close()
	})
}

func TestHTTP2AndHTTP1OnOnePort(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	r.server.Client().Transport = transport
	r.want(r.append("s", one), 200, "")
	f := r.follow("s", "seq_num=0")
	if f.response.ProtoMajor != 2 {
		t.Errorf("protocol %s", f.response.Proto)
	}
	f.take(t, 1)
	r.fill("s", 1, 3)
	f.take(t, 3)
}

// An answer before the end of a body is followed by a reset of its stream over HTTP/2, and curl 7.88 shows its user no
// answer then. A refusal comes behind the body, therefore, unless that has no announced or no reasonable size.
func TestRefusalsOverHTTP2ComeBehindTheBody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	r.server.Client().Transport = transport
	const size = 3 << 20 // more than a client may send of a body that is not read
	for _, c := range []struct {
		path   string
		header with
		status int
	}{
		{"/v1/nope", with{}, 404},
		{"/v1/basins/" + basin, with{}, 405},
		{"/v1/streams/s/records", with{"Content-Type", wire.MediaJSON}, 400},
		{"/v1/streams/s/records", with{"Content-Type", "text/plain"}, 400},
	} {
		body := &counted{Reader: strings.NewReader(strings.Repeat("x", size))}
		q := r.request(t.Context(), "POST", c.path, body, c.header)
		q.ContentLength = size
		a, err := r.server.Client().Do(q)
		if err != nil {
			t.Fatal(err)
		}
		_ = a.Body.Close()
		if n := body.n.Load(); a.StatusCode != c.status || n != size {
			t.Errorf("%+v: %d after %d bytes of %d", c, a.StatusCode, n, size)
		}
	}
}

// counted counts what is read.
type counted struct {
	io.Reader
	n atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// A value at the length that a server's header limit lets through is refused or ignored like any other.
func TestLongHeaderValues(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	long := strings.Repeat("x", 32<<10)
	for name, status := range map[string]int{
		"S2-Basin": 400, "S2-Format": 400, "S2-Encryption-Key": 400, "Content-Type": 400, "Content-Encoding": 415,
		"Accept": 200, "Accept-Encoding": 200, "X-Request-Id": 200, "User-Agent": 200, "Authorization": 200,
	} {
		a := r.append("s", one, with{name, long})
		if a.status != status || len(a.body) > 4096 {
			t.Errorf("%s: %d %s", name, a.status, a.body[:min(len(a.body), 200)])
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	r := newHandler(b, change{api: func(o *api.Options) { o.Log = zerolog.Nop() }})
	r.do("PUT", "/v1/basins/"+basin, nil)
	r.create("s")
	body := `{"records":[{"body":"` + strings.Repeat("x", 100) + `"}]}`
	b.ReportAllocs()
	for b.Loop() {
		q := httptest.NewRequest("POST", "/v1/streams/s/records", strings.NewReader(body))
		q.Header.Set("S2-Basin", basin)
		q.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		r.handler.ServeHTTP(w, q)
		if w.Code != 200 {
			b.Fatal(w.Body)
		}
	}
}
