package api_test

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace-streams/tailrace/wire"
)

// Without a good token nothing is answered but what is public, and never with an empty 200 (BL-137).
func TestBL137_NoTokenNoAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens)
	r.create("s")
	good := r.issue("good", `{"op_groups":{"account":{"read":true}},"basins":{"prefix":""}}`, false)
	for name, values := range map[string][]string{
		"none": {}, "empty": {""}, "no scheme": {rootToken}, "lower-case scheme": {"bearer " + rootToken}, "another scheme": {"Basic " + rootToken},
		"no token": {"Bearer "}, "two": {"Bearer " + rootToken, "Bearer " + rootToken}, "garbage": {"Bearer \x80\xff"}, "a list": {"Bearer " + rootToken + ", Bearer x"},
		"a prefix": {"Bearer " + rootToken[:10]}, "more": {"Bearer " + rootToken + "x"}, "a blank more": {"Bearer  " + rootToken},
		"another secret": {"Bearer " + good[:len(good)-8] + "AAAAAAAA"}, "a long one": {"Bearer tr_" + strings.Repeat("A", 8000)},
	} {
		for _, target := range [][2]string{
			{"GET", "/v1/streams"}, {"GET", "/v1/basins"}, {"POST", "/v1/streams/s/records"}, {"GET", "/v1/streams/s/records"}, {"GET", "/v1/metrics"}, {"GET", "/metrics"},
			{"GET", "/v1/nothing"}, {"GET", "/"}, {"BREW", "/v1/basins"}, {"GET", "/health/"}, {"GET", "//health"}, {"GET", "/v1/access-tokens"}, {"PUT", "/v1/streams/s/fence"},
		} {
			before := r.reads()
			q := r.request(t.Context(), target[0], target[1], nil, with{"Authorization", ""}, with{"Accept", wire.MediaSSE})
			q.Header["Authorization"] = values
			a := r.send(q)
			if r.want(a, http.StatusUnauthorized, "authn"); a.header.Get("Tailrace-Applied") != "no" || a.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s, %v: %v", name, target, a.header)
			}
			if n := r.reads() - before; n > 1 || n == 1 && name != "another secret" {
				t.Errorf("%s, %v: %d reads for nothing", name, target, n)
			}
		}
	}
	for _, path := range []string{"/health", "/ping", "/ready"} {
		r.want(r.do("GET", path, nil, bearer("")), http.StatusOK, "")
	}
	r.want(r.do("GET", "/v1/basins", nil, bearer(good)), http.StatusOK, "")
	r.want(r.do("GET", "/metrics", nil, bearer(good)), http.StatusForbidden, "permission_denied")
	r.want(r.do("GET", "/metrics", nil), http.StatusOK, "")
	if log := r.logs.String(); strings.Contains(log, rootToken) || strings.Contains(log, good[4:]) {
		t.Error("a token is in the log")
	}
}

// A session whose token is refused is told at once, though its body never comes.
func TestSessionsAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, open func(r *sessionRig, method, path string, headers ...with) *duplex) {
		r := newSessionRig(t, withTokens)
		r.create("s")
		reader := r.issue("reader", `{"ops":["read"],"basins":{"prefix":""},"streams":{"prefix":""}}`, false)
		for token, want := range map[string]int{"": 401, "x": 401, reader: 403} {
			headers := []with{}
			if token != "" {
				headers = append(headers, bearer(token))
			}
			d := open(r, "POST", recordsOfS, headers...)
			if d.status != want {
				t.Errorf("%d, want %d", d.status, want)
			}
			d.cut()
		}
	})
}

