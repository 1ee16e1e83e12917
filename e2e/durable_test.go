package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// tracedCalls are those that move bytes to files and sockets, name files, and sync. sync_file_range is traced to be
// seen, but counts for nothing: it does not make a file's size durable.
const tracedCalls = "read,write,writev,pwrite64,pwritev,sendto,sendmsg,fsync,fdatasync,sync_file_range,rename,renameat,renameat2"

// Acknowledged means durable: in a trace of the system calls, the object's bytes, its folder, and the log that has the
// commit are synced, in this order, before the answer is written to the socket. For a small append only the log.
func TestSyncedBeforeAnswered(t *testing.T) {
	t.Parallel()
	strace := tool(t, "strace", "TAILRACE_STRACE")
	if out, err := exec.CommandContext(t.Context(), strace, "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		leaveOut(t, fmt.Sprintf("tracing is not permitted on this machine: %v: %s", err, out))
	}
	trace := filepath.Join(t.TempDir(), "trace")
	data, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	data = filepath.Join(data, "data")
	server := startWith(t, harness.Options{Data: data, Wrapper: []string{
		strace, "--follow-forks", "--absolute-timestamps=format:unix,precision:us", "--decode-fds=path,socket", "--signal=none",
		"--string-limit=96", "--output=" + trace, "--trace=" + tracedCalls,
	}})
	c := newClient(server.URL, "traced-basin")
	c.create(t, "traced-small")
	c.createStream(t, "traced-large")
	c.mustAppend(t, "traced-small", appendInput{Records: bodies("small")})
	c.mustAppend(t, "traced-large", appendInput{Records: bodies(strings.Repeat("large", 100_000))})
	stop(t, server)

	calls := parseTrace(t, trace)
	t.Run("small", func(t *testing.T) {
		received := request(t, calls, "traced-small")
		logged := logSynced(t, calls, data, received.end)
		answered(t, calls, received.end, logged)
	})
	t.Run("large", func(t *testing.T) {
		received := request(t, calls, "traced-large")
		named := after(t, calls, received.end, "rename to a segment", func(e syscallEvent) bool {
			return strings.HasPrefix(e.name, "rename") && strings.Contains(e.args, "/segments>")
		})
		temp := strings.Split(named.args, `"`)[1]
		bytesSynced := after(t, calls, received.end, "sync of the file "+temp, func(e syscallEvent) bool {
			return isSync(e) && strings.Contains(e.args, filepath.Base(temp)+">")
		})
		if bytesSynced.end >= named.begin {
			t.Errorf("the file is named before it is synced: %v, %v", bytesSynced, named)
		}
		folderSynced := after(t, calls, named.end, "sync of the segments' folder", func(e syscallEvent) bool {
			return isSync(e) && strings.HasSuffix(e.args, "/segments>")
		})
		logged := logSynced(t, calls, data, folderSynced.end)
		answered(t, calls, received.end, logged)
	})
}

// request is the read of the append of a stream from the socket.
func request(t *testing.T, calls []syscallEvent, stream string) syscallEvent {
	t.Helper()
	return after(t, calls, 0, "request", func(e syscallEvent) bool {
		// The server reads the first byte of a request on its own.
		return e.name == "read" && strings.Contains(e.args, "OST "+records(stream)+" HTTP/1.1")
	})
}

func isSync(e syscallEvent) bool { return e.name == "fsync" || e.name == "fdatasync" }

// logSynced is the sync of the log of the database that follows a write to it begun after place.
func logSynced(t *testing.T, calls []syscallEvent, data string, place int) syscallEvent {
	t.Helper()
	isLog := func(e syscallEvent) bool {
		return strings.Contains(e.args, filepath.Join(data, "db")+"/") && strings.Contains(e.args, ".log>")
	}
	written := after(t, calls, place, "write to the log", func(e syscallEvent) bool {
		return (strings.HasPrefix(e.name, "write") || strings.HasPrefix(e.name, "pwrite")) && isLog(e)
	})
	return after(t, calls, written.end, "sync of the log", func(e syscallEvent) bool { return isSync(e) && isLog(e) })
}

// answered checks that the first 200 after a request begins to leave only after a call has returned.
func answered(t *testing.T, calls []syscallEvent, request int, synced syscallEvent) {
	t.Helper()
	answer := after(t, calls, request, "answer", func(e syscallEvent) bool {
		return strings.Contains(e.args, `"HTTP/1.1 200 OK`) && (strings.HasPrefix(e.name, "write") || strings.HasPrefix(e.name, "send"))
	})
	if answer.begin <= synced.end {
		t.Errorf("the answer leaves at %v, the sync it has to wait for is %v", answer, synced)
	}
}
