package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// admin runs a command on the stores of a data folder that nobody serves, and returns what it printed.
func admin(t *testing.T, data string, args ...string) string {
	t.Helper()
	stores, err := harness.StoreFlags(t.Context(), bin, data)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, append(append([]string{"admin"}, args...), append(stores, "--log-format=json")...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

var collected = regexp.MustCompile(`objects (\d+), referred to (\d+), deleted (\d+) \(\d+ bytes\), failed 0, quarantined 0`)

// BL-105: a hundred kills in the middle of appends that go into segments leave objects that nothing refers to. A
// collection deletes all of them, and nothing else.
func TestBL105KillsLeaveNoOrphansForEver(t *testing.T) {
	t.Parallel()
	const kills, writers = 100, 4
	data := dataFolder(t)
	var stored atomic.Int64
	for kill := range kills {
		server := start(t, data)
		c := newClient(server.URL, "one-hundred-kills")
		if kill == 0 {
			c.create(t, "s")
		}
		var acked atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				body := strings.Repeat(fmt.Sprintf("%d/%d ", kill, w), 4000)
				for ctx.Err() == nil {
					a, err := c.append(ctx, "s", appendInput{Records: bodies(body)})
					if err != nil || a.status != 200 {
						return
					}
					acked.Add(1)
				}
			})
		}
		eventually(t, "appends before the kill", func() bool { return acked.Load() > int64(kill%10) })
		server.Kill()
		cancel()
		all.Wait()
		stored.Add(acked.Load())
	}
	first := collected.FindStringSubmatch(admin(t, data, "collect", "--collect-grace=0s"))
	if first == nil {
		t.Fatal("the collection failed at something, or does not say what it did")
	}
	// Nothing is left to delete, so everything that is there is referred to.
	again := collected.FindStringSubmatch(admin(t, data, "collect", "--collect-grace=0s"))
	if again == nil || again[1] != again[2] || again[3] != "0" {
		t.Errorf("a second collection did %v after the first did %v", again, first)
	}
	t.Logf("after %d kills: %s", kills, first[0])
	if out := admin(t, data, "check"); !strings.Contains(out, "damaged streams 0") {
		t.Errorf("check says: %s", out)
	}
	server := start(t, data)
	c := newClient(server.URL, "one-hundred-kills")
	if tail := c.tail(t, "s"); tail < uint64(stored.Load()) || len(c.readAll(t, "s", 0, tail)) != int(tail) {
		t.Errorf("the tail is %d, %d appends were acknowledged", tail, stored.Load())
	}
}
