package lambda

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/functions/stores"
)

func TestFrontDoorsAppendAndRead(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	doors := []string{"http-api", "http-api-decoded", "function-url", "rest-api", "load-balancer"}
	for i, door := range doors {
		a := decode[httpAnswer](t, r.must(Append, fixture(t, door)))
		if a.StatusCode != http.StatusOK || a.IsBase64Encoded || !strings.Contains(a.Body, fmt.Sprintf(`"start":{"seq_num":%d,`, i)) {
			t.Errorf("%s: %+v", door, a)
		}
		if (door == "rest-api" || door == "load-balancer") != (len(a.MultiValueHeaders["X-Request-Id"]) == 1) {
			t.Errorf("%s: the headers are %v and %v", door, a.Headers, a.MultiValueHeaders)
		}
	}
	if got := r.records("orders/2026 a+b"); len(got) != len(doors) {
		t.Errorf("the stream has %q", got)
	}
	status, body, h := r.over(Read, "GET", "/v1/streams/orders%2F2026%20a+b/records", "seq_num=0&count=2", "", map[string]string{"accept": "application/protobuf"})
	if status != http.StatusOK || h.Get("Content-Type") != "application/protobuf" || strings.Count(body, "hi") != 2 {
		t.Errorf("as protobuf: %d %v %q", status, h, body)
	}
}

func TestEachFunctionServesItsPart(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, test := range []struct {
		method, path string
		owner        Name
	}{
		{"POST", "/v1/streams/a/records", Append},
		{"PUT", "/v1/streams/a/fence", Append},
		{"GET", "/v1/streams/a/records", Read},
		{"HEAD", "/v1/streams/a/records", Read},
		{"GET", "/v1/streams/a/records/tail", Read},
		{"GET", "/v1/streams/a/fence", Read},
		{"GET", "/v1/streams", Control},
		{"DELETE", "/v1/streams/a%2Frecords", Control},
		{"GET", "/v1/basins", Control},
		{"POST", "/v1/access-tokens", Control},
		{"GET", "/v1/nothing", Control},
	} {
		for name := range r.servers {
			status, body, _ := r.over(name, test.method, test.path, "", "", nil)
			elsewhere := status == http.StatusNotImplemented && strings.Contains(body, "is served by the function "+string(test.owner))
			if elsewhere == (name == test.owner) {
				t.Errorf("%s %s at %s: %d %s", test.method, test.path, name, status, body)
			}
		}
	}
	for name := range r.servers {
		if status, body, _ := r.over(name, "GET", "/health", "", "", nil); status != http.StatusOK {
			t.Errorf("health of %s: %d %s", name, status, body)
		}
		if status, body, _ := r.over(name, "OPTIONS", "/v1/streams/a/records", "", "", map[string]string{"origin": "https://example.com", "access-control-request-method": "POST"}); status/100 != 2 {
			t.Errorf("preflight at %s: %d %s", name, status, body)
		}
	}
}

