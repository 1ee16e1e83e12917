package harness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options say how to start a server.
type Options struct {
	Bin string
	// Data is the data folder, or with shared stores the name of a prefix and a table; empty is --memory.
	Data string
	// Args follow the others, Env goes over the environment of this process without its TAILRACE_ variables.
	Args, Env []string
	// OwnStores says that Args or Env name the stores, whatever the tests run on.
	OwnStores bool
	// NotReady starts a server whose stores may be out of reach: Start waits for its first lines alone.
	NotReady bool
	// Wrapper is a command in front of the server's own, such as a tracer with its flags.
	Wrapper []string
}

// Server is a running server, or one that has ended. Its methods may be called at once.
type Server struct {
	// URL is where it answers, without a slash at the end.
	URL string

	cmd            *exec.Cmd
	stdout, stderr output
	ended          chan struct{} // closed once the process is gone and its output read
	waitErr        error         // of the process; set before ended is closed
}

// readyTimeout bounds the time from the start of the process to its being ready. A tracer makes it many times slower.
const readyTimeout = 60 * time.Second

// Start starts a server on a free port and waits until it is ready. If it ends before, the error has what it wrote, and
// its exit status by way of an *exec.ExitError.
func Start(ctx context.Context, o Options) (*Server, error) {
	args := append(append([]string{}, o.Wrapper...), o.Bin, "serve", "--listen=127.0.0.1:0", "--log-format=json")
	var stores []string
	var err error
	if !o.OwnStores {
		if stores, err = StoreFlags(ctx, o.Bin, o.Data); err != nil {
			return nil, fmt.Errorf("start server: %w", err)
		}
	}
	args = append(append(args, stores...), o.Args...)
	s := &Server{cmd: exec.Command(args[0], args[1:]...), ended: make(chan struct{})}
	s.cmd.Env = append(foreignEnvironment(), o.Env...)
	s.cmd.Stdout, s.cmd.Stderr = &s.stdout, &s.stderr
	// A process group of its own, so that a signal reaches a tracer's child too, and Ctrl-C of a test does not.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	go func() {
		s.waitErr = s.cmd.Wait()
		close(s.ended)
	}()
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	err = s.awaitFirstLines(ctx)
	if err == nil && !o.NotReady {
		err = s.awaitReady(ctx)
	}
	if err != nil {
		s.Kill()
		return nil, fmt.Errorf("start server: %w\n%s%s", err, s.Stdout(), s.Logs())
	}
	return s, nil
}

// foreignEnvironment is the environment without settings of the server, which would change what a test is about.
func foreignEnvironment() []string {
	var environ []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "TAILRACE_") {
			environ = append(environ, variable)
		}
	}
	return environ
}

// firstLine is what the first line of output says before the URL.
const firstLine = "tailrace listens on "

// awaitFirstLines waits for all of the first lines.
func (s *Server) awaitFirstLines(ctx context.Context) error {
	for {
		text := s.Stdout()
		if line, _, whole := strings.Cut(text, "\n"); whole && strings.Contains(text, "\ntry:") && strings.HasSuffix(text, "\n") {
			s.URL = strings.TrimPrefix(line, firstLine)
			return nil
		}
		if err := s.pause(ctx); err != nil {
			return err
		}
	}
}

// awaitReady waits for the stores.
func (s *Server) awaitReady(ctx context.Context) error {
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/ready", nil)
		if err != nil {
			return err
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		if err := s.pause(ctx); err != nil {
			return err
		}
	}
}

// pause lets a moment pass between two looks at the process.
func (s *Server) pause(ctx context.Context) error {
	select {
	case <-s.ended:
		return errors.Join(errors.New("the process ended"), s.waitErr)
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(5 * time.Millisecond):
		return nil
	}
}

// Signal sends a signal to the server and, if there is one, its wrapper.
func (s *Server) Signal(signal syscall.Signal) error {
	if err := syscall.Kill(-s.cmd.Process.Pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %s to the server: %w", signal, err)
	}
	return nil
}

// Kill ends the server as kill -9 does and returns when it is gone. Killing one that is gone does nothing.
func (s *Server) Kill() {
	select {
	case <-s.ended:
	default:
		_ = s.Signal(syscall.SIGKILL) // our own child: it can only fail because the process is gone
		<-s.ended
	}
}

// Wait waits for the end of the process and returns its exit status: -1 if a signal ended it.
func (s *Server) Wait(timeout time.Duration) (status int, err error) {
	select {
	case <-s.ended:
		return s.cmd.ProcessState.ExitCode(), nil
	case <-time.After(timeout):
		return 0, fmt.Errorf("the server still runs after %s", timeout)
	}
}

// Stop sends SIGTERM and waits for a clean end.
func (s *Server) Stop(timeout time.Duration) error {
	if err := s.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	status, err := s.Wait(timeout)
	if err == nil && status != 0 {
		err = fmt.Errorf("the server ended with status %d", status)
	}
	return err
}

// Stdout and Logs are what the server has written so far.
func (s *Server) Stdout() string { return s.stdout.String() }

// Logs is what the server has written to stderr so far.
func (s *Server) Logs() string { return s.stderr.String() }

// PID is the process id: of the wrapper, if there is one.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// output collects what a process writes; it can be read meanwhile.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
