package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/functions/api"
	"github.com/tailrace-streams/tailrace/functions/audit"
	"github.com/tailrace-streams/tailrace/tenancy"
)

const rootText = "root-token-of-this-test-0123456789"

var asRoot = with{"Authorization", "Bearer " + rootText}

// auditRig is a rig that asks for tokens and records changes, with two accounts beside the operator's.
type auditRig struct {
	*rig
	log        *audit.Log
	ids        [2]string
	tokens     [2]with
	tokenTexts []string
}

func newAuditRig(t *testing.T) *auditRig {
	t.Helper()
	a := new(auditRig)
	var accounts *tenancy.Accounts
	a.rig = newHandler(t, change{api: func(o *api.Options) {
		var err error
		accounts, err = tenancy.NewAccounts(o.Directory.(*tenancy.Directory), tenancy.AccountsOptions{RootToken: rootText})
		if err != nil {
			t.Fatal(err)
		}
		a.log = audit.New(audit.Options{Streams: o.Streams, Directory: o.Directory.(*tenancy.Directory), Log: o.Log})
		o.Registry.MustRegister(a.log.Collectors()...)
		o.Access, o.Audit = accounts, a.log
	}}, change{coordinator: func(o *coordinator.Options) { o.AppendTimeout = 500 * time.Millisecond }})
	a.tokenTexts = []string{rootText}
	for i := range a.ids {
		account, err := accounts.CreateAccount(t.Context(), fmt.Sprint("account ", i))
		if err != nil {
			t.Fatal(err)
		}
		by := &tenancy.Principal{Account: account.ID, Scope: tenancy.Everything()}
		text, err := accounts.Issue(t.Context(), by, tenancy.TokenSpec{ID: "first", Scope: tenancy.Everything()})
		if err != nil {
			t.Fatal(err)
		}
		a.ids[i], a.tokens[i] = string(account.ID), with{"Authorization", "Bearer " + text}
		a.tokenTexts = append(a.tokenTexts, text)
	}
	return a
}

// entries is the audit log of an account, read as the operator reads it.
func (a *auditRig) entries(account string) (list []audit.Entry) {
	a.t.Helper()
	answer := a.do("GET", "/v1/streams/"+account+"/records?seq_num=0", nil, asRoot, with{"S2-Basin", tenancy.AuditBasin})
	if answer.status == http.StatusNotFound {
		return nil
	}
	a.want(answer, http.StatusOK, "")
	for _, r := range decode[batch](a.t, answer.body).Records {
		list = append(list, decode[audit.Entry](a.t, r.Body))
	}
	return list
}

