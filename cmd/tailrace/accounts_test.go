package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// ask sends a request with a token and returns the status and the body.
func ask(t *testing.T, method, url, token, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(text)
}

// after is what follows a text on its line.
func after(text, prefix string) string {
	_, rest, _ := strings.Cut(text, prefix)
	line, _, _ := strings.Cut(rest, "\n")
	return line
}

// The root token is shown at the first start alone; it, what it issued and what an operator made outlive the process, and
// none of them is in the folder or the log.
func TestServeWithTokens(t *testing.T) {
	t.Parallel()
	data := "--data=" + t.TempDir()
	var tokens []string
	stop := func(w *world, status <-chan int) {
		t.Helper()
		w.signals <- os.Interrupt
		if code := <-status; code != 0 {
			t.Fatalf("status %d; log:\n%s", code, w.log.String())
		}
		for _, token := range tokens {
			if strings.Contains(w.log.String(), token) {
				t.Error("a token is in the log")
			}
		}
	}

	w := newWorld()
	url, status := w.serving(t, data, "--auth")
	await(t, "the root token", func() bool { return strings.Contains(w.out.String(), "root token: ") })
	root := after(w.out.String(), "root token: ")
	tokens = append(tokens, root)
	for token, want := range map[string]int{"": 401, "x": 401, root: 200} {
		if got, text := ask(t, "GET", url+"/v1/basins", token, ""); got != want {
			t.Errorf("%d %s, want %d", got, text, want)
		}
	}
	if got, text := ask(t, "PUT", url+"/v1/basins/first-basin", root, ""); got != 201 {
		t.Errorf("make basin: %d %s", got, text)
	}
	got, text := ask(t, "POST", url+"/v1/access-tokens", root, `{"id":"t","scope":{"ops":["list-basins"],"basins":{"prefix":""}}}`)
	issued := strings.TrimSuffix(after(text, `"access_token":"`), `"}`)
	if got != 201 || issued == "" {
		t.Fatalf("issue: %d %s", got, text)
	}
	tokens = append(tokens, issued)
	stop(w, status)

	operator := newWorld()
	if code := operator.run([]string{"admin", "create-account", "--name", "Other", data}); code != 0 {
		t.Fatalf("create account: %d\n%s", code, operator.log.String())
	}
	account, theirs := after(operator.out.String(), "account "), after(operator.out.String(), "token ")
	tokens = append(tokens, theirs)
	for _, args := range [][]string{{"admin", "issue-token", "--account", account, "--id", "second", data}, {"admin", "list-accounts", data}} {
		if code := operator.run(args); code != 0 {
			t.Fatalf("%v: %d\n%s", args, code, operator.log.String())
		}
	}
	if out := operator.out.String(); !strings.Contains(out, account+"\tactive\t") || !strings.Contains(out, "default\tactive\t-\t\"default\"") {
		t.Errorf("accounts are listed as %s", out)
	}

	w = newWorld()
	url, status = w.serving(t, data, "--auth")
	for token, want := range map[string]string{root: "first-basin", issued: "first-basin", theirs: `"basins":[]`} {
		if got, text := ask(t, "GET", url+"/v1/basins", token, ""); got != 200 || !strings.Contains(text, want) {
			t.Errorf("%d %s, want %s", got, text, want)
		}
	}
	stop(w, status)
	if strings.Contains(w.out.String(), "root token") {
		t.Errorf("the second start says %s", w.out.String())
	}

	if code := operator.run([]string{"admin", "suspend-account", "--account", account, data}); code != 0 {
		t.Fatalf("suspend: %d\n%s", code, operator.log.String())
	}
	if code := operator.run([]string{"admin", "reset-root-token", data}); code != 0 {
		t.Fatalf("reset: %d\n%s", code, operator.log.String())
	}
	w = newWorld()
	url, status = w.serving(t, data, "--auth")
	for token, want := range map[string]int{root: 401, after(operator.out.String(), "root token "): 200, theirs: 401, issued: 200} {
		if got, text := ask(t, "GET", url+"/v1/basins", token, ""); got != want {
			t.Errorf("%d %s, want %d", got, text, want)
		}
	}
	stop(w, status)

	// Without authentication the folder is served as before, the default account's basins alone.
	w = newWorld()
	url, status = w.serving(t, data)
	if got, text := ask(t, "GET", url+"/v1/basins", "", ""); got != 200 || !strings.Contains(text, "first-basin") {
		t.Errorf("without authentication: %d %s", got, text)
	}
	stop(w, status)
}

// A configured root token is taken, shown nowhere, and nothing is made beside it.
func TestServeWithAConfiguredToken(t *testing.T) {
	t.Parallel()
	const token = "configured-token-0123456789"
	w := newWorld()
	w.environ = []string{"TAILRACE_ROOT_TOKEN=" + token}
	url, status := w.serving(t, "--memory", "--auth")
	for try, want := range map[string]int{"": 401, token: 200, token + "x": 401} {
		if got, text := ask(t, "GET", url+"/v1/basins", try, ""); got != want {
			t.Errorf("%q: %d %s, want %d", try, got, text, want)
		}
	}
	w.signals <- os.Interrupt
	if code := <-status; code != 0 {
		t.Errorf("status %d", code)
	}
	if text := fmt.Sprint(w.out.String(), w.log.String()); strings.Contains(text, token) || strings.Contains(text, "root token") {
		t.Errorf("it says %s", text)
	}
}
