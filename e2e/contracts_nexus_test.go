package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/e2e/harness"
	"github.com/tailrace-streams/tailrace/wire"
)

// The statements of Nexus' consistency contract, each a test named after its number (docs/consistency.md). `here` and
// `there` are two servers on the same stores, or one twice where a folder has one.

const (
	minRevision     = "Tailrace-Min-Revision"
	revisionTimeout = "Tailrace-Revision-Timeout-Ms"
	consistency     = "Tailrace-Consistency"
)

// revision is what an answer says of itself.
func (a answer) revision(t *testing.T) wire.Revision {
	t.Helper()
	r, err := wire.ParseRevision(a.header.Get("Tailrace-Revision"), wire.CodeBadHeader)
	if err != nil {
		t.Fatalf("%v: its revision is %q", a, a.header.Get("Tailrace-Revision"))
	}
	return r
}

// write sends a request that must succeed and returns its revision.
func (c *client) write(t *testing.T, method, path string, body any) wire.Revision {
	t.Helper()
	a, err := c.do(t.Context(), method, path, body)
	if err != nil || a.status > 299 {
		t.Fatalf("%s %s: %v, %v", method, path, a, err)
	}
	return a.revision(t)
}

func (c *client) put(t *testing.T, text string) wire.Revision {
	t.Helper()
	return c.write(t, http.MethodPost, records("s"), one(text))
}

// get reads with headers.
func (c *client) get(t *testing.T, path string, header ...string) answer {
	t.Helper()
	a, err := c.do(t.Context(), http.MethodGet, path, nil, header...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// includes fails the test unless an answer is a success that names a state with the revision.
func (a answer) includes(t *testing.T, r wire.Revision) {
	t.Helper()
	if a.status != 200 {
		t.Fatalf("a read of what %s made: %v", r, a)
	}
	if got := a.revision(t); got.Basin != r.Basin || got.Stream != r.Stream || got.Incarnation != r.Incarnation || got.Version < r.Version {
		t.Fatalf("the answer names %s, demanded was %s", got, r)
	}
}

const tailOfS = "/v1/streams/s/records/tail"

// both are the two kinds of reads.
var both = []string{"strong", "eventual"}

func TestX1_EveryWriteReturnsARevisionThatReadsMayDemand(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "x1-contract")
	created := here.write(t, http.MethodPost, "/v1/streams", map[string]string{"stream": "a/b"})
	if created.Stream != "a/b" || created.Basin != "x1-contract" {
		t.Errorf("a creation is named %+v", created)
	}
	last := here.put(t, "one")
	for _, write := range []func() wire.Revision{
		func() wire.Revision {
			return here.write(t, http.MethodPut, fencePath("s"), map[string]string{"fencing_token": "t"})
		},
		func() wire.Revision { return here.put(t, "two") },
		func() wire.Revision {
			return here.write(t, http.MethodPatch, "/v1/streams/s", map[string]any{"retention_policy": map[string]int{"age": 86400}})
		},
		func() wire.Revision { return here.put(t, "three") },
	} {
		r := write()
		if r.Incarnation != last.Incarnation || r.Version <= last.Version {
			t.Errorf("a write is named %s, the one before it %s", r, last)
		}
		there.get(t, tailOfS, minRevision, r.String()).includes(t, r)
		there.get(t, tailOfS+"?min_revision="+url.QueryEscape(r.String())).includes(t, r)
		there.get(t, tailOfS+"?min_revision=nonsense", minRevision, r.String()).includes(t, r) // the header wins
		last = r
	}
	here.write(t, http.MethodPatch, "/v1/basins/x1-contract", map[string]any{"create_stream_on_read": true})
	gone := here.write(t, http.MethodDelete, "/v1/streams/a%2Fb", nil)
	if gone.Incarnation != created.Incarnation || gone.Version <= created.Version {
		t.Errorf("the deletion of %s is named %s", created, gone)
	}
	overTransports(t, func(t *testing.T, http2 bool) {
		s := here.open(t, http2, "Tailrace-Revision", "acks")
		var version uint64
		for range 3 {
			frame, err := encodeInput(wire.AppendInput{Records: []wire.AppendRecord{{Body: []byte("x")}}})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.send(frame); err != nil {
				t.Fatal(err)
			}
			ack, err := s.session.ack()
			if err != nil || ack.Version <= version {
				t.Fatalf("the version of an acknowledgement is %d behind %d, %v", ack.Version, version, err)
			}
			version = ack.Version
		}
		acked := last
		acked.Version = version
		there.get(t, tailOfS, minRevision, acked.String()).includes(t, acked)
	})
}

func TestX2_NeverEmptyBecauseWhatServesIsBehind(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "x2-contract")
	next := here.put(t, "one")
	for _, kind := range both {
		there.get(t, tailOfS, consistency, "eventual") // remembered, and about to be old
		next.Version += 1000
		a := there.get(t, tailOfS, minRevision, next.String(), revisionTimeout, "0", consistency, kind)
		if a.status != 412 || !strings.Contains(a.body, `{"current_revision":"x2-contract/s@`+next.Incarnation+`.`) {
			t.Errorf("%s: a state that is not there: %v", kind, a)
		}
		next.Version -= 1000
		// The write comes while the read waits for it.
		tail := here.tail(t, "s")
		next.Version++
		read := make(chan answer, 1)
		go func() {
			a, _ := there.do(context.WithoutCancel(t.Context()), http.MethodGet, fmt.Sprintf("%s?seq_num=%d", records("s"), tail), nil,
				minRevision, next.String(), revisionTimeout, "20000", consistency, kind)
			read <- a
		}()
		time.Sleep(200 * time.Millisecond) // so that it most likely waits; before is right as well
		next = here.put(t, "later")
		a = <-read
		if a.status != 200 || !strings.Contains(a.body, `"later"`) {
			t.Errorf("%s: a read that waited: %v", kind, a)
		}
	}
}