// Command records need operations of their own, in a unary append and in the middle of a session.
func TestCommandsNeedTheirOperations(t *testing.T) {
	t.Parallel()
	r := newSessionRig(t, withTokens)
	r.create("s")
	const all = `"basins":{"prefix":""},"streams":{"prefix":""}`
	fence := `{"records":[{"body":"x"},{"headers":[["","fence"]],"body":"tok"}]}`
	plain := r.issue("plain", `{"ops":["append"],`+all+`}`, false)
	fencer := r.issue("fencer", `{"ops":["append","fence"],`+all+`}`, false)
	trimmer := r.issue("trimmer", `{"ops":["append","trim"],`+all+`}`, false)
	base64 := with{"S2-Format", "base64"}
	for token, want := range map[string][2]int{plain: {403, 403}, fencer: {200, 403}, trimmer: {403, 200}} {
		r.want(r.append("s", fence, bearer(token)), want[0], "")
		r.want(r.append("s", trim(t, 0), bearer(token), base64), want[1], "")
	}
	r.want(r.do("PUT", "/v1/streams/s/fence", []byte(`{"fencing_token":"x"}`), bearer(trimmer)), 403, "permission_denied")
	from := r.tail("s")
	d := r.openHTTP2("POST", recordsOfS, bearer(plain)).mustOpen()
	d.append(inputOf("a"))
	d.append(wire.AppendInput{Records: []wire.AppendRecord{{Headers: []wire.Header{{Value: []byte("fence")}}}}})
	d.append(inputOf("b"))
	d.wantAck(from, from+1)
	d.wantTerminal(wire.CodePermissionDenied)
	// However the command is written, and whatever is around it.
	hidden := wire.AppendInput{Records: []wire.AppendRecord{
		{Body: []byte(strings.Repeat("x", 2*wire.CompressMin))}, {Headers: []wire.Header{{Value: []byte("fence")}}, Body: []byte("mine")},
	}}
	proto := wire.EncodeAppendInputProto(nil, hidden)
	for encoding, body := range map[string][]byte{"identity": proto, "gzip": gzipped(t, proto), "zstd": zstded(t, proto)} {
		a := r.do("POST", recordsOfS, body, bearer(plain), with{"Content-Type", wire.MediaProto}, with{"Content-Encoding", encoding})
		r.want(a, 403, "permission_denied")
	}
	for _, c := range []wire.Compression{wire.CompressionZstd, wire.CompressionGzip} {
		var frame bytes.Buffer
		if err := wire.NewFrameWriter(&frame, c).Input(hidden); err != nil || frame.Len() > wire.CompressMin {
			t.Fatalf("%d bytes, %v", frame.Len(), err)
		}
		d := r.openHTTP2("POST", recordsOfS, bearer(plain)).mustOpen()
		if err := d.send(frame.Bytes()); err != nil {
			t.Fatal(err)
		}
		d.wantTerminal(wire.CodePermissionDenied)
	}
	if n := r.tail("s"); n != from+1 {
		t.Errorf("the tail is %d", n)
	}
}

// A stream is made on use only for who may create it; to others it is absent, whatever the basin says.
func TestMakingOnUseNeedsCreation(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens)
	r.want(r.do("PATCH", "/v1/basins/"+basin, []byte(`{"create_stream_on_append":true,"create_stream_on_read":true}`)), 200, "")
	const all = `"basins":{"prefix":""},"streams":{"prefix":""}`
	user := r.issue("user", `{"op_groups":{"stream":{"read":true,"write":true}},`+all+`}`, false)
	maker := r.issue("maker", `{"ops":["create-stream"],"op_groups":{"stream":{"read":true,"write":true}},`+all+`}`, false)
	for i, do := range []func(stream, token string) answer{
		func(s, token string) answer { return r.append(s, one, bearer(token)) },
		func(s, token string) answer { return r.read(s, "seq_num=0&clamp=true", bearer(token)) },
		func(s, token string) answer { return r.do("GET", "/v1/streams/"+s+"/records/tail", nil, bearer(token)) },
		func(s, token string) answer {
			return r.do("PUT", "/v1/streams/"+s+"/fence", []byte(`{"fencing_token":""}`), bearer(token))
		},
	} {
		s := fmt.Sprint("s", i)
		r.want(do(s, user), 404, "stream_not_found")
		a := do(s, maker)
		if a.status == 404 {
			t.Errorf("%d: %d %s", i, a.status, a.body)
		}
		if a := do(s, user); a.status == 404 || a.status == 403 {
			t.Errorf("%d: once it is there: %d %s", i, a.status, a.body)
		}
	}
}

