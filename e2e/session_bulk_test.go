package e2e

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/e2e/harness"
	"github.com/tailrace-streams/tailrace/wire"
)

// bulkVariable says how many MiB go through one session; 128 if it is not set, 1024 for the full measure.
const bulkVariable = "TAILRACE_E2E_BULK_MIB"

// memoryAboveIdle is the most that the server's resident memory may grow while it streams.
const memoryAboveIdle = 64 << 20

func numberFrom(t *testing.T, variable string, def int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return def
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, want a number", variable, text)
	}
	return n
}

// bulkBatch is a batch of nearly 1 MiB of bytes that do not compress, different for each number.
func bulkBatch(number int) wire.AppendInput {
	random := rand.NewChaCha8(sha256.Sum256(fmt.Append(nil, number)))
	in := wire.AppendInput{Records: make([]wire.AppendRecord, 16)}
	for i := range in.Records {
		in.Records[i].Body = make([]byte, 65_000)
		_, _ = random.Read(in.Records[i].Body)
	}
	return in
}

// A large volume through one append session and back through a read session: the same bytes, and the server holds little
// of it at any time, also for a client that stops reading in the middle.
func TestBulkThroughSessionsInBoundedMemory(t *testing.T) {
	for name, open := range map[string]func(context.Context, string, string, string, string) (*session, error){
		"http1": openSession, "http2": openSessionHTTP2,
	} {
		t.Run(name, func(t *testing.T) {
			// With the defaults, the cache included.
			server := startWith(t, harness.Options{Data: dataFolder(t)})
			c := newClient(server.URL, "bulk-basin")
			c.create(t, "bulk")
			c.mustAppend(t, "bulk", appendInput{Records: bodies("warm")})
			memory := watchMemory(t, server)
			batches := numberFrom(t, bulkVariable, 128)
			begun := time.Now()
			sent := appendBulk(t, batches, func() (*session, error) { return open(t.Context(), server.URL, c.basin, "bulk", "") })
			appended := time.Since(begun)
			growth := memory.grown()
			memory.check(t, "appending")

			// One reader stops in the middle, and stays.
			stalled, err := open(t.Context(), server.URL, c.basin, "bulk", "seq_num=1")
			if err != nil {
				t.Fatal(err)
			}
			defer stalled.close()
			for range batches / 2 {
				if _, err := stalled.batch(); err != nil {
					t.Fatal(err)
				}
			}
			begun = time.Now()
			s, err := open(t.Context(), server.URL, c.basin, "bulk", fmt.Sprintf("seq_num=1&count=%d", 16*batches))
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			if got := readBulk(t, s, 16*batches); got != sent {
				t.Errorf("read back %x, sent %x", got, sent)
			}
			t.Logf("%d MiB: appended in %s with %d MiB above idle, read in %s with %d MiB above idle", batches,
				appended.Round(time.Millisecond), growth>>20, time.Since(begun).Round(time.Millisecond), memory.grown()>>20)
			memory.check(t, "reading")
		})
	}
}

// appendBulk sends batches without waiting for acknowledgements and returns the hash of all bodies.
func appendBulk(t *testing.T, batches int, open func() (*session, error)) (sum [sha256.Size]byte) {
	t.Helper()
	s, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	failed := make(chan error, 1)
	all := sha256.New()
	go func() {
		failed <- func() error {
			for i := range batches {
				in := bulkBatch(i)
				hashBodies(all, in)
				frame, err := encodeInput(in)
				if err != nil {
					return err
				}
				if err := s.send(frame); err != nil {
					return err
				}
			}
			return s.finish()
		}()
	}()
	next := uint64(1)
	for {
		a, err := s.ack()
		if err == io.EOF {
			break
		}
		if err != nil || a.Start.SeqNum != next || a.End.SeqNum != next+16 {
			t.Fatalf("acknowledgement %+v, %v, where %d belongs", a, err, next)
		}
		next = a.End.SeqNum
	}
	if err := <-failed; err != nil || next != uint64(16*batches+1) {
		t.Fatalf("sent with %v, acknowledged up to %d", err, next)
	}
	return [sha256.Size]byte(all.Sum(nil))
}

func hashBodies(all hash.Hash, in wire.AppendInput) {
	for i := range in.Records {
		_, _ = all.Write(in.Records[i].Body)
	}
}

func readBulk(t *testing.T, s *session, want int) (sum [sha256.Size]byte) {
	t.Helper()
	all, n := sha256.New(), 0
	for {
		b, err := s.batch()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("after %d records: %v", n, err)
		}
		for _, r := range b.Records {
			if r.SeqNum != uint64(1+n) {
				t.Fatalf("record %d where %d belongs", r.SeqNum, 1+n)
			}
			_, _ = all.Write(r.Body)
			n++
		}
	}
	if n != want {
		t.Fatalf("read %d records of %d", n, want)
	}
	return [sha256.Size]byte(all.Sum(nil))
}

// memoryWatch keeps the largest resident memory of a server since it began, which is when the server is idle.
type memoryWatch struct {
	pid  int
	mu   sync.Mutex
	idle int64
	most int64
}

func watchMemory(t *testing.T, server *harness.Server) *memoryWatch {
	t.Helper()
	w := &memoryWatch{pid: server.PID()}
	w.idle = residentMemory(t, w.pid)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				w.sample(t)
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-stopped })
	return w
}

func (w *memoryWatch) sample(t *testing.T) {
	now := residentMemory(t, w.pid)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.most = max(w.most, now)
}

func (w *memoryWatch) grown() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most - w.idle
}

func (w *memoryWatch) check(t *testing.T, doing string) {
	t.Helper()
	if grown := w.grown(); grown > memoryAboveIdle {
		t.Errorf("%s, the server grew by %d MiB above its idle %d MiB; at most %d are allowed",
			doing, grown>>20, w.idle>>20, memoryAboveIdle>>20)
	}
}

// residentMemory is 0 where the system does not tell it, or the process is gone.
func residentMemory(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0
	}
	return kib << 10
}
