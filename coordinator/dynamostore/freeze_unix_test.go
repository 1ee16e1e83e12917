//go:build linux || darwin

package dynamostore

import (
	"os"
	"syscall"
	"testing"
)

func freeze(t *testing.T, p *os.Process) { signal(t, p, syscall.SIGSTOP) }

func thaw(t *testing.T, p *os.Process) { signal(t, p, syscall.SIGCONT) }

func signal(t *testing.T, p *os.Process, s os.Signal) {
	t.Helper()
	if err := p.Signal(s); err != nil {
		t.Fatal(err)
	}
}