// The prefix that a token adds is seen nowhere by its holder, and everywhere by others.
func TestAutoPrefix(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens)
	const p = "tenant-7/"
	token := r.issue("t", `{"op_groups":{"stream":{"read":true,"write":true},"basin":{"read":true,"write":true}},"ops":["issue-access-token","list-access-tokens"],"basins":{"prefix":""},"streams":{"prefix":"tenant-7/"},"access_tokens":{"prefix":""}}`, true)
	for _, s := range []string{"tenant-6/x", "tenant-7", "tenant-8/x", "a"} {
		r.create(s)
	}
	as := bearer(token)
	var answers []answer
	do := func(method, path, body string) answer {
		var b []byte
		if body != "" {
			b = []byte(body)
		}
		a := r.do(method, path, b, as)
		answers = append(answers, a)
		return a
	}
	for _, name := range []string{"a", "b/c", "tenant-7/a", "..x", "é"} {
		r.want(do("POST", "/v1/streams", fmt.Sprintf(`{"stream":%q}`, name)), 201, "")
	}
	r.want(do("PUT", "/v1/streams/put", ""), 201, "")
	r.want(do("POST", "/v1/streams/a/records", one), 200, "")
	r.want(do("GET", "/v1/streams/a/records?seq_num=0", ""), 200, "")
	r.want(do("GET", "/v1/streams/nothing", ""), 404, "stream_not_found")
	r.want(do("PATCH", "/v1/streams/a", `{}`), 200, "")
	r.want(do("DELETE", "/v1/streams/put", ""), 202, "")
	// A second name of the same stream is none: there is one way in.
	r.want(do("GET", "/v1/streams/"+escape("..x"), ""), 200, "")
	for path, want := range map[string][]string{
		"/v1/streams":                                 {"..x", "a", "b/c", "put", "tenant-7/a", "é"},
		"/v1/streams?prefix=b":                        {"b/c"},
		"/v1/streams?start_after=b":                   {"b/c", "put", "tenant-7/a", "é"},
		"/v1/streams?prefix=tenant-7/":                {"tenant-7/a"},
		"/v1/streams?prefix=../&start_after=":         nil,
		"/v1/streams?start_after=put&limit=1":         {"tenant-7/a"},
		"/v1/streams?start_after=%C3%A9&prefix=":      nil,
		"/v1/streams?prefix=tenant-8&start_after=%7E": nil,
	} {
		if got := names(t, do("GET", path, "").body); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	child := r.issue("child", `{"ops":["read","list-streams"],"basins":{"prefix":""},"streams":{"prefix":"b/"}}`, true, as)
	if got := r.do("GET", "/v1/streams", nil, bearer(child)); !slices.Equal(names(t, got.body), []string{"c"}) {
		t.Errorf("the child sees %s", got.body)
	}
	listed := do("GET", "/v1/access-tokens", "")
	if !strings.Contains(listed.body, `"streams":{"prefix":"b/"}`) {
		t.Errorf("tokens are listed as %s", listed.body)
	}
	for _, a := range answers {
		text := a.body + fmt.Sprint(a.header)
		text = strings.ReplaceAll(strings.ReplaceAll(text, `"name":"tenant-7/a"`, ""), "/tenant-7%2Fa@", "")
		if strings.Contains(text, "tenant-7") {
			t.Errorf("the prefix is in %d %s %v", a.status, a.body, a.header)
		}
	}
	if got := r.list("/v1/streams", "prefix=tenant-7/"); !slices.Contains(got, p+"a") || !slices.Contains(got, p+p+"a") {
		t.Errorf("the root token sees %q", got)
	}
	long := strings.Repeat("x", wire.StreamNameMax-len(p))
	r.want(do("PUT", "/v1/streams/"+long, ""), 201, "")
	r.want(do("PUT", "/v1/streams/"+long+"x", ""), 400, "bad_path")
	r.want(do("POST", "/v1/streams", fmt.Sprintf(`{"stream":%q}`, long+"x")), 400, "bad_json")
}

