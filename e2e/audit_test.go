package e2e

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// What the API and the operator's verbs change is in the audit log, across restarts and on every store, and there only for
// the root token; no token's text is.
func TestAuditLog(t *testing.T) {
	t.Parallel()
	const root = "root-token-of-this-test-0123456789"
	data := dataFolder(t)
	options := harness.Options{Data: data, Args: []string{"--auth"}, Env: []string{"TAILRACE_ROOT_TOKEN=" + root}}
	server := startWith(t, options)
	c := newClient(server.URL, "audited-basin")
	do := func(method, path string, body any, token, basin string) answer {
		t.Helper()
		a, err := c.do(t.Context(), method, path, body, "authorization", "Bearer "+token, "s2-basin", basin)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := do("PUT", "/v1/basins/audited-basin", nil, root, c.basin); a.status != 201 {
		t.Fatalf("ensure basin: %v", a)
	}
	stop(t, server)

	flags, err := harness.StoreFlags(t.Context(), bin, data)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), bin, append([]string{"admin", "create-account", "--name", "Team A"}, flags...)...).Output()
	if err != nil {
		t.Fatalf("create account: %v", err)
	}
	words := strings.Fields(string(out))
	if len(words) != 4 || words[0] != "account" || words[2] != "token" {
		t.Fatalf("create-account printed %q", out)
	}
	account, token := words[1], words[3]

	server = startWith(t, options)
	c = c.at(server.URL)
	if a := do("POST", "/v1/basins", map[string]string{"basin": "of-team-a-1"}, token, ""); a.status != 201 {
		t.Fatalf("create basin: %v", a)
	}
	log := func(stream, token string) answer {
		return do("GET", records(stream)+"?seq_num=0", nil, token, "tailrace-audit")
	}
	for stream, want := range map[string][]string{
		"default": {
			"intent ensure-basin", "result ensure-basin created", "intent create-account", "result create-account " + account,
			"intent issue-access-token", "result issue-access-token",
		},
		account: {"intent create-basin", "result create-basin created"},
	} {
		a := log(stream, root)
		if a.status != 200 || strings.Contains(a.body, token) || strings.Contains(a.body, root) {
			t.Fatalf("audit log of %s: %v", stream, a)
		}
		if got := auditLines(t, a.body); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("audit log of %s:\n%s\nwant\n%s", stream, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if a := log(stream, token); a.status != 404 {
			t.Errorf("audit log of %s, read by the account: %v", stream, a)
		}
	}
	stop(t, server)
}

// auditLines are the entries of a read, a line each.
func auditLines(t *testing.T, body string) (lines []string) {
	t.Helper()
	var batch struct{ Records []record }
	if err := json.Unmarshal([]byte(body), &batch); err != nil {
		t.Fatal(err)
	}
	for _, r := range batch.Records {
		var e struct {
			Phase, Operation string
			Result           struct{ Outcome, Code string }
		}
		if err := json.Unmarshal([]byte(r.Body), &e); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.TrimSpace(e.Phase+" "+e.Operation+" "+e.Result.Outcome+e.Result.Code))
	}
	return lines
}
