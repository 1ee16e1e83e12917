package api_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/memstore"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/functions/api"
	"github.com/tailrace-streams/tailrace/segments/memobjects"
	"github.com/tailrace-streams/tailrace/segments/objectstest"
	"github.com/tailrace-streams/tailrace/tenancy"
	"github.com/tailrace-streams/tailrace/wire"
)

// basin is the basin that a rig has from the start.
const basin = "basin-test-01"

// rig is the API over real coordination and memory stores that fail as told, behind a real HTTP server.
type rig struct {
	t       testing.TB
	url     string
	server  *httptest.Server // nil in a rig without one
	handler http.Handler
	store   *memstore.Store // what is behind heads
	heads   *storetest.Faults
	objects *objectstest.Faulty
	streams *coordinator.Coordinator
	names   *tenancy.Directory
	logs    *logBuffer
	metrics *prometheus.Registry
	token   string // sent with every request; empty for none
}

// change adapts what a rig is made of.
type change struct {
	api         func(*api.Options)
	coordinator func(*coordinator.Options)
	tenancy     func(*tenancy.Options)
	server      func(*httptest.Server)
	share       *rig   // another instance, whose stores this one uses too
	token       string // what the rig sends with every request
}

// newHandler is a rig without a server: for tests in a bubble, where the clock is not the world's.
func newHandler(t testing.TB, changes ...change) *rig {
	t.Helper()
	r := &rig{t: t, logs: &logBuffer{}, metrics: prometheus.NewRegistry(), heads: storetest.NewFaults(nil), objects: objectstest.Fault(t, memobjects.New())}
	r.store = memstore.New()
	own := r.objects
	for _, c := range changes {
		if c.share != nil {
			r.store, r.objects = c.share.store, c.share.objects
		}
	}
	log := zerolog.New(r.logs)
	co := coordinator.Options{
		Heads: r.heads.Heads(r.store), Objects: r.objects, Room: memstore.Room, Exclusive: r.objects == own, Log: log, TrimDelay: -1,
	}
	to := tenancy.Options{Table: r.heads.Table(r.store), Heads: r.heads.Heads(r.store), Log: log}
	for _, c := range changes {
		if c.coordinator != nil {
			c.coordinator(&co)
		}
		if c.tenancy != nil {
			c.tenancy(&to)
		}
	}
	var err error
	if r.streams, err = coordinator.New(co); err != nil {
		t.Fatal(err)
	}
	if r.names, err = tenancy.New(to); err != nil {
		t.Fatal(err)
	}
	o := api.Options{Streams: r.streams, Directory: r.names, Log: log, Registry: r.metrics, Version: "test"}
	for _, c := range changes {
		if c.api != nil {
			c.api(&o)
		}
		if c.token != "" {
			r.token = c.token
		}
	}
	if r.handler, err = api.New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.streams.Close)
	return r
}

// newRig is a rig with a server, and with the basin.
func newRig(t testing.TB, changes ...change) *rig {
	t.Helper()
	r := newHandler(t, changes...)
	r.server = httptest.NewUnstartedServer(r.handler)
	r.server.Config.Protocols = new(http.Protocols)
	r.server.Config.Protocols.SetHTTP1(true)
	r.server.Config.Protocols.SetUnencryptedHTTP2(true)
	for _, c := range changes {
		if c.server != nil {
			c.server(r.server)
		}
	}
	r.server.Start()
	r.url = r.server.URL
	t.Cleanup(func() {
		r.server.CloseClientConnections()
		r.server.Close()
	})
	if a := r.do("PUT", "/v1/basins/"+basin, nil); a.status != http.StatusCreated && a.status != http.StatusOK {
		t.Fatalf("make basin: %d %s", a.status, a.body)
	}
	return r
}

// logBuffer is what was logged.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// answer is a whole HTTP answer.
type answer struct {
	status int
	header http.Header
	body   string
}

// with is a header of a request.
type with struct{ name, value string }

// jsonBody says that the body is JSON, as most are.
var jsonBody = with{"Content-Type", "application/json"}