// Listings show what a token may see, page by page, and has_more counts nothing else (BL-133).
func TestListingsAreNarrowed(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens)
	for _, s := range []string{"a", "team-a", "team-a/1", "team-a/2", "team-a/3", "team-b/1", "z"} {
		r.create(s)
	}
	for _, b := range []string{"team-a-basin-1", "team-a-basin-2", "team-b-basin-1"} {
		r.want(r.do("PUT", "/v1/basins/"+b, nil), 201, "")
	}
	list := func(id, streams, basins, path string) (string, []string) {
		token := r.issue(id, `{"ops":["list-streams","list-basins","list-access-tokens"],"basins":`+basins+`,"streams":`+streams+`,"access_tokens":`+streams+`}`, false)
		a := r.want(r.do("GET", path, nil, bearer(token)), 200, "")
		return a.body, names(t, a.body)
	}
	for i, c := range []struct {
		set, query string
		want       []string
		more       bool
	}{
		{`{"prefix":"team-a/"}`, "", []string{"team-a/1", "team-a/2", "team-a/3"}, false},
		{`{"prefix":"team-a/"}`, "?limit=2", []string{"team-a/1", "team-a/2"}, true},
		{`{"prefix":"team-a/"}`, "?limit=1&start_after=team-a/2", []string{"team-a/3"}, false},
		{`{"prefix":"team-a/"}`, "?prefix=team", []string{"team-a/1", "team-a/2", "team-a/3"}, false},
		{`{"prefix":"team-a/"}`, "?prefix=team-a/2", []string{"team-a/2"}, false},
		{`{"prefix":"team-a/"}`, "?prefix=team-b", nil, false},
		{`{"exact":"team-a"}`, "", []string{"team-a"}, false},
		{`{"exact":"team-a"}`, "?prefix=te", []string{"team-a"}, false},
		{`{"exact":"team-a"}`, "?prefix=team-a/", nil, false},
		{`{"exact":"team-a"}`, "?start_after=team-a", nil, false},
		{`{"exact":""}`, "", nil, false},
		{`null`, "", nil, false},
		{`{"prefix":""}`, "?limit=6", []string{"a", "team-a", "team-a/1", "team-a/2", "team-a/3", "team-b/1"}, true},
	} {
		body, got := list(fmt.Sprint("s", i), c.set, `{"prefix":""}`, "/v1/streams"+c.query)
		if !slices.Equal(got, c.want) || strings.Contains(body, `"has_more":true`) != c.more {
			t.Errorf("%s%s: %s", c.set, c.query, body)
		}
	}
	if body, _ := list("b", "null", `{"prefix":"team-a-"}`, "/v1/basins?limit=2"); strings.Count(body, `"name":"team-a-basin-`) != 2 || strings.Contains(body, `"has_more":true`) {
		t.Errorf("basins %s", body)
	}
	if body, _ := list("c", "null", `{"exact":"team-a-basin-1"}`, "/v1/basins"); strings.Count(body, `"name"`) != 1 || !strings.Contains(body, `"team-a-basin-1"`) {
		t.Errorf("basins %s", body)
	}
	if body, _ := list("team-a/token", `{"prefix":"team-a/"}`, "null", "/v1/access-tokens"); strings.Count(body, `"id"`) != 1 {
		t.Errorf("tokens %s", body)
	}
}

