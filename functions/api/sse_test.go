package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/functions/api"
	"github.com/tailrace-streams/tailrace/wire"
)

// follower is an event stream being read.
type follower struct {
	*wire.SSEReader
	response *http.Response
	cancel   context.CancelFunc
}

// follow opens an event stream, which must begin.
func (r *rig) follow(stream, query string, headers ...with) *follower {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	q := r.request(ctx, "GET", "/v1/streams/"+escape(stream)+"/records?"+query, nil, append(headers, with{"Accept", wire.MediaSSE})...)
	response, err := r.server.Client().Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { cancel(); response.Body.Close() })
	if response.StatusCode != 200 {
		body, _ := io.ReadAll(response.Body)
		r.t.Fatalf("follow: %d %s", response.StatusCode, body)
	}
	return &follower{wire.NewSSEReader(response.Body, wire.FormatRaw), response, cancel}
}

// all reads batches up to the clean end.
func (f *follower) all(t testing.TB) (records []wire.Record) {
	t.Helper()
	for {
		e, err := f.Next()
		if err == io.EOF {
			return records
		}
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, e.Batch.Records...)
	}
}

// take reads batches until there are n records.
func (f *follower) take(t testing.TB, n int) (records []wire.Record, last wire.EventID) {
	t.Helper()
	for len(records) < n {
		e, err := f.Next()
		if err != nil {
			t.Fatalf("after %d records: %v", len(records), err)
		}
		if !e.Ping {
			records, last = append(records, e.Batch.Records...), e.ID
		}
	}
	return records, last
}

// fill appends n records, whose bodies are their numbers.
func (r *rig) fill(stream string, from, n int) {
	r.t.Helper()
	for i := range n {
		r.want(r.append(stream, fmt.Sprintf(`{"records":[{"body":"%d"}]}`, from+i)), 200, "")
	}
}

func checkDense(t testing.TB, records []wire.Record, from int) {
	t.Helper()
	for i, rec := range records {
		if rec.SeqNum != uint64(from+i) || string(rec.Body) != fmt.Sprint(from+i) {
			t.Fatalf("record %d is %d %q", from+i, rec.SeqNum, rec.Body)
		}
	}
}

func TestBL035_ACountThatIsReachedIsACleanEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		stored, later int
		query         string
	}{
		{"catching up", 5, 0, "seq_num=0&count=5"},
		{"less than stored", 7, 0, "seq_num=0&count=5"},
		{"across the border", 3, 2, "seq_num=0&count=5&wait=20"},
		{"live", 0, 5, "seq_num=0&count=5&wait=20"},
		{"bytes, catching up", 5, 0, "seq_num=0&bytes=45"},
		{"bytes, across the border", 3, 4, "seq_num=0&bytes=45&wait=20"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.create("s")
			r.fill("s", 0, c.stored)
			f := r.follow("s", c.query)
			done := make(chan []wire.Record)
			go func() { done <- f.all(t) }()
			r.fill("s", c.stored, c.later)
			got := <-done
			if len(got) != 5 {
				t.Fatalf("got %d records", len(got))
			}
			checkDense(t, got, 0)
		})
	}
}

// In a bubble, where a heartbeat comes every second and the clock only moves when everybody waits.
func TestBL036_HeartbeatsDoNotProlongTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHandler(t, change{coordinator: func(o *coordinator.Options) {
			o.HeartbeatMin, o.HeartbeatMax = time.Second, time.Second
		}})
		r.want(r.do("PUT", "/v1/basins/"+basin, nil), 201, "")
		r.create("s")
		begun := time.Now()
		a := r.read("s", "tail_offset=0&wait=3", with{"Accept", wire.MediaSSE})
		if took := time.Since(begun); took != 3*time.Second {
			t.Errorf("took %s", took)
		}
		if n := strings.Count(a.body, "event: ping"); n < 3 || !strings.HasSuffix(a.body, "data: [DONE]\n\n") {
			t.Errorf("got %s", a.body)
		}
		r.streams.Close()
	})
}

