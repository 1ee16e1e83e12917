// Package e2e drives the built server from outside: over HTTP, with curl, with the public TypeScript SDK, with signals
// and kill -9, and with a tracer of system calls. README.md lists what each test shows and what it needs.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// bin is the server under test.
var bin string

func TestMain(m *testing.M) {
	if about := os.Getenv(leaderVariable); about != "" {
		os.Exit(lead(about))
	}
	os.Exit(run(m))
}

// Which tests run on which stores. What is left out of one run is in the other; tools/test does both.
const (
	// folderTests are about data folders, or about what one process may take, which the stores have little part in.
	folderTests = "^(TestSyncedBeforeAnswered|TestSecondProcessOnOneFolderIsRefused|TestForeignFoldersAreRefused|" +
		"TestMisconfigurationIsSaidAtOnce|TestAFullDiskIsToldAtOnce|TestGoldenDataFolder|TestOperatingCommandsRunAsWritten|" +
		"TestBL140ManyIdleStreams|TestLongStreamStaysSmall|TestBL084TrimmedAheadOfASlowReader|" +
		"TestBL055StalledReadersCostLittle|TestBL058AbortedRequestsLeaveNothing)$"
	// sharedTests are about stores that several servers use.
	sharedTests = "^TestShared"
	// tableTests are about a table.
	tableTests = "^(TestSharedLocalstack|TestSharedLocalstackFunctions|TestSharedFunctionCalls)$"
	// s2LiteTests need a server that takes long to build.
	s2LiteTests = "^TestClientWithS2Lite$"
)

func run(m *testing.M) int {
	flag.Parse()
	others := sharedTests
	if harness.Shared() {
		others = folderTests
	}
	if harness.BucketAlone() {
		others += "|" + tableTests
	}
	if os.Getenv(s2LiteVariable) == "" {
		others += "|" + s2LiteTests
	}
	if asked := flag.Lookup("test.skip").Value.String(); asked != "" {
		others += "|" + asked
	}
	if err := flag.Set("test.skip", others); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	dir, err := os.MkdirTemp("", "tailrace-e2e-")
	if err == nil {
		defer os.RemoveAll(dir)
		functionsDir = filepath.Join(dir, "of-functions")
		bin, err = harness.Binary(context.Background(), dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	return m.Run()
}

// leaveOut ends a test that this machine cannot run: by name where that is allowed, as a failure where it is not.
func leaveOut(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("TAILRACE_REQUIRE") == "all" {
		t.Fatalf("left out: %s, and TAILRACE_REQUIRE=all allows nothing to be", reason)
	}
	t.Skip("left out: " + reason)
}

// tool finds a program: where the variable says, or else on the path.
func tool(t *testing.T, name, variable string) string {
	t.Helper()
	if path := os.Getenv(variable); path != "" {
		return path
	}
	path, err := exec.LookPath(name)
	if err != nil {
		leaveOut(t, name+" is not installed (tools/setup says how to get it)")
	}
	return path
}

// start starts a server on a data folder ("" for memory) and kills it when the test is over, showing its log if it failed.
func start(t *testing.T, data string, args ...string) *harness.Server {
	t.Helper()
	return startWith(t, harness.Options{Data: data, Args: args})
}

func startWith(t *testing.T, o harness.Options) *harness.Server {
	t.Helper()
	o.Bin = bin
	s, err := harness.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("log of the server (process %d):\n%s", s.PID(), lastLines(s.Logs(), 40))
		}
	})
	return s
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// stop ends a server by SIGTERM within its default bound.
func stop(t *testing.T, s *harness.Server) {
	t.Helper()
	if err := s.Stop(25 * time.Second); err != nil {
		t.Fatal(err)
	}
}

// dataFolder is a folder for one server.
func dataFolder(t *testing.T) string { return filepath.Join(t.TempDir(), "data") }

// eventually fails the test if cond does not become true in time.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in time", what)
		}
	}
}
