package faultproxy_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/e2e/faultproxy"
)

// store is a store that keeps what is put and tells it again.
type store struct {
	*httptest.Server
	mu   sync.Mutex
	kept map[string]string
	host string
	head http.Header
}

func newStore(t *testing.T) *store {
	s := &store{kept: map[string]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.host, s.head = r.Host, r.Header.Clone()
		if r.Method == http.MethodPut {
			s.kept[r.URL.EscapedPath()] = string(body)
			return
		}
		w.Header().Set("X-Seen", r.URL.RequestURI())
		_, _ = io.WriteString(w, s.kept[r.URL.EscapedPath()])
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *store) has(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.kept[path]
	return ok
}

// call sends a request and returns the status and body, or an error.
func call(ctx context.Context, method, url, body string, header ...string) (int, string, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Host = "signed.example"
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%s: not in time", what)
		}
	}
}

// Without a rule the store cannot tell a request that came through from one that did not.
func TestPasses(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	p := faultproxy.Start(t, s.URL)
	const path = "/bucket/a%2Fb/c%20d?x=1&list-type=2"
	if status, _, err := call(t.Context(), http.MethodPut, p.URL+path, "body", "Authorization", "sig"); err != nil || status != 200 {
		t.Fatalf("%d, %v", status, err)
	}
	if status, got, err := call(t.Context(), http.MethodGet, p.URL+path, ""); err != nil || status != 200 || got != "body" {
		t.Errorf("%d %q, %v", status, got, err)
	}
	if s.host != "signed.example" || s.head.Get("Accept-Encoding") != "gzip" {
		t.Errorf("the store saw host %q and %v", s.host, s.head)
	}
	if status, got, err := call(t.Context(), http.MethodHead, p.URL+path, ""); err != nil || status != 200 || got != "" {
		t.Errorf("HEAD: %d %q, %v", status, got, err)
	}
}

// Each fault: what the client hears, and whether the store has it.
func TestFaults(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	for name, test := range map[string]struct {
		fault  faultproxy.Fault
		status int  // 0: no answer
		hangs  bool // until the client gives up
		stored bool
	}{
		"none":          {faultproxy.Fault{}, 200, false, true},
		"delay":         {faultproxy.Fault{Delay: time.Millisecond}, 200, false, true},
		"hold":          {faultproxy.Fault{Hold: hold}, 0, true, false},
		"black hole":    {faultproxy.Fault{BlackHole: true}, 0, true, false},
		"reset":         {faultproxy.Fault{Reset: true}, 0, false, false},
		"slow down":     {faultproxy.Fault{Refuse: faultproxy.SlowDown}, 503, false, false},
		"throttled":     {faultproxy.Fault{Refuse: faultproxy.Throttled}, 400, false, false},
		"conflict":      {faultproxy.Fault{Refuse: faultproxy.Objects(409, "ConditionalRequestConflict")}, 409, false, false},
		"balancer":      {faultproxy.Fault{Refuse: faultproxy.Page(502)}, 502, false, false},
		"late":          {faultproxy.Fault{Refuse: faultproxy.Page(504), Late: time.Millisecond}, 504, false, true},
		"late silence":  {faultproxy.Fault{BlackHole: true, Late: time.Millisecond}, 0, true, true},
		"swallow reply": {faultproxy.Fault{SwallowReply: true}, 0, true, true},
		"lose reply":    {faultproxy.Fault{LoseReply: true}, 0, false, true},
		"another reply": {faultproxy.Fault{Replace: faultproxy.Objects(500, "InternalError")}, 500, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			p := faultproxy.Start(t, s.URL)
			p.On(faultproxy.First(1, faultproxy.Op(faultproxy.PutObject), test.fault))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.hangs {
				time.AfterFunc(50*time.Millisecond, cancel)
			}
			status, _, err := call(ctx, http.MethodPut, p.URL+"/b/k", "body")
			if status != test.status || (status == 0) != (err != nil) || test.hangs != errors.Is(err, context.Canceled) {
				t.Errorf("answered %d, %v", status, err)
			}
			if test.stored {
				eventually(t, "stored", func() bool { return s.has("/b/k") })
			} else if s.has("/b/k") {
				t.Error("it is stored")
			}
			// The next one passes.
			if status, _, err := call(t.Context(), http.MethodPut, p.URL+"/b/k2", "body"); status != 200 || err != nil {
				t.Errorf("then: %d, %v", status, err)
			}
		})
	}
}