// An hour of an idle stream with an append now and then: heartbeats keep coming, nothing is cut. The deadlines of the
// server are far below an hour.
func TestBL046_AStreamLivesForHours(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHandler(t)
		r.want(r.do("PUT", "/v1/basins/"+basin, nil), 201, "")
		r.create("s")
		ctx, cancel := context.WithCancel(t.Context())
		w := &deadlineRecorder{header: http.Header{}}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			q := r.request(ctx, "GET", "/v1/streams/s/records?tail_offset=0", nil, with{"Accept", wire.MediaSSE})
			r.handler.ServeHTTP(w, q)
		}()
		for i := range 180 {
			time.Sleep(20 * time.Second)
			r.want(r.append("s", fmt.Sprintf(`{"records":[{"body":"%d"}]}`, i)), 200, "")
		}
		synctest.Wait()
		cancel()
		<-ended
		events := wire.NewSSEReader(strings.NewReader(w.body.String()), wire.FormatRaw)
		n := 0
		for {
			e, err := events.Next()
			if err != nil {
				break
			}
			n += len(e.Batch.Records)
		}
		if n != 180 {
			t.Errorf("got %d records", n)
		}
		if w.silence > 15*time.Second || w.late > 0 {
			t.Errorf("silent for %s; %d writes after their deadline", w.silence, w.late)
		}
		r.streams.Close()
	})
}

// deadlineRecorder is a response writer that keeps account of deadlines, as a connection would.
type deadlineRecorder struct {
	header   http.Header
	body     strings.Builder
	deadline time.Time
	last     time.Time
	silence  time.Duration // the longest
	late     int           // writes after the deadline
}

func (w *deadlineRecorder) Header() http.Header { return w.header }

func (w *deadlineRecorder) WriteHeader(int) { w.last = time.Now() }

func (w *deadlineRecorder) SetWriteDeadline(t time.Time) error {
	w.deadline = t
	return nil
}

func (w *deadlineRecorder) Write(b []byte) (int, error) {
	now := time.Now()
	if !w.deadline.IsZero() && now.After(w.deadline) {
		w.late++
	}
	w.silence = max(w.silence, now.Sub(w.last))
	w.last = now
	return w.body.Write(b)
}

func (w *deadlineRecorder) Flush() {}

func TestBL048_DataCannotForgeEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	name := "s\r\n\nevent: error\ndata: x"
	r.create(name)
	const evil = "a\rb\n\nevent: error\ndata: x\u2028\u2029\u0000\r\n\r\ndata: [DONE]\n\n"
	in := wire.AppendInput{Records: []wire.AppendRecord{{
		Headers: []wire.Header{{Name: []byte(evil), Value: []byte(evil)}}, Body: []byte(evil),
	}}}
	r.want(r.append(name, string(wire.EncodeAppendInputJSON(nil, in, wire.FormatRaw))), 200, "")
	a := r.read(name, "seq_num=0&count=1", with{"Accept", wire.MediaSSE})
	if n := strings.Count(a.body, "\n\n"); n != 2 || strings.ContainsRune(a.body, '\r') {
		t.Errorf("%d events: %q", n, a.body)
	}
	for _, got := range r.follow(name, "seq_num=0&count=1").all(t) {
		if string(got.Body) != evil || string(got.Headers[0].Name) != evil || string(got.Headers[0].Value) != evil {
			t.Errorf("got %+v", got)
		}
	}
	if got := r.records(name)[0]; got.Body != evil || got.Headers[0][0] != evil {
		t.Errorf("got %+v", got)
	}
}

func TestBL049_NothingIsHeldBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	begun := time.Now()
	f := r.follow("s", "", with{"Accept-Encoding", "gzip, zstd"})
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("headers took %s", took)
	}
	h := f.response.Header
	if h.Get("Cache-Control") != "no-cache, no-transform" || h.Get("X-Accel-Buffering") != "no" ||
		h.Get("Content-Type") != wire.MediaSSE || h.Get("Content-Encoding") != "" {
		t.Errorf("headers %v", h)
	}
	if e, err := f.Next(); err != nil || !e.Ping || e.Batch.Tail == nil {
		t.Errorf("first event %+v %v", e, err)
	}
}