// request makes a request to the rig's basin. The path is taken as it is, escapes and all.
func (r *rig) request(ctx context.Context, method, path string, body io.Reader, headers ...with) *http.Request {
	r.t.Helper()
	q, err := http.NewRequestWithContext(ctx, method, r.url+path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("S2-Basin", basin)
	if r.token != "" {
		q.Header.Set("Authorization", "Bearer "+r.token)
	}
	for _, h := range headers {
		if h.value == "" {
			q.Header.Del(h.name)
			continue
		}
		q.Header.Set(h.name, h.value)
	}
	return q
}

func (r *rig) do(method, path string, body []byte, headers ...with) answer {
	r.t.Helper()
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
		headers = append([]with{jsonBody}, headers...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return r.send(r.request(ctx, method, path, reader, headers...))
}

func (r *rig) send(q *http.Request) answer {
	r.t.Helper()
	if r.server == nil {
		q.RequestURI = q.URL.RequestURI()
		w := httptest.NewRecorder()
		r.handler.ServeHTTP(w, q)
		return answer{w.Code, w.Header(), w.Body.String()}
	}
	response, err := r.server.Client().Do(q)
	if err != nil {
		r.t.Fatalf("%s %s: %v", q.Method, q.URL, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatalf("%s %s: read answer: %v", q.Method, q.URL, err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

func (r *rig) create(stream string) {
	r.t.Helper()
	body, _ := json.Marshal(map[string]string{"stream": stream})
	r.want(r.do("POST", "/v1/streams", body), http.StatusCreated, "")
}

func (r *rig) append(stream, body string, headers ...with) answer {
	r.t.Helper()
	return r.do("POST", "/v1/streams/"+escape(stream)+"/records", []byte(body), headers...)
}

func (r *rig) read(stream, query string, headers ...with) answer {
	r.t.Helper()
	return r.do("GET", "/v1/streams/"+escape(stream)+"/records?"+query, nil, headers...)
}

// tail is the sequence number that check-tail answers.
func (r *rig) tail(stream string) uint64 {
	r.t.Helper()
	a := r.do("GET", "/v1/streams/"+escape(stream)+"/records/tail", nil)
	r.want(a, http.StatusOK, "")
	return decode[struct {
		Tail struct {
			SeqNum uint64 `json:"seq_num"`
		} `json:"tail"`
	}](r.t, a.body).Tail.SeqNum
}

// escape encodes every byte of a name that is not a letter, a digit or a hyphen.
func escape(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' {
			b.WriteByte(c)
			continue
		}
		b.WriteString("%" + strings.ToUpper(string("0123456789abcdef"[c>>4])+string("0123456789abcdef"[c&15])))
	}
	return b.String()
}

// want checks a status and, if it is not empty, the code of the error.
func (r *rig) want(a answer, status int, code string) answer {
	r.t.Helper()
	if a.status != status || code != "" && a.code() != code {
		r.t.Fatalf("got %d %s, want %d %s", a.status, a.body, status, code)
	}
	return a
}

func (a answer) code() string {
	var e struct{ Code, Message string }
	if json.Unmarshal([]byte(a.body), &e) != nil || e.Message == "" {
		return ""
	}
	return e.Code
}

func decode[T any](t testing.TB, body string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("decode %q: %v", body, err)
	}
	return v
}

// record is a record as a JSON read shows it.
type record struct {
	SeqNum    uint64      `json:"seq_num"`
	Timestamp uint64      `json:"timestamp"`
	Headers   [][2]string `json:"headers"`
	Body      string      `json:"body"`
}

type batch struct {
	Records []record `json:"records"`
	Tail    *struct {
		SeqNum    uint64 `json:"seq_num"`
		Timestamp uint64 `json:"timestamp"`
	} `json:"tail"`
}

// records reads a stream from the start, which must work.
func (r *rig) records(stream string, headers ...with) []record {
	r.t.Helper()
	a := r.read(stream, "seq_num=0", headers...)
	r.want(a, http.StatusOK, "")
	return decode[batch](r.t, a.body).Records
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("not in time: %s", what)
}

// trim is a batch with a command to trim to a number; it is in base64.
func trim(t testing.TB, to uint64) string {
	t.Helper()
	number := binary.BigEndian.AppendUint64(nil, to)
	in := wire.AppendInput{Records: []wire.AppendRecord{{Headers: []wire.Header{{Value: []byte("trim")}}, Body: number}}}
	return string(wire.EncodeAppendInputJSON(nil, in, wire.FormatBase64))
}

// gauge is the sum of a metric over its labels.
func (r *rig) gauge(name string) (sum float64) {
	r.t.Helper()
	families, err := r.metrics.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return sum
}
