package e2e

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// syscallEvent is one system call in a trace. begin and end are places in the order in which the tracer saw all calls enter and
// return: a call that ends before another begins happened before it.
type syscallEvent struct {
	name       string // fsync
	args       string // 12</path/of/the/file>, as the tracer decodes it
	begin, end int    // end is 0 if the call did not return
	failed     bool
}

func (e syscallEvent) String() string {
	return fmt.Sprintf("%d..%d %s(%.150s)", e.begin, e.end, e.name, e.args)
}

var (
	// 1234 1690000000.000000 fsync(12</path>) = 0
	wholeCall = regexp.MustCompile(`^(\d+) +[\d.]+ (\w+)\((.*)\) += (-?\d+|\?)`)
	// 1234 1690000000.000000 fsync(12</path> <unfinished ...>
	begunCall = regexp.MustCompile(`^(\d+) +[\d.]+ (\w+)\((.*) <unfinished \.\.\.>$`)
	// 1234 1690000000.000000 <... fsync resumed>) = 0
	resumedCall = regexp.MustCompile(`^(\d+) +[\d.]+ <\.\.\. (\w+) resumed>(.*)\) += (-?\d+|\?)`)
)

// parseTrace reads what strace -f -ttt -y wrote, in the order in which calls began.
func parseTrace(t *testing.T, path string) []syscallEvent {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatalf("open trace: %v", err)
	}
	defer file.Close()
	var calls []syscallEvent
	open := map[string]int{} // by thread: the call it is in
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 1<<20), 1<<20)
	for number := 1; lines.Scan(); number++ {
		line := lines.Text()
		if m := begunCall.FindStringSubmatch(line); m != nil {
			open[m[1]] = len(calls)
			calls = append(calls, syscallEvent{name: m[2], args: m[3], begin: number})
		} else if m := resumedCall.FindStringSubmatch(line); m != nil {
			if i, ok := open[m[1]]; ok && calls[i].name == m[2] {
				calls[i].args += m[3]
				calls[i].end, calls[i].failed = number, strings.HasPrefix(m[4], "-")
				delete(open, m[1])
			}
		} else if m := wholeCall.FindStringSubmatch(line); m != nil {
			calls = append(calls, syscallEvent{m[2], m[3], number, number, strings.HasPrefix(m[4], "-")})
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("read trace: %v", err)
	}
	return calls
}

// A parser that understands nothing would let every order pass.
func TestParseTraceOrdersCalls(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/trace"
	text := `100 1.000001 write(5<TCP:[127.0.0.1:1->127.0.0.1:2]>, "HTTP/1.1 200 OK\r\n"..., 200) = 200
101 1.000002 fdatasync(7</d/db/000002.log> <unfinished ...>
100 1.000003 renameat(3</d/objects>, "a", 3</d/objects>, "b") = 0
101 1.000004 <... fdatasync resumed>)   = 0
100 1.000005 fsync(9</d/objects/b> <unfinished ...>
102 1.000006 --- SIGURG {si_signo=SIGURG} ---
103 1.000007 fsync(8</d>)              = -1 EIO (Input/output error)
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(parseTrace(t, path))
	want := `[1..1 write(5<TCP:[127.0.0.1:1->127.0.0.1:2]>, "HTTP/1.1 200 OK\r\n"..., 200) 2..4 fdatasync(7</d/db/000002.log>) ` +
		`3..3 renameat(3</d/objects>, "a", 3</d/objects>, "b") 5..0 fsync(9</d/objects/b>) 7..7 fsync(8</d>)]`
	if got != want {
		t.Errorf("trace is\n%s\nwant\n%s", got, want)
	}
}

// after returns the first call from place on that matches and succeeded, or fails the test.
func after(t *testing.T, calls []syscallEvent, place int, what string, match func(syscallEvent) bool) syscallEvent {
	t.Helper()
	for _, call := range calls {
		if call.begin > place && call.end > 0 && !call.failed && match(call) {
			return call
		}
	}
	var near []string
	for _, call := range calls {
		if call.begin > place && len(near) < 60 {
			near = append(near, call.String())
		}
	}
	t.Fatalf("no %s after line %d of the trace; what follows:\n%s", what, place, strings.Join(near, "\n"))
	return syscallEvent{}
}
