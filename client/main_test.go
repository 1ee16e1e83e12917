package client_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// server is where the examples find a server: a built one, in a process of its own, that keeps everything in memory.
var server = "http://127.0.0.1:8080"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "tailrace-client-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	stop, err := startServer(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start a server for the examples:", err)
		return 1
	}
	defer stop()
	return m.Run()
}

func startServer(dir string) (stop func(), err error) {
	bin := os.Getenv("TAILRACE_BIN")
	if bin == "" {
		bin = filepath.Join(dir, "tailrace")
		if out, err := exec.Command("go", "build", "-o", bin, "../cmd/tailrace").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, out)
		}
	}
	cmd := exec.Command(bin, "serve", "--memory", "--listen=127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill() // our own child
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return nil, fmt.Errorf("the server said nothing: %w", err)
	}
	server = strings.TrimSpace(strings.TrimPrefix(line, "tailrace listens on "))
	return stop, nil
}
