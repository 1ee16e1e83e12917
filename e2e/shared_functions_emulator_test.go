package e2e

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// All four functions under the emulator of AWS, with events as it documents them: direct, of an HTTP API, of a function's
// URL buffered and streaming, of a queue and a schedule; and errors as it tells them.
func TestSharedFunctionsUnderTheEmulator(t *testing.T) {
	t.Parallel()
	emulator := os.Getenv(harness.EmulatorVariable)
	if emulator == "" {
		leaveOut(t, "AWS's runtime interface emulator is not installed (tools/setup lambda-rie)")
	}
	flags, err := harness.StoreFlags(t.Context(), bin, dataFolder(t))
	if err != nil {
		t.Fatal(err)
	}
	emulated := func(name string, env ...string) *harness.Emulated {
		e, err := harness.StartEmulated(t.Context(), emulator, harness.FunctionOptions{Bin: functionBin(t, name), Env: append(harness.FunctionEnv(flags), env...)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = e.Kill()
			if t.Failed() {
				t.Logf("log of the emulator of %s:\n%s", name, lastLines(e.Logs(), 40))
			}
		})
		return e
	}
	want := func(e *harness.Emulated, event string, parts ...string) {
		t.Helper()
		answer, err := e.Invoke(t.Context(), []byte(event))
		for _, part := range parts {
			if err != nil || !strings.Contains(string(answer), part) {
				t.Fatalf("%.80s is answered %.400q, %v, want %q in it", event, answer, err, part)
			}
		}
	}
	fixture := func(name string) string {
		text, err := os.ReadFile("../functions/lambda/testdata/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const basin = "basin-of-events" // that of the fixtures

	control, write, read, maintain := emulated("control"), emulated("append"), emulated("read"), emulated("maintain")
	want(control, `{"operation":"request","method":"PUT","path":"/v1/basins/`+basin+`","body":{"config":{"create_stream_on_append":true}}}`, `"status":201`)
	for i, door := range []string{"http-api", "http-api-decoded", "function-url", "rest-api", "load-balancer"} {
		want(write, fixture(door), `"statusCode":200`, `\"start\":{\"seq_num\":`+string(rune('0'+i))+`,`)
	}
	at := `"basin":"` + basin + `","stream":"orders/2026 a+b"`
	want(write, `{"operation":"append",`+at+`,"records":[{"body":"direct"}],"match_seq_num":5}`, `"status":200`, `"end":{"seq_num":6`)
	want(write, `{"operation":"append",`+at+`,"records":[{"body":"late"}],"match_seq_num":5}`, `"status":412`, `"applied":"no"`, `"seq_num_mismatch":6`)
	want(write, fixture("sqs"), `{"batchItemFailures":[]}`)
	want(read, `{"operation":"read",`+at+`,"seq_num":5}`, `"status":200`, `"body":"direct"`)
	want(read, `{"operation":"check-tail",`+at+`}`, `"status":200`, `"seq_num":6`)
	url := string(urlEvent(t, "GET", "/v1/streams/orders%2F2026%20a+b/records?seq_num=0", "", "s2-basin", basin))
	want(read, url, `"statusCode":200`, `hi`)
	want(read, strings.ReplaceAll(url, ".lambda-url.", ".execute-api."), `"statusCode":200`, `hi`)
	want(read, fixture("sqs"), `errorMessage`, `SQS batches belong to append`)
	want(maintain, fixture("schedule"), `"completed":true`, `"streams":2`)
	want(maintain, `{"operation":"maintain"}`, `"completed":true`)
	want(control, string(urlEvent(t, "GET", "/v1/streams", "", "s2-basin", basin)), `"statusCode":200`, `queue`)
	want(control, fixture("http-api"), `"statusCode":501`, `is served by the function append`)

	streaming := emulated("read", asURLStream)
	answer, err := streaming.Invoke(t.Context(), []byte(url))
	head, body, ok := strings.Cut(string(answer), strings.Repeat("\x00", 8))
	var prelude harness.Prelude
	if err != nil || !ok || json.Unmarshal([]byte(head), &prelude) != nil || prelude.StatusCode != 200 || !strings.Contains(body, `"body":"direct"`) {
		t.Errorf("a URL that streams: %.300q, %v", answer, err)
	}
}
