package dynamostore

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// request is one call as it arrived at the proxy.
type request struct {
	op     string // UpdateItem, GetItem, ...
	params map[string]any
	header http.Header
}

// proxy stands between a store and the emulator. It counts, it looks at what decides something, and it fails requests
// as it is told.
type proxy struct {
	*httptest.Server
	t      testing.TB
	target string

	mu       sync.Mutex
	requests []request
	fault    func(r request) fault
	// completes adds what the emulator omits: the item that failed a condition.
	completes bool
}

// fault is what the proxy does to a request instead of passing it on and its answer back.
type fault func(p *proxy, w http.ResponseWriter, r *http.Request, body []byte)

func newProxy(t testing.TB) *proxy { return startProxy(t, false) }

func startProxy(t testing.TB, secure bool) *proxy {
	p := &proxy{t: t, target: emulator(t)}
	p.Server = httptest.NewUnstartedServer(p)
	p.Config.ErrorLog = nil
	if secure {
		p.StartTLS()
	} else {
		p.Start()
	}
	t.Cleanup(func() {
		p.CloseClientConnections()
		p.Close()
	})
	return p
}

// failing sets what happens to the requests that pick chooses; nil ends it.
func (p *proxy) failing(pick func(r request) fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = pick
}

// take returns the requests since it was last called.
func (p *proxy) take() []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.requests
	p.requests = nil
	return taken
}

// ops names the requests since they were last taken, such as "UpdateItem GetItem".
func (p *proxy) ops() string {
	var names []string
	for _, r := range p.take() {
		names = append(names, r.op)
	}
	return strings.Join(names, " ")
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	in := request{op: op, header: r.Header.Clone()}
	if err := json.Unmarshal(body, &in.params); err != nil {
		p.t.Errorf("%s: %v", op, err)
	}
	p.inspect(in)
	p.mu.Lock()
	p.requests = append(p.requests, in)
	pick := p.fault
	p.mu.Unlock()
	if pick != nil {
		if f := pick(in); f != nil {
			f(p, w, r, body)
			return
		}
	}
	p.pass(w, r, in, body)
}

// inspect fails the test for a read that may be answered with old state: every read of this package decides something.
func (p *proxy) inspect(r request) {
	switch r.op {
	case "GetItem", "Query", "Scan", "BatchGetItem", "TransactGetItems":
		if r.params["ConsistentRead"] != true {
			p.t.Errorf("%s without ConsistentRead", r.op)
		}
	}
}

func (p *proxy) pass(w http.ResponseWriter, r *http.Request, in request, body []byte) {
	status, header, answer, err := p.forward(r, in.op, body)
	if err != nil {
		p.t.Logf("forward %s: %v", in.op, err)
		drop(w)
		return
	}
	if status == http.StatusBadRequest && p.completes {
		answer = p.complete(r, in, answer)
		header.Del("X-Amz-Crc32")
		header.Del("Content-Length")
	}
	for name, values := range header {
		w.Header()[name] = values
	}
	w.WriteHeader(status)
	_, _ = w.Write(answer)
}

func (p *proxy) forward(r *http.Request, op string, body []byte) (int, http.Header, []byte, error) {
	out, err := http.NewRequestWithContext(r.Context(), http.MethodPost, p.target, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	out.Header = r.Header.Clone()
	out.Header.Set("X-Amz-Target", "DynamoDB_20120810."+op)
	answer, err := http.DefaultClient.Do(out)
	if err != nil {
		return 0, nil, nil, err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	return answer.StatusCode, answer.Header, b, err
}

// complete adds the item to a failed condition, if the request asked for it, as the service does.
func (p *proxy) complete(r *http.Request, in request, answer []byte) []byte {
	var failure map[string]any
	if json.Unmarshal(answer, &failure) != nil || in.params["ReturnValuesOnConditionCheckFailure"] != "ALL_OLD" ||
		!strings.HasSuffix(failure["__type"].(string), "ConditionalCheckFailedException") {
		return answer
	}
	item, ok := in.params["Key"].(map[string]any)
	if !ok {
		item = in.params["Item"].(map[string]any)
	}
	get := map[string]any{
		"TableName": in.params["TableName"], "ConsistentRead": true,
		"Key": map[string]any{attrPartition: item[attrPartition], attrSort: item[attrSort]},
	}
	body, err := json.Marshal(get)
	if err != nil {
		return answer
	}
	var found map[string]any
	_, _, b, err := p.forward(r, "GetItem", body)
	if err != nil || json.Unmarshal(b, &found) != nil {
		p.t.Errorf("read the item that failed a condition: %v", err)
		return answer
	}
	failure["Item"] = found["Item"]
	if answer, err = json.Marshal(failure); err != nil {
		p.t.Error(err)
	}
	return answer
}

func drop(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = c.Close()
	}
}

// The faults.

// refuses answers with an error of the service, and does nothing.
func refuses(status int, code string) fault {
	return func(_ *proxy, w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#`+code+`","message":"as told"}`)
	}
}

// answers is a success of the service's.
func answers(body string) fault {
	return func(_ *proxy, w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_, _ = io.WriteString(w, body)
	}
}

// html answers as a balancer in between does.
func html(status int) fault {
	return func(_ *proxy, w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<html>no</html>")
	}
}

// dropsRequest closes the connection instead of passing the request on.
func dropsRequest(_ *proxy, w http.ResponseWriter, _ *http.Request, _ []byte) { drop(w) }

// dropsAnswer passes the request on and closes the connection instead of answering.
func dropsAnswer(p *proxy, w http.ResponseWriter, r *http.Request, body []byte) {
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if status, _, _, err := p.forward(r, op, body); err != nil || status != http.StatusOK {
		p.t.Errorf("forward %s: %d, %v", op, status, err)
	}
	drop(w)
}

// cutsAnswer passes the request on and sends the first half of the answer.
func cutsAnswer(p *proxy, w http.ResponseWriter, r *http.Request, body []byte) {
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	_, header, answer, err := p.forward(r, op, body)
	if err != nil {
		p.t.Errorf("forward %s: %v", op, err)
	}
	w.Header().Set("Content-Length", header.Get("Content-Length"))
	_, _ = w.Write(answer[:len(answer)/2])
	_ = http.NewResponseController(w).Flush()
	drop(w)
}

// hangs never answers.
func hangs(_ *proxy, _ http.ResponseWriter, r *http.Request, _ []byte) { <-r.Context().Done() }

// always fails every request alike.
func always(f fault) func(request) fault { return func(request) fault { return f } }

// writesOnly fails requests that write.
func writesOnly(f fault) func(request) fault {
	return func(r request) fault {
		switch r.op {
		case "UpdateItem", "PutItem", "DeleteItem":
			return f
		}
		return nil
	}
}

// trusting has a client of a TLS proxy accept its certificate.
func (p *proxy) trusting(c *tls.Config) {
	c.RootCAs = p.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
}
