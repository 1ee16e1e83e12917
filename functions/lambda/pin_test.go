package lambda

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/tailrace-streams/tailrace/wire"
)

// pinnedEvent is that of a request to an API of one basin.
func pinnedEvent(basin, method, path string, headers map[string]string) string {
	event, _ := json.Marshal(map[string]any{
		"version": "2.0", "rawPath": path, "headers": headers, "stageVariables": map[string]string{basinVariable: basin},
		"requestContext": map[string]any{
			"domainName": "a1.execute-api.eu-central-1.amazonaws.com", "stage": "$default", "http": map[string]any{"method": method, "path": path},
		},
	})
	return string(event)
}

func pinnedRequest(t *testing.T, event string) (*http.Request, error) {
	t.Helper()
	k, err := kindOf([]byte(event))
	if err != nil {
		t.Fatal(err)
	}
	c, err := parse(k, []byte(event))
	if err != nil {
		t.Fatal(err)
	}
	return c.request(t.Context())
}

// An API that has a basin gives it to every request, and nobody reaches another basin through it, or what belongs to none.
func TestAPIOfOneBasin(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		path, named string
		want        wire.Code // empty: it is let through
	}{
		{"/v1/streams", "", ""},
		{"/v1/streams/a/records", "", ""},
		{"/v1/streams/a/records", "basin-of-the-api", ""},
		{"/v1/streams/a/records", " basin-of-the-api ", ""},
		{"/v1/streams/basins", "", ""},
		{"/health", "", ""},
		{"/ping", "", ""},
		{"/v1/streams/a/records", "another-basin", wire.CodeBadHeader},
		{"/v1/streams/a/records", "basin-of-the-api,another-basin", wire.CodeBadHeader},
		{"/v1/basins", "", wire.CodeBadPath},
		{"/v1/basins/another-basin", "", wire.CodeBadPath},
		{"/v1/streamsx", "", wire.CodeBadPath},
		{"/v1/streams/../basins", "", wire.CodeBadPath},
		{"/v1//basins", "", wire.CodeBadPath},
		{"/%76%31/basins", "", wire.CodeBadPath},
		{"/v1/%62asins", "", wire.CodeBadPath},
		{"//v1/basins", "", wire.CodeBadPath},
		{"/v1/access-tokens", "", wire.CodeBadPath},
		{"/v1/metrics", "", wire.CodeBadPath},
		{"/metrics", "", wire.CodeBadPath},
		{"/", "", wire.CodeBadPath},
	} {
		headers := map[string]string{"host": "a1.execute-api.eu-central-1.amazonaws.com"}
		if test.named != "" {
			headers["s2-basin"] = test.named
		}
		r, err := pinnedRequest(t, pinnedEvent("basin-of-the-api", "GET", test.path, headers))
		if test.want == "" {
			if err != nil {
				t.Errorf("%s of %q: %v", test.path, test.named, err)
			} else if got := r.Header.Values(wire.HeaderBasin); len(got) != 1 || got[0] != "basin-of-the-api" {
				t.Errorf("%s of %q is a request to %q", test.path, test.named, got)
			}
			continue
		}
		var refusal *wire.Error
		if !errors.As(err, &refusal) || refusal.Code != test.want {
			t.Errorf("%s of %q: %v, want %s", test.path, test.named, err, test.want)
		}
	}
}

// REST APIs have stage variables too; those of others, and none, pin nothing.
func TestOtherStageVariablesPinNothing(t *testing.T) {
	t.Parallel()
	event := strings.Replace(pinnedEvent("basin-of-the-api", "GET", "/v1/basins", nil), basinVariable, "colour", 1)
	if r, err := pinnedRequest(t, event); err != nil || r.Header.Get(wire.HeaderBasin) != "" {
		t.Errorf("%v, %v", r, err)
	}
	rest := `{"httpMethod":"GET","path":"/v1/basins","stageVariables":{"tailrace_basin":"b"},"requestContext":{"stage":"prod"}}`
	if r, err := pinnedRequest(t, rest); err == nil {
		t.Errorf("a REST API of one basin lets through %s", r.URL)
	}
}

// The refusal is answered like any other: definite, with what to do.
func TestRefusalOfAnotherBasinIsAnAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	a := decode[httpAnswer](t, r.must(Append, pinnedEvent("basin-of-the-api", "POST", "/v1/streams/a/records", map[string]string{"s2-basin": "another-basin"})))
	if a.StatusCode != http.StatusBadRequest || !strings.Contains(a.Body, "leave it out") || a.Headers["Tailrace-Applied"] != "no" {
		t.Errorf("the answer is %+v", a)
	}
}
