package harness

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Gateway is an http.Handler before processes of functions, as URLs of functions that stream are: each request becomes an
// event for one process that is free, and waits if none is.
type Gateway struct {
	// Start starts one more process of a function.
	Start func(ctx context.Context, name string) (*Function, error)
	// Timeout is what an invocation has; 20 s.
	Timeout time.Duration

	mu   sync.Mutex
	all  map[string][]*Function
	free map[string]chan *Function
}

// Grow starts so many processes of a function, some at a time.
func (g *Gateway) Grow(ctx context.Context, name string, n int) error {
	errs := make([]error, n)
	var starting sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i := range n {
		starting.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			f, err := g.Start(ctx, name)
			if errs[i] = err; err == nil {
				g.add(name, f)
			}
		})
	}
	starting.Wait()
	return errors.Join(errs...)
}

// processesMax bounds the processes of one function.
const processesMax = 1000

func (g *Gateway) pool(name string) chan *Function {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.free == nil {
		g.free, g.all = map[string]chan *Function{}, map[string][]*Function{}
	}
	if g.free[name] == nil {
		g.free[name] = make(chan *Function, processesMax)
	}
	return g.free[name]
}

func (g *Gateway) add(name string, f *Function) {
	pool := g.pool(name)
	g.mu.Lock()
	g.all[name] = append(g.all[name], f)
	g.mu.Unlock()
	pool <- f
}

// KillOne ends one of a function's processes, busy or not, and starts another in its place.
func (g *Gateway) KillOne(ctx context.Context, name string) error {
	g.mu.Lock()
	all := g.all[name]
	i := rand.IntN(len(all))
	f := all[i]
	g.all[name] = append(all[:i:i], all[i+1:]...)
	g.mu.Unlock()
	f.Kill()
	return g.Grow(ctx, name, 1)
}

// Close ends all processes and returns what they wrote, by name.
func (g *Gateway) Close() (logs string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, all := range g.all {
		for _, f := range all {
			f.Kill()
			if text := f.Logs(); text != "" {
				logs += fmt.Sprintf("%s (process %d):\n%s", name, f.PID(), text)
			}
		}
	}
	return logs
}

// FunctionOf is the function that a request is for, as routes of a gateway have it.
func FunctionOf(r *http.Request) string {
	path := r.URL.EscapedPath()
	switch below := strings.HasSuffix(path, "/records") || strings.HasSuffix(path, "/records/tail") || strings.HasSuffix(path, "/fence"); {
	case below && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		return "read"
	case below:
		return "append"
	}
	return "control"
}

// URLEvent is the event of a request to a function's URL.
func URLEvent(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	headers := map[string]string{"host": r.Host}
	for name, values := range r.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	return json.Marshal(map[string]any{
		"version": "2.0", "routeKey": "$default", "rawPath": r.URL.EscapedPath(), "rawQueryString": r.URL.RawQuery, "headers": headers,
		"requestContext": map[string]any{
			"accountId": "anonymous", "apiId": "e2e", "domainName": "e2e.lambda-url.us-east-1.on.aws", "domainPrefix": "e2e", "stage": "$default",
			"http": map[string]any{"method": r.Method, "path": r.URL.EscapedPath(), "protocol": r.Proto, "sourceIp": "127.0.0.1"},
		},
		"body": base64.StdEncoding.EncodeToString(body), "isBase64Encoded": true,
	})
}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	event, err := URLEvent(r)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	timeout := g.Timeout
	if timeout == 0 {
		timeout = 20 * time.Second
	}
	g.dispatch(w, r, FunctionOf(r), event, timeout, answer)
}

// dispatch has an event answered by a process of a function that is free, and waits if none is.
func (g *Gateway) dispatch(
	w http.ResponseWriter, r *http.Request, name string, event []byte, timeout time.Duration,
	answer func(http.ResponseWriter, *Function, []byte, time.Duration) (alive bool),
) {
	pool := g.pool(name)
	for {
		var f *Function
		select {
		case f = <-pool:
		case <-r.Context().Done():
			return
		}
		select {
		case <-f.ended: // killed while it was free
			continue
		default:
		}
		// As the platform does, an invocation is not given up when its client goes.
		if alive := answer(w, f, event, timeout); alive {
			pool <- f
		}
		return
	}
}

// answer has a request answered by a process, and reports whether it can take another.
func answer(w http.ResponseWriter, f *Function, event []byte, timeout time.Duration) (alive bool) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	i, err := f.Begin(ctx, event, timeout)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway) // as a function's URL does; what became of the request it does not say
		return !errors.Is(err, ErrFunctionEnded) && ctx.Err() == nil
	}
	prelude, body, err := i.Stream()
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return !errors.Is(err, ErrFunctionEnded)
	}
	for name, value := range prelude.Headers {
		w.Header().Set(name, value)
	}
	w.Header().Del("Content-Length") // net/http counts
	w.WriteHeader(prelude.StatusCode)
	if err := copyFlushing(w, body); err != nil {
		defer panic(http.ErrAbortHandler) // the client must not take it for whole
		return false
	}
	return true
}

// copyFlushing passes on every piece as it comes. The rest is read even if nobody takes it.
func copyFlushing(w http.ResponseWriter, body io.Reader) error {
	piece := make([]byte, 32<<10)
	for {
		n, err := body.Read(piece)
		if n > 0 {
			_, _ = w.Write(piece[:n])
			_ = http.NewResponseController(w).Flush()
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// Invoke sends an event to a process of a function that is free, and waits for its answer, which is thrown away.
func (g *Gateway) Invoke(ctx context.Context, name string, event []byte) error {
	pool := g.pool(name)
	select {
	case f := <-pool:
		_, err := f.Invoke(ctx, event, 15*time.Minute)
		if !errors.Is(err, ErrFunctionEnded) && ctx.Err() == nil {
			pool <- f
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
