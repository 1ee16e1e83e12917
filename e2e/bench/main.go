// Command bench measures a freshly started server on a data folder, and in the same run the file system below that folder,
// and prints a block of Markdown for docs/results.md, which says how each figure is taken. With TAILRACE_E2E_STORES it does
// so on a bucket and a table, beside those two alone.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/tailrace-streams/tailrace/e2e/harness"
)

func main() {
	dir := flag.String("dir", ".", "the folder below which data is written and then removed; its file system is what is measured")
	each := flag.Duration("each", 10*time.Second, "how long each figure is measured")
	flag.Parse()
	if err := run(context.Background(), *dir, *each); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, each time.Duration) error {
	work, err := os.MkdirTemp(dir, "tailrace-bench-")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	defer os.RemoveAll(work)
	if work, err = filepath.Abs(work); err != nil {
		return err
	}
	bin, err := harness.Binary(ctx, work)
	if err != nil {
		return err
	}
	if harness.Shared() {
		return runShared(ctx, bin, work, each)
	}
	data := filepath.Join(work, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	low, err := measureFloor(work, each/2)
	if err != nil {
		return fmt.Errorf("measure the file system: %w", err)
	}
	got, err := measureServer(ctx, harness.Options{Bin: bin, Data: data, Args: []string{"--log-level=warn"}}, each)
	if err != nil {
		return fmt.Errorf("measure the server: %w", err)
	}
	fmt.Printf("\n## %s, commit %s\n\n", time.Now().UTC().Format(time.DateOnly), commit(ctx))
	fmt.Printf("`%s`; %s/%s, %d cores, %s, file system %s.\n\n", command(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(),
		runtime.Version(), fileSystem(ctx, work))
	report(os.Stdout, low, got)
	return nil
}

// commit is the commit checked out, marked if the tree differs from it.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// command is how this run was started.
func command() string {
	if made := os.Getenv("BENCH_COMMAND"); made != "" {
		return made
	}
	return strings.Join(append([]string{"go run ./e2e/bench"}, os.Args[1:]...), " ")
}

// fileSystem names the type of the file system of a folder, where df can tell.
func fileSystem(ctx context.Context, dir string) string {
	out, err := exec.CommandContext(ctx, "df", "--output=fstype", dir).Output()
	fields := strings.Fields(string(out))
	if err != nil || len(fields) == 0 {
		return "unknown"
	}
	return fields[len(fields)-1]
}