// Every change has an intent and a result that say who, what and what came of it, and never a secret.
func TestEveryChangeIsAudited(t *testing.T) {
	t.Parallel()
	a := newAuditRig(t)
	me, in := a.tokens[0], with{"S2-Basin", "audited-basin"}
	steps := []struct {
		method, path, body string
		status             int
		want               string // operation, basin, stream, token, location; then outcome or code
	}{
		{"POST", "/v1/basins", `{"basin":"audited-basin"}`, 201, "create-basin audited-basin    created"},
		{"POST", "/v1/basins", `{"basin":"audited-basin"}`, 409, "create-basin audited-basin    resource_already_exists no"},
		{"PUT", "/v1/basins/audited-basin", `{"config":{"create_stream_on_append":true}}`, 200, "ensure-basin audited-basin    updated"},
		{"PATCH", "/v1/basins/audited-basin", `{"create_stream_on_append":false}`, 200, "reconfigure-basin audited-basin    "},
		{"POST", "/v1/streams", `{"stream":"s/1"}`, 201, "create-stream audited-basin s/1   created"},
		{"PUT", "/v1/streams/s%2F1", `{"storage_class":"standard"}`, 200, "ensure-stream audited-basin s/1   updated"},
		{"PATCH", "/v1/streams/s%2F1", `{"retention_policy":{"age":60}}`, 200, "reconfigure-stream audited-basin s/1   "},
		{"DELETE", "/v1/streams/s%2F1", "", 202, "delete-stream audited-basin s/1   "},
		{"POST", "/v1/access-tokens", `{"id":"t","scope":{"basins":{"prefix":""},"ops":["read"]}}`, 201, "issue-access-token   t  "},
		{"DELETE", "/v1/access-tokens/t", "", 204, "revoke-access-token   t  "},
		{"PUT", "/v1/locations/default", `"local"`, 200, "set-default-location    local "},
		{"DELETE", "/v1/basins/audited-basin", "", 202, "delete-basin audited-basin    "},
		{"DELETE", "/v1/basins/absent-basin", "", 404, "delete-basin absent-basin    basin_not_found no"},
	}
	for i, s := range steps {
		var body []byte
		if s.body != "" {
			body = []byte(s.body)
		}
		answer := a.do(s.method, s.path, body, me, in, with{"X-Request-Id", fmt.Sprint("request-", i)})
		if answer.status == http.StatusCreated && strings.Contains(answer.body, "access_token") {
			a.tokenTexts = append(a.tokenTexts, decode[map[string]string](t, answer.body)["access_token"])
		}
		if a.want(answer, s.status, ""); len(a.entries(a.ids[0])) != 2*i+2 {
			t.Fatalf("%s %s: %d entries, want %d", s.method, s.path, len(a.entries(a.ids[0])), 2*i+2)
		}
	}
	// What reads, what is refused before it could change anything, and what data is.
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/v1/basins", "", 200}, {"POST", "/v1/basins", `{"basin":"X"}`, 400}, {"POST", "/v1/basins", `{`, 400},
		{"PUT", "/v1/locations/default", `"elsewhere"`, 422}, {"POST", "/v1/streams/s/records", `{"records":[{}]}`, 404},
	} {
		a.want(a.do(c.method, c.path, []byte(c.body), me, in), c.status, "")
	}
	entries := a.entries(a.ids[0])
	if len(entries) != 2*len(steps) {
		t.Fatalf("%d entries, want %d", len(entries), 2*len(steps))
	}
	for i, s := range steps {
		intent, result := entries[2*i], entries[2*i+1]
		if intent.Phase != audit.Intent || intent.Result != nil || result.Phase != audit.Done || result.Result == nil {
			t.Fatalf("%s %s: %+v, %+v", s.method, s.path, intent, result)
		}
		got := strings.Join([]string{result.Operation, result.Basin, result.Stream, result.OnToken, result.Location, result.Result.Outcome + result.Result.Code}, " ")
		if result.Result.Applied != "" {
			got += " " + result.Result.Applied
		}
		if got != s.want || result.Result.Status != s.status {
			t.Errorf("%s %s: %q %d, want %q", s.method, s.path, got, result.Result.Status, s.want)
		}
		if intent.ID == "" || intent.ID != result.ID || intent.Account != a.ids[0] || intent.Token != "first" || intent.Via != "api" ||
			intent.RequestID != fmt.Sprint("request-", i) || intent.At.IsZero() || result.At.Before(intent.At) || intent.Operation != result.Operation {
			t.Errorf("%s %s: %+v, %+v", s.method, s.path, intent, result)
		}
	}
	text, err := json.Marshal(entries)
	for _, secret := range a.tokenTexts {
		if err != nil || strings.Contains(string(text), secret) || strings.Contains(a.logs.String(), secret) {
			t.Error("a token's text is in the audit log or in the log")
		}
	}
	if n := len(a.entries(a.ids[1])); n != 0 {
		t.Errorf("the other account has %d entries", n)
	}
}

