package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// sessionOutcome is a line of node/sessions.mjs: the result of one case, or how far one has come.
type sessionOutcome struct {
	Case                                      string
	OK                                        bool
	Error, Code, At, Cause                    string
	Submitted, Acknowledged, Doubled, Records int
}

// sessionsByNode starts node/sessions.mjs against a server and hands every line that it prints to seen, as it comes.
func sessionsByNode(t *testing.T, server *harness.Server, seen func(sessionOutcome), args ...string) {
	t.Helper()
	node := tool(t, "node", "TAILRACE_NODE")
	if os.Getenv("TAILRACE_NODE_DIR") == "" {
		leaveOut(t, "TAILRACE_NODE_DIR is not set (tools/setup node-sdk installs the SDK and sets it)")
	}
	cmd := exec.CommandContext(t.Context(), node, append([]string{filepath.Join("node", "sessions.mjs"), "--basin", "node-sessions"}, args...)...)
	cmd.Env = append(os.Environ(), "S2_ACCESS_TOKEN=any",
		"S2_ACCOUNT_ENDPOINT="+server.URL, "S2_BASIN_ENDPOINT="+server.URL)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var line sessionOutcome
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Errorf("sessions.mjs printed %q: %v", lines.Text(), err)
			continue
		}
		seen(line)
	}
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		t.Errorf("sessions.mjs: %v\n%s", err, complaints.String())
	}
}

// The public TypeScript SDK's sessions do what they promise: over frames, compressed frames, and without HTTP/2.
func TestSessionsByTypeScriptSDK(t *testing.T) {
	t.Parallel()
	server := start(t, dataFolder(t), "--trim-delay=300ms")
	want := []string{"appendSession", "readSession", "producer", "follow", "matchSeqNum", "fencing", "trim", "missing", "creation"}
	for name, args := range map[string][]string{
		"frames": nil,
		"gzip":   {"--compression", "gzip"},
		"fetch":  {"--transport", "fetch"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ran []string
			sessionsByNode(t, server, func(line sessionOutcome) {
				ran = append(ran, line.Case)
				if !line.OK {
					t.Errorf("%s failed at %s: %s %s", line.Case, line.At, line.Code, line.Error)
				}
			}, args...)
			if strings.Join(ran, " ") != strings.Join(want, " ") {
				t.Errorf("ran %v, want %v", ran, want)
			}
		})
	}
}

// A pipelined session outlives kills of the server as far as the SDK's policy goes: what was acknowledged is there, and
// twice only where the policy accepts that.
func TestKillsInsideTypeScriptSession(t *testing.T) {
	t.Parallel()
	const batches, killEvery = 300, 90
	for name, test := range map[string]struct {
		args []string
		// end is how the session may end before all is acknowledged, if it may at all.
		end     *regexp.Regexp
		doubles bool
	}{
		"retry all":             {args: []string{"--retry", "all"}, doubles: true},
		"retry all, matching":   {args: []string{"--retry", "all", "--match"}, end: regexp.MustCompile("^APPEND_CONDITION_FAILED ")},
		"retry no side effects": {args: []string{"--retry", "noSideEffects"}, end: regexp.MustCompile("^(ECONNRESET|BAD_GATEWAY) ")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := dataFolder(t)
			server := start(t, data)
			address := strings.TrimPrefix(server.URL, "http://")
			kills := 0
			var got sessionOutcome
			sessionsByNode(t, server, func(line sessionOutcome) {
				if got = line; line.Case == "" && line.Acknowledged >= killEvery*(kills+1) {
					server.Kill()
					server = start(t, data, "--listen="+address)
					kills++
				}
			}, append([]string{"--case", "resume", "--batches", strconv.Itoa(batches)}, test.args...)...)
			t.Logf("%d kills: %+v", kills, got)
			if !got.OK {
				t.Fatalf("failed at %s: %s %s", got.At, got.Code, got.Error)
			}
			if kills == 0 {
				t.Error("the server was never killed")
			}
			if got.Acknowledged != batches && (test.end == nil || !test.end.MatchString(got.Cause)) {
				t.Errorf("the session ended with %q after %d of %d batches", got.Cause, got.Acknowledged, batches)
			}
			if got.Doubled > 0 && !test.doubles {
				t.Errorf("%d records are there twice", got.Doubled)
			}
		})
	}
}
