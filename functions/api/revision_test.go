package api_test

import (
	"net/http"
	"testing"

	"github.com/tailrace-streams/tailrace/wire"
)

// revision is what an answer says of itself; the test fails if it does not.
func (a answer) revision(t testing.TB) wire.Revision {
	t.Helper()
	r, err := wire.ParseRevision(a.header.Get(wire.HeaderRevision), wire.CodeBadHeader)
	if err != nil {
		t.Fatalf("%d %s: revision %q: %v", a.status, a.body, a.header.Get(wire.HeaderRevision), err)
	}
	return r
}

// Every write names the state that it made, and each of a stream's is above the one before it, a deletion too.
func TestX1EveryWriteNamesItsRevision(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const stream = "/v1/streams/a%2Fb"
	body := []byte(`{"records":[{"body":"x"}]}`)
	var last wire.Revision
	for i, write := range []struct {
		method, path string
		body         []byte
		status       int
	}{
		{"POST", "/v1/streams", []byte(`{"stream":"a/b"}`), 201},
		{"POST", stream + "/records", body, 200},
		{"POST", stream + "/records", body, 200},
		{"PATCH", stream, []byte(`{"retention_policy":{"age":86400}}`), 200},
		{"PUT", stream, []byte(`{"retention_policy":{"age":7200}}`), 200},
		{"POST", stream + "/records", body, 200},
		{"DELETE", stream, nil, 202},
	} {
		a := r.do(write.method, write.path, write.body)
		if a.status != write.status {
			t.Fatalf("%s %s: %d %s", write.method, write.path, a.status, a.body)
		}
		got := a.revision(t)
		if got.Basin != basin || got.Stream != "a/b" || got.Incarnation == "" {
			t.Errorf("%s %s is named %+v", write.method, write.path, got)
		}
		if i > 0 && (got.Incarnation != last.Incarnation || got.Version <= last.Version) {
			t.Errorf("%s %s is named %s, behind %s", write.method, write.path, got, last)
		}
		last = got
	}
	last = r.do("PUT", "/v1/basins/other-basin", nil).revision(t)
	for _, write := range []struct {
		method string
		body   []byte
	}{{"PATCH", []byte(`{"create_stream_on_read":true}`)}, {"PUT", []byte(`{}`)}, {"DELETE", nil}} {
		got := r.do(write.method, "/v1/basins/other-basin", write.body).revision(t)
		if got.Basin != "other-basin" || got.Stream != "" || got.Incarnation != last.Incarnation || got.Version <= last.Version {
			t.Errorf("%s of a basin is named %s, behind %s", write.method, got, last)
		}
		last = got
	}
}

// A session names the state it opens on, in each acknowledgement the version that its batch made if the client asks for
// it, and at its end the last of them.
func TestX1SessionNamesItsRevisions(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open func(r *sessionRig, method, path string, headers ...with) *duplex) {
		for _, asks := range []bool{true, false} {
			r := newSessionRig(t)
			r.do("POST", "/v1/streams", []byte(`{"stream":"s"}`))
			var headers []with
			if asks {
				headers = append(headers, with{wire.HeaderRevision, wire.RevisionInAcks})
			}
			d := open(r, "POST", recordsOfS, headers...).mustOpen()
			opened := answer{header: d.header}.revision(t)
			last := opened.Version
			for range 3 {
				d.append(inputOf("x"))
				ack, err := d.ack()
				if err != nil {
					t.Fatal(err)
				}
				if asks && ack.Version <= last || !asks && ack.Version != 0 {
					t.Errorf("the version of an acknowledgement is %d, behind %d", ack.Version, last)
				}
				last = max(ack.Version, last)
			}
			d.halfClose()
			d.wantEnd()
			end := answer{header: d.answer.Trailer}.revision(t)
			if end.Incarnation != opened.Incarnation || end.Version <= opened.Version || asks && end.Version != last {
				t.Errorf("the session ends with %s; it opened with %s and the last version was %d", end, opened, last)
			}
		}
		r := newSessionRig(t)
		if d := open(r, "POST", recordsOfS, with{wire.HeaderRevision, "all"}); d.status != http.StatusBadRequest {
			t.Errorf("a bad header: %d", d.status)
		}
	})
}
