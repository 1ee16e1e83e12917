package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// cli runs the command line against one server.
type cli struct {
	dir string
	env []string
}

func newCLI(t *testing.T, server *harness.Server) *cli {
	t.Helper()
	c := &cli{dir: t.TempDir()}
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); !strings.HasPrefix(name, "TAILRACE_") && !strings.HasPrefix(name, "S2_") && name != "PATH" {
			c.env = append(c.env, variable)
		}
	}
	c.env = append(c.env, "TAILRACE_ENDPOINT="+server.URL, "PATH="+filepath.Dir(bin)+string(os.PathListSeparator)+os.Getenv("PATH"))
	return c
}

func (c *cli) command(ctx context.Context, stdin io.Reader, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = c.dir, c.env, stdin
	return cmd
}

// run runs a verb and gives what it printed and its exit status.
func (c *cli) run(t *testing.T, stdin string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := c.command(t.Context(), strings.NewReader(stdin), args...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	status = statusOf(t, cmd.Run())
	return out.String(), log.String(), status
}

// statusOf is the exit status of a command that ended.
func statusOf(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		return exit.ExitCode()
	}
	return 0
}

// must runs a verb that succeeds.
func (c *cli) must(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	stdout, stderr, status := c.run(t, stdin, args...)
	if status != 0 {
		t.Fatalf("tailrace %q ends with %d\n%s%s", args, status, stdout, stderr)
	}
	return stdout
}

const orders = "tailrace://my-first-basin/orders"

