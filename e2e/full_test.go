package e2e

import (
	"context"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// On a disk that is full, a large append is refused at once and definitely and /ready says so; with room again, both work,
// and nothing acknowledged is lost.
func TestAFullDiskIsToldAtOnce(t *testing.T) {
	t.Parallel()
	disk := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", disk).CombinedOutput(); err != nil {
		leaveOut(t, "a file system of a given size cannot be mounted: "+strings.TrimSpace(string(out)))
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", disk).Run() })
	server := start(t, filepath.Join(disk, "data"))
	c := newClient(server.URL, "full-disk")
	c.create(t, "s")
	noise := make([]byte, 400<<10) // or it would be stored as a few bytes
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	large := appendInput{Records: []newRecord{{Body: hex.EncodeToString(noise)}}}
	post := func() answer {
		t.Helper()
		a, err := c.append(t.Context(), "s", large)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := post(); a.status != 200 {
		t.Fatalf("append: %v", a)
	}
	filler := filepath.Join(disk, "filler")
	fill(t, filler, 256<<10) // left for the heads and the names
	since := time.Now()
	a := post()
	if took := time.Since(since); a.status != 502 || !strings.Contains(a.body, "no room") || !a.definite() || took > 3*time.Second {
		t.Fatalf("append to a full disk: %v after %s", a, took)
	}
	status := func(path string) int {
		a, err := c.do(context.Background(), "GET", path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return a.status
	}
	eventually(t, "/ready tells of the full disk", func() bool { return status("/ready") == 503 })
	if got := status("/health"); got != 200 {
		t.Errorf("/health: %d", got)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ready again", func() bool { return status("/ready") == 200 })
	if a := post(); a.status != 200 {
		t.Fatalf("append with room again: %v", a)
	}
	if tail := c.tail(t, "s"); tail != 2 {
		t.Errorf("the tail is %d, want 2", tail)
	}
}

// fill writes a file until its disk is full, and gives back the last bytes of it.
func fill(t *testing.T, path string, spare int64) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var size int64
	for block := make([]byte, 64<<10); err == nil; {
		var n int
		n, err = file.Write(block)
		size += int64(n)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := file.Truncate(size - spare); err != nil {
		t.Fatal(err)
	}
}
