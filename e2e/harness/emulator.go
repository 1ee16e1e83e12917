package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// EmulatorVariable names AWS's Runtime Interface Emulator, as tools/setup lambda-rie brings it in.
const EmulatorVariable = "TAILRACE_LAMBDA_RIE"

// Emulated is a function under the emulator of AWS: the real protocol between runtime and platform, one invocation at a time,
// and no streaming.
type Emulated struct {
	cmd   *exec.Cmd
	url   string
	logs  output
	ended chan struct{}
}

// StartEmulated starts a function under the emulator and returns when that answers. The function itself starts with the
// first event.
func StartEmulated(ctx context.Context, emulator string, o FunctionOptions) (*Emulated, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, fmt.Errorf("start emulator: %w", err)
	}
	e := &Emulated{
		cmd: exec.Command(emulator, "--runtime-interface-emulator-address", ports[0], "--runtime-api-address", ports[1], o.Bin),
		url: "http://" + ports[0] + "/2015-03-31/functions/function/invocations", ended: make(chan struct{}),
	}
	e.cmd.Env = append(append(foreignEnvironment(), "AWS_LAMBDA_FUNCTION_NAME="+filepath.Base(o.Bin), "AWS_LAMBDA_FUNCTION_TIMEOUT=30"), o.Env...)
	e.cmd.Stdout, e.cmd.Stderr = &e.logs, &e.logs
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the function is its child, and ends with it
	if err := e.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start emulator: %w", err)
	}
	go func() {
		_ = e.cmd.Wait()
		close(e.ended)
	}()
	for deadline := time.Now().Add(readyTimeout); ; {
		conn, err := net.DialTimeout("tcp", ports[0], time.Second)
		if err == nil {
			return e, conn.Close()
		}
		select {
		case <-e.ended:
			return nil, fmt.Errorf("start emulator: it ended\n%s", e.Logs())
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), e.Kill())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("start emulator: it does not answer\n%s", e.Logs()), e.Kill())
		}
	}
}

// freePorts are addresses that nothing listens on at this moment: the emulator does not let the system choose.
func freePorts(n int) (addresses []string, err error) {
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}

// Invoke sends an event and returns the answer, or what the function failed with.
func (e *Emulated) Invoke(ctx context.Context, event []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(event))
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("invoke: %w", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("invoke: read answer: %w", err)
	}
	return answer, nil
}

// initReport is the line by which the emulator tells how long the function took to start.
var initReport = regexp.MustCompile(`INIT REPORT\(durationMs: ([0-9.]+)\)`)

// InitMillis is what the emulator says of the function's start; empty if it has said nothing yet.
func (e *Emulated) InitMillis() string {
	found := initReport.FindStringSubmatch(e.Logs())
	if found == nil {
		return ""
	}
	return found[1]
}

// Kill ends the emulator and the function.
func (e *Emulated) Kill() error {
	err := syscall.Kill(-e.cmd.Process.Pid, syscall.SIGKILL)
	<-e.ended
	return err
}

// Logs is what the two have written so far.
func (e *Emulated) Logs() string { return e.logs.String() }
