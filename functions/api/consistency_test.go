package api_test

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/functions/api"
	"github.com/tailrace-streams/tailrace/wire"
)

func atLeast(r wire.Revision) with { return with{wire.HeaderMinRevision, r.String()} }

var eventual = with{wire.HeaderConsistency, wire.ConsistencyEventual}

// storeReads are the calls to heads and table that read.
func (r *rig) storeReads() map[string]int {
	counts := r.heads.Counts()
	maps.DeleteFunc(counts, func(op string, _ int) bool { return op != "Load" && op != "Get" && op != "List" })
	return counts
}

// costs are the store reads that a call makes.
func (r *rig) costs(call func()) string {
	before := r.storeReads()
	call()
	after := r.storeReads()
	for op, n := range before {
		if after[op] -= n; after[op] == 0 {
			delete(after, op)
		}
	}
	return fmt.Sprint(after)
}

// reads are the endpoints that show a stream, with the statuses of one that has records.
var reads = []struct{ name, path, contentType, accept string }{
	{"read", "/v1/streams/s/records?seq_num=0", "", ""},
	{"check-tail", "/v1/streams/s/records/tail", "", ""},
	{"events", "/v1/streams/s/records?seq_num=0&count=1", "", "text/event-stream"},
	{"session", "/v1/streams/s/records?seq_num=0&count=1", wire.MediaS2S, ""},
	{"config", "/v1/streams/s", "", ""},
}

const appendOne = `{"records":[{"body":"x"}]}`

// A read demands the write that another instance took, and gets it, by header and by parameter; the answer names a state
// that has it. That costs one load, however the read is made; from memory it costs none.
func TestX7MinRevisionOnAnotherInstance(t *testing.T) {
	t.Parallel()
	rigs := instances(t, 2)
	rigs[0].create("s")
	for _, read := range reads {
		for _, consistency := range []with{{wire.HeaderConsistency, wire.ConsistencyStrong}, eventual} {
			headers := []with{consistency, {"Content-Type", read.contentType}, {"Accept", read.accept}}
			written := rigs[0].append("s", appendOne).revision(t)
			cost := rigs[1].costs(func() {
				a := rigs[1].do("GET", read.path, nil, append(headers, atLeast(written))...)
				if got := a.revision(t); a.status != 200 || got.Incarnation != written.Incarnation || got.Version < written.Version {
					t.Errorf("%s, %s: %d, names %s, demanded %s", read.name, consistency.value, a.status, got, written)
				}
			})
			if want := "map[Load:1]"; cost != want && cost != "map[Get:1 Load:1]" { // the name may be new here
				t.Errorf("%s, %s: costs %s, want %s", read.name, consistency.value, cost, want)
			}
			if consistency != eventual {
				continue
			}
			cost = rigs[1].costs(func() {
				for range 5 {
					a := rigs[1].do("GET", read.path, nil, append(headers, atLeast(written))...)
					if got := a.revision(t); a.status != 200 || got.Version < written.Version {
						t.Errorf("%s again: %d, names %s, demanded %s", read.name, a.status, got, written)
					}
					if age, err := strconv.Atoi(a.header.Get(wire.HeaderAgeMs)); err != nil || age < 0 || age > 5000 {
						t.Errorf("%s again: the age is %q", read.name, a.header.Get(wire.HeaderAgeMs))
					}
				}
			})
			if cost != "map[]" {
				t.Errorf("%s again costs %s", read.name, cost)
			}
		}
		written := rigs[0].append("s", appendOne).revision(t)
		mark := "?"
		if strings.Contains(read.path, "?") {
			mark = "&"
		}
		a := rigs[1].do("GET", read.path+mark+"min_revision="+strings.NewReplacer("/", "%2F", "@", "%40").Replace(written.String()), nil,
			with{"Content-Type", read.contentType}, with{"Accept", read.accept})
		if got := a.revision(t); a.status != 200 || got.Version < written.Version {
			t.Errorf("%s by parameter: %d, names %s, demanded %s", read.name, a.status, got, written)
		}
	}
}

