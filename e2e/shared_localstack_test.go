package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// localstack/up brings up stores that a server runs on by the variables that it prints, as often as it is called, and
// localstack/down ends them.
func TestSharedLocalstack(t *testing.T) {
	t.Parallel()
	root, err := harness.ModuleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "state")
	s3, dynamoDB := freePort(t), freePort(t)
	environ := append(os.Environ(), "LOCALSTACK_DIR="+dir,
		"LOCALSTACK_S3_PORT="+strconv.Itoa(s3), "LOCALSTACK_DYNAMODB_PORT="+strconv.Itoa(dynamoDB))
	run := func(script string, args ...string) string {
		t.Helper()
		cmd := exec.Command(filepath.Join(root, "localstack", script), args...) // also after the test's own context has ended
		cmd.Dir, cmd.Env = root, environ
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v\n%s", script, err, &said)
		}
		return string(out)
	}
	t.Cleanup(func() {
		run("down", "--data")
		for _, port := range []int{s3, dynamoDB} {
			if conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
				conn.Close()
				t.Errorf("port %d is still open", port)
			}
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("the data is still there: %v", err)
		}
	})
	first := run("up")
	pids := readAllOf(t, filepath.Join(dir, "*.pid"))
	if again := run("up"); again != first || readAllOf(t, filepath.Join(dir, "*.pid")) != pids {
		t.Errorf("a second time it printed\n%s\nafter\n%s", again, first)
	}
	var settings []string
	for line := range strings.Lines(first) {
		if setting, found := strings.CutPrefix(strings.TrimSpace(line), "export TAILRACE_"); found {
			settings = append(settings, "TAILRACE_"+setting)
		}
	}
	server := startWith(t, harness.Options{OwnStores: true, Env: settings})
	c := newClient(server.URL, "on-localstack")
	c.create(t, "s")
	c.mustAppend(t, "s", appendInput{Records: bodies("one", "two")})
	if got := c.readAll(t, "s", 0, 2); got[1].Body != "two" {
		t.Errorf("read %+v", got)
	}
	server.Kill()
}

// localstack/functions brings up the functions behind an API of one basin, which localstack/smoke finds to work by curl, by the
// command line and by the public TypeScript SDK; localstack/down leaves nothing of it.
func TestSharedLocalstackFunctions(t *testing.T) {
	t.Parallel()
	root, err := harness.ModuleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	built, err := functions()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "state")
	environ := append(os.Environ(), "LOCALSTACK_DIR="+dir, harness.FunctionsVariable+"="+built, harness.BinVariable+"="+bin)
	ports := map[string]int{}
	for _, name := range []string{"S3", "DYNAMODB", "SERVICE", "BASIN"} {
		ports[name] = freePort(t)
		environ = append(environ, "LOCALSTACK_"+name+"_PORT="+strconv.Itoa(ports[name]))
	}
	run := func(command string) {
		t.Helper()
		cmd := exec.Command("bash", "-euo", "pipefail", "-c", command) // also after the test's own context has ended
		cmd.Dir, cmd.Env = root, environ
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		} else if left := strings.Index(string(out), "left out"); left >= 0 {
			leaveOut(t, strings.TrimPrefix(string(out)[left:], "left out: "))
		}
	}
	t.Cleanup(func() {
		run("localstack/down --data")
		for name, port := range ports {
			if conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
				conn.Close()
				t.Errorf("port %d of %s is still open", port, name)
			}
		}
	})
	run(`exports=$(localstack/functions) && eval "$exports" && localstack/smoke`)
}

// freePort is a port that nothing listens on at this moment.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func readAllOf(t *testing.T, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) != 2 {
		t.Fatalf("%s: %v, %v, want two files", pattern, names, err)
	}
	var all strings.Builder
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(content)
	}
	return all.String()
}