// What belongs to another account is absent: the same answers, after the same reads, whatever is asked.
func TestForeignLooksAbsent(t *testing.T) {
	t.Parallel()
	r := newRig(t, believed)
	r.create("s")
	r.fill("s", 0, 3)
	theirs := bearer(r.otherAccount(t))
	r.want(r.do("GET", "/v1/basins", nil, theirs), 200, "") // its token is remembered from here on
	ask := func(method, path, basin, body string) (answer, int) {
		var b []byte
		if body != "" {
			b = []byte(body)
		}
		before := r.reads()
		a := r.do(method, strings.ReplaceAll(path, "BASIN", basin), b, theirs, with{"S2-Basin", basin})
		return a, r.reads() - before
	}
	for _, c := range [][3]string{
		{"GET", "/v1/basins/BASIN"}, {"PATCH", "/v1/basins/BASIN", "{}"}, {"DELETE", "/v1/basins/BASIN"}, {"GET", "/v1/streams"}, {"GET", "/v1/streams?prefix=s"},
		{"POST", "/v1/streams", `{"stream":"new"}`}, {"GET", "/v1/streams/s"}, {"PUT", "/v1/streams/s"}, {"PATCH", "/v1/streams/s", "{}"}, {"DELETE", "/v1/streams/s"},
		{"GET", "/v1/streams/s/records"}, {"GET", "/v1/streams/s/records?seq_num=0"}, {"POST", "/v1/streams/s/records", one}, {"GET", "/v1/streams/s/records/tail"},
		{"GET", "/v1/streams/s/fence"}, {"PUT", "/v1/streams/s/fence", `{"fencing_token":"x"}`}, {"GET", "/v1/streams/other/records/tail"},
	} {
		for range 2 { // the second time with whatever is remembered
			absent, absentReads := ask(c[0], c[1], "absent-basin", c[2])
			foreign, foreignReads := ask(c[0], c[1], basin, c[2])
			if absent.status != 404 || foreign.status != absent.status || foreign.body != absent.body || foreignReads != absentReads {
				t.Errorf("%v: absent %d %s after %d reads, foreign %d %s after %d", c, absent.status, absent.body, absentReads, foreign.status, foreign.body, foreignReads)
			}
		}
	}
	a, _ := ask("POST", "/v1/basins", "", `{"basin":"`+basin+`"}`)
	r.want(a, 409, "resource_already_exists")
	a, _ = ask("PUT", "/v1/basins/BASIN", basin, "")
	r.want(a, 409, "resource_already_exists")
	if got := basinNames(t, r.want(r.do("GET", "/v1/basins", nil, theirs), 200, "").body); len(got) != 0 {
		t.Errorf("the other account sees %q", got)
	}
	if n := len(r.records("s")); n != 3 {
		t.Errorf("the stream has %d records", n)
	}
}

// What is remembered for eventual reads is remembered for one account (X5): to another it is as absent as when nothing is,
// and tokens of one account see of it what each may see.
func TestEventualReadsDoNotCross(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens)
	r.create("s")
	r.create("team-b/s")
	theirs := bearer(r.otherAccount(t))
	mine := bearer(r.issue("mine", `{"ops":["list-basins","list-streams"],"basins":{"exact":"absent-basin"},"streams":{"prefix":""}}`, false))
	team := bearer(r.issue("team", `{"ops":["list-streams"],"basins":{"prefix":""},"streams":{"prefix":"team-"}}`, false))
	eventual := with{wire.HeaderConsistency, wire.ConsistencyEventual}
	for _, path := range []string{"/v1/basins/BASIN", "/v1/streams", "/v1/streams?prefix=s", "/v1/streams/s", "/v1/streams/s/records/tail", readS} {
		ask := func(basin string, as ...with) answer {
			return r.do("GET", strings.ReplaceAll(path, "BASIN", basin), nil, append(as, eventual, with{"S2-Basin", basin})...)
		}
		for range 2 { // the second time it is remembered
			if a := ask(basin); a.status != 200 && a.status != 416 || a.header.Get(wire.HeaderAgeMs) == "" {
				t.Fatalf("%s: %d %s %v", path, a.status, a.body, a.header)
			}
		}
		absent, foreign := ask("absent-basin", theirs), ask(basin, theirs)
		if foreign.status != 404 || foreign.body != absent.body || foreign.header.Get(wire.HeaderAgeMs) != "" || foreign.header.Get(wire.HeaderRevision) != "" {
			t.Errorf("%s: absent %d %s, foreign %d %s %v", path, absent.status, absent.body, foreign.status, foreign.body, foreign.header)
		}
	}
	list := func(as ...with) []string {
		return basinNames(t, r.want(r.do("GET", "/v1/basins", nil, append(as, eventual)...), 200, "").body)
	}
	if got := list(); !slices.Equal(got, []string{basin}) {
		t.Errorf("the owner sees %q", got)
	}
	if got := append(list(theirs), list(mine)...); len(got) != 0 {
		t.Errorf("others see %q", got)
	}
	r.want(r.do("GET", "/v1/streams", nil, mine, eventual), 403, "permission_denied")
	if got := names(t, r.want(r.do("GET", "/v1/streams", nil, team, eventual), 200, "").body); !slices.Equal(got, []string{"team-b/s"}) {
		t.Errorf("the team sees %q", got)
	}
}