func TestX3_TheWaitIsBounded(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "x3-contract")
	r := here.put(t, "one")
	r.Version += 1000
	for _, test := range []struct {
		timeout  string
		at, most time.Duration
	}{{"0", 0, 4 * time.Second}, {"1500", 1500 * time.Millisecond, 4500 * time.Millisecond}, {"", 5 * time.Second, 15 * time.Second}} {
		t.Run("timeout"+test.timeout, func(t *testing.T) {
			t.Parallel()
			header := []string{minRevision, r.String()}
			if test.timeout != "" {
				header = append(header, revisionTimeout, test.timeout)
			}
			begun := time.Now()
			a := there.get(t, tailOfS, header...)
			if took := time.Since(begun); a.status != 412 || took < test.at || took > test.most {
				t.Errorf("%v after %v, want 412 after %v", a, took, test.at)
			}
		})
	}
}

func TestX4_ReadsWithoutAreUnchanged(t *testing.T) {
	t.Parallel()
	here, _ := bothWays(t, "x4-contract")
	here.put(t, "one")
	for _, path := range []string{tailOfS, records("s") + "?seq_num=0", "/v1/streams/s", "/v1/streams", "/v1/basins", "/v1/basins/x4-contract"} {
		a := here.get(t, path)
		for name := range a.header {
			if a.status != 200 || strings.HasPrefix(name, "Tailrace-") {
				t.Errorf("%s: %v has %s", path, a, name)
			}
		}
	}
}

func TestX5_TheCheckRunsWithTheCallersPermissions(t *testing.T) {
	t.Parallel()
	const root = "0123456789abcdef0123456789abcdef"
	server := startWith(t, harness.Options{Data: dataFolder(t), Args: []string{"--auth"}, Env: []string{"TAILRACE_ROOT_TOKEN=" + root}})
	c := newClient(server.URL, "x5-contract")
	as := func(token, method, path string, body any, header ...string) answer {
		t.Helper()
		a, err := c.do(t.Context(), method, path, body, append(header, "Authorization", "Bearer "+token)...)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	as(root, http.MethodPost, "/v1/basins", map[string]any{"basin": c.basin})
	for _, name := range []string{"secret", "mine/1"} {
		if a := as(root, http.MethodPost, "/v1/streams", map[string]any{"stream": name}); a.status != 201 {
			t.Fatal(a)
		}
	}
	written := as(root, http.MethodPost, records("secret"), one("x")).revision(t)
	a := as(root, http.MethodPost, "/v1/access-tokens", map[string]any{"id": "reader", "scope": map[string]any{
		"basins":    map[string]any{"exact": c.basin},
		"streams":   map[string]any{"prefix": "mine/"},
		"op_groups": map[string]any{"stream": map[string]any{"read": true}, "basin": map[string]any{"read": true}},
	}})
	var issued struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(a.body), &issued); err != nil || issued.AccessToken == "" {
		t.Fatalf("issue a token: %v, %v", a, err)
	}
	unknown := written
	unknown.Incarnation = "01890000-0000-7000-8000-000000000000"
	future := written
	future.Version += 1000
	absent := written
	absent.Stream = "absent"
	plain := as(issued.AccessToken, http.MethodGet, records("secret")+"/tail", nil)
	listing := as(issued.AccessToken, http.MethodGet, "/v1/streams", nil)
	if plain.status != 403 || listing.status != 200 || strings.Contains(listing.body, "secret") {
		t.Fatalf("without a revision: %v, %v", plain, listing)
	}
	for _, r := range []wire.Revision{written, unknown, future, absent} {
		for _, kind := range both {
			header := []string{minRevision, r.String(), revisionTimeout, "0", consistency, kind}
			if a := as(issued.AccessToken, http.MethodGet, records(r.Stream)+"/tail", nil, header...); a.status != 403 || a.body != plain.body {
				t.Errorf("%s: the reader is told %v, without a revision %v", r, a, plain)
			}
			if a := as(issued.AccessToken, http.MethodGet, "/v1/streams", nil, header...); a.status != 200 || a.body != listing.body {
				t.Errorf("%s: the listing is %v, without a revision %v", r, a, listing)
			}
		}
	}
}

