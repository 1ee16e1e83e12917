package e2e

import (
	"bufio"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// size is how much of something a test of scale does: usually what a small machine does in seconds, with
// TAILRACE_SCALE=full what docs/results.md has figures of, and with TAILRACE_SCALE_name what that says.
func size(t *testing.T, name string, usual, full int) int {
	t.Helper()
	text := os.Getenv("TAILRACE_SCALE_" + name)
	switch {
	case text == "" && fullScale():
		return full
	case text == "":
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		t.Fatalf("TAILRACE_SCALE_%s is %q, not a number above 0", name, text)
	}
	return n
}

func fullScale() bool { return os.Getenv("TAILRACE_SCALE") == "full" }

// gauges is one scrape of a server's own figures: the value of every series, by its name with its labels.
type gauges map[string]float64

// scrape asks on a connection of its own, so that it counts the same goroutines each time.
func scrape(t *testing.T, server *harness.Server) gauges {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	response, err := client.Get(server.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	all := gauges{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		name, value, found := strings.Cut(lines.Text(), "} ")
		if !found {
			name, value, found = strings.Cut(lines.Text(), " ")
		}
		if !found || strings.HasPrefix(name, "#") {
			continue
		}
		if all[name], err = strconv.ParseFloat(value, 64); err != nil {
			t.Fatalf("a series is %q", lines.Text())
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("read metrics: %v", err)
	}
	if len(all) < 20 {
		t.Fatalf("there are %d series only", len(all))
	}
	return all
}

func (g gauges) goroutines() int { return int(g["go_goroutines"]) }

// resident is the memory that the system has given to the server, in MiB.
func (g gauges) resident() float64 { return g["process_resident_memory_bytes"] / (1 << 20) }

func (g gauges) descriptors() int { return int(g["process_open_fds"]) }

// within waits longer than eventually: for what takes a minute by design. It looks once a second, because looking is
// work for the server too.
func within(t *testing.T, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !cond(); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, limit)
		}
	}
}

// onDisk is what a folder takes of the disk, all that is below it included, as du counts it.
func onDisk(t *testing.T, folder string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // deleted while we walk
		}
		if err != nil {
			return err
		}
		bytes += fileOnDisk(entry)
		return nil
	})
	if err != nil {
		t.Fatalf("measure %s: %v", folder, err)
	}
	return bytes
}

// fileOnDisk is what a file or folder takes, or 0 if it is gone meanwhile.
func fileOnDisk(entry fs.DirEntry) int64 {
	info, err := entry.Info()
	if err != nil {
		return 0
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}

// median of durations, which it sorts.
func median(all []time.Duration) time.Duration { return quantile(all, 0.5) }

func quantile(all []time.Duration, q float64) time.Duration {
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)]
}