// What is kept arrives when it is delivered, in order, and not before.
func TestKeep(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	p := faultproxy.Start(t, s.URL)
	p.On(faultproxy.Always(faultproxy.Writes, faultproxy.Fault{Reset: true, Keep: true}))
	for _, body := range []string{"first", "second"} {
		if _, _, err := call(t.Context(), http.MethodPut, p.URL+"/b/k", body); err == nil {
			t.Fatal("no reset")
		}
	}
	p.On(nil)
	if s.has("/b/k") || p.Kept() != 2 || p.Forwarded()[faultproxy.PutObject] != 0 {
		t.Fatalf("stored before it was delivered; %d are kept", p.Kept())
	}
	if answers := p.Deliver(t.Context()); len(answers) != 2 || answers[0] != 200 || s.kept["/b/k"] != "second" {
		t.Errorf("answers %v, stored %q", answers, s.kept["/b/k"])
	}
	if counted, forwarded := p.Counted(), p.Forwarded(); counted[faultproxy.PutObject] != 2 || forwarded[faultproxy.PutObject] != 2 {
		t.Errorf("counted %v, forwarded %v", counted, forwarded)
	}
}

// A held request goes on when it is let go, though nobody waits for it any more.
func TestHeldIsDoneAfterItsClientLeft(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	p := faultproxy.Start(t, s.URL)
	hold := make(chan struct{})
	p.On(faultproxy.Always(faultproxy.Any, faultproxy.Fault{Hold: hold}))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := call(ctx, http.MethodPut, p.URL+"/b/k", "body"); err == nil || s.has("/b/k") {
		t.Fatalf("%v", err)
	}
	close(hold)
	eventually(t, "stored", func() bool { return s.has("/b/k") })
}

// A reply that is cut has the length of the whole one, and is no answer.
func TestCut(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	p := faultproxy.Start(t, s.URL)
	body := strings.Repeat("x", 100)
	if _, _, err := call(t.Context(), http.MethodPut, p.URL+"/b/k", body); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{1, 40, 1000} {
		p.On(faultproxy.Always(faultproxy.Op(faultproxy.GetObject), faultproxy.Fault{CutAfter: at}))
		_, got, err := call(t.Context(), http.MethodGet, p.URL+"/b/k", "")
		if !errors.Is(err, io.ErrUnexpectedEOF) || len(got) != min(at, 99) {
			t.Errorf("cut after %d: %d bytes, %v", at, len(got), err)
		}
	}
}

// Requests are known by their operations, and rules pick among them.
func TestOperationsAndRules(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	p := faultproxy.Start(t, s.URL)
	var mu sync.Mutex
	var watched []faultproxy.Request
	p.Watch(func(r faultproxy.Request) {
		mu.Lock()
		defer mu.Unlock()
		watched = append(watched, r)
	})
	refuse := faultproxy.Fault{Refuse: faultproxy.SlowDown}
	want := map[string]int{}
	for _, test := range []struct {
		method, path, body string
		header             []string
		op                 string
		match              faultproxy.Match
	}{
		{"PUT", "/b/x/segments/k", "", nil, faultproxy.PutObject, faultproxy.Key("/segments/")},
		{"PUT", "/b/k", "", []string{"If-Match", `"e"`}, faultproxy.PutObject, faultproxy.Request.Conditional},
		{"PUT", "/b/k", "", []string{"If-None-Match", "*"}, faultproxy.PutObject, faultproxy.With("If-None-Match")},
		{"GET", "/b/k?x=y", "", nil, faultproxy.GetObject, faultproxy.Op(faultproxy.GetObject)},
		{"HEAD", "/b/k", "", nil, faultproxy.HeadObject, faultproxy.Op(faultproxy.HeadObject)},
		{"DELETE", "/b/k", "", nil, faultproxy.DeleteObject, faultproxy.Writes},
		{"POST", "/b/?delete", "<x/>", nil, faultproxy.DeleteObjects, faultproxy.Writes},
		{"GET", "/b/?list-type=2&prefix=p", "", nil, faultproxy.ListObjects, faultproxy.Op(faultproxy.ListObjects)},
		{"GET", "/b/?location", "", nil, "GET", faultproxy.Op("GET")},
		{"POST", "/", `{"UpdateExpression":"list_append"}`, []string{"X-Amz-Target", "DynamoDB_20120810.UpdateItem"},
			faultproxy.UpdateItem, faultproxy.All(faultproxy.Writes, faultproxy.Says("list_append"))},
		{"POST", "/", `{}`, []string{"X-Amz-Target", "DynamoDB_20120810.Query"}, faultproxy.Query, faultproxy.Op(faultproxy.Query)},
	} {
		p.On(faultproxy.Either(faultproxy.Always(test.match, refuse), faultproxy.Always(faultproxy.Any, faultproxy.Fault{Reset: true})))
		status, _, err := call(t.Context(), test.method, p.URL+test.path, test.body, test.header...)
		if err != nil || status != 503 {
			t.Errorf("%s %s: its rule does not pick it: %d, %v", test.method, test.path, status, err)
		}
		if got := watched[len(watched)-1]; got.Op != test.op || !bytes.Equal(got.Body, []byte(test.body)) {
			t.Errorf("%s %s is %+v", test.method, test.path, got)
		}
		want[test.op]++
	}
	if got := p.Counted(); !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
	if got := p.Counted(); len(got) != 0 {
		t.Errorf("counted %v twice", got)
	}
}

