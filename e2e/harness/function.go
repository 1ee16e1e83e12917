package harness

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// FunctionsVariable names a folder with the built functions, one file each by the function's name.
const FunctionsVariable = "TAILRACE_E2E_FUNCTIONS"

// FunctionNames are the functions that there are.
var FunctionNames = []string{"append", "read", "control", "maintain"}

// Functions returns the folder of the functions to run: the one that TAILRACE_E2E_FUNCTIONS names, or one built into dir, as they are
// packaged.
func Functions(ctx context.Context, dir string) (string, error) {
	if built := os.Getenv(FunctionsVariable); built != "" {
		return built, nil
	}
	root, err := ModuleRoot(ctx)
	if err != nil {
		return "", err
	}
	for _, name := range FunctionNames {
		build := exec.CommandContext(ctx, "go", "build", "-tags", "lambda.norpc", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, name), "./functions/"+name)
		build.Dir = root
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build function %s: %w\n%s", name, err, out)
		}
	}
	return dir, nil
}

// FunctionOptions say how to start a function.
type FunctionOptions struct {
	// Bin is the function's program.
	Bin string
	// Env goes over the environment of this process without its TAILRACE_ variables.
	Env []string
}

// Function is one process of a function, under a Lambda Runtime API of our own. The emulator of AWS has no part in it: this
// one streams, and runs as many processes as a test wants. Invocations are one at a time, as the platform's are.
type Function struct {
	cmd    *exec.Cmd
	stderr output
	// started is closed once the process is there, ended once it is gone.
	started, ended chan struct{}

	server  *http.Server
	next    chan *Invocation // to the process
	ready   chan struct{}    // closed at the first question for an invocation
	asked   atomic.Bool
	begun   time.Time
	initAt  atomic.Int64 // nanoseconds from the start to the first question
	initCPU atomic.Int64 // what of a processor was used by then

	current atomic.Pointer[Invocation]
}

// payloadMax is what the platform takes for an answer that is not streamed.
const payloadMax = 6_291_556

// Invocation is one event on its way through a function. Its methods are for one goroutine.
type Invocation struct {
	id       string
	payload  []byte
	deadline time.Time

	began chan struct{} // closed when the answer begins
	body  *io.PipeReader
	sink  *io.PipeWriter
	media string
	// failure is the function's own error.
	failure error
}

// errFunction is in the error of an invocation that the function failed.
var errFunction = errors.New("the function failed the invocation")

// ErrFunctionEnded says that the process was gone before it answered.
var ErrFunctionEnded = errors.New("the process of the function ended")

// StartFunction starts a function and returns when it asks for its first invocation.
func StartFunction(ctx context.Context, o FunctionOptions) (*Function, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start function: %w", err)
	}
	f := &Function{
		cmd: exec.Command(o.Bin), started: make(chan struct{}), ended: make(chan struct{}), next: make(chan *Invocation), ready: make(chan struct{}),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", f.serveNext)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response", f.serveResponse)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error", f.serveError)
	f.server = &http.Server{Handler: mux}
	go func() { _ = f.server.Serve(listener) }()
	f.cmd.Env = append(append(foreignEnvironment(), "AWS_LAMBDA_RUNTIME_API="+listener.Addr().String(), "AWS_LAMBDA_FUNCTION_NAME="+filepath.Base(o.Bin)), o.Env...)
	f.cmd.Stderr = &f.stderr
	f.begun = time.Now()
	if err := f.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start function: %w", errors.Join(err, f.server.Close()))
	}
	close(f.started)
	go func() {
		_ = f.cmd.Wait() // its end is what counts
		close(f.ended)
		if i := f.current.Load(); i != nil {
			_ = i.sink.CloseWithError(ErrFunctionEnded)
		}
	}()
	select {
	case <-f.ready:
		return f, nil
	case <-f.ended:
		err = ErrFunctionEnded
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(readyTimeout):
		err = errors.New("it does not ask for an invocation")
	}
	f.Kill()
	return nil, fmt.Errorf("start function: %w\n%s", err, f.Logs())
}

// Init is how long the process took from its start to its first question for an invocation, and what it used of a
// processor by then.
func (f *Function) Init() (wall, cpu time.Duration) {
	return time.Duration(f.initAt.Load()), time.Duration(f.initCPU.Load())
}

func (f *Function) serveNext(w http.ResponseWriter, r *http.Request) {
	<-f.started
	if f.asked.CompareAndSwap(false, true) {
		f.initAt.Store(int64(time.Since(f.begun)))
		f.initCPU.Store(int64(cpuTime(f.PID())))
		close(f.ready)
	}
	select {
	case i := <-f.next:
		h := w.Header()
		h.Set("Lambda-Runtime-Aws-Request-Id", i.id)
		h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(i.deadline.UnixMilli(), 10))
		h.Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:123456789012:function:"+filepath.Base(f.cmd.Path))
		_, _ = w.Write(i.payload) // a process that is gone is noticed by its end
	case <-r.Context().Done():
	case <-f.ended:
	}
}

