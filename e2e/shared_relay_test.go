package e2e

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// relay stands between a server and a store: it counts the requests, and can refuse, hold or cut them. Signed requests pass
// it, since it leaves the host they were signed for.
type relay struct {
	*httptest.Server
	pass http.Handler

	mu     sync.Mutex
	counts map[string]int
	refuse http.HandlerFunc // answers in the store's stead; nil: the store answers
	silent bool             // takes requests and does not answer
	woken  chan struct{}    // closed at the end, so that silent ones end
}

// Kinds of requests, by which a relay counts: the verb of S3, or the operation of DynamoDB.
const (
	putObject, getObject, listObjects = "PUT", "GET", "LIST"
	updateItem, getItem               = "UpdateItem", "GetItem"
)

// newRelay puts a relay before the store at a URL.
func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{counts: map[string]int{}, woken: make(chan struct{})}
	r.pass = &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			p.Out.Host = p.In.Host
		},
		Transport:    &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	r.Server = httptest.NewServer(r)
	t.Cleanup(func() {
		close(r.woken)
		r.CloseClientConnections()
		r.Close()
	})
	return r
}

// relays puts one before each of the shared stores, and returns the flags by which a server goes through them.
func relays(t *testing.T) (s3, dynamoDB *relay, flags []string) {
	t.Helper()
	s3URL, dynamoDBURL, err := harness.Endpoints()
	if err != nil {
		t.Fatal(err)
	}
	s3, dynamoDB = newRelay(t, s3URL), newRelay(t, dynamoDBURL)
	return s3, dynamoDB, []string{"--s3-endpoint=" + s3.URL, "--dynamodb-endpoint=" + dynamoDB.URL}
}

func (r *relay) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	r.counts[kindOf(request)]++
	refuse, silent := r.refuse, r.silent
	r.mu.Unlock()
	switch {
	case silent:
		select {
		case <-request.Context().Done():
		case <-r.woken:
		}
		panic(http.ErrAbortHandler)
	case refuse != nil:
		refuse(w, request)
	default:
		r.pass.ServeHTTP(w, request)
	}
}

func kindOf(r *http.Request) string {
	if _, operation, found := strings.Cut(r.Header.Get("X-Amz-Target"), "."); found {
		return operation
	}
	if r.Method == http.MethodGet && r.URL.Query().Has("list-type") {
		return listObjects
	}
	return r.Method
}

// set changes what becomes of requests from now on.
func (r *relay) set(refuse http.HandlerFunc, silent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse, r.silent = refuse, silent
}

// counted are the requests by kind since the last call.
func (r *relay) counted() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := maps.Clone(r.counts)
	clear(r.counts)
	return counts
}

// slowDown refuses as S3 does when it is asked for too much at once.
func slowDown(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write([]byte(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code>` +
		`<Message>Please reduce your request rate.</Message></Error>`))
}

// throttled refuses as DynamoDB does.
func throttled(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write([]byte(`{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"Rate exceeded"}`))
}
