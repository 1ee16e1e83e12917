package lambda

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/memstore"
	"github.com/tailrace-streams/tailrace/functions/compose"
	"github.com/tailrace-streams/tailrace/functions/config"
	"github.com/tailrace-streams/tailrace/functions/stores"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/memobjects"
)

const basin = "basin-of-events"

// rig is all four functions over stores in memory, which stand for a bucket and a table.
type rig struct {
	t       testing.TB
	made    *compose.Service
	servers map[Name]*Server
	log     *logBuffer
}

// logBuffer may be read while it is written to.
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

func newRig(t testing.TB, change func(*stores.Backend, *Options)) *rig {
	t.Helper()
	store := memstore.New()
	backend := stores.Backend{Heads: store, Table: store, Objects: memobjects.New()}
	if change != nil {
		change(&backend, &Options{})
	}
	held := stores.Alone(backend, stores.Stores{Room: memstore.Room, Shared: true, Close: func() error { return nil }})
	r := &rig{t: t, servers: map[Name]*Server{}, log: &logBuffer{}}
	log := zerolog.New(r.log)
	cfg := config.Config{CacheBytes: 8 << 20, InflightBytes: 64 << 20, TrimDelay: 0}
	var err error
	if r.made, err = compose.New(cfg, held, compose.Options{Log: log, Intermittent: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.made.Streams.Close)
	for _, name := range []Name{Append, Read, Control, Maintain} {
		o := Options{Name: name, Handler: r.made.Handler, Settle: r.made.Streams.Settle, Log: log}
		if name == Maintain {
			o.Maintain = newMaintenance(r.made).run
		}
		if change != nil {
			change(&stores.Backend{}, &o)
		}
		r.servers[name] = New(o)
	}
	r.direct(Control, fmt.Sprintf(`{"operation":"request","method":"PUT","path":"/v1/basins/%s","body":{"config":{"create_stream_on_append":true}}}`, basin))
	return r
}

// handle sends an event to a function and returns its JSON.
func (r *rig) handle(name Name, event string) (string, error) {
	r.t.Helper()
	answer, err := r.servers[name].Handle(r.t.Context(), json.RawMessage(event))
	if err != nil {
		return "", err
	}
	return string(answer.(json.RawMessage)), nil
}

func (r *rig) must(name Name, event string) string {
	r.t.Helper()
	answer, err := r.handle(name, event)
	if err != nil {
		r.t.Fatalf("%s: %v", name, err)
	}
	return answer
}

func (r *rig) direct(name Name, payload string) Answer {
	r.t.Helper()
	return decode[Answer](r.t, r.must(name, payload))
}

func decode[T any](t testing.TB, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("decode %.300q: %v", text, err)
	}
	return v
}

// urlEvent is the event of a function URL.
func urlEvent(method, path, query, body string, headers map[string]string) string {
	all := map[string]string{"s2-basin": basin, "content-type": "application/json"}
	for name, value := range headers {
		all[name] = value
	}
	event, _ := json.Marshal(map[string]any{
		"version": "2.0", "rawPath": path, "rawQueryString": query, "headers": all, "body": body,
		"requestContext": map[string]any{
			"domainName": "x.lambda-url.eu-central-1.on.aws", "stage": "$default", "http": map[string]any{"method": method, "path": path, "sourceIp": "192.0.2.1"},
		},
	})
	return string(event)
}

// over answers a request through an event of a function URL, undone.
func (r *rig) over(name Name, method, path, query, body string, headers map[string]string) (int, string, http.Header) {
	r.t.Helper()
	a := decode[httpAnswer](r.t, r.must(name, urlEvent(method, path, query, body, headers)))
	text := []byte(a.Body)
	if a.IsBase64Encoded {
		var err error
		if text, err = base64.StdEncoding.DecodeString(a.Body); err != nil {
			r.t.Fatal(err)
		}
	}
	h := http.Header{}
	for name, value := range a.Headers {
		h.Set(name, value)
	}
	return a.StatusCode, string(text), h
}

func fixture(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// records are the bodies that a stream holds.
func (r *rig) records(stream string) []string {
	r.t.Helper()
	a := r.direct(Read, fmt.Sprintf(`{"operation":"read","basin":%q,"stream":%q,"seq_num":0}`, basin, stream))
	if a.Status == http.StatusRequestedRangeNotSatisfiable || a.Status == http.StatusNotFound {
		return nil
	}
	var all []string
	for _, rec := range decode[struct{ Records []struct{ Body string } }](r.t, string(a.Body)).Records {
		all = append(all, rec.Body)
	}
	return all
}

// failing lets calls of a store's heads fail as told.
type failing struct {
	coordinator.Heads
	commit func(ctx context.Context, id segments.StreamID, c *coordinator.Commit, next coordinator.Heads) (coordinator.Head, error)
}

func (f failing) Commit(ctx context.Context, id segments.StreamID, c *coordinator.Commit) (coordinator.Head, error) {
	return f.commit(ctx, id, c, f.Heads)
}

func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s is %.500s, want %q in it", what, text, part)
		}
	}
}