func (f *Function) serveResponse(w http.ResponseWriter, r *http.Request) {
	i := f.current.Load()
	if i == nil || i.id != r.PathValue("id") {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	i.media = r.Header.Get("Content-Type")
	close(i.began)
	var src io.Reader = r.Body
	if i.media == "application/json" {
		src = io.LimitReader(r.Body, payloadMax+1)
	}
	n, err := io.Copy(i.sink, src)
	switch body := r.Trailer.Get("Lambda-Runtime-Function-Error-Body"); {
	case err != nil:
		_ = i.sink.CloseWithError(err)
	case i.media == "application/json" && n > payloadMax:
		_ = i.sink.CloseWithError(fmt.Errorf("%w: its answer has more than %d bytes", errFunction, payloadMax))
	case body != "":
		text, _ := base64.StdEncoding.DecodeString(body)
		_ = i.sink.CloseWithError(fmt.Errorf("%w in the middle of its answer: %s", errFunction, text))
	default:
		_ = i.sink.Close()
	}
	w.WriteHeader(http.StatusAccepted)
}

func (f *Function) serveError(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	if i := f.current.Load(); i != nil && i.id == r.PathValue("id") {
		i.failure = fmt.Errorf("%w: %s", errFunction, text)
		close(i.began)
		_ = i.sink.CloseWithError(i.failure)
	}
	w.WriteHeader(http.StatusAccepted)
}

// Begin sends an event, with so much time for it, and returns when the answer begins.
func (f *Function) Begin(ctx context.Context, event []byte, timeout time.Duration) (*Invocation, error) {
	i := &Invocation{
		id: strconv.FormatInt(time.Now().UnixNano(), 36), payload: event, deadline: time.Now().Add(timeout), began: make(chan struct{}),
	}
	i.body, i.sink = io.Pipe()
	f.current.Store(i)
	select {
	case f.next <- i:
	case <-f.ended:
		return nil, ErrFunctionEnded
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case <-i.began:
		return i, i.failure
	case <-f.ended:
		return nil, fmt.Errorf("%w, and may have acted on the event", ErrFunctionEnded)
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for an answer: %w", ctx.Err())
	}
}

// Invoke sends an event and returns the whole answer.
func (f *Function) Invoke(ctx context.Context, event []byte, timeout time.Duration) ([]byte, error) {
	i, err := f.Begin(ctx, event, timeout)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(i.body)
	if err != nil {
		return answer, fmt.Errorf("read answer: %w", err)
	}
	return answer, nil
}

// Prelude is what stands before the body of an answer that streams.
type Prelude struct {
	StatusCode int               `json:"statusCode"`
	Headers    map[string]string `json:"headers"`
}

// Stream takes the answer apart as the platform does for a URL that streams: the prelude, and the body as it comes.
func (i *Invocation) Stream() (p Prelude, body io.Reader, err error) {
	if want := "application/vnd.awslambda.http-integration-response"; i.media != want {
		return p, nil, fmt.Errorf("the answer is %q, not %q", i.media, want)
	}
	var head bytes.Buffer
	for one := make([]byte, 1); !bytes.HasSuffix(head.Bytes(), make([]byte, 8)); head.Write(one) {
		if _, err := io.ReadFull(i.body, one); err != nil {
			return p, nil, fmt.Errorf("read prelude: %w", err)
		}
	}
	if err := json.Unmarshal(bytes.TrimRight(head.Bytes(), "\x00"), &p); err != nil {
		return p, nil, fmt.Errorf("decode prelude: %w", err)
	}
	return p, i.body, nil
}

// Signal sends a signal to the process.
func (f *Function) Signal(signal syscall.Signal) error { return f.cmd.Process.Signal(signal) }

// Kill ends the process as kill -9 does and returns when it is gone.
func (f *Function) Kill() {
	_ = f.cmd.Process.Kill() // it can only fail because the process is gone
	<-f.ended
	_ = f.server.Close()
}

// PID is the process id.
func (f *Function) PID() int { return f.cmd.Process.Pid }

// Logs is what the function has written to stderr so far.
func (f *Function) Logs() string { return f.stderr.String() }

// cpuTime is what a process has used of a processor, 0 where the system does not say.
func cpuTime(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	const tick = 10 * time.Millisecond // Linux's, on every machine that Go runs on
	return time.Duration(user+system) * tick
}

// FunctionEnv is the environment by which a function uses the stores that flags of a server name.
func FunctionEnv(flags []string) []string {
	env := []string{"TAILRACE_INSECURE_NO_AUTH=true"}
	for _, flag := range flags {
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		env = append(env, "TAILRACE_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"="+value)
	}
	return env
}
