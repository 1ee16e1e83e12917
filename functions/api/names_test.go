package api_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestBL069_NamesAreMeasuredInBytes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	three := "日"
	r.create(strings.Repeat(three, 170))
	r.want(r.do("PUT", "/v1/streams/"+escape(strings.Repeat(three, 170)+"xx"), nil), 201, "")
	for _, long := range []string{strings.Repeat(three, 171), strings.Repeat("x", 513)} {
		r.want(r.do("PUT", "/v1/streams/"+escape(long), nil), 400, "bad_path")
		body, _ := json.Marshal(map[string]string{"stream": long})
		r.want(r.do("POST", "/v1/streams", body), 400, "bad_json")
		r.want(r.do("GET", "/v1/streams?prefix="+escape(long), nil), 400, "bad_query")
	}
	for name, ok := range map[string]bool{
		"abcdefg": false, "abcdefgh": true, strings.Repeat("a", 48): true, strings.Repeat("a", 49): false, "-abcdefg": false,
		"abcdefg-": false, "Abcdefgh": false, "abc_defg": false, "abcdefgü": false, "12345678": true,
	} {
		body, _ := json.Marshal(map[string]string{"basin": name})
		status, code := 201, ""
		if !ok {
			status, code = 400, "bad_json"
		}
		r.want(r.do("POST", "/v1/basins", body), status, code)
		if !ok {
			r.want(r.do("PUT", "/v1/basins/"+escape(name), nil), 400, "bad_path")
			r.want(r.do("GET", "/v1/streams", nil, with{"S2-Basin", name}), 400, "bad_header")
		}
	}
	r.want(r.do("DELETE", "/v1/access-tokens/"+strings.Repeat("x", 96), nil), 501, "not_implemented")
	r.want(r.do("DELETE", "/v1/access-tokens/"+strings.Repeat("x", 97), nil), 400, "bad_path")
}

// hardNames are names that routers, file systems and URLs like to change.
var hardNames = []string{
	"a/b", "a//b", "/a", "a/", "a%2Fb", "a b", "a+b", "ü/日本", "?x#y", "%", "%2e%2e", "../../etc/x", "a/../../b", `..\\x`,
	"...", "..a", "./x", " ", " 😀", "\t", "\r\n", "a;b", "a&b=c", "records", "records/tail", strings.Repeat("x", 512),
	strings.Repeat("日", 170), "\u007f", "a\u0301", "á", "%00", "{stream}", "*", "~", "'\"<>", "\ufeff",
}

func TestBL070_EachNameIsItsOwnStream(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, name := range hardNames {
		r.create(name)
	}
	for _, name := range hardNames {
		body, _ := json.Marshal(map[string]any{"records": []any{map[string]string{"body": name}}})
		r.want(r.append(name, string(body)), 200, "")
	}
	for _, name := range hardNames {
		got := r.records(name)
		if len(got) != 1 || got[0].Body != name {
			t.Errorf("%q holds %+v", name, got)
		}
		if tail := r.tail(name); tail != 1 {
			t.Errorf("%q has the tail %d", name, tail)
		}
		r.want(r.do("GET", "/v1/streams/"+escape(name), nil), 200, "")
	}
	want := slices.Sorted(slices.Values(hardNames))
	if got := r.list("/v1/streams", ""); !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	for _, name := range hardNames {
		r.want(r.do("DELETE", "/v1/streams/"+escape(name), nil), 202, "")
	}
}

// list gives all names of a listing, page by page.
func (r *rig) list(path, query string) (names []string) {
	r.t.Helper()
	for after := ""; ; {
		a := r.want(r.do("GET", path+"?"+query+"&start_after="+escape(after), nil), 200, "")
		page := decode[struct {
			Streams, Basins []struct{ Name string }
			HasMore         bool `json:"has_more"`
		}](r.t, a.body)
		for _, item := range append(page.Streams, page.Basins...) {
			names = append(names, item.Name)
		}
		if !page.HasMore {
			return names
		}
		after = names[len(names)-1]
	}
}

func TestBL071_NamesDoNotClimb(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, name := range []string{".", ".."} {
		for _, path := range []string{escape(name), strings.ToLower(escape(name))} {
			r.want(r.do("PUT", "/v1/streams/"+path, nil), 400, "bad_path")
			r.want(r.do("POST", "/v1/streams/"+path+"/records", []byte(one)), 400, "bad_path")
		}
		body, _ := json.Marshal(map[string]string{"stream": name})
		r.want(r.do("POST", "/v1/streams", body), 400, "bad_json")
	}
	// Literal segments are never resolved, nor redirected.
	for _, path := range []string{
		"/v1/streams/../basins", "/v1/streams/..", "/v1/streams/.", "/v1/./basins", "/../v1/basins", "/..", "/v1/streams/../records",
	} {
		a := r.raw("GET "+path+" HTTP/1.1\r\nHost: x\r\nS2-Basin: "+basin+"\r\n\r\n", false)
		if a != "400 Bad Request" {
			t.Errorf("%s: %s", path, a)
		}
	}
	for _, path := range []string{"/v1//streams", "//v1/streams", "/v1/streams/", "/v1/basins/", "/v1/streams//records", "/", "/v1", "/v2/basins", "/V1/basins"} {
		a := r.raw("GET "+path+" HTTP/1.1\r\nHost: x\r\nS2-Basin: "+basin+"\r\n\r\n", false)
		if a != "404 Not Found" {
			t.Errorf("%s: %s", path, a)
		}
	}
}