// No spelling of a name reaches what the name does not.
func TestSpellingsDoNotCross(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens)
	r.want(r.do("PUT", "/v1/basins/secret-basin", nil), 201, "")
	r.want(r.do("PUT", "/v1/streams/"+escape("team-a/x"), nil), 201, "")
	r.want(r.do("PUT", "/v1/streams/"+escape("team-b/x"), nil), 201, "")
	token := r.issue("t", `{"op_groups":{"stream":{"read":true,"write":true},"basin":{"read":true,"write":true}},"basins":{"exact":"`+basin+`"},"streams":{"prefix":"team-a/"}}`, false)
	as := bearer(token)
	r.want(r.append("team-a/x", one, as), 200, "")
	for _, path := range []string{
		"team-b%2Fx", "team-a%2F..%2Fteam-b%2Fx", "TEAM-A%2Fx", "xteam-a%2F", "team-a", "team-ab", "%74eam-b%2Fx", "team-a%5Cx", "team-a%252Fx", "team-a%00%2Fx", "team%2Da%EF%BC%8Fx",
		"team-%C3%A1%2Fx", "%E2%80%8Bteam-a%2Fx", "team-a%2Fx%2F..%2F..%2Fteam-b%2Fx", "..%2Fteam-b%2Fx", "%2e%2e", "team-a/x", "./team-b%2Fx", "team-a%2F%2e%2e/records",
	} {
		for _, c := range [][3]string{{"POST", "/records", one}, {"GET", "/records/tail"}, {"GET", ""}} {
			a := r.do(c[0], "/v1/streams/"+path+c[1], body(c[2]), as)
			inside := strings.HasPrefix(path, "team-a%2F") // a name of its own, with the prefix, that is not there
			if a.status < 400 || a.status >= 500 || inside && a.status == 403 {
				t.Errorf("%s %s%s: %d %s", c[0], path, c[1], a.status, a.body)
			}
			if !inside && a.status == 404 && strings.Contains(a.body, "stream") {
				t.Errorf("%s %s%s was looked up: %s", c[0], path, c[1], a.body)
			}
		}
	}
	for _, other := range []string{"secret-basin", " secret-basin ", "Secret-basin", "secret-basin,x", "secret-basin\x00", "%73ecret-basin", basin + "," + basin, basin + "/../secret-basin"} {
		q := r.request(t.Context(), "POST", "/v1/streams/team-a%2Fx/records", strings.NewReader(one), as, jsonBody)
		q.Header["S2-Basin"] = []string{other}
		if strings.Contains(other, "\x00") {
			continue // no client can send it
		}
		if a := r.send(q); a.status < 400 || a.status == 404 {
			t.Errorf("basin %q: %d %s", other, a.status, a.body)
		}
	}
	q := r.request(t.Context(), "POST", "/v1/streams/team-a%2Fx/records", strings.NewReader(one), as, jsonBody)
	q.Header["S2-Basin"] = []string{basin, "secret-basin"}
	r.want(r.send(q), 400, "bad_header")
	// Headers that proxies rewrite paths and methods by mean nothing here.
	for _, h := range []with{{"X-Original-URL", "/v1/basins/secret-basin"}, {"X-HTTP-Method-Override", "DELETE"}, {"X-Forwarded-Host", "secret-basin.example.com"}} {
		r.want(r.do("GET", "/v1/streams/team-a%2Fx/records/tail", nil, as, h), 200, "")
	}
	if n := r.tail("team-b/x"); n != 0 {
		t.Errorf("the other team's stream has %d records", n)
	}
}

func body(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}
