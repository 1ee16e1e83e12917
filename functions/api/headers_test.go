package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/tailrace-streams/tailrace/wire"
)

// A header that has one value is refused with two, on every path, by either protocol: a proxy may have judged the other one.
func TestTwoValuesOfOneHeaderAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	one := map[string]string{
		"S2-Basin": basin, "S2-Format": "raw", "S2-Request-Token": "t", "S2-Encryption-Key": strings.Repeat("A", 43) + "=",
		"S2-Stream-Config": "{}", "Authorization": "Bearer x", "Last-Event-ID": "0,1,8", "S2-Not-Yet-Known": "x",
		wire.HeaderConflicts: wire.ConflictsPerBatch, wire.HeaderFencingToken: "f", wire.HeaderConsistency: wire.ConsistencyStrong,
		wire.HeaderMinRevision: "r", wire.HeaderRevisionTimeoutMs: "1",
	}
	for name, value := range one {
		for _, second := range []string{value, "other"} {
			for _, to := range []string{
				"GET /v1/basins", "POST /v1/basins", "GET /v1/streams", "POST /v1/streams/s/records", "GET /v1/streams/s/records?seq_num=0",
				"GET /v1/streams/s/records/tail", "GET /v1/locations", "GET /health", "DELETE /v1/streams/s",
			} {
				method, path, _ := strings.Cut(to, " ")
				q := r.request(context.Background(), method, path, nil)
				q.Header.Del(name)
				q.Header[http.CanonicalHeaderKey(name)] = []string{value, second}
				a := r.want(r.send(q), http.StatusBadRequest, "bad_header")
				if !strings.Contains(a.body, strings.ToLower(name)) || a.header.Get(wire.HeaderApplied) != "no" {
					t.Errorf("%s with two of %s: %s", to, name, a.body)
				}
			}
		}
	}
	r.want(r.do("GET", "/v1/streams/s", nil), http.StatusOK, "")
	q := r.request(context.Background(), "GET", "/v1/streams/s/records/tail", nil)
	q.Header["Accept"] = []string{"application/json", "*/*"} // has as many as it likes
	r.want(r.send(q), http.StatusOK, "")
}