func TestBL073_LongNamesWork(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, name := range []string{strings.Repeat("x", 512), strings.Repeat("日", 170)} {
		r.create(name)
		r.want(r.append(name, `{"records":[{"body":"`+strings.Repeat("y", 300<<10)+`"}]}`), 200, "")
		if got := r.records(name); len(got) != 1 {
			t.Errorf("records %d", len(got))
		}
		if got := r.list("/v1/streams", "prefix="+escape(name)); len(got) != 1 {
			t.Errorf("listed %q", got)
		}
		r.want(r.do("DELETE", "/v1/streams/"+escape(name), nil), 202, "")
	}
}

func TestNamesThatAreNotText(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, name := range []string{"%00", "a%00b", "%ff", "%c3", "%ed%a0%80"} {
		r.want(r.do("PUT", "/v1/streams/"+name, nil), 400, "bad_path")
		r.want(r.do("GET", "/v1/streams?prefix="+name, nil), 400, "bad_query")
	}
	for _, body := range []string{`{"stream":"\u0000"}`, `{"stream":"\ud800"}`, "{\"stream\":\"\xff\"}"} {
		r.want(r.do("POST", "/v1/streams", []byte(body)), 400, "bad_json")
	}
	if got := r.list("/v1/streams", ""); len(got) != 0 {
		t.Errorf("made %q", got)
	}
}

func TestBL076_PrefixAndStartAfter(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, name := range []string{"prod-1", "staging-1", "staging-2"} {
		r.create(name)
	}
	for query, want := range map[string]string{
		"prefix=staging-&start_after=prod-api":  "[staging-1 staging-2]",
		"prefix=staging-&start_after=staging-1": "[staging-2]",
		"prefix=staging-&start_after=zzz":       "[]",
		"prefix=prod-&start_after=staging-1":    "[]",
		"prefix=staging-&start_after=staging-":  "[staging-1 staging-2]",
		"":                                      "[prod-1 staging-1 staging-2]",
	} {
		a := r.want(r.do("GET", "/v1/streams?"+query, nil), 200, "")
		if got := fmt.Sprint(names(t, a.body)); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

func names(t testing.TB, body string) []string {
	t.Helper()
	got := []string{}
	for _, s := range decode[struct{ Streams []struct{ Name string } }](t, body).Streams {
		got = append(got, s.Name)
	}
	return got
}

// basinNames is names of a listing of basins.
func basinNames(t testing.TB, body string) []string {
	t.Helper()
	got := []string{}
	for _, b := range decode[struct{ Basins []struct{ Name string } }](t, body).Basins {
		got = append(got, b.Name)
	}
	return got
}

func TestBL077_HasMoreIsExact(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < 1000; i += 8 {
				r.create(fmt.Sprintf("s%04d", i))
			}
		})
	}
	wg.Wait()
	for query, want := range map[string]struct {
		n    int
		more bool
	}{
		"limit=1000": {1000, false}, "": {1000, false}, "limit=0": {1000, false}, "limit=1001": {1000, false},
		"limit=999": {999, true}, "limit=1": {1, true}, "limit=1&start_after=s0998": {1, false}, "limit=1&start_after=s0999": {0, false},
		"limit=100&prefix=s00": {100, false}, "limit=99&prefix=s00": {99, true},
	} {
		a := r.want(r.do("GET", "/v1/streams?"+query, nil), 200, "")
		page := decode[struct {
			HasMore bool `json:"has_more"`
		}](t, a.body)
		if got := len(names(t, a.body)); got != want.n || page.HasMore != want.more {
			t.Errorf("%s: %d, %v", query, got, page.HasMore)
		}
	}
	for i := 0; i < 1000; i += 2 {
		r.want(r.do("DELETE", fmt.Sprintf("/v1/streams/s%04d", i), nil), 202, "")
	}
	if got := r.list("/v1/streams", "limit=7"); len(got) != 1000 || !slices.IsSorted(got) {
		t.Errorf("%d names, of which half are being deleted", len(got))
	}
	for _, bad := range []string{"limit=", "limit=-1", "limit=x", "limit=1.5", "limit=1&limit=2"} {
		r.want(r.do("GET", "/v1/streams?"+bad, nil), 400, "bad_query")
		r.want(r.do("GET", "/v1/basins?"+bad, nil), 400, "bad_query")
	}
	for _, bad := range []string{"prefix=-a", "prefix=A", "start_after=a_b", "prefix=" + strings.Repeat("a", 49)} {
		r.want(r.do("GET", "/v1/basins?"+bad, nil), 400, "bad_query")
	}
	a := r.want(r.do("GET", "/v1/basins?prefix=basin-", nil), 200, "")
	if !strings.Contains(a.body, `"has_more":false`) {
		t.Errorf("got %s", a.body)
	}
}

func TestBL079_ReadYourWrites(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 100 {
		name := fmt.Sprint("s", i)
		r.create(name)
		r.want(r.do("GET", "/v1/streams/"+name, nil), 200, "")
		if got := r.list("/v1/streams", "prefix="+name+"&limit=1"); len(got) == 0 || got[0] != name {
			t.Fatalf("listed %q", got)
		}
		if tail := r.tail(name); tail != 0 {
			t.Fatalf("tail %d", tail)
		}
		r.want(r.do("PATCH", "/v1/streams/"+name, []byte(`{"retention_policy":{"age":5}}`)), 200, "")
		if a := r.do("GET", "/v1/streams/"+name, nil); !strings.Contains(a.body, `{"age":5}`) {
			t.Fatalf("config %s", a.body)
		}
	}
}