func TestWhatFunctionsDoNotServe(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	status, body, h := r.over(Append, "POST", "/v1/streams/a/records", "", "", map[string]string{"content-type": "s2s/proto"})
	if status != http.StatusNotImplemented || !strings.Contains(body, "tailrace serve") || h.Get("Tailrace-Applied") != "no" {
		t.Errorf("an append session: %d %s", status, body)
	}
	for name, event := range map[Name]string{Read: fixture(t, "sqs"), Append: fixture(t, "schedule"), Control: `{"operation":"maintain"}`} {
		if _, err := r.handle(name, event); err == nil || !strings.Contains(err.Error(), "this is the function "+string(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// BL-121: an answer is below the platform's limit whatever the records are, and says where to go on.
func TestBL121AnswersStayBelowTheLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	const payloadMax = 6_291_556 // what Lambda takes
	bodies := map[string]string{
		"control": strings.Repeat("\x01", 200<<10), "quotes": strings.Repeat(`"\`, 100<<10), "high": strings.Repeat("\xff", 200<<10),
	}
	n := 0
	for _, body := range bodies {
		for range 5 {
			input, _ := json.Marshal(map[string]any{"records": []any{map[string]string{"body": base64.StdEncoding.EncodeToString([]byte(body))}}})
			status, text, _ := r.over(Append, "POST", "/v1/streams/big/records", "", string(input), map[string]string{"s2-format": "base64"})
			if status != http.StatusOK {
				t.Fatalf("append: %d %s", status, text)
			}
			n++
		}
	}
	for _, as := range [][2]string{
		{"raw", "application/json"}, {"base64", "application/json"}, {"raw", "application/protobuf"}, {"raw", "text/event-stream"},
	} {
		for next, answers := 0, 0; next < n; answers++ {
			event := urlEvent("GET", "/v1/streams/big/records", fmt.Sprintf("seq_num=%d", next), "", map[string]string{"s2-format": as[0], "accept": as[1]})
			answer := r.must(Read, event)
			a := decode[httpAnswer](t, answer)
			if a.StatusCode != http.StatusOK || len(answer) > payloadMax || answers > n {
				t.Fatalf("%s from %d: status %d, %d bytes, after %d answers", as, next, a.StatusCode, len(answer), answers)
			}
			before := next
			if next = lastOf(t, as[1], a.Body, before) + 1; next <= before {
				t.Fatalf("%s from %d does not go on: %.200s", as, before, a.Body)
			}
		}
	}
	one, _ := json.Marshal(map[string]any{"records": []any{map[string]string{"body": base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x01", 1<<20-8)))}}})
	r.over(Append, "POST", "/v1/streams/one/records", "", string(one), map[string]string{"s2-format": "base64"})
	if status, body, _ := r.over(Read, "GET", "/v1/streams/one/records", "seq_num=0", "", nil); status != http.StatusUnprocessableEntity || !strings.Contains(body, "base64") {
		t.Errorf("a record that fits no answer as text: %d %.200s", status, body)
	}
	if status, _, _ := r.over(Read, "GET", "/v1/streams/one/records", "seq_num=0", "", map[string]string{"s2-format": "base64"}); status != http.StatusOK {
		t.Errorf("in base64: %d", status)
	}
}

// lastOf is the number of the last record in an answer. In protobuf it is taken to be one: what is in it, the decoder's
// tests look at.
func lastOf(t *testing.T, media, body string, from int) (last int) {
	t.Helper()
	switch media {
	case "application/protobuf":
		return from
	case "text/event-stream":
		if _, id, ok := strings.Cut(body, "\nid: "); ok {
			if _, err := fmt.Sscanf(id, "%d,", &last); err != nil {
				t.Fatal(err)
			}
			return last
		}
		return -1
	}
	batch := decode[struct {
		Records []struct {
			SeqNum int `json:"seq_num"`
		}
	}](t, body)
	return batch.Records[len(batch.Records)-1].SeqNum
}

// BL-124: a wait ends before the function does, or the gateway gives up.
func TestBL124DeadlinesLeaveTime(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ctx, cancel := context.WithDeadline(t.Context(), now.Add(time.Minute))
	defer cancel()
	for k, most := range map[kind]time.Duration{functionURL: 59 * time.Second, gatewayV2: 28 * time.Second, gatewayV1: 28 * time.Second, direct: 59 * time.Second} {
		answer, cut := deadlines(ctx, k)
		if got := answer.Sub(now); got > most || got < most-2*time.Second || !cut.After(answer) || cut.Sub(now) > time.Minute {
			t.Errorf("%s: answer after %s, cut after %s", k, got, cut.Sub(now))
		}
	}
	r := newRig(t, nil)
	r.over(Append, "POST", "/v1/streams/s/records", "", `{"records":[{}]}`, nil)
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	answer, err := r.servers[Read].Handle(short, json.RawMessage(urlEvent("GET", "/v1/streams/s/records", "wait=60", "", nil)))
	if err != nil || short.Err() != nil || !strings.Contains(string(answer.(json.RawMessage)), `"statusCode":200`) {
		t.Errorf("wait=60 with two seconds left: %s, %v, %v", answer, err, short.Err())
	}
}

// Stores that are out of reach are waited for; then requests have definite answers.
func TestStoresOutOfReach(t *testing.T) {
	t.Parallel()
	awaited := 0
	r := newRig(t, func(_ *stores.Backend, o *Options) {
		o.Await = func(context.Context) error { awaited++; return stores.ErrNotReached }
	})
	if awaited == 0 {
		t.Error("nobody waited for the stores")
	}
	contains(t, "the log", r.log.String(), "the stores are not open")
}
