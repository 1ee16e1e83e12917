package e2e

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/e2e/faultproxy"
	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// functions builds the functions, once for all tests.
var functions = sync.OnceValues(func() (string, error) {
	return harness.Functions(context.Background(), functionsDir)
})

// functionsDir is in the folder that TestMain removes.
var functionsDir string

// functionBin is the program of a function.
func functionBin(t *testing.T, name string) string {
	t.Helper()
	dir, err := functions()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// startFunction starts one process on stores that flags of a server name.
func startFunction(t *testing.T, name string, flags []string, env ...string) *harness.Function {
	t.Helper()
	f, err := harness.StartFunction(t.Context(), harness.FunctionOptions{Bin: functionBin(t, name), Env: append(harness.FunctionEnv(flags), env...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = f.Signal(syscall.SIGCONT) // one that a failed test has left stopped
		f.Kill()
		if t.Failed() {
			t.Logf("log of the function %s (process %d):\n%s", name, f.PID(), lastLines(f.Logs(), 40))
		}
	})
	return f
}

// functionStores are stores with two faulty proxies before them, and a server's flags for them with and without those.
func functionStores(t *testing.T) (s3, heads *faultproxy.Proxy, through, past []string) {
	t.Helper()
	past, err := harness.StoreFlags(t.Context(), bin, dataFolder(t))
	if err != nil {
		t.Fatal(err)
	}
	s3, heads, endpoints := proxies(t)
	byName := map[string]string{}
	for _, flag := range append(append([]string{}, past...), endpoints...) {
		name, _, _ := strings.Cut(flag, "=")
		byName[name] = flag
	}
	for _, flag := range byName {
		through = append(through, flag)
	}
	return s3, heads, through, past
}

const asURLStream = "TAILRACE_FUNCTION_URL_MODE=response-stream"

// urlEvent is the event of a request to a function's URL.
func urlEvent(t *testing.T, method, path string, body string, headers ...string) []byte {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("s2-basin", functionBasin)
	r.Header.Set("content-type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	event, err := harness.URLEvent(r)
	if err != nil {
		t.Fatal(err)
	}
	return event
}

const functionBasin = "functions-e2e"

// directAnswer is what a direct invocation returns.
type directAnswer struct {
	Status  int
	Applied string
	Body    json.RawMessage
}

func invoke(t *testing.T, f *harness.Function, payload string) directAnswer {
	t.Helper()
	text, err := f.Invoke(t.Context(), []byte(payload), 20*time.Second)
	if err != nil {
		t.Fatalf("%.100s: %v", payload, err)
	}
	var a directAnswer
	if err := json.Unmarshal(text, &a); err != nil {
		t.Fatalf("decode %.200q: %v", text, err)
	}
	return a
}

func directAppend(stream string, bodies ...string) string {
	records := make([]map[string]string, len(bodies))
	for i, body := range bodies {
		records[i] = map[string]string{"body": body}
	}
	payload, _ := json.Marshal(map[string]any{"operation": "append", "basin": functionBasin, "stream": stream, "records": records})
	return string(payload)
}

func makeFunctionBasin(t *testing.T, control *harness.Function) {
	t.Helper()
	a := invoke(t, control, `{"operation":"request","method":"PUT","path":"/v1/basins/`+functionBasin+`","body":{"config":{"create_stream_on_append":true}}}`)
	if a.Status != 201 {
		t.Fatalf("make the basin: %+v", a)
	}
}

// sseEvents reads server-sent events, one a call.
func sseEvents(body io.Reader) func() (event, data string, err error) {
	lines := bufio.NewReader(body)
	return func() (event, data string, err error) {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return "", "", err
			}
			switch name, value, _ := strings.Cut(strings.TrimRight(line, "\n"), ": "); {
			case name == "event":
				event = value
			case name == "data":
				data = value
			case name == "" && data != "":
				return event, data, nil
			}
		}
	}
}

// BL-122, BL-124: through a URL that streams, an event reaches the client while the function goes on; the stream ends before
// the function's time does, so that it can be resumed; what is an error is told at once.
func TestSharedFunctionsBL122Stream(t *testing.T) {
	t.Parallel()
	_, _, _, flags := functionStores(t)
	control, writer, reader := startFunction(t, "control", flags), startFunction(t, "append", flags), startFunction(t, "read", flags, asURLStream)
	makeFunctionBasin(t, control)
	invoke(t, writer, directAppend("s", "first"))
	begun := time.Now()
	const allowed = 6 * time.Second
	i, err := reader.Begin(t.Context(), urlEvent(t, "GET", "/v1/streams/s/records?seq_num=0", "", "accept", "text/event-stream"), allowed)
	if err != nil {
		t.Fatal(err)
	}
	prelude, body, err := i.Stream()
	if err != nil || prelude.StatusCode != 200 || prelude.Headers["Content-Type"] != "text/event-stream" {
		t.Fatalf("prelude %+v, %v", prelude, err)
	}
	next := sseEvents(body)
	want := func(event, part string) {
		t.Helper()
		for {
			got, data, err := next()
			switch {
			case err != nil:
				t.Fatalf("the stream ended before %s %q: %v", event, part, err)
			case got == event && strings.Contains(data, part):
				return
			case got == "error":
				t.Fatalf("the stream failed before %s %q: %s", event, part, data)
			}
		}
	}
	want("batch", "first")
	want("ping", `"seq_num":1`)
	// What comes now is sent after the client has seen what was before it, in one invocation that still goes on.
	invoke(t, writer, directAppend("s", "second"))
	want("batch", "second")
	event, data, err := next()
	for err == nil && event == "ping" {
		event, data, err = next()
	}
	if event != "error" || !strings.Contains(data, "server_draining") {
		t.Errorf("the end is %q %q, %v", event, data, err)
	}
	if _, _, err := next(); err != io.EOF || time.Since(begun) > allowed {
		t.Errorf("the answer ended after %s: %v", time.Since(begun), err)
	}
	if i, err = reader.Begin(t.Context(), urlEvent(t, "GET", "/v1/streams/none/records?seq_num=0", "", "accept", "text/event-stream"), time.Minute); err != nil {
		t.Fatal(err)
	}
	begun = time.Now()
	prelude, body, err = i.Stream()
	if text, _ := io.ReadAll(body); err != nil || prelude.StatusCode != 404 || !strings.Contains(string(text), "stream_not_found") || time.Since(begun) > 10*time.Second {
		t.Errorf("a stream that is not there: %+v %s, %v", prelude, text, err)
	}
}

// A function that was stopped between its PUT and its commit, while what it had PUT was collected, commits anew when it
// goes on: what it acknowledges is there, once.
func TestSharedFunctionsThawBehindCollection(t *testing.T) {
	t.Parallel()
	s3, _, through, past := functionStores(t)
	control := startFunction(t, "control", past)
	makeFunctionBasin(t, control)
	writer := startFunction(t, "append", through)
	invoke(t, writer, directAppend("s", "before"))
	held, stored := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s3.Watch(func(r faultproxy.Request) {
		if r.Op == faultproxy.PutObject {
			once.Do(func() { close(stored) })
		}
	})
	// The PUT reaches the store, and its answer the function only after the thaw.
	s3.On(faultproxy.First(1, faultproxy.All(faultproxy.Op(faultproxy.PutObject), faultproxy.Key("/segments/")), faultproxy.Fault{Hold: held}))
	large := strings.Repeat("large ", 5000)
	answers := make(chan string, 1)
	go func() {
		text, err := writer.Invoke(t.Context(), []byte(directAppend("s", large)), 60*time.Second)
		answers <- fmt.Sprintf("%s %v", text, err)
	}()
	<-stored
	if err := writer.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	close(held) // the store gets it while the process stands still
	eventually(t, "the segment to be stored", func() bool { return s3.Forwarded()[faultproxy.PutObject] > 0 })
	eventually(t, "the segment to be collected", func() bool {
		out, err := exec.CommandContext(t.Context(), bin, append([]string{"admin", "collect", "--collect-grace=0s"}, past...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("collect: %v\n%s", err, out)
		}
		return strings.Contains(string(out), "deleted 1 ")
	})
	if err := writer.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got := <-answers; !strings.Contains(got, `"status":200`) && !strings.Contains(got, `"applied":"no"`) {
		t.Errorf("the answer after the thaw is %.300s", got)
	} else if strings.Contains(got, `"status":200`) != (len(readBodies(t, past, "s")) == 2) {
		t.Errorf("the answer is %.300s, and the stream has %d records", got, len(readBodies(t, past, "s")))
	}
	for i, body := range readBodies(t, past, "s") {
		if want := []string{"before", large}[i]; body != want {
			t.Errorf("record %d has %d bytes, want %d", i, len(body), len(want))
		}
	}
	out, err := exec.CommandContext(t.Context(), bin, append([]string{"admin", "check"}, past...)...).CombinedOutput()
	if err != nil {
		t.Errorf("check: %v\n%s", err, out)
	}
}

// readBodies reads a stream through a function of its own.
func readBodies(t *testing.T, flags []string, stream string) (all []string) {
	t.Helper()
	reader := startFunction(t, "read", flags)
	for {
		a := invoke(t, reader, fmt.Sprintf(`{"operation":"read","basin":%q,"stream":%q,"seq_num":%d}`, functionBasin, stream, len(all)))
		if a.Status == http.StatusRequestedRangeNotSatisfiable {
			return all
		}
		var batch struct{ Records []struct{ Body string } }
		if err := json.Unmarshal(a.Body, &batch); err != nil || a.Status != 200 {
			t.Fatalf("read: %d %.300s, %v", a.Status, a.Body, err)
		}
		for _, r := range batch.Records {
			all = append(all, r.Body)
		}
	}
}

// BL-126: connections that died while a function stood still are not noticed by its callers.
func TestSharedFunctionsBL126DeadConnections(t *testing.T) {
	t.Parallel()
	s3, heads, through, past := functionStores(t)
	makeFunctionBasin(t, startFunction(t, "control", past))
	writer := startFunction(t, "append", through)
	for i := range 5 {
		invoke(t, writer, directAppend("s", fmt.Sprint(i), strings.Repeat("x", 20_000)))
	}
	if err := writer.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s3.CloseClientConnections()
	heads.CloseClientConnections()
	// Long enough for the connections to count as rested when the process goes on.
	time.Sleep(1500 * time.Millisecond)
	if err := writer.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if a := invoke(t, writer, directAppend("s", fmt.Sprint(i), strings.Repeat("x", 20_000))); a.Status != 200 {
			t.Errorf("append %d after the thaw: %+v %s", i, a, a.Body)
		}
	}
}

// BL-127: what a function has acknowledged is stored, whatever happens to its process from then on, and it owes nothing: the
// head's log stays below its mark.
func TestSharedFunctionsBL127NothingAfterTheAnswer(t *testing.T) {
	t.Parallel()
	s3, heads, through, past := functionStores(t)
	makeFunctionBasin(t, startFunction(t, "control", past))
	sent := func() (n int) {
		for _, proxy := range []*faultproxy.Proxy{s3, heads} {
			for _, count := range proxy.Counted() {
				n += count
			}
		}
		return n
	}
	const appends = 40
	for i := 0; i < appends; {
		writer := startFunction(t, "append", through)
		for n := 0; n < 15 && i < appends; n++ {
			if a := invoke(t, writer, directAppend("s", fmt.Sprint(i))); a.Status != 200 {
				t.Fatalf("append %d: %+v %s", i, a, a.Body)
			}
			i++
		}
		sent()
		time.Sleep(200 * time.Millisecond) // in which a move that was left for later would begin
		if n := sent(); n != 0 {
			t.Errorf("%d requests to the stores after the answer", n)
		}
		writer.Kill()
	}
	if got := readBodies(t, past, "s"); len(got) != appends {
		t.Errorf("%d records are stored, %d were acknowledged", len(got), appends)
	}
}

// A warm function answers reads that may be behind from its memory, with no request to a store; a revision that it does not
// have, made by another function, takes it one look at the head.
func TestSharedFunctionsReadFromMemory(t *testing.T) {
	t.Parallel()
	s3, heads, through, past := functionStores(t)
	makeFunctionBasin(t, startFunction(t, "control", past))
	writer, reader := startFunction(t, "append", past), startFunction(t, "read", through)
	const revision, eventual = "tailrace-revision", "tailrace-consistency"
	ask := func(f *harness.Function, method, path, body string, headers ...string) (revisionOf string, answer string) {
		t.Helper()
		text, err := f.Invoke(t.Context(), urlEvent(t, method, path, body, headers...), 20*time.Second)
		var a struct {
			StatusCode int               `json:"statusCode"`
			Headers    map[string]string `json:"headers"`
			Body       string            `json:"body"`
		}
		if err == nil {
			err = json.Unmarshal(text, &a)
		}
		if err != nil || a.StatusCode != 200 {
			t.Fatalf("%s %s: %v %.300q", method, path, err, text)
		}
		for name, value := range a.Headers {
			if strings.EqualFold(name, revision) {
				revisionOf = value
			}
		}
		return revisionOf, a.Body
	}
	sent := func() (n int) {
		for _, proxy := range []*faultproxy.Proxy{s3, heads} {
			for _, count := range proxy.Counted() {
				n += count
			}
		}
		return n
	}
	const records, tail = "/v1/streams/s/records", "/v1/streams/s/records/tail"
	first, _ := ask(writer, "POST", records, `{"records":[{"body":"one"}]}`)
	ask(reader, "GET", records+"?seq_num=0", "", eventual, "eventual", "tailrace-min-revision", first)
	sent()
	for range 5 {
		if _, body := ask(reader, "GET", records+"?seq_num=0", "", eventual, "eventual"); !strings.Contains(body, `"one"`) {
			t.Fatalf("from memory: %s", body)
		}
		ask(reader, "GET", tail, "", eventual, "eventual")
	}
	if n := sent(); n != 0 {
		t.Errorf("%d requests to the stores for what is remembered", n)
	}
	second, _ := ask(writer, "POST", records, `{"records":[{"body":"two"}]}`)
	if _, body := ask(reader, "GET", records+"?seq_num=0", "", eventual, "eventual", "tailrace-min-revision", second); !strings.Contains(body, `"two"`) {
		t.Errorf("a read that demands the second write: %s", body)
	}
	if n := sent(); n != 1 {
		t.Errorf("%d requests to the stores for a revision that is not remembered, want one", n)
	}
}

// The budget of a function: what its program weighs, and what its start takes of a processor.
func TestSharedFunctionsKeepTheirBudget(t *testing.T) {
	text, err := os.ReadFile("../functions/budget.json")
	if err != nil {
		t.Fatal(err)
	}
	var budget struct {
		BinaryBytes int64 `json:"binary_bytes"`
		InitMs      int64 `json:"init_ms"`
		InitCPUMs   int64 `json:"init_cpu_ms"`
	}
	if err := json.Unmarshal(text, &budget); err != nil || budget.BinaryBytes == 0 || budget.InitMs == 0 || budget.InitCPUMs == 0 {
		t.Fatalf("the budget is %+v, %v", budget, err)
	}
	_, _, _, flags := functionStores(t)
	makeFunctionBasin(t, startFunction(t, "control", flags)) // claims the bucket, which a later start needs not
	for _, name := range harness.FunctionNames {
		info, err := os.Stat(functionBin(t, name))
		if err != nil {
			t.Fatal(err)
		}
		// The least of several, since the machine may be doing other things.
		leastWall, leastCPU := time.Hour, time.Hour
		for range 5 {
			wall, cpu := startFunction(t, name, flags).Init()
			leastWall, leastCPU = min(leastWall, wall), min(leastCPU, cpu)
		}
		t.Logf("%s: %d bytes, starts in %s, with %s of a processor", name, info.Size(), leastWall.Round(time.Millisecond), leastCPU)
		if info.Size() > budget.BinaryBytes || leastWall.Milliseconds() > budget.InitMs || leastCPU.Milliseconds() > budget.InitCPUMs {
			t.Errorf("%s has %d bytes and starts in %s, with %s of a processor, beyond functions/budget.json", name, info.Size(), leastWall, leastCPU)
		}
	}
}

// BL-121: an answer near the platform's limit is cut, not refused.
func TestSharedFunctionsBL121Limit(t *testing.T) {
	t.Parallel()
	_, _, _, flags := functionStores(t)
	makeFunctionBasin(t, startFunction(t, "control", flags))
	writer := startFunction(t, "append", flags)
	body := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x01", 200_000)))
	for range 8 {
		payload := fmt.Sprintf(`{"operation":"append","basin":%q,"stream":"s","format":"base64","records":[{"body":%q}]}`, functionBasin, body)
		if a := invoke(t, writer, payload); a.Status != 200 {
			t.Fatalf("append: %+v", a)
		}
	}
	if got := readBodies(t, flags, "s"); len(got) != 8 {
		t.Errorf("%d records", len(got))
	}
	reader := startFunction(t, "read", flags)
	answer, err := reader.Invoke(t.Context(), urlEvent(t, "GET", "/v1/streams/s/records?seq_num=0", ""), 20*time.Second)
	if err != nil || !strings.Contains(string(answer), `"statusCode":200`) {
		t.Errorf("%.100s, %v", answer, err)
	}
}