func TestX6_WhichReadsSeeTheWrite(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "x6-contract")
	for _, kind := range both {
		there.get(t, "/v1/streams", consistency, "eventual")
		tail := here.tail(t, "s")
		r := here.put(t, "seen-"+kind)
		header := []string{minRevision, r.String(), consistency, kind}
		a := there.get(t, fmt.Sprintf("%s?seq_num=%d", records("s"), tail), header...)
		a.includes(t, r)
		if !strings.Contains(a.body, "seen-"+kind) {
			t.Errorf("%s: a read brings %v", kind, a)
		}
		a = there.get(t, tailOfS, header...)
		a.includes(t, r)
		if !strings.Contains(a.body, fmt.Sprintf(`"seq_num":%d`, tail+1)) {
			t.Errorf("%s: check-tail is %v", kind, a)
		}
		a = there.get(t, fmt.Sprintf("%s?seq_num=%d&count=1", records("s"), tail), append(header, "Accept", "text/event-stream")...)
		a.includes(t, r)
		if !strings.Contains(a.body, "seen-"+kind) {
			t.Errorf("%s: events bring %v", kind, a)
		}
		session, err := openSessionHTTP2With(t.Context(), there.url, there.basin, "s", fmt.Sprintf("seq_num=%d&count=1", tail), header...)
		if err != nil {
			t.Fatal(err)
		}
		if batch, err := session.batch(); err != nil || len(batch.Records) != 1 || batch.Records[0].SeqNum != tail {
			t.Errorf("%s: a session brings %+v, %v", kind, batch, err)
		}
		session.close()
		age := 86400 + len(kind)
		r = here.write(t, http.MethodPatch, "/v1/streams/s", map[string]any{"retention_policy": map[string]int{"age": age}})
		a = there.get(t, "/v1/streams/s", minRevision, r.String(), consistency, kind)
		a.includes(t, r)
		if !strings.Contains(a.body, fmt.Sprintf(`"age":%d`, age)) {
			t.Errorf("%s: the config is %v", kind, a)
		}
		name := "made-" + kind
		r = here.write(t, http.MethodPost, "/v1/streams", map[string]string{"stream": name})
		if a = there.get(t, "/v1/streams", minRevision, r.String(), consistency, kind); a.status != 200 || !strings.Contains(a.body, name) {
			t.Errorf("%s: the listing is %v", kind, a)
		}
		r = here.write(t, http.MethodDelete, "/v1/streams/"+name, nil)
		a = there.get(t, "/v1/streams?prefix="+name, minRevision, r.String(), consistency, kind)
		if a.status != 200 || strings.Contains(a.body, name) && !strings.Contains(a.body, `"deleted_at":"`) {
			t.Errorf("%s: the listing after a deletion is %v", kind, a)
		}
	}
}

func TestX7_OnEveryServer(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "x7-contract")
	ways := []*client{here, there}
	var last wire.Revision
	for i := range 60 {
		writer, reader, kind := ways[i%2], ways[(i/2)%2], both[(i/4)%2]
		last = writer.put(t, fmt.Sprint(i))
		a := reader.get(t, fmt.Sprintf("%s?seq_num=%d", records("s"), i), minRevision, last.String(), consistency, kind)
		a.includes(t, last)
		if !strings.Contains(a.body, fmt.Sprintf(`"body":"%d"`, i)) {
			t.Fatalf("write %d is not in %v", i, a)
		}
		// And a reader that says what it saw last never goes back.
		seen := a.revision(t)
		ways[i%2].get(t, tailOfS, minRevision, seen.String(), consistency, "eventual").includes(t, seen)
	}
}