// A read that asks for nothing names nothing, and costs what it always did.
func TestX4ReadsWithoutAreUnchanged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	r.append("s", appendOne)
	for _, read := range append(reads, struct{ name, path, contentType, accept string }{"listing", "/v1/streams", "", ""},
		struct{ name, path, contentType, accept string }{"basin", "/v1/basins/" + basin, "", ""},
		struct{ name, path, contentType, accept string }{"basins", "/v1/basins", "", ""}) {
		want := map[string]string{
			"config": "map[Get:1 Load:1]", "listing": "map[Get:1 List:1]", "basin": "map[Get:1]", "basins": "map[List:1]",
		}[read.name]
		if want == "" {
			want = "map[Load:1]"
		}
		var a answer
		cost := r.costs(func() {
			a = r.do("GET", read.path, nil, with{"Content-Type", read.contentType}, with{"Accept", read.accept})
		})
		if a.status != 200 || cost != want {
			t.Errorf("%s: %d, costs %s, want %s", read.name, a.status, cost, want)
		}
		for name := range a.header {
			if strings.HasPrefix(name, "Tailrace-") {
				t.Errorf("%s: the answer has %s", read.name, name)
			}
		}
	}
}

// A revision that is not reached is waited for as long as the read says, by default 5 s and at most 30, at the cost of few
// loads however many wait; then the answer is 412 with the revision there is.
func TestX3TheWaitIsBounded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		timeout string
		want    time.Duration
		loads   int // the most
	}{{"0", 0, 1}, {"300", 300 * time.Millisecond, 8}, {"", 5 * time.Second, 30}, {"99999999", 30 * time.Second, 130}} {
		synctest.Test(t, func(t *testing.T) {
			r := newBubbleRig(t)
			r.create("s")
			written := r.append("s", appendOne).revision(t)
			future := written
			future.Version += 1000
			for _, headers := range [][]with{{atLeast(future)}, {atLeast(future), eventual}} {
				if test.timeout != "" {
					headers = append(headers, with{wire.HeaderRevisionTimeoutMs, test.timeout})
				}
				before, begun := r.heads.Counts()["Load"], time.Now()
				answers := make(chan answer, 20)
				for range cap(answers) {
					go func() {
						answers <- r.send(r.request(t.Context(), "GET", "/v1/streams/s/records/tail", nil, headers...))
					}()
				}
				for range cap(answers) {
					if a := <-answers; a.status != http.StatusPreconditionFailed || a.body != `{"current_revision":"`+written.String()+`"}` {
						t.Fatalf("timeout %q: %d %s", test.timeout, a.status, a.body)
					}
				}
				if took := time.Since(begun); took != test.want {
					t.Errorf("timeout %q: took %v, want %v", test.timeout, took, test.want)
				}
				if loads := r.heads.Counts()["Load"] - before; loads > test.loads+cap(answers) {
					t.Errorf("timeout %q: %d loads", test.timeout, loads)
				}
			}
		})
	}
}

// A read that waits is woken by the write, and one whose client goes away ends.
func TestX2AWaitEndsWithTheWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newBubbleRig(t)
		r.create("s")
		next := r.append("s", appendOne).revision(t)
		next.Version++
		got := make(chan answer, 1)
		go func() { got <- r.do("GET", "/v1/streams/s/records?seq_num=1", nil, atLeast(next)) }()
		time.Sleep(time.Second)
		synctest.Wait()
		begun := time.Now()
		r.append("s", appendOne)
		a := <-got
		if a.status != 200 || a.revision(t).Version < next.Version || !strings.Contains(a.body, `"seq_num":1`) {
			t.Errorf("%d %s names %s", a.status, a.body, a.revision(t))
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("the write woke it after %v", took)
		}
	})
}

