package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tailrace-streams/tailrace/functions/api"
	"github.com/tailrace-streams/tailrace/tenancy"
)

// at is a rig in a location.
func at(location string) change {
	return change{api: func(o *api.Options) { o.Location = location }, tenancy: func(o *tenancy.Options) { o.Location = location }}
}

func TestLocations(t *testing.T) {
	t.Parallel()
	r := newRig(t, at("aws:eu-north-1"))
	const here = `{"name":"aws:eu-north-1","is_private":false}`
	for path, want := range map[string]string{"/v1/locations": "[" + here + "]", "/v1/locations/default": here} {
		if a := r.do("GET", path, nil); a.status != 200 || a.body != want {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := r.do("PUT", "/v1/locations/default", []byte(`"aws:eu-north-1"`)); a.status != 200 || a.body != here {
		t.Errorf("set to itself: %d %s", a.status, a.body)
	}
	for body, code := range map[string]string{
		`"aws:us-east-1"`: "invalid", `"AWS:eu-north-1"`: "invalid", `""`: "bad_json", `"a b"`: "bad_json", `null`: "bad_json",
		`{"name":"aws:eu-north-1"}`: "bad_json", `["aws:eu-north-1"]`: "bad_json", `"`: "bad_json", ``: "bad_json",
		`"` + strings.Repeat("a", 65) + `"`: "bad_json",
	} {
		if a := r.do("PUT", "/v1/locations/default", []byte(body)); a.code() != code || a.header.Get("Tailrace-Applied") != "no" {
			t.Errorf("set to %s: %d %s", body, a.status, a.body)
		}
	}
	r.want(r.do("DELETE", "/v1/locations/default", nil), http.StatusMethodNotAllowed, "")
}

// A basin is in the one location, whether its creator names it or not, and nowhere else, ever.
func TestBasinsAreInTheLocation(t *testing.T) {
	t.Parallel()
	r := newRig(t, at("one"))
	shown := func(a answer, status int) {
		t.Helper()
		if r.want(a, status, ""); !strings.Contains(a.body, `"location":"one"`) {
			t.Errorf("the answer is %s", a.body)
		}
	}
	shown(r.do("POST", "/v1/basins", []byte(`{"basin":"unplaced-1"}`)), 201)
	shown(r.do("POST", "/v1/basins", []byte(`{"basin":"placed-one","location":"one"}`)), 201)
	shown(r.do("PUT", "/v1/basins/ensured-1", nil), 201)
	shown(r.do("PUT", "/v1/basins/ensured-2", []byte(`{"location":"one"}`)), 201)
	shown(r.do("PUT", "/v1/basins/ensured-2", []byte(`{"location":"one"}`)), 200)
	shown(r.do("GET", "/v1/basins?prefix=ensured", nil), 200)
	r.want(r.do("POST", "/v1/basins", []byte(`{"basin":"elsewhere-1","location":"two"}`)), 422, "invalid")
	r.want(r.do("PUT", "/v1/basins/elsewhere-1", []byte(`{"location":"two"}`)), 422, "invalid")
	r.want(r.do("GET", "/v1/basins/elsewhere-1", nil), 404, "basin_not_found")
	a := r.want(r.do("PUT", "/v1/basins/ensured-2", []byte(`{"location":"two","config":{"create_stream_on_append":true}}`)), 422, "invalid")
	if !strings.Contains(a.body, "two") {
		t.Errorf("it does not say what is wrong: %s", a.body)
	}
	if a := r.do("GET", "/v1/basins/ensured-2", nil); strings.Contains(a.body, `"create_stream_on_append":true`) {
		t.Errorf("the refused request changed the config: %s", a.body)
	}
	// The operator gives the location another name: what is there keeps its own.
	renamed := newRig(t, at("two"), change{share: r})
	shown(renamed.do("PUT", "/v1/basins/ensured-2", []byte(`{"location":"one"}`)), 200)
	shown(renamed.do("PUT", "/v1/basins/ensured-2", nil), 200)
	renamed.want(renamed.do("PUT", "/v1/basins/ensured-2", []byte(`{"location":"two"}`)), 422, "invalid")
	renamed.want(renamed.do("PUT", "/v1/basins/fresh-one", []byte(`{"location":"one"}`)), 422, "invalid")
}