func TestX8_TheAnswerNamesItsRevision(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "x8-contract")
	r := here.put(t, "one")
	for _, path := range []string{tailOfS, records("s") + "?seq_num=0", "/v1/streams/s"} {
		there.get(t, path, consistency, "strong").includes(t, r)
		there.get(t, path, minRevision, r.String()).includes(t, r)
		for _, bad := range []string{"", "x", "x8-contract/s@1", "x8-contract/s@1.2.x", "x8-contract/s@nothing.7", r.String() + "x", "/" + r.String()} {
			if a := there.get(t, path, minRevision, bad); a.status != 400 || !strings.Contains(a.body, "bad_header") {
				t.Errorf("%s, %q: %v", path, bad, a)
			}
		}
		if a := there.get(t, path, consistency, "perhaps"); a.status != 400 {
			t.Errorf("%s: %v", path, a)
		}
	}
}

func TestX9_DeletionsAndEarlierLives(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "x9-contract")
	first := here.put(t, "one")
	there.get(t, tailOfS, consistency, "eventual")
	deleted := here.write(t, http.MethodDelete, "/v1/streams/s", nil)
	for _, kind := range both {
		if a := there.get(t, tailOfS, minRevision, deleted.String(), consistency, kind); a.status != 409 && a.status != 404 {
			t.Errorf("%s: a read that knows of the deletion: %v", kind, a)
		}
	}
	var second wire.Revision
	eventually(t, "the name is free", func() bool {
		a, err := here.do(t.Context(), http.MethodPost, "/v1/streams", map[string]string{"stream": "s"})
		if err == nil && a.status == 201 {
			second = a.revision(t)
		}
		return second.Incarnation != ""
	})
	for _, kind := range both {
		for _, old := range []wire.Revision{first, deleted} {
			for _, path := range []string{tailOfS, records("s") + "?seq_num=0", "/v1/streams/s", "/v1/streams"} {
				begun := time.Now()
				a := there.get(t, path, minRevision, old.String(), revisionTimeout, "30000", consistency, kind)
				if a.status != 412 || !strings.Contains(a.body, second.Incarnation) || time.Since(begun) > 10*time.Second {
					t.Errorf("%s, %s: an earlier life: %v after %v", path, kind, a, time.Since(begun))
				}
			}
		}
		there.get(t, tailOfS, minRevision, second.String(), consistency, kind).includes(t, second)
	}
}

func TestX10_TheLastRevisionCoversAll(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "x10-contract")
	var batch appendInput
	for i := range 500 {
		batch.Records = append(batch.Records, newRecord{Body: fmt.Sprint(i)})
	}
	r := here.write(t, http.MethodPost, records("s"), batch)
	for i := range 20 {
		r = here.put(t, fmt.Sprint(500+i))
	}
	for _, kind := range both {
		a := there.get(t, records("s")+"?seq_num=0", minRevision, r.String(), consistency, kind)
		a.includes(t, r)
		var got struct{ Records []record }
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || len(got.Records) != 520 || got.Records[519].Body != "519" {
			t.Errorf("%s: %d records, %v", kind, len(got.Records), err)
		}
	}
}

func TestX11_OtherScopes(t *testing.T) {
	t.Parallel()
	here, there := bothWays(t, "x11-contract")
	here.put(t, "one")
	other := newClient(here.url, "x11-another")
	other.create(t, "s")
	foreign := other.put(t, "one")
	basin := other.write(t, http.MethodPatch, "/v1/basins/x11-another", map[string]any{"create_stream_on_read": true})
	for _, r := range []wire.Revision{foreign, basin} {
		for _, path := range []string{tailOfS, records("s") + "?seq_num=0", "/v1/streams/s", "/v1/streams", "/v1/basins/x11-contract"} {
			if a := there.get(t, path, minRevision, r.String()); a.status != 400 || !strings.Contains(a.body, "bad_header") {
				t.Errorf("%s with %s: %v", path, r, a)
			}
			mark := "?"
			if strings.Contains(path, "?") {
				mark = "&"
			}
			if a := there.get(t, path+mark+"min_revision="+url.QueryEscape(r.String())); a.status != 400 || !strings.Contains(a.body, "bad_query") {
				t.Errorf("%s with %s in the query: %v", path, r, a)
			}
		}
	}
	there.get(t, "/v1/basins/x11-another", minRevision, basin.String()).includes(t, basin)
	there.get(t, "/v1/basins", minRevision, basin.String()).includes(t, basin)
}