// What is demanded of the wrong thing, or in a wrong form, is 400; of an earlier life of the name 412 at once.
func TestX11ScopesAndForms(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	r.create("other")
	r.want(r.do("PUT", "/v1/basins/another-basin", nil), 201, "")
	own := r.append("s", appendOne).revision(t)
	of := func(change func(*wire.Revision)) string { c := own; change(&c); return c.String() }
	bad := map[string]string{
		"of another basin":  of(func(c *wire.Revision) { c.Basin = "another-basin" }),
		"of another stream": of(func(c *wire.Revision) { c.Stream = "other" }),
		"of the basin":      of(func(c *wire.Revision) { c.Stream = "" }),
		"no incarnation":    of(func(c *wire.Revision) { c.Incarnation = "x" }),
		"no revision":       "7", "empty": "",
	}
	for name, text := range bad {
		for _, read := range reads {
			headers := []with{{"Content-Type", read.contentType}, {"Accept", read.accept}}
			q := r.request(t.Context(), "GET", read.path, nil, headers...)
			q.Header.Set(wire.HeaderMinRevision, text)
			r.want(r.send(q), 400, "bad_header")
			q = r.request(t.Context(), "GET", read.path, nil, headers...)
			values := q.URL.Query()
			values.Set("min_revision", text)
			q.URL.RawQuery = values.Encode()
			r.want(r.send(q), 400, "bad_query")
			q.Header.Set(wire.HeaderMinRevision, own.String()) // the header wins
			if a := r.send(q); a.status != 200 && name != "empty" {
				t.Errorf("%s, %s: %d %s", name, read.name, a.status, a.body)
			}
		}
	}
	for _, path := range []string{"/v1/basins", "/v1/basins/" + basin} {
		r.want(r.do("GET", path, nil, atLeast(own)), 400, "bad_header")
	}
	foreign := r.do("PUT", "/v1/basins/another-basin", nil).revision(t)
	r.want(r.do("GET", "/v1/basins/"+basin, nil, atLeast(foreign)), 400, "bad_header")
	r.want(r.do("GET", "/v1/streams", nil, atLeast(foreign)), 400, "bad_header")
	for _, header := range []with{{wire.HeaderConsistency, "weak"}, {wire.HeaderRevisionTimeoutMs, "1s"}, {wire.HeaderMaxAgeMs, "-1"}, {wire.HeaderMaxAgeMs, "5"}} {
		for _, read := range reads {
			r.want(r.do("GET", read.path, nil, with{"Content-Type", read.contentType}, with{"Accept", read.accept}, header), 400, "bad_header")
		}
		for _, path := range []string{"/v1/streams", "/v1/basins", "/v1/basins/" + basin} {
			r.want(r.do("GET", path, nil, header), 400, "bad_header")
		}
	}
}

// A deletion has a revision above everything before it, and once the name has another life, a revision of the first is
// refused at once: neither waited for, nor answered from the second.
func TestX9DeletionsAndEarlierLives(t *testing.T) {
	t.Parallel()
	rigs := instances(t, 2)
	rigs[0].create("s")
	written := rigs[0].append("s", appendOne).revision(t)
	tail := func(r *rig, headers ...with) answer {
		return r.do("GET", "/v1/streams/s/records/tail", nil, headers...)
	}
	if a := tail(rigs[1], eventual); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	deleted := rigs[0].do("DELETE", "/v1/streams/s", nil).revision(t)
	if deleted.Incarnation != written.Incarnation || deleted.Version <= written.Version {
		t.Errorf("the deletion is %s, behind %s", deleted, written)
	}
	// The other instance remembers the stream alive; a reader that knows of the deletion must not be shown that.
	rigs[1].want(tail(rigs[1], eventual, atLeast(deleted)), 409, "stream_deletion_pending")
	rigs[1].want(tail(rigs[1], eventual), 409, "stream_deletion_pending")
	listed := rigs[1].do("GET", "/v1/streams", nil, atLeast(deleted))
	if listed.status != 200 || !strings.Contains(listed.body, `"deleted_at":"`) {
		t.Errorf("%d %s", listed.status, listed.body)
	}
	var again answer
	eventually(t, "the name is free", func() bool {
		again = rigs[0].do("POST", "/v1/streams", []byte(`{"stream":"s"}`))
		return again.status == 201
	})
	second := again.revision(t)
	for i, r := range rigs {
		for _, old := range []wire.Revision{written, deleted} {
			for _, path := range []string{"/v1/streams/s/records/tail", "/v1/streams/s/records?seq_num=0&wait=5", "/v1/streams/s", "/v1/streams"} {
				for _, consistency := range []with{{wire.HeaderConsistency, wire.ConsistencyStrong}, eventual} {
					begun := time.Now()
					r.want(r.do("GET", path, nil, atLeast(old), consistency, with{wire.HeaderRevisionTimeoutMs, "30000"}), 412, "")
					if took := time.Since(begun); took > 4*time.Second {
						t.Errorf("instance %d took %v to refuse %s", i, took, old)
					}
				}
			}
			r.want(tail(r, atLeast(old)), 412, "")
			if a := tail(r, atLeast(old)); a.body != `{"current_revision":"`+second.String()+`"}` {
				t.Errorf("instance %d: %s, want %s", i, a.body, second)
			}
		}
		r.want(tail(r, atLeast(second), eventual), 200, "")
	}
}

