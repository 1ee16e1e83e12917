package e2e

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// refused starts a server that must not come up and returns what it said.
func refused(t *testing.T, status int, data string, args ...string) string {
	t.Helper()
	since := time.Now()
	s, err := harness.Start(t.Context(), harness.Options{Bin: bin, Data: data, Args: args})
	var exit *exec.ExitError
	switch {
	case err == nil:
		s.Kill()
		t.Fatal("the server came up")
	case !errors.As(err, &exit) || exit.ExitCode() != status:
		t.Fatalf("the server ended otherwise than with status %d: %v", status, err)
	case time.Since(since) > 10*time.Second:
		t.Errorf("it took %s to refuse", time.Since(since))
	}
	if strings.Contains(err.Error(), "goroutine ") || strings.Contains(err.Error(), "panic") {
		t.Errorf("the refusal is a crash: %v", err)
	}
	return err.Error()
}

// A folder has one server at a time; the second one says why it does not start, and does not disturb the first.
func TestSecondProcessOnOneFolderIsRefused(t *testing.T) {
	t.Parallel()
	data := dataFolder(t)
	server := start(t, data)
	c := newClient(server.URL, "one-folder")
	c.create(t, "s")
	said := refused(t, 1, data)
	for _, part := range []string{data, "in use", "--data"} {
		if !strings.Contains(said, part) {
			t.Errorf("the refusal does not say %q: %s", part, said)
		}
	}
	c.mustAppend(t, "s", appendInput{Records: bodies("still served")})
	server.Kill()
	server = start(t, data) // the lock went with its process
	if got := c.at(server.URL).tail(t, "s"); got != 1 {
		t.Errorf("the tail is %d, want 1", got)
	}
}

func TestForeignFoldersAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ file, content, says string }{
		"another format":    {"FORMAT", `{"tailrace_data_folder":999,"store_id":"8a3f0b7e-5f5e-4b53-9a55-3d6f1c7f9d10"}`, "format 999"},
		"a damaged format":  {"FORMAT", "{", "damaged"},
		"somebody's folder": {"thesis.txt", "chapter one", "not a data folder"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := t.TempDir()
			path := filepath.Join(data, test.file)
			if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if said := refused(t, 1, data); !strings.Contains(said, test.says) {
				t.Errorf("the refusal does not say %q: %s", test.says, said)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != test.content {
				t.Errorf("the file was touched: %q, %v", got, err)
			}
		})
	}
}

func TestPortInUseIsSaid(t *testing.T) {
	t.Parallel()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	said := refused(t, 1, "", "--listen="+other.Addr().String())
	if !strings.Contains(said, other.Addr().String()) || !strings.Contains(said, "in use") {
		t.Errorf("the refusal is %q", said)
	}
}

func TestMisconfigurationIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	data := dataFolder(t)
	said := refused(t, 2, data, "--listen=0.0.0.0:0", "--trim-delay=soon")
	for _, part := range []string{"2 faults", "--listen", "--trim-delay", "insecure-no-auth"} {
		if !strings.Contains(said, part) {
			t.Errorf("the refusal does not say %q: %s", part, said)
		}
	}
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a misconfigured server made its folder: %v", err)
	}
}