func TestBL051_OnlyTheMarkIsTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	f := r.follow("s", "")
	if _, err := f.Next(); err != nil {
		t.Fatal(err)
	}
	r.server.CloseClientConnections()
	if _, err := f.Next(); err == nil || err == io.EOF {
		t.Errorf("a cut stream ends with %v", err)
	}
}

func TestBL054_DrainEndsStreamsResumably(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	r.fill("s", 0, 1)
	followers := make([]*follower, 20)
	for i := range followers {
		followers[i] = r.follow("s", "seq_num=0")
		followers[i].take(t, 1)
	}
	var wg sync.WaitGroup
	appended := make([]answer, 50)
	for i := range appended {
		wg.Go(func() { appended[i] = r.append("s", one) })
	}
	poll := make(chan answer, 1)
	go func() { poll <- r.read("s", "tail_offset=0&wait=60") }()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := r.streams.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	acked := 1
	for _, a := range appended {
		if a.status == 200 {
			acked++
		} else if r.want(a, 503, "server_draining"); a.header.Get(wire.HeaderApplied) != "no" || a.header.Get("Retry-After") == "" {
			t.Errorf("headers %v", a.header)
		}
	}
	if tail := r.tail("s"); tail != uint64(acked) {
		t.Errorf("%d acknowledged, tail %d", acked, tail)
	}
	for _, f := range followers {
		var err error
		for err == nil {
			_, err = f.Next()
		}
		var e *wire.Error
		if !errors.As(err, &e) || e.Code != wire.CodeServerDraining {
			t.Errorf("a follower ends with %v", err)
		}
	}
	if a := <-poll; a.status != 200 && a.status != 416 {
		r.want(a, 503, "server_draining")
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("took %s", took)
	}
	r.want(r.append("s", one), 503, "server_draining")
	r.want(r.do("GET", "/ready", nil), 503, "server_draining")
	r.want(r.do("GET", "/health", nil), 200, "")
}