// Same basin: a listing shows the creation or deletion that a revision names, wherever it was made, also where an older
// listing is remembered.
func TestX6ListingsAndConfigs(t *testing.T) {
	t.Parallel()
	rigs := instances(t, 2)
	list := func(headers ...with) answer { return rigs[1].do("GET", "/v1/streams", nil, headers...) }
	rigs[1].want(list(eventual), 200, "")
	created := rigs[0].do("POST", "/v1/streams", []byte(`{"stream":"a"}`)).revision(t)
	if cost := rigs[1].costs(func() {
		if a := list(eventual); a.status != 200 || strings.Contains(a.body, `"a"`) {
			t.Errorf("an old listing: %d %s", a.status, a.body)
		}
	}); cost != "map[]" {
		t.Errorf("an old listing costs %s", cost)
	}
	shows := func(want string, cost string, headers ...with) {
		t.Helper()
		if got := rigs[1].costs(func() {
			if a := list(headers...); a.status != 200 || !strings.Contains(a.body, want) {
				t.Errorf("%d %s, want %s", a.status, a.body, want)
			}
		}); got != cost {
			t.Errorf("the listing costs %s, want %s", got, cost)
		}
	}
	shows(`"name":"a"`, "map[Get:1 List:1]", eventual, atLeast(created))
	shows(`"name":"a"`, "map[]", eventual, atLeast(created))
	written := rigs[0].append("a", appendOne).revision(t)
	shows(`"name":"a"`, "map[Get:1 List:1]", atLeast(written))
	deleted := rigs[0].do("DELETE", "/v1/streams/a", nil).revision(t)
	shows(`"deleted_at":"`, "map[Get:1 List:1]", eventual, atLeast(deleted))
	shows(`"deleted_at":"`, "map[]", eventual, atLeast(deleted))
	shows(`"deleted_at":"`, "map[]", eventual, atLeast(written))

	// The basin itself.
	path := "/v1/basins/" + basin
	rigs[1].want(rigs[1].do("GET", path, nil, eventual), 200, "")
	rigs[1].want(rigs[1].do("GET", "/v1/basins", nil, eventual), 200, "")
	changed := rigs[0].do("PATCH", path, []byte(`{"create_stream_on_read":true}`)).revision(t)
	a := rigs[1].do("GET", path, nil, eventual)
	if a.status != 200 || a.revision(t).Version >= changed.Version {
		t.Errorf("an old config: %d, names %s, the change is %s", a.status, a.revision(t), changed)
	}
	for _, headers := range [][]with{{eventual, atLeast(changed)}, {atLeast(changed)}} {
		a = rigs[1].do("GET", path, nil, headers...)
		if a.revision(t).Version < changed.Version || !strings.Contains(a.body, `"create_stream_on_read":true`) {
			t.Errorf("%d %s names %s, demanded %s", a.status, a.body, a.revision(t), changed)
		}
		if a := rigs[1].do("GET", "/v1/basins", nil, headers...); a.status != 200 || a.revision(t).Version < changed.Version {
			t.Errorf("basins: %d %v, demanded %s", a.status, a.header, changed)
		}
		if a := list(headers...); a.status != 200 || a.revision(t).Version < changed.Version {
			t.Errorf("streams: %d %v, demanded %s", a.status, a.header, changed)
		}
	}
	future := changed
	future.Version += 9
	for _, path := range []string{path, "/v1/basins", "/v1/streams"} {
		r := rigs[1].do("GET", path, nil, atLeast(future), with{wire.HeaderRevisionTimeoutMs, "60"})
		rigs[1].want(r, 412, "")
		if !strings.Contains(r.body, changed.String()) {
			t.Errorf("%s: %s", path, r.body)
		}
	}
	gone := rigs[0].do("DELETE", path, nil).revision(t)
	if a := rigs[1].do("GET", "/v1/basins", nil, eventual, atLeast(gone)); a.status != 200 || !strings.Contains(a.body, `"deleted_at":"`) {
		t.Errorf("basins: %d %s", a.status, a.body)
	}
}