// The audit log is the operator's: for everybody else it is not there, and its name cannot be taken.
func TestTheAuditLogIsOutOfReach(t *testing.T) {
	t.Parallel()
	a := newAuditRig(t)
	in := with{"S2-Basin", tenancy.AuditBasin}
	for _, early := range []bool{true, false} { // before there is one, and after
		for i, me := range a.tokens {
			for _, c := range []struct{ method, path, body string }{
				{"GET", "/v1/streams", ""}, {"GET", "/v1/streams/default", ""}, {"GET", "/v1/streams/" + a.ids[i], ""},
				{"GET", "/v1/streams/" + a.ids[i] + "/records?seq_num=0", ""}, {"GET", "/v1/streams/" + a.ids[i] + "/records/tail", ""},
				{"POST", "/v1/streams/" + a.ids[i] + "/records", `{"records":[{"body":"forged"}]}`}, {"DELETE", "/v1/streams/" + a.ids[i], ""},
				{"PATCH", "/v1/streams/" + a.ids[i], `{"retention_policy":{"age":1}}`}, {"POST", "/v1/streams", `{"stream":"x"}`},
				{"GET", "/v1/basins/" + tenancy.AuditBasin, ""}, {"PATCH", "/v1/basins/" + tenancy.AuditBasin, `{"create_stream_on_append":false}`},
				{"DELETE", "/v1/basins/" + tenancy.AuditBasin, ""},
			} {
				answer := a.do(c.method, c.path, []byte(c.body), me, in)
				if answer.status != http.StatusNotFound {
					t.Errorf("early %t: %s %s: %d %s, want as if it were not there", early, c.method, c.path, answer.status, answer.body)
				}
			}
			a.want(a.do("POST", "/v1/basins", []byte(`{"basin":"`+tenancy.AuditBasin+`"}`), me), 409, "resource_already_exists")
			if answer := a.do("PUT", "/v1/basins/"+tenancy.AuditBasin, []byte(`{}`), me); answer.status != 409 {
				t.Errorf("ensure: %d %s", answer.status, answer.body)
			}
			if listing := a.want(a.do("GET", "/v1/basins", nil, me), 200, ""); strings.Contains(listing.body, tenancy.AuditBasin) {
				t.Errorf("it is listed: %s", listing.body)
			}
		}
		a.want(a.do("POST", "/v1/basins", []byte(`{"basin":"first-change-`+fmt.Sprint(early)+`"}`), a.tokens[0]), 201, "")
	}
	// A token with all rights in the operator's own account is not the root token.
	issued := a.want(a.do("POST", "/v1/access-tokens", []byte(`{"id":"all","scope":{"basins":{"prefix":""},"streams":{"prefix":""},"access_tokens":{"prefix":""},"op_groups":{"account":{"read":true,"write":true},"basin":{"read":true,"write":true},"stream":{"read":true,"write":true}}}}`), asRoot), 201, "")
	all := with{"Authorization", "Bearer " + decode[map[string]string](t, issued.body)["access_token"]}
	if answer := a.do("GET", "/v1/streams/default/records?seq_num=0", nil, all, in); answer.status != 404 {
		t.Errorf("a token of the default account: %d %s", answer.status, answer.body)
	}
	// The root token reads it, and neither makes nor removes entries.
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/v1/streams/default/records", `{"records":[{"body":"forged"}]}`}, {"POST", "/v1/streams/of-nobody/records", `{"records":[{"body":"forged"}]}`},
		{"POST", "/v1/streams/default/records", `{"records":[{"headers":[["","fence"]],"body":"mine"}]}`},
		{"PUT", "/v1/streams/default/fence", `{"fencing_token":"mine"}`}, {"DELETE", "/v1/streams/default", ""}, {"DELETE", "/v1/basins/" + tenancy.AuditBasin, ""},
		{"POST", "/v1/streams", `{"stream":"x"}`}, {"PUT", "/v1/streams/x", ""}, {"PUT", "/v1/basins/" + tenancy.AuditBasin, ""},
	} {
		if answer := a.do(c.method, c.path, []byte(c.body), asRoot, in); answer.status != http.StatusForbidden {
			t.Errorf("the operator: %s %s %s: %d %s", c.method, c.path, c.body, answer.status, answer.body)
		}
	}
	// What it changes of how long they are kept is recorded.
	before := len(a.entries("default"))
	a.want(a.do("PATCH", "/v1/basins/"+tenancy.AuditBasin, []byte(`{"default_stream_config":{"retention_policy":{"infinite":{}}}}`), asRoot), 200, "")
	if entries := a.entries("default"); len(entries) != before+2 || entries[before].Operation != "reconfigure-basin" || entries[before].Token != tenancy.RootToken {
		t.Errorf("the operator's change: %+v", entries[before:])
	}
}

