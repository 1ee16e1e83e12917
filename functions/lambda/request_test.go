package lambda

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// BL-118, BL-119, BL-120: every front door describes one request in its own way.
func TestEveryFrontDoorGivesTheSameRequest(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]kind{
		"http-api": gatewayV2, "http-api-decoded": gatewayV2, "function-url": functionURL, "rest-api": gatewayV1, "load-balancer": balancer,
	} {
		event := []byte(fixture(t, name))
		k, err := kindOf(event)
		if err != nil || k != want {
			t.Errorf("%s: kind is %q, %v, want %q", name, k, err, want)
			continue
		}
		c, err := parse(k, event)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r, err := c.request(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		segments := strings.Split(r.URL.EscapedPath(), "/")
		stream, err := url.PathUnescape(segments[3])
		if err != nil || len(segments) != 5 || segments[4] != "records" || stream != "orders/2026 a+b" || r.Method != http.MethodPost {
			t.Errorf("%s: %s %s, stream %q, %v", name, r.Method, r.URL.EscapedPath(), stream, err)
		}
		query := r.URL.Query()
		if got := strings.Join(query["a"], "|"); got != "1|/ x" || !query.Has("b") {
			t.Errorf("%s: the query is %q", name, r.URL.RawQuery)
		}
		if got := strings.Join(r.Header.Values("X-Repeated"), ","); got != "first,second" {
			t.Errorf("%s: the repeated header is %q", name, got)
		}
		if one, err := r.Cookie("one"); err != nil || one.Value != "1" {
			t.Errorf("%s: the cookies are %q", name, r.Header["Cookie"])
		}
		if r.Header.Get("S2-Basin") != "basin-of-events" || r.Header.Get("s2-format") != "raw" || !strings.Contains(r.Host, ".amazonaws.com") && !strings.Contains(r.Host, ".on.aws") {
			t.Errorf("%s: the headers are %q of host %q", name, r.Header, r.Host)
		}
		if body := string(c.body); body != `{"records":[{"body":"hi"}]}` {
			t.Errorf("%s: the body is %q", name, body)
		}
	}
}

func TestKindsOfEvents(t *testing.T) {
	t.Parallel()
	for event, want := range map[string]kind{
		fixture(t, "schedule"): schedule, fixture(t, "sqs"): queue, `{"operation":"append"}`: direct, `{"source":"aws.scheduler"}`: schedule,
	} {
		if k, err := kindOf([]byte(event)); k != want || err != nil {
			t.Errorf("%.60s: %q, %v, want %q", event, k, err, want)
		}
	}
	for event, want := range map[string]string{
		`{"Records":[{"eventSource":"aws:s3"}]}`: "aws:s3", `{}`: "docs/functions.md", `[1]`: "docs/functions.md", `"x"`: "docs/functions.md", `{"Records":[]}`: "want",
	} {
		if k, err := kindOf([]byte(event)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v, want an error with %q", event, k, err, want)
		}
	}
}

func TestPathsOfGateways(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ path, stage, parameter, want string }{
		{"/v1/streams/a/records", "$default", "", "/v1/streams/a/records"},
		{"/dev/v1/streams/a/records", "dev", "", "/v1/streams/a/records"},
		{"/v1/streams/a/records", "v1", "", "/v1/streams/a/records"},
		{"/v1/v1/streams/a/records", "v1", "", "/v1/streams/a/records"},
		{"/dev/health", "dev", "", "/health"},
		{"/devious", "dev", "", "/devious"},
		{"/v1/streams/a/b/records/tail", "", "", "/v1/streams/a%2Fb/records/tail"},
		{"/v1/streams/a%2Fb/fence", "", "", "/v1/streams/a%2Fb/fence"},
		{"/v1/streams/a%2Fb/records", "", "a%2Fb", "/v1/streams/a%252Fb/records"},
		{"/v1/streams/100%/records", "", "", "/v1/streams/100%25/records"},
		{"/v1/streams/ü ?#", "", "", "/v1/streams/%C3%BC%20%3F%23"},
		{"/v1/streams/", "", "", "/v1/streams/"},
		{"/v1/basins/x y", "", "", "/v1/basins/x%20y"},
	} {
		parameters := map[string]string{}
		if test.parameter != "" {
			parameters["stream"] = test.parameter
		}
		if got := escapePath(withoutStage(test.path, test.stage), parameters); got != test.want {
			t.Errorf("%s at stage %q is %s, want %s", test.path, test.stage, got, test.want)
		}
	}
}

// A name that a gateway has decoded is found again, unless it looks escaped; with a route that has {stream}, always.
func TestDecodedNamesAreFoundAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringN(1, 40, 200).Filter(func(s string) bool {
			return !strings.HasSuffix(s, "/records") && !strings.HasSuffix(s, "/fence") && !strings.HasSuffix(s, "/records/tail")
		}).Draw(t, "name")
		suffix := rapid.SampledFrom(nameSuffixes).Draw(t, "suffix")
		got := escapePath("/v1/streams/"+name+suffix, map[string]string{"stream": name})
		if want := "/v1/streams/" + url.PathEscape(name) + suffix; got != want {
			t.Fatalf("%q: %s, want %s", name, got, want)
		}
		u, err := url.ParseRequestURI(escapePath("/v1/streams/"+name, nil))
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if back, _ := url.PathUnescape(strings.TrimPrefix(u.EscapedPath(), "/v1/streams/")); back != name && !strings.Contains(name, "%") {
			t.Fatalf("%q came back as %q", name, back)
		}
	})
}

func TestBodiesThatAreNotBase64(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	event := strings.Replace(fixture(t, "function-url"), "eyJyZWNvcmRzIjpbeyJib2R5IjoiaGkifV19", "{]", 1)
	a := decode[httpAnswer](t, r.must(Append, event))
	if a.StatusCode != http.StatusBadRequest || !strings.Contains(a.Body, "base64") || a.Headers["Tailrace-Applied"] != "no" {
		t.Errorf("the answer is %+v", a)
	}
	for name, event := range map[string]string{
		"path":   urlEvent("POST", "/v1/%zz", "", "", nil),
		"method": urlEvent("PO ST", "/v1/streams/a/records", "", "", nil),
		"empty":  urlEvent("GET", "", "", "", nil),
		"query":  urlEvent("GET", "/v1/streams/a/records", "a=\x01", "", nil),
	} {
		a := decode[httpAnswer](t, r.must(Append, event))
		if a.StatusCode != http.StatusBadRequest {
			t.Errorf("a bad %s: %+v", name, a)
		}
	}
}
