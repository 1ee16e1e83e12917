package api_test

import (
	"net/http"
	"testing"

	"github.com/tailrace-streams/tailrace/wire"
)

// A listing of basins that is remembered says nothing of who asked for it before: neither to a token that may not read the
// basin which was demanded then, nor to one that demands nothing.
func TestListingsForgetWhatWasDemanded(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens)
	demanded := r.want(r.do("PUT", "/v1/basins/team-one-secret", nil), http.StatusCreated, "").revision(t)
	const ops = `"op_groups":{"account":{"read":true}}`
	all := r.issue("all", `{`+ops+`,"basins":{"prefix":""}}`, false)
	// Both list by the same prefix and get one name at most, of which the second sees none.
	for name, token := range map[string]string{
		"exact":     r.issue("exact", `{`+ops+`,"basins":{"exact":"team-one"}}`, false),
		"elsewhere": r.issue("elsewhere", `{`+ops+`,"basins":{"prefix":"other-"}}`, false),
		"all":       all,
	} {
		const path = "/v1/basins?prefix=team-one&limit=1"
		a := r.want(r.do("GET", path, nil, bearer(all), eventual, atLeast(demanded)), http.StatusOK, "")
		if got := a.revision(t); got != demanded {
			t.Fatalf("%s: the listing that demands %s names %s", name, demanded, got)
		}
		a = r.want(r.do("GET", path, nil, bearer(token), eventual), http.StatusOK, "")
		if got := a.header.Values(wire.HeaderRevision); len(got) > 0 {
			t.Errorf("%s: a listing that demands nothing names %q", name, got)
		}
	}
}