// A change whose intent cannot be stored is not begun, and says so; a result that cannot be stored is counted, and the change
// stands.
func TestAnAuditLogThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	a := newAuditRig(t)
	a.want(a.do("POST", "/v1/basins", []byte(`{"basin":"audited-basin"}`), a.tokens[0]), 201, "")
	failed := func() float64 { return a.gauge("tailrace_audit_records_total") }
	for _, outcome := range []storetest.Outcome{storetest.Refuse, storetest.Drop, storetest.Lose} {
		before := failed()
		a.heads.Set(func(c storetest.Call) storetest.Outcome {
			if c.Op == "Commit" {
				return outcome
			}
			return storetest.Pass
		})
		answer := a.do("POST", "/v1/basins", []byte(`{"basin":"never-made-1"}`), a.tokens[0])
		a.heads.Set(nil)
		if answer.status == 201 {
			continue // a lost answer that was found again
		}
		if a.want(answer, 502, "hot_server"); answer.header.Get("Tailrace-Applied") != "no" || !strings.Contains(answer.body, "audit") {
			t.Errorf("outcome %v: %d %s", outcome, answer.status, answer.body)
		}
		a.want(a.do("GET", "/v1/basins/never-made-1", nil, a.tokens[0]), 404, "basin_not_found")
		if failed() == before {
			t.Errorf("outcome %v: the failure is not counted", outcome)
		}
	}
	// Only the result fails: the second commit.
	commits := 0
	a.heads.Set(func(c storetest.Call) storetest.Outcome {
		if c.Op == "Commit" {
			if commits++; commits > 1 {
				return storetest.Refuse
			}
		}
		return storetest.Pass
	})
	a.want(a.do("POST", "/v1/basins", []byte(`{"basin":"made-anyway"}`), a.tokens[0], with{"X-Request-Id", "lost-result"}), 201, "")
	a.heads.Set(nil)
	entries := a.entries(a.ids[0])
	if last := entries[len(entries)-1]; last.Phase != audit.Intent || last.Basin != "made-anyway" {
		t.Errorf("the last entry is %+v, want an intent alone", last)
	}
	if logs := a.logs.String(); !strings.Contains(logs, "missing in the audit log") || !strings.Contains(logs, "lost-result") {
		t.Errorf("the log does not tell: %s", logs)
	}
	// While the process stops, nothing is begun.
	go a.streams.Drain(t.Context())
	<-a.streams.Draining()
	a.want(a.do("DELETE", "/v1/basins/made-anyway", nil, a.tokens[0]), 503, "server_draining")
}

// To name the audit log where no basin is addressed leads nowhere: least of all into the service's own account.
func TestTheServicesAccountIsNobodys(t *testing.T) {
	t.Parallel()
	a := newAuditRig(t)
	in := with{"S2-Basin", tenancy.AuditBasin}
	a.want(a.do("POST", "/v1/basins", []byte(`{"basin":"roots-own-basin"}`), asRoot, in), 201, "")
	if got := basinNames(t, a.want(a.do("GET", "/v1/basins", nil, asRoot), 200, "").body); len(got) != 1 || got[0] != "roots-own-basin" {
		t.Errorf("the operator has the basins %q", got)
	}
	if got := basinNames(t, a.want(a.do("GET", "/v1/basins", nil, asRoot, in), 200, "").body); len(got) != 1 || got[0] != "roots-own-basin" {
		t.Errorf("with s2-basin, the operator has the basins %q", got)
	}
	const scope = `{"id":"t","scope":{"ops":["list-basins"],"basins":{"prefix":""}}}`
	issued := a.want(a.do("POST", "/v1/access-tokens", []byte(scope), asRoot, in), 201, "")
	token := decode[map[string]string](t, issued.body)["access_token"]
	if got := basinNames(t, a.want(a.do("GET", "/v1/basins", nil, bearer(token)), 200, "").body); len(got) != 1 {
		t.Errorf("the token sees the basins %q", got)
	}
}