// A client that never reads is dropped after the write deadline, holds little, and does not slow down others.
func TestBL055_AStalledClientIsDropped(t *testing.T) {
	t.Parallel()
	r := newRig(t, change{api: func(o *api.Options) { o.WriteTimeout = time.Second }})
	r.create("s")
	const stalled = 20
	for range stalled {
		conn, err := net.Dial("tcp", r.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		fmt.Fprintf(conn, "GET /v1/streams/s/records HTTP/1.1\r\nHost: x\r\nS2-Basin: %s\r\nAccept: text/event-stream\r\n\r\n", basin)
	}
	eventually(t, "all follow", func() bool { return r.gauge("tailrace_http_streaming") == stalled })
	good := r.follow("s", "seq_num=0")
	const batches = 16
	got := make(chan int)
	go func() {
		records, _ := good.take(t, batches)
		got <- len(records)
	}()
	body := strings.Repeat("x", 1<<20-8)
	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range batches {
		r.want(r.append("s", `{"records":[{"body":"`+body+`"}]}`), 200, "")
	}
	runtime.GC()
	runtime.ReadMemStats(&during)
	if grown := int64(during.HeapAlloc) - int64(before.HeapAlloc); grown > 300<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	if n := <-got; n != batches {
		t.Errorf("the good reader got %d", n)
	}
	eventually(t, "the stalled are dropped", func() bool { return r.gauge("tailrace_http_streaming") == 1 })
}

func TestBL058_DisconnectsLeaveNothingBehind(t *testing.T) {
	// Not parallel: it counts goroutines.
	r := newRig(t)
	r.create("s")
	r.fill("s", 0, 3)
	transport := &http.Transport{DisableKeepAlives: true}
	client := &http.Client{Transport: transport}
	abort := func(method, query, accept, body string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		q := r.request(ctx, method, "/v1/streams/s/records?"+query, strings.NewReader(body), jsonBody, with{"Accept", accept})
		time.AfterFunc(time.Millisecond, cancel)
		if response, err := client.Do(q); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	}
	abort("GET", "", wire.MediaSSE, "")
	before := runtime.NumGoroutine()
	for range 150 {
		abort("GET", "seq_num=0", wire.MediaSSE, "")
		abort("GET", "wait=60", wire.MediaJSON, "")
		abort("POST", "", wire.MediaJSON, one)
	}
	eventually(t, "all requests end", func() bool {
		return r.gauge("tailrace_http_requests_in_flight") == 0 && r.gauge("tailrace_http_streaming") == 0
	})
	eventually(t, "goroutines are back", func() bool { return runtime.NumGoroutine() <= before+5 })
}

func TestBL059_ErrorsBeforeTheStreamAreOrdinary(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sse := with{"Accept", wire.MediaSSE}
	for _, c := range []struct {
		query, header, value string
		status               int
		code                 string
	}{
		{"", "", "", 404, "stream_not_found"},
		{"seq_num=x", "", "", 400, "bad_query"},
		{"timestamp=2&until=1", "", "", 422, "invalid"},
		{"", "Last-Event-ID", "1,2", 400, "bad_header"},
		{"", "Last-Event-ID", " ", 400, "bad_header"}, // arrives as a header without a value
		{"", "S2-Format", "hex", 400, "bad_header"},
		{"", "S2-Basin", "no", 400, "bad_header"},
	} {
		a := r.read("absent", c.query, sse, with{c.header, c.value})
		if r.want(a, c.status, c.code); a.header.Get("Content-Type") != wire.MediaJSON {
			t.Errorf("%+v: %v", c, a.header)
		}
	}
}

func TestResumeGoesOnBehindTheLastEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	r.fill("s", 0, 10)
	first := r.follow("s", "seq_num=0&count=4")
	_, id := first.take(t, 4)
	if id != (wire.EventID{SeqNum: 3, Count: 4, Bytes: 4 * 9}) {
		t.Errorf("id %v", id)
	}
	resumed := with{"Last-Event-ID", id.String()}
	got := r.follow("s", "tail_offset=2&count=7&bytes=1000", resumed).all(t)
	if len(got) != 3 {
		t.Fatalf("got %d records", len(got))
	}
	checkDense(t, got, 4)
	// What is left of a bound that was reached is nothing: an end at once.
	if got := r.follow("s", "seq_num=0&count=4", resumed).all(t); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

// A stream deleted under a follower ends it with a reason to connect again, and the answer to that says why.
func TestBL080_DeletionEndsFollowersAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	r.fill("s", 0, 1)
	f := r.follow("s", "seq_num=0")
	f.take(t, 1)
	r.want(r.do("DELETE", "/v1/streams/s", nil), 202, "")
	begun := time.Now()
	var err error
	for err == nil {
		_, err = f.Next()
	}
	var e *wire.Error
	if !errors.As(err, &e) || e.Code != wire.CodeUnavailable || e.Effect() != wire.AppliedNo {
		t.Errorf("the follower ends with %v", err)
	}
	for what, a := range map[string]answer{
		"append": r.append("s", one), "read": r.read("s", "seq_num=0"), "sse": r.read("s", "", with{"Accept", wire.MediaSSE}),
		"tail": r.do("GET", "/v1/streams/s/records/tail", nil), "get": r.do("GET", "/v1/streams/s", nil),
		"patch": r.do("PATCH", "/v1/streams/s", []byte(`{}`)), "put": r.do("PUT", "/v1/streams/s", nil),
		"post": r.do("POST", "/v1/streams", []byte(`{"stream":"s"}`)),
	} {
		if a.status != 409 || a.code() != "stream_deletion_pending" {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
	}
	r.want(r.do("DELETE", "/v1/streams/s", nil), 202, "")
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestHEADOfAStreamEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	a := r.do("HEAD", "/v1/streams/s/records", nil, with{"Accept", wire.MediaSSE})
	if a.status != 200 || a.header.Get("Content-Type") != wire.MediaSSE {
		t.Errorf("%d %v", a.status, a.header)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, change{api: func(o *api.Options) { o.MaxStreaming = 1 }})
	r.create("s")
	f := r.follow("s", "")
	sse := with{"Accept", wire.MediaSSE}
	a := r.want(r.read("s", "", sse), 502, "hot_server")
	if a.header.Get("Retry-After-Ms") == "" || a.header.Get(wire.HeaderApplied) != "no" {
		t.Errorf("headers %v", a.header)
	}
	f.cancel()
	eventually(t, "the place is free", func() bool { return r.read("s", "wait=0", sse).status == 200 })
}
