package api_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/tenancy"
)

// quick frees names at once, when swept.
var quick = change{tenancy: func(o *tenancy.Options) { o.DeleteLinger = time.Millisecond }}

// sweep does the background work of deletions until a request is answered as wanted.
func (r *rig) sweepUntil(status int, method, path string) {
	r.t.Helper()
	eventually(r.t, method+" "+path, func() bool {
		if _, err := r.names.Sweep(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
		return r.do(method, path, nil).status == status
	})
}

func TestBL081_DeletionTouchesOnlyItsIncarnation(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick)
	r.create("s")
	r.want(r.append("s", fence("old")), 200, "")
	r.want(r.do("DELETE", "/v1/streams/s", nil), 202, "")
	r.sweepUntil(404, "GET", "/v1/streams/s")
	r.want(r.do("DELETE", "/v1/streams/s", nil), 404, "stream_not_found")
	r.create("s")
	// The handler knows the name under its old id; it looks again.
	r.want(r.append("s", `{"match_seq_num":0,"fencing_token":"","records":[{"body":"0"}]}`), 200, "")
	r.fill("s", 1, 9)
	for range 3 {
		if _, err := r.names.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got := r.records("s")
	if len(got) != 10 || got[9].Body != "9" {
		t.Errorf("records %v", got)
	}
}

func TestBL082_ARecreatedBasinIsEmpty(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick)
	for _, name := range []string{"a", "b", "c", "d"} {
		r.create(name)
		r.want(r.append(name, one), 200, "")
	}
	for _, name := range []string{"a", "b", "c"} {
		r.want(r.do("DELETE", "/v1/streams/"+name, nil), 202, "")
	}
	r.want(r.do("DELETE", "/v1/basins/"+basin, nil), 202, "")
	r.want(r.do("POST", "/v1/basins", []byte(`{"basin":"`+basin+`"}`)), 409, "basin_deletion_pending")
	r.want(r.do("PUT", "/v1/basins/"+basin, nil), 409, "basin_deletion_pending")
	r.want(r.do("PATCH", "/v1/basins/"+basin, []byte(`{}`)), 409, "basin_deletion_pending")
	r.want(r.do("POST", "/v1/streams", []byte(`{"stream":"e"}`)), 409, "basin_deletion_pending")
	r.want(r.do("DELETE", "/v1/basins/"+basin, nil), 202, "")
	if a := r.do("GET", "/v1/basins", nil); !strings.Contains(a.body, `"state":"deleting"`) || strings.Contains(a.body, `"deleted_at":null`) {
		t.Errorf("listed as %s", a.body)
	}
	r.sweepUntil(404, "GET", "/v1/basins/"+basin)
	r.want(r.append("d", one), 404, "basin_not_found")
	r.want(r.do("GET", "/v1/streams", nil), 404, "basin_not_found")
	r.want(r.do("POST", "/v1/basins", []byte(`{"basin":"`+basin+`"}`)), 201, "")
	if got := r.list("/v1/streams", ""); len(got) != 0 {
		t.Errorf("listed %q", got)
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		r.create(name)
		r.want(r.append(name, `{"match_seq_num":0,"records":[{}]}`), 200, "")
	}
}

// A follower that trimming overtakes jumps forward and goes on.
func TestBL084_TrimUnderAReader(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	r.fill("s", 0, 50)
	f := r.follow("s", "seq_num=0")
	f.take(t, 1)
	for i := range 5 {
		r.want(r.append("s", trim(t, uint64(10*i+10)), with{"S2-Format", "base64"}), 200, "")
	}
	r.want(r.append("s", `{"records":[{"body":"last"}]}`), 200, "")
	next := uint64(0)
	for {
		e, err := f.Next()
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range e.Batch.Records {
			if rec.SeqNum < next {
				t.Fatalf("%d after %d", rec.SeqNum, next)
			}
			next = rec.SeqNum + 1
			if string(rec.Body) == "last" {
				return
			}
		}
	}
}

const defaults = `{"storage_class":"express","retention_policy":{"age":604800},"timestamping":{"mode":"client-prefer","uncapped":false},"delete_on_empty":{"min_age_secs":0}}`

