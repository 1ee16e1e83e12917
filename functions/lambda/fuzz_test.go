package lambda

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"
)

// Whatever an event is, it is answered or refused, and never ends the process.
func FuzzEvent(f *testing.F) {
	for _, name := range []string{"http-api", "http-api-decoded", "function-url", "rest-api", "load-balancer", "schedule", "sqs"} {
		f.Add([]byte(fixture(f, name)))
	}
	f.Add([]byte(`{"operation":"append","basin":"basin-of-events","stream":"s","records":[{"body":"x"}],"match_seq_num":0}`))
	f.Add([]byte(`{"operation":"read","basin":"basin-of-events","stream":"s","seq_num":0,"wait":1}`))
	f.Add([]byte(`{"operation":"request","method":"GET","path":"/v1/basins","headers":{"a":"b"},"body":null}`))
	f.Add([]byte(`{"rawPath":"","requestContext":{"http":null}}`))
	f.Add([]byte(`{"httpMethod":"GET","path":"//","requestContext":{"elb":{}}}`))
	r := newRig(f, nil)
	f.Fuzz(func(t *testing.T, event []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		for name, s := range r.servers {
			answer, err := s.Handle(ctx, event)
			if text, ok := answer.(json.RawMessage); err == nil && (!ok || !json.Valid(text)) {
				t.Errorf("%s answers %T %.200q", name, answer, text)
			}
		}
	})
}

// A path that a gateway has decoded becomes one that parses, and one that was not is left as it is.
func FuzzEscapePath(f *testing.F) {
	f.Add("/v1/streams/a/b/records", "")
	f.Add("/v1/streams/a%2Fb/records/tail", "a/b")
	f.Add("/v1/streams/%", "%")
	f.Fuzz(func(t *testing.T, path, parameter string) {
		escaped := escapePath(path, map[string]string{"stream": parameter})
		if !strings.HasPrefix(path, "/") {
			return
		}
		if _, err := url.ParseRequestURI(escaped); err != nil {
			t.Errorf("%q becomes %q: %v", path, escaped, err)
		}
		if again := escapePath(escaped, nil); again != escaped {
			t.Errorf("%q becomes %q, and that %q", path, escaped, again)
		}
	})
}
