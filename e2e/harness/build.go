// Package harness runs the built server as its own process, for the end-to-end tests and for measurements: start it on a
// free port, wait until it is ready, kill it, stop it, read what it said. It knows the server by its command line, its
// output and its HTTP port alone.
package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// BinVariable names a built server to use instead of building one.
const BinVariable = "TAILRACE_BIN"

// Binary returns the server to run: the one that TAILRACE_BIN names, or one built into dir.
func Binary(ctx context.Context, dir string) (string, error) {
	if bin := os.Getenv(BinVariable); bin != "" {
		return bin, nil
	}
	root, err := ModuleRoot(ctx)
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "tailrace")
	build := exec.CommandContext(ctx, "go", "build", "-o", bin, "./cmd/tailrace")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build server: %w\n%s", err, out)
	}
	return bin, nil
}

// ModuleRoot is the folder of go.mod.
func ModuleRoot(ctx context.Context) (string, error) {
	return goEnv(ctx, "GOMOD", filepath.Dir)
}

// GoSources is the folder of the standard library's sources.
func GoSources(ctx context.Context) (string, error) {
	return goEnv(ctx, "GOROOT", func(root string) string { return filepath.Join(root, "src") })
}

func goEnv(ctx context.Context, name string, of func(string) string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", name).Output()
	value := string(bytes.TrimSpace(out))
	if err != nil || value == "" {
		return "", fmt.Errorf("go env %s: %q, %w", name, value, err)
	}
	return of(value), nil
}