// What is remembered is as old as the server and the client allow, and no older.
func TestEventualReadsAreBoundedInAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newBubbleRig(t, change{api: func(o *api.Options) { o.MaxAge = 2 * time.Second }})
		r.create("s")
		tail := func(headers ...with) func() {
			return func() { r.want(r.do("GET", "/v1/streams/s/records/tail", nil, append(headers, eventual)...), 200, "") }
		}
		list := func() { r.want(r.do("GET", "/v1/streams", nil, eventual), 200, "") }
		r.tail("s") // so that the name is known
		for range 3 {
			if first, cost := r.costs(tail()), r.costs(list); first != "map[Load:1]" || cost != "map[Get:1 List:1]" {
				t.Errorf("the first reads cost %s and %s", first, cost)
			}
			time.Sleep(1900 * time.Millisecond)
			if cost := r.costs(tail()); cost != "map[]" {
				t.Errorf("young enough costs %s", cost)
			}
			if cost := r.costs(list); cost != "map[]" {
				t.Errorf("a listing that is young enough costs %s", cost)
			}
			a := r.do("GET", "/v1/streams/s/records/tail", nil, eventual)
			if age := a.header.Get(wire.HeaderAgeMs); age != "1900" {
				t.Errorf("the age is %q", age)
			}
			time.Sleep(200 * time.Millisecond)
		}
		tail()()
		time.Sleep(100 * time.Millisecond)
		if cost := r.costs(tail(with{wire.HeaderMaxAgeMs, "99"})); cost != "map[Load:1]" {
			t.Errorf("a client that wants it younger costs %s", cost)
		}
		if cost := r.costs(tail(with{wire.HeaderMaxAgeMs, "0"})); cost != "map[Load:1]" {
			t.Errorf("a client that wants it new costs %s", cost)
		}
		// What this process commits is remembered at once.
		r.append("s", appendOne)
		if cost := r.costs(func() {
			a := r.do("GET", "/v1/streams/s/records?seq_num=0", nil, eventual)
			r.want(a, 200, "")
		}); cost != "map[]" {
			t.Errorf("one's own write costs %s", cost)
		}
	})
}

// A read that waited for a record names a state that has it, so that whoever was shown it can demand it elsewhere: also
// when the record was handed over by the append itself, and the head was not looked at again.
func TestX8AWaitNamesWhatCame(t *testing.T) {
	t.Parallel()
	for _, alone := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newBubbleRig(t, change{coordinator: func(o *coordinator.Options) { o.Exclusive = alone }})
			r.create("s")
			before := r.append("s", appendOne).revision(t)
			got := make(chan answer, 1)
			go func() { got <- r.do("GET", "/v1/streams/s/records?seq_num=1&wait=30", nil, eventual) }()
			time.Sleep(time.Second)
			synctest.Wait()
			written := r.append("s", appendOne).revision(t)
			a := <-got
			if got := a.revision(t); a.status != 200 || !strings.Contains(a.body, `"seq_num":1`) || got.Version < written.Version {
				t.Errorf("alone %t: %d %s names %s; it was opened on %s and shows %s", alone, a.status, a.body, got, before, written)
			}
		})
	}
}

// Whoever waits for a revision of a basin is told when the server drains, as those are who wait for one of a stream.
func TestX3AWaitEndsWithTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newBubbleRig(t)
		r.create("s")
		stream := r.append("s", appendOne).revision(t)
		changed := r.do("PATCH", "/v1/basins/"+basin, []byte(`{"create_stream_on_read":true}`)).revision(t)
		stream.Version, changed.Version = stream.Version+9, changed.Version+9
		answers := make(chan answer, 2)
		for path, demanded := range map[string]wire.Revision{"/v1/basins/" + basin: changed, "/v1/streams/s/records/tail": stream} {
			go func() {
				answers <- r.send(r.request(t.Context(), "GET", path, nil, atLeast(demanded), with{wire.HeaderRevisionTimeoutMs, "30000"}))
			}()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		begun := time.Now()
		if err := r.streams.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range cap(answers) {
			r.want(<-answers, http.StatusServiceUnavailable, "server_draining")
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("they are told after %v", took)
		}
	})
}
