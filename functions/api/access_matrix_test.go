package api_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tailrace-streams/tailrace/wire"
)

// This file has a second opinion on what tokens permit, written from the S2 API's description of operations and scopes and
// from docs/tokens.md. It shares nothing with the code that it judges: scopes are JSON, names are strings.

// oracleOps says of each operation which group permits it, and which names decide: b for the basin, s for the stream, t for
// the token.
var oracleOps = map[string]struct{ group, names string }{
	"list-basins": {"account read", ""}, "create-basin": {"account write", "b"}, "delete-basin": {"account write", "b"},
	"reconfigure-basin": {"account write", "b"}, "get-basin-config": {"account read", "b"},
	"issue-access-token": {"account write", "t"}, "revoke-access-token": {"account write", "t"}, "list-access-tokens": {"account read", ""},
	"account-metrics": {"account read", ""}, "list-locations": {"account read", ""}, "get-default-location": {"account read", ""},
	"set-default-location": {"account write", ""},
	"list-streams":         {"basin read", "b"}, "create-stream": {"basin write", "bs"}, "delete-stream": {"basin write", "bs"},
	"get-stream-config": {"basin read", "bs"}, "reconfigure-stream": {"basin write", "bs"}, "basin-metrics": {"basin read", "b"},
	"check-tail": {"stream read", "bs"}, "append": {"stream write", "bs"}, "read": {"stream read", "bs"},
	"trim": {"stream write", "bs"}, "fence": {"stream write", "bs"}, "stream-metrics": {"stream read", "bs"},
}

type oracleSet struct {
	Exact  *string `json:"exact,omitempty"`
	Prefix *string `json:"prefix,omitempty"`
}

func (s *oracleSet) holds(name string) bool {
	switch {
	case s == nil:
		return false
	case s.Exact != nil:
		return *s.Exact != "" && *s.Exact == name
	default:
		return len(name) >= len(*s.Prefix) && name[:len(*s.Prefix)] == *s.Prefix
	}
}

type oracleScope struct {
	Basins  *oracleSet                 `json:"basins,omitempty"`
	Streams *oracleSet                 `json:"streams,omitempty"`
	Tokens  *oracleSet                 `json:"access_tokens,omitempty"`
	Groups  map[string]map[string]bool `json:"op_groups,omitempty"`
	Ops     []string                   `json:"ops,omitempty"`
	auto    bool
}

// allows is the oracle's opinion on one operation.
func (s *oracleScope) allows(op, basin, stream, token string) bool {
	has := false
	for _, one := range s.Ops {
		has = has || one == op
	}
	group := strings.Fields(oracleOps[op].group)
	if !has && !s.Groups[group[0]][group[1]] {
		return false
	}
	if s.auto {
		stream = *s.Streams.Prefix + stream
	}
	for _, name := range oracleOps[op].names {
		switch {
		case name == 'b' && !s.Basins.holds(basin), name == 's' && !s.Streams.holds(stream), name == 't' && !s.Tokens.holds(token):
			return false
		}
	}
	return true
}

// attempt is a request, and the operations that it all needs.
type attempt struct {
	method, path, body    string
	header                with
	ops                   []string
	basin, stream, tokens string
}

func attempts(basins, streams, tokens []string) (all []attempt) {
	add := func(basin, stream, token, method, path, body string, ops ...string) *attempt {
		all = append(all, attempt{method, path, body, with{}, ops, basin, stream, token})
		return &all[len(all)-1]
	}
	add("", "", "", "GET", "/v1/basins", "", "list-basins")
	add("", "", "", "GET", "/v1/access-tokens", "", "list-access-tokens")
	add("", "", "", "GET", "/v1/metrics?set=account-ops", "", "account-metrics")
	add("", "", "", "GET", "/v1/locations", "", "list-locations")
	add("", "", "", "GET", "/v1/locations/default", "", "get-default-location")
	add("", "", "", "PUT", "/v1/locations/default", `"local"`, "set-default-location")
	for _, t := range tokens {
		add("", "", t, "POST", "/v1/access-tokens", fmt.Sprintf(`{"id":%q,"scope":{"ops":["issue-access-token"]}}`, t), "issue-access-token")
		add("", "", t, "DELETE", "/v1/access-tokens/"+escape(t), "", "revoke-access-token")
	}
	for _, b := range basins {
		add(b, "", "", "POST", "/v1/basins", fmt.Sprintf(`{"basin":%q}`, b), "create-basin")
		add(b, "", "", "GET", "/v1/basins/"+b, "", "get-basin-config")
		add(b, "", "", "PUT", "/v1/basins/"+b, "", "create-basin", "reconfigure-basin")
		add(b, "", "", "PATCH", "/v1/basins/"+b, "{}", "reconfigure-basin")
		add(b, "", "", "DELETE", "/v1/basins/"+b, "", "delete-basin")
		add(b, "", "", "GET", "/v1/metrics/"+b+"?set=storage", "", "basin-metrics")
		add(b, "", "", "GET", "/v1/streams", "", "list-streams")
		for _, s := range streams {
			path := "/v1/streams/" + escape(s)
			add(b, s, "", "POST", "/v1/streams", fmt.Sprintf(`{"stream":%q}`, s), "create-stream")
			add(b, s, "", "GET", path, "", "get-stream-config")
			add(b, s, "", "PUT", path, "", "create-stream", "reconfigure-stream")
			add(b, s, "", "PATCH", path, "{}", "reconfigure-stream")
			add(b, s, "", "GET", path+"/records?seq_num=0&clamp=true", "", "read")
			add(b, s, "", "GET", path+"/records?wait=0", "", "read").header = with{"Accept", wire.MediaSSE}
			add(b, s, "", "HEAD", path+"/records", "", "read")
			add(b, s, "", "GET", path+"/records/tail", "", "check-tail")
			add(b, s, "", "GET", path+"/fence", "", "check-tail")
			add(b, s, "", "PUT", path+"/fence", `{"fencing_token":""}`, "fence")
			add(b, s, "", "POST", path+"/records", `{"records":[{"body":"x"}]}`, "append")
			add(b, s, "", "POST", path+"/records", `{"records":[{"headers":[["","fence"]]}]}`, "append", "fence")
			add(b, s, "", "POST", path+"/records", `{"records":[{"headers":[["","dHJpbQ=="]],"body":"AAAAAAAAAAA="}]}`, "append", "trim").header =
				with{"S2-Format", "base64"}
			proto := string(wire.EncodeAppendInputProto(nil, wire.AppendInput{Records: []wire.AppendRecord{{Headers: []wire.Header{{Value: []byte("fence")}}}}}))
			add(b, s, "", "POST", path+"/records", proto, "append", "fence").header = with{"Content-Type", wire.MediaProto}
			add(b, s, "", "GET", "/v1/metrics/"+b+"/"+escape(s)+"?set=storage", "", "stream-metrics")
			add(b, s, "", "DELETE", path, "", "delete-stream")
		}
	}
	return all
}