// atHome makes what the examples of the help are about: a basin and a stream with two records, and a file of more.
func (c *cli) atHome(t *testing.T) {
	t.Helper()
	c.must(t, "", "create-basin", "my-first-basin", "--create-stream-on-append")
	c.must(t, "one tea\ntwo teas\n", "append", orders)
	if err := os.WriteFile(filepath.Join(c.dir, "orders.txt"), []byte("three teas\nfour teas\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// commandsOf lists the commands below one, as its help does.
func commandsOf(t *testing.T, c *cli, path ...string) (names []string) {
	t.Helper()
	_, list, found := strings.Cut(c.must(t, "", append(path, "--help")...), "Available Commands:\n")
	if !found {
		return nil
	}
	list, _, _ = strings.Cut(list, "\n\n")
	for line := range strings.Lines(list) {
		names = append(names, strings.Fields(line)[0])
	}
	return names
}

// examplesOf are the lines that the help of a command shows as examples.
func examplesOf(t *testing.T, c *cli, path ...string) (lines []string) {
	t.Helper()
	_, examples, found := strings.Cut(c.must(t, "", append(path, "--help")...), "Examples:\n")
	if !found {
		return nil
	}
	examples, _, _ = strings.Cut(examples, "\n\n")
	for line := range strings.Lines(examples) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// Every verb has examples, and every example does what it says, in the order they stand.
func TestCLIExamplesRun(t *testing.T) {
	t.Parallel()
	named := newCLI(t, start(t, dataFolder(t)))
	verbs := commandsOf(t, named)
	if len(verbs) < 25 {
		t.Fatalf("the verbs are %q", verbs)
	}
	for _, verb := range verbs {
		switch verb {
		case "serve", "admin", "version", "completion", "help", "exit-status":
			continue // not about streams; the operators' have tests of their own
		}
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			const root = "the-root-token-of-the-examples"
			c := newCLI(t, startWith(t, harness.Options{
				Data: dataFolder(t), Args: []string{"--auth"}, Env: []string{"TAILRACE_ROOT_TOKEN=" + root},
			}))
			c.env = append(c.env, "TAILRACE_ACCESS_TOKEN="+root)
			c.atHome(t)
			if verb == "revoke-access-token" {
				c.must(t, "", "issue-access-token", "reader", "--basins", "prefix:", "--ops", "list-basins")
			}
			examples := examplesOf(t, c, verb)
			if len(examples) == 0 {
				t.Error("there is no example")
			}
			for _, line := range examples {
				c.shell(t, line)
			}
		})
	}
}

// The README's lines do what it says, in their order.
func TestCLIReadmeRunsAsWritten(t *testing.T) {
	t.Parallel()
	c := newCLI(t, start(t, dataFolder(t)))
	lines := 0
	for _, b := range blocksOf(t, filepath.Join("..", "README.md")) {
		for line := range strings.Lines(b.text) {
			if b.is("cli") {
				lines++
				c.shell(t, strings.TrimSpace(line))
			}
		}
	}
	if got := c.must(t, "", "read", "tailrace://my-shell-basin/orders"); lines < 4 || got != "one tea\ntwo scones\n" {
		t.Errorf("after %d lines there is %q", lines, got)
	}
}

// shell runs a line as a user types it. One that follows is interrupted.
func (c *cli) shell(t *testing.T, line string) {
	t.Helper()
	if strings.Contains(line, "--follow") {
		line = "timeout -s INT 1 " + line + "; test $? = 124"
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir, cmd.Env = c.dir, c.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", line, err, out)
	}
}

// Exit statuses by their real causes.
func TestCLIExitStatuses(t *testing.T) {
	t.Parallel()
	server := start(t, dataFolder(t))
	c := newCLI(t, server)
	c.atHome(t)
	c.must(t, "", "fence", orders, "writer-7")
	for _, test := range []struct {
		args   string
		status int
		says   string
	}{
		{"append " + orders + " --match-seq-num 1", 3, "the tail is 2"},
		{"create-basin my-first-basin", 3, "exists"},
		{"create-stream " + orders, 3, "exists"},
		{"append " + orders + " --fencing-token writer-6", 4, "fenced"},
		{"append --unary " + orders + " --fencing-token writer-6", 4, "fenced"},
		{"append --unary " + orders + " --match-seq-num 1", 3, "the tail is 2"},
		{"trim " + orders + " 1 --fencing-token writer-6", 4, "fenced"},
		{"read tailrace://my-first-basin/none", 5, "stream_not_found"},
		{"read tailrace://no-such-basin/none", 5, "basin"},
		{"delete-basin no-such-basin", 5, "basin"},
		{"read " + orders + " --seq-num 9", 9, "the tail is 2"},
		{"check-tail " + orders + " --endpoint http://127.0.0.1:1 --timeout 1s", 6, "127.0.0.1:1"},
		{"append " + orders + " --endpoint http://127.0.0.1:1 --timeout 1s", 6, "127.0.0.1:1"},
		{"read orders", 2, "tailrace://BASIN/STREAM"},
		{"read", 2, "1 argument"},
		{"read " + orders + " --seq-num x", 2, "seq-num"},
		{"read " + orders + " --format xml", 2, "xml"},
		{"read " + orders + " --endpoint ftp://x", 2, "ftp"},
		{"create-basin NotAName", 2, "NotAName"},
		{"append " + orders + " --input no-such-file", 2, "no-such-file"},
		{"nonsense", 2, "nonsense"},
		{"append " + orders + " --fencing-token writer-7", 0, ""},
	} {
		_, stderr, status := c.run(t, "a record\n", strings.Fields(test.args)...)
		if status != test.status || !strings.Contains(stderr, test.says) || strings.Contains(stderr, "writer-7") {
			t.Errorf("tailrace %s ends with %d, want %d, and says %q, want %q in it", test.args, status, test.status, stderr, test.says)
		}
	}
}

// Every result is JSON where that is asked for.
func TestCLIPrintsJSON(t *testing.T) {
	t.Parallel()
	c := newCLI(t, start(t, dataFolder(t)))
	c.atHome(t)
	for _, args := range []string{
		"append " + orders, "append --acks --unary " + orders, "read " + orders, "tail " + orders, "check-tail " + orders, "fence " + orders + " t",
		"get-fencing-token " + orders, "fence " + orders + " u -f t", "trim " + orders + " 1", "ls", "ls my-first-basin", "list-basins",
		"list-streams my-first-basin", "create-basin my-second-basin", "create-stream tailrace://my-first-basin/x",
		"get-basin-config my-first-basin", "reconfigure-basin my-first-basin --create-stream-on-read", "get-stream-config " + orders,
		"reconfigure-stream " + orders + " --fencing exclusive", "delete-stream " + orders, "delete-basin my-second-basin",
	} {
		out := c.must(t, "a record\n", append(strings.Fields(args), "--json")...)
		if out == "" {
			t.Errorf("tailrace %s prints nothing", args)
		}
		for line := range strings.Lines(out) {
			if !json.Valid([]byte(line)) {
				t.Errorf("tailrace %s prints %q", args, line)
			}
		}
	}
}

var ratePattern = regexp.MustCompile(`[0-9]+ records, [0-9.]+ MB in [0-9a-zµ.]+: [0-9.]+ MB/s, [0-9]+ records/s\n$`)

// A large file of any bytes goes in and comes out the same, and both ways tell their rate.
func TestCLILargeFile(t *testing.T) {
	t.Parallel()
	c := newCLI(t, start(t, dataFolder(t)))
	c.must(t, "", "create-basin", "my-first-basin", "--create-stream-on-append")
	text := goSources(t)
	for len(text) < 20_000_000 {
		text = append(text, text...)
	}
	text = append(text[:20_000_000-3:20_000_000-3], 0xff, 0x00, '\n')
	for i, way := range [][]string{nil, {"--compression", "zstd"}, {"--unary", "--match-seq-num", "0"}} {
		addr := fmt.Sprintf("tailrace://my-first-basin/file-%d", i)
		_, stderr, status := c.run(t, string(text), append([]string{"append", addr}, way...)...)
		if status != 0 || !ratePattern.MatchString(stderr) {
			t.Fatalf("append ends with %d and says %q", status, stderr)
		}
		stdout, stderr, status := c.run(t, "", "read", addr)
		if status != 0 || !ratePattern.MatchString(stderr) {
			t.Fatalf("read ends with %d and says %q", status, stderr)
		}
		sameText(t, "read by the command line", []byte(stdout), text)
	}
}

// A signal ends the reading of input: what was read before is appended and acknowledged.
func TestCLIInterruptedAppendKeepsWhatItRead(t *testing.T) {
	t.Parallel()
	t.Run("session", func(t *testing.T) { t.Parallel(); interruptAppend(t) })
	t.Run("unary", func(t *testing.T) { t.Parallel(); interruptAppend(t, "--unary") })
}

func interruptAppend(t *testing.T, flags ...string) {
	c := newCLI(t, start(t, dataFolder(t)))
	c.atHome(t)
	input, feed := io.Pipe()
	defer feed.Close()
	cmd := c.command(t.Context(), nil, append([]string{"append", orders}, flags...)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(stdin, input) }()
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(feed, "a\nb\nc\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "three more records", func() bool { return strings.HasPrefix(c.must(t, "", "check-tail", orders), "5\t") })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if status := statusOf(t, cmd.Wait()); status != 130 || !strings.Contains(log.String(), "appended at 2 to 4: 3 records") {
		t.Errorf("append ends with %d and says %s", status, &log)
	}
}

// A server that is killed under an append: what it was told to be appended is there, and the exit status says whether more
// may be.
func TestCLIAppendIntoAKilledServer(t *testing.T) {
	t.Parallel()
	data := dataFolder(t)
	server := start(t, data)
	c := newCLI(t, server)
	c.atHome(t)
	cmd := c.command(t.Context(), nil, "append", orders, "--acks", "--timeout", "5s")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(stdin, "record %d\n", i); err != nil {
				return
			}
		}
	}()
	acked := 0
	lines := make([]byte, 4096)
	for {
		n, err := out.Read(lines)
		if acked += bytes.Count(lines[:n], []byte("\n")); acked > 2000 {
			server.Kill()
		}
		if err != nil {
			break
		}
	}
	status := statusOf(t, cmd.Wait())
	if status != 6 && status != 7 {
		t.Fatalf("append ends with %d and says %s", status, &log)
	}
	again := newCLI(t, start(t, data))
	stored := again.must(t, "", "read", orders)
	if got := strings.Count(stored, "\n") - 2; got < acked || status == 6 && got != acked {
		t.Errorf("%d records were acknowledged, %d are there; append ended with %d and said %s", acked, got, status, &log)
	}
	for i, line := range strings.Split(strings.TrimSuffix(stored, "\n"), "\n")[2:] {
		if line != fmt.Sprintf("record %d", i) {
			t.Fatalf("record %d is %q", i, line)
		}
	}
}