func TestBL086_RetentionIsNeverAnAccident(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, c := range map[string]struct{ config, want string }{
		"none": {`{}`, `{"age":604800}`}, "infinite": {`{"retention_policy":{"infinite":{}}}`, `{"infinite":{}}`},
		"one": {`{"retention_policy":{"age":1}}`, `{"age":1}`}, "null": {`{"retention_policy":null}`, `{"age":604800}`},
	} {
		r.want(r.do("POST", "/v1/streams", []byte(`{"stream":"`+name+`","config":`+c.config+`}`)), 201, "")
		if a := r.do("GET", "/v1/streams/"+name, nil); !strings.Contains(a.body, `"retention_policy":`+c.want) {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	const zero = `{"retention_policy":{"age":0}}`
	r.want(r.do("POST", "/v1/streams", []byte(`{"stream":"zero","config":`+zero+`}`)), 422, "invalid")
	r.want(r.do("PUT", "/v1/streams/zero", []byte(zero)), 422, "invalid")
	r.want(r.do("PATCH", "/v1/streams/one", []byte(zero)), 422, "invalid")
	r.want(r.do("POST", "/v1/basins", []byte(`{"basin":"basin-zero","config":{"default_stream_config":`+zero+`}}`)), 422, "invalid")
	r.want(r.do("PUT", "/v1/basins/basin-zero", []byte(`{"config":{"default_stream_config":`+zero+`}}`)), 422, "invalid")
	r.want(r.do("PATCH", "/v1/basins/"+basin, []byte(`{"default_stream_config":`+zero+`}`)), 422, "invalid")
	for _, bad := range []string{`{"age":1,"infinite":{}}`, `{}`, `"infinite"`, `{"age":null}`, `{"age":-1}`, `{"age":1.5}`} {
		r.want(r.do("PUT", "/v1/streams/zero", []byte(`{"retention_policy":`+bad+`}`)), 400, "bad_json")
	}
	r.want(r.do("GET", "/v1/streams/zero", nil), 404, "stream_not_found")
	r.want(r.do("GET", "/v1/basins/basin-zero", nil), 404, "basin_not_found")
}

// Absent, null, zero and a value, in every way to write a config, on a basin whose defaults differ from the system's.
func TestBL089_AbsentNullZeroAndValue(t *testing.T) {
	t.Parallel()
	const basinDefaults = `{"default_stream_config":{"storage_class":"standard","retention_policy":{"age":60},` +
		`"timestamping":{"mode":"arrival","uncapped":true},"delete_on_empty":{"min_age_secs":30}}}`
	const inherited = `{"storage_class":"standard","retention_policy":{"age":60},"timestamping":{"mode":"arrival","uncapped":true},"delete_on_empty":{"min_age_secs":30}}`
	const own = `{"storage_class":"express","retention_policy":{"infinite":{}},"timestamping":{"mode":"client-require","uncapped":false},"delete_on_empty":{"min_age_secs":7}}`
	with := func(base, key, value string) string {
		m := map[string]json.RawMessage{}
		if err := json.Unmarshal([]byte(base), &m); err != nil {
			t.Fatal(err)
		}
		m[key] = json.RawMessage(value)
		b, _ := json.Marshal(m)
		return string(b)
	}
	r := newRig(t)
	r.want(r.do("PATCH", "/v1/basins/"+basin, []byte(basinDefaults)), 200, "")
	n := 0
	for _, c := range []struct{ change, created, patched string }{
		{`{}`, inherited, own},
		{`{"delete_on_empty":null}`, inherited, with(own, "delete_on_empty", `{"min_age_secs":30}`)},
		{`{"delete_on_empty":{}}`, "", own},
		{`{"delete_on_empty":{"min_age_secs":0}}`, with(inherited, "delete_on_empty", `{"min_age_secs":0}`), with(own, "delete_on_empty", `{"min_age_secs":0}`)},
		{`{"delete_on_empty":{"min_age_secs":9}}`, with(inherited, "delete_on_empty", `{"min_age_secs":9}`), with(own, "delete_on_empty", `{"min_age_secs":9}`)},
		{`{"retention_policy":null}`, inherited, with(own, "retention_policy", `{"age":60}`)},
		{`{"retention_policy":{"age":9}}`, with(inherited, "retention_policy", `{"age":9}`), with(own, "retention_policy", `{"age":9}`)},
		{`{"storage_class":null}`, inherited, with(own, "storage_class", `"standard"`)},
		{`{"storage_class":"express"}`, with(inherited, "storage_class", `"express"`), own},
		{`{"timestamping":null}`, inherited, with(own, "timestamping", `{"mode":"arrival","uncapped":true}`)},
		{`{"timestamping":{}}`, inherited, own},
		{`{"timestamping":{"mode":null}}`, inherited, with(own, "timestamping", `{"mode":"arrival","uncapped":false}`)},
		{`{"timestamping":{"uncapped":null}}`, inherited, with(own, "timestamping", `{"mode":"client-require","uncapped":true}`)},
		{`{"timestamping":{"uncapped":false}}`, with(inherited, "timestamping", `{"mode":"arrival","uncapped":false}`), own},
		{`{"timestamping":{"mode":"client-prefer"}}`, with(inherited, "timestamping", `{"mode":"client-prefer","uncapped":true}`), with(own, "timestamping", `{"mode":"client-prefer","uncapped":false}`)},
	} {
		n++
		posted, put, patched := fmt.Sprint("post", n), fmt.Sprint("put", n), fmt.Sprint("patch", n)
		if c.created != "" {
			r.want(r.do("POST", "/v1/streams", []byte(`{"stream":"`+posted+`","config":`+c.change+`}`)), 201, "")
			r.sameConfig(posted, c.created)
			// A PUT replaces: what it leaves out goes back to the default, whatever was there.
			r.want(r.do("POST", "/v1/streams", []byte(`{"stream":"`+put+`","config":`+own+`}`)), 201, "")
			r.want(r.do("PUT", "/v1/streams/"+put, []byte(c.change)), 200, "")
			r.sameConfig(put, c.created)
		}
		r.want(r.do("POST", "/v1/streams", []byte(`{"stream":"`+patched+`","config":`+own+`}`)), 201, "")
		a := r.want(r.do("PATCH", "/v1/streams/"+patched, []byte(c.change)), 200, "")
		sameJSON(t, a.body, c.patched)
		r.sameConfig(patched, c.patched)
	}
	// A basin's own nulls unset, and what exists keeps what it had.
	r.want(r.do("PATCH", "/v1/basins/"+basin, []byte(`{"default_stream_config":{"timestamping":{"mode":null},"retention_policy":null}}`)), 200, "")
	a := r.do("GET", "/v1/basins/"+basin, nil)
	sameJSON(t, a.body, `{"default_stream_config":{"storage_class":"standard","retention_policy":null,"timestamping":{"mode":null,"uncapped":true},"delete_on_empty":{"min_age_secs":30}},"stream_cipher":null,"create_stream_on_append":false,"create_stream_on_read":false}`)
	r.sameConfig("post1", inherited)
	a = r.want(r.do("PATCH", "/v1/basins/"+basin, []byte(`{"default_stream_config":null,"create_stream_on_append":true}`)), 200, "")
	sameJSON(t, a.body, `{"default_stream_config":null,"stream_cipher":null,"create_stream_on_append":true,"create_stream_on_read":false}`)
	r.create("plain")
	r.sameConfig("plain", defaults)
	for _, bad := range []string{`{"create_stream_on_append":null}`, `{"create_stream_on_read":1}`, `[]`, `null`, ``, `{"default_stream_config":{"storage_class":"fast"}}`} {
		r.want(r.do("PATCH", "/v1/basins/"+basin, []byte(bad)), 400, "bad_json")
	}
}

func (r *rig) sameConfig(stream, want string) {
	r.t.Helper()
	sameJSON(r.t, r.want(r.do("GET", "/v1/streams/"+stream, nil), 200, "").body, want)
}

func sameJSON(t testing.TB, got, want string) {
	t.Helper()
	if a, b := decode[any](t, got), decode[any](t, want); !reflect.DeepEqual(a, b) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestBL090_CreationIsIdempotentByItsToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	x, y := with{"S2-Request-Token", "x"}, with{"S2-Request-Token", "y"}
	body := []byte(`{"stream":"s","config":{"retention_policy":{"age":60}}}`)
	result := func(a answer, status int, outcome string) answer {
		t.Helper()
		if r.want(a, status, ""); a.header.Get("S2-Provision-Result") != outcome {
			t.Errorf("outcome %q, want %q", a.header.Get("S2-Provision-Result"), outcome)
		}
		return a
	}
	first := result(r.do("POST", "/v1/streams", body, x), 201, "created")
	again := result(r.do("POST", "/v1/streams", body, x), 201, "noop")
	if first.body != again.body {
		t.Errorf("a replay answers %s, not %s", again.body, first.body)
	}
	result(r.do("PUT", "/v1/streams/s", []byte(`{"retention_policy":{"age":61}}`)), 200, "updated")
	result(r.do("PUT", "/v1/streams/s", []byte(`{"retention_policy":{"age":61}}`)), 200, "noop")
	result(r.do("POST", "/v1/streams", body, x), 201, "noop")
	r.want(r.do("POST", "/v1/streams", body, y), 409, "resource_already_exists")
	r.want(r.do("POST", "/v1/streams", body), 409, "resource_already_exists")
	r.want(r.do("POST", "/v1/streams", []byte(`{"stream":"s"}`), x), 409, "resource_already_exists")
	result(r.do("PUT", "/v1/streams/new", nil), 201, "created")
	r.want(r.do("POST", "/v1/streams", []byte(`{"stream":"new"}`), x), 409, "resource_already_exists")
	r.want(r.do("POST", "/v1/streams", body, with{"S2-Request-Token", strings.Repeat("x", 37)}), 400, "bad_header")

	other := []byte(`{"basin":"basin-test-02"}`)
	result(r.do("POST", "/v1/basins", other, x), 201, "created")
	result(r.do("POST", "/v1/basins", other, x), 201, "noop")
	r.want(r.do("POST", "/v1/basins", other, y), 409, "resource_already_exists")
	result(r.do("PUT", "/v1/basins/basin-test-02", []byte(`{"config":{"create_stream_on_read":true}}`)), 200, "updated")
	result(r.do("PUT", "/v1/basins/basin-test-02", []byte(`{"config":{"create_stream_on_read":true}}`)), 200, "noop")
	result(r.do("PUT", "/v1/basins/basin-test-02", nil), 200, "updated")
	a := result(r.do("PUT", "/v1/basins/basin-test-03", []byte(`null`)), 201, "created")
	for _, key := range []string{`"name":"basin-test-03"`, `"location":null`, `"deleted_at":null`, `"state":"active"`} {
		if !strings.Contains(a.body, key) {
			t.Errorf("%s is not in %s", key, a.body)
		}
	}
	r.want(r.do("DELETE", "/v1/streams/s", nil), 202, "")
	r.want(r.do("POST", "/v1/streams", body, x), 409, "stream_deletion_pending")
}

// A body that may be left out, in all the ways to leave it out.
func TestOptionalBodies(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, c := range []struct {
		media, body string
		status      int
	}{
		{"", "", 201}, {"", `{"retention_policy":{"age":0}}`, 201}, {"application/json", "", 201}, {"application/json", " null ", 201},
		{"application/json; charset=utf-8", "{}", 201}, {"application/merge-patch+json", "{}", 201},
		{"text/plain", "{}", 400}, {"application/json", "{", 400},
	} {
		q := r.request(t.Context(), "PUT", fmt.Sprintf("/v1/streams/s%d", i), strings.NewReader(c.body), with{"Content-Type", c.media})
		if a := r.send(q); a.status != c.status || c.status == 400 && a.code() != "bad_json" {
			t.Errorf("%+v: %d %s", c, a.status, a.body)
		}
	}
}

func TestBL146_ABurstOfDeletionsIsFinished(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick)
	const n = 300
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			for i := w; i < n; i += 6 {
				r.create(fmt.Sprint("s", i))
				r.want(r.do("DELETE", fmt.Sprint("/v1/streams/s", i), nil), 202, "")
			}
		})
	}
	wg.Wait()
	eventually(t, "all are gone", func() bool {
		if _, err := r.names.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		return len(r.list("/v1/streams", "")) == 0
	})
}