// Rules by number: some first ones, one, a share.
func TestRulesByNumber(t *testing.T) {
	t.Parallel()
	picked := func(rule faultproxy.Rule) string {
		var got strings.Builder
		for i := range 12 {
			op := faultproxy.PutObject
			if i%3 == 2 {
				op = faultproxy.GetObject
			}
			got.WriteByte(".x"[map[bool]int{true: 1}[rule(faultproxy.Request{Op: op}) != faultproxy.Fault{}]])
		}
		return got.String()
	}
	put, reset := faultproxy.Op(faultproxy.PutObject), faultproxy.Fault{Reset: true}
	for name, test := range map[string]struct {
		rule faultproxy.Rule
		want string
	}{
		"first":      {faultproxy.First(3, put, reset), "xx.x........"},
		"nth":        {faultproxy.Nth(3, put, reset), "...x........"},
		"none":       {faultproxy.Sometimes(1, 0, put, reset), "............"},
		"each":       {faultproxy.Sometimes(1, 1, put, reset), "xx.xx.xx.xx."},
		"one of two": {faultproxy.Either(faultproxy.Nth(1, put, reset), faultproxy.Nth(2, put, reset)), "xx.........."},
	} {
		if got := picked(test.rule); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	half := func() string { return picked(faultproxy.Sometimes(7, 0.5, put, reset)) }
	if got := half(); got != half() || strings.Count(got, "x") == 0 || strings.Count(got, "x") == 8 {
		t.Errorf("half of them are %s, then %s", got, half())
	}
}

// The errors are those that the services give: what a client's library reads in them is there.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	p := faultproxy.Start(t, s.URL)
	for _, test := range []struct {
		refusal *faultproxy.Refusal
		status  int
		says    string
	}{
		{faultproxy.SlowDown, 503, "<Code>SlowDown</Code>"},
		{faultproxy.Objects(429, "SlowDown"), 429, "<Error>"},
		{faultproxy.Throttled, 400, `"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException"`},
		{faultproxy.Items(400, "ProvisionedThroughputExceededException"), 400, "#ProvisionedThroughputExceededException"},
		{faultproxy.Cancelled("None", "TransactionConflict"), 400, `"CancellationReasons":[{"Code":"None"},{"Code":"TransactionConflict"}]`},
	} {
		p.On(faultproxy.Always(faultproxy.Any, faultproxy.Fault{Refuse: test.refusal}))
		status, body, err := call(t.Context(), http.MethodGet, p.URL+"/b/k", "")
		if err != nil || status != test.status || !strings.Contains(body, test.says) {
			t.Errorf("%d %s, %v", status, body, err)
		}
	}
}

// A proxy that is closed leaves nobody hanging, and a URL that is none is refused.
func TestClose(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	p, err := faultproxy.New(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	p.On(faultproxy.Always(faultproxy.Any, faultproxy.Fault{BlackHole: true, Late: time.Hour}))
	arrived, ended := make(chan struct{}), make(chan error)
	p.Watch(func(faultproxy.Request) { close(arrived) })
	go func() {
		_, _, err := call(context.Background(), http.MethodPut, p.URL+"/b/k", "body")
		ended <- err
	}()
	<-arrived
	p.Close()
	if err := <-ended; err == nil || s.has("/b/k") {
		t.Errorf("%v", err)
	}
	if _, err := faultproxy.New("no store"); err == nil {
		t.Error("no error")
	}
}

// What is diverted is counted and judged by the other proxy alone, listings too.
func TestDivert(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	p, other := faultproxy.Start(t, s.URL), faultproxy.Start(t, s.URL)
	p.Divert(faultproxy.Below("/heads/"), other)
	other.On(faultproxy.Always(faultproxy.Any, faultproxy.Fault{Refuse: faultproxy.SlowDown}))
	for path, want := range map[string]int{
		"/bucket/heads/a": 503, "/bucket/a/heads/b": 503, "/bucket/heads": 200, "/bucket/objects/a": 200,
		"/bucket/?list-type=2&prefix=heads%2F": 503, "/bucket/?list-type=2&prefix=objects%2F": 200,
	} {
		if got, _, err := call(t.Context(), http.MethodGet, p.URL+path, ""); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", path, got, err, want)
		}
	}
	if ours, theirs := p.Counted(), other.Counted(); ours[faultproxy.GetObject] != 2 || theirs[faultproxy.GetObject] != 2 || theirs[faultproxy.ListObjects] != 1 {
		t.Errorf("counted are %v and %v", ours, theirs)
	}
}