// A follower prints a record as soon as it is there.
func TestCLIFollow(t *testing.T) {
	t.Parallel()
	c := newCLI(t, start(t, dataFolder(t)))
	c.atHome(t)
	cmd := c.command(t.Context(), nil, "tail", "-n", "1", "--follow", orders)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	expect := func(want string) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(out, got); err != nil || string(got) != want {
			t.Fatalf("the follower prints %q, %v; want %q", got, err, want)
		}
	}
	expect("two teas\n")
	c.must(t, "three teas\n", "append", orders)
	expect("three teas\n")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if status := statusOf(t, cmd.Wait()); status != 130 {
		t.Errorf("the follower ends with %d", status)
	}
}

// The variables of S2's tools are taken too, ours first; and a key and a token may come from files.
func TestCLIEnvironment(t *testing.T) {
	t.Parallel()
	server := start(t, dataFolder(t))
	c := newCLI(t, server)
	c.atHome(t)
	c.env = append(c.env, "TAILRACE_ENDPOINT=", "S2_ACCOUNT_ENDPOINT="+server.URL, "S2_BASIN_ENDPOINT="+server.URL, "S2_ACCESS_TOKEN=any")
	if got := c.must(t, "", "read", "s2://my-first-basin/orders"); got != "one tea\ntwo teas\n" {
		t.Errorf("by the variables of S2: %q", got)
	}
	c.env = append(c.env, "TAILRACE_ENDPOINT=http://127.0.0.1:1")
	if _, _, status := c.run(t, "", "check-tail", orders, "--timeout", "1s"); status != 6 {
		t.Errorf("ours does not come first: %d", status)
	}
	c.env = append(c.env, "TAILRACE_ENDPOINT="+server.URL)
	key := filepath.Join(c.dir, "key")
	if err := os.WriteFile(key, []byte("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.must(t, "", "create-basin", "my-secret-basin", "--create-stream-on-append", "--stream-cipher", "aes-256-gcm")
	c.must(t, "hidden\n", "append", "tailrace://my-secret-basin/s", "--encryption-key-file", key)
	if got := c.must(t, "", "read", "tailrace://my-secret-basin/s", "--encryption-key-file", key); got != "hidden\n" {
		t.Errorf("an encrypted stream: %q", got)
	}
	if _, stderr, status := c.run(t, "", "read", "tailrace://my-secret-basin/s"); status == 0 || strings.Contains(stderr, "AAEC") {
		t.Errorf("without its key: %d, %s", status, stderr)
	}
}

// A token does what its flags said and nothing else, and is no token once it is revoked.
func TestCLITokens(t *testing.T) {
	t.Parallel()
	const root = "the-root-token-of-this-test"
	server := startWith(t, harness.Options{Data: dataFolder(t), Args: []string{"--auth"}, Env: []string{"TAILRACE_ROOT_TOKEN=" + root}})
	c, other := newCLI(t, server), newCLI(t, server)
	if _, _, status := c.run(t, "", "ls"); status != 8 {
		t.Errorf("without a token the status is %d", status)
	}
	file := filepath.Join(c.dir, "token")
	if err := os.WriteFile(file, []byte(root+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := c.must(t, "", "ls", "--token-file", file); got != "" {
		t.Errorf("there is %q", got)
	}
	c.env = append(c.env, "TAILRACE_ACCESS_TOKEN="+root)
	c.atHome(t)
	secret := strings.TrimSpace(c.must(t, "", "issue-access-token", "reader", "--basins", "exact:my-first-basin",
		"--streams", "exact:orders", "--op-groups", "stream:read", "--expires-in", "1h"))
	other.env = append(other.env, "TAILRACE_ACCESS_TOKEN="+secret)
	if got := other.must(t, "", "read", orders); got != "one tea\ntwo teas\n" {
		t.Errorf("a reader reads %q", got)
	}
	if _, stderr, status := other.run(t, "x\n", "append", orders); status != 8 || strings.Contains(stderr, secret) {
		t.Errorf("a reader appends with the status %d: %s", status, stderr)
	}
	if got := c.must(t, "", "list-access-tokens"); !strings.Contains(got, "reader\texpires ") || strings.Contains(got, secret) {
		t.Errorf("the tokens are %q", got)
	}
	c.must(t, "", "revoke-access-token", "reader")
	eventually(t, "the end of a revoked token", func() bool {
		_, _, status := other.run(t, "", "read", orders)
		return status == 8
	})
}

// Shells are offered addresses as far as they are written.
func TestCLICompletes(t *testing.T) {
	t.Parallel()
	c := newCLI(t, start(t, dataFolder(t)))
	c.atHome(t)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if script := c.must(t, "", "completion", shell); !strings.Contains(script, "tailrace") {
			t.Errorf("the completion of %s is %q", shell, script)
		}
	}
	for begun, want := range map[string]string{
		"tail":                         "tailrace://my-first-basin/\n",
		"tailrace://my-fi":             "tailrace://my-first-basin/\n",
		"s2://my-first-basin/o":        "s2://my-first-basin/orders\n",
		"tailrace://my-first-basin/or": orders + "\n",
		"tailrace://my-first-basin/x":  "",
	} {
		if got := c.must(t, "", "__complete", "read", begun); got != want+":6\n" {
			t.Errorf("%q is completed by %q", begun, got)
		}
	}
}