func drawScope(rng *rand.Rand, basins, streams, tokens []string) *oracleScope {
	set := func(names []string) *oracleSet {
		text := names[rng.IntN(len(names))]
		switch rng.IntN(6) {
		case 0:
			return nil
		case 1:
			all := ""
			return &oracleSet{Prefix: &all}
		case 2, 3:
			return &oracleSet{Exact: &text}
		default:
			text = text[:rng.IntN(len(text)+1)]
			text = strings.ToValidUTF8(text, "")
			return &oracleSet{Prefix: &text}
		}
	}
	s := &oracleScope{Basins: set(basins), Streams: set(streams), Tokens: set(tokens), Groups: map[string]map[string]bool{}}
	for _, group := range []string{"account", "basin", "stream"} {
		s.Groups[group] = map[string]bool{"read": rng.IntN(3) == 0, "write": rng.IntN(3) == 0}
	}
	for op := range oracleOps {
		if rng.IntN(6) == 0 {
			s.Ops = append(s.Ops, op)
		}
	}
	s.Ops = append(s.Ops, "list-locations") // so that there is always one
	s.auto = s.Streams != nil && s.Streams.Prefix != nil && rng.IntN(3) == 0
	return s
}

// Every operation on every resource with many tokens: who is refused is whom the oracle refuses; a refusal reads nothing
// and is the same whatever it refuses.
func TestEveryScopeOnEveryOperation(t *testing.T) {
	t.Parallel()
	// In a bubble, whose clock stands still: a deleted stream stays as it is, and a token good.
	synctest.Test(t, func(t *testing.T) {
		r := newHandler(t, believed)
		basins := []string{"team-a-basin-1", "team-b-basin-1", "absent-basin"}
		streams := []string{"team-a/x", "team-a", "team-b/é"}
		tokens := []string{"mine/1", "yours"}
		for _, b := range basins[:2] {
			r.want(r.do("PUT", "/v1/basins/"+b, []byte(`{"config":{"create_stream_on_append":true}}`)), 201, "")
		}
		all := attempts(basins, streams, tokens)
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 1))
		t.Logf("seed %d", seed)
		combinations, permitted, refusal := 0, 0, ""
		for n := range 90 {
			scope := drawScope(rng, basins, streams, tokens)
			text, err := json.Marshal(scope)
			if err != nil {
				t.Fatal(err)
			}
			as := bearer(r.issue(fmt.Sprint("token-", n), string(text), scope.auto))
			if a := r.do("GET", "/v1/locations", nil, as); a.status == 401 || a.status == 403 { // remembered from here on
				t.Fatalf("%s: %d %s", text, a.status, a.body)
			}
			for _, a := range all {
				want := true
				for _, op := range a.ops {
					want = want && scope.allows(op, a.basin, a.stream, a.tokens)
				}
				before := r.reads()
				got := r.do(a.method, a.path, body(a.body), as, with{"S2-Basin", orElse(a.basin, basin)}, a.header)
				combinations++
				switch denied := got.status == http.StatusForbidden; {
				case got.status == http.StatusUnauthorized || denied == want:
					t.Fatalf("%s %s %s needs %v; with %s, prefixed %v: %d %s", a.method, a.path, a.body, a.ops, text, scope.auto, got.status, got.body)
				case want:
					permitted++
				case r.reads() != before:
					t.Fatalf("%s %s was refused after %d reads", a.method, a.path, r.reads()-before)
				case a.method != "HEAD" && refusal != "" && got.body != refusal:
					t.Fatalf("%s %s was refused with %s", a.method, a.path, got.body)
				case a.method != "HEAD":
					refusal = got.body
				}
			}
		}
		t.Logf("%d combinations, %d permitted", combinations, permitted)
		if combinations < 10_000 || permitted < combinations/50 {
			t.Errorf("%d combinations, %d permitted", combinations, permitted)
		}
	})
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
