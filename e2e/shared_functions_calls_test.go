package e2e

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/e2e/faultproxy"
	"github.com/tailrace-streams/tailrace/e2e/harness"
)

var updateCalls = flag.Bool("update-calls", false, "write "+callsFile+" anew")

// callsFile says which operations of the stores each function calls. The functions' roles on AWS allow these and nothing else
// (iac/checks).
const callsFile = "../iac/checks/testdata/calls.json"

// recorded is a function behind proxies of its own, which keep the operations that it calls.
type recorded struct {
	*harness.Function
	t *testing.T

	mu    sync.Mutex
	calls map[string]bool
}

const callsToken = "recorded-calls-0123456789abcdef"

func startRecorded(t *testing.T, name string, past []string, calls map[string]bool) *recorded {
	t.Helper()
	s3, heads, endpoints := proxies(t)
	r := &recorded{t: t, calls: calls}
	note := func(request faultproxy.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls[operation(request)] = true
	}
	s3.Watch(note)
	heads.Watch(note)
	// The proxies' endpoints go over the stores' own.
	env := []string{"TAILRACE_AUTH=true", "TAILRACE_ROOT_TOKEN=" + callsToken, "TAILRACE_INSECURE_NO_AUTH=", "TAILRACE_COLLECT_GRACE=0s", "TAILRACE_TRIM_DELAY=0s"}
	r.Function = startFunction(t, name, append(slices.Clone(past), endpoints...), env...)
	return r
}

var deletedKey = regexp.MustCompile(`<Key>([^<]+)</Key>`)

// operation is a request's, with where it is if that matters to what a function has to be allowed: the first process that opens the
// stores tries the bucket with objects in a folder of their own, and deletes them.
func operation(request faultproxy.Request) string {
	if request.Op != faultproxy.DeleteObjects {
		return request.Op
	}
	for _, key := range deletedKey.FindAllSubmatch(request.Body, -1) {
		if !bytes.Contains(key[1], []byte("/probe/")) {
			return request.Op
		}
	}
	return request.Op + " probe/"
}

// ask sends a direct invocation with the operator's token, and wants one of the statuses.
func (r *recorded) ask(payload string, statuses ...int) directAnswer {
	r.t.Helper()
	payload = strings.Replace(payload, "{", fmt.Sprintf("{%q:%q,", "access_token", callsToken), 1)
	a := invoke(r.t, r.Function, payload)
	if !slices.Contains(statuses, a.Status) {
		r.t.Fatalf("%.120s: %d %s, want %d", payload, a.Status, a.Body, statuses)
	}
	return a
}

// request is any endpoint's.
func (r *recorded) request(method, path, body string, statuses ...int) {
	r.t.Helper()
	q := fmt.Sprintf(`{"operation":"request","basin":%q,"method":%q,"path":%q`, functionBasin, method, path)
	if body != "" {
		q += `,"body":` + body
	}
	r.ask(q+"}", statuses...)
}

// Drives each function through what it does, and holds the operations that it calls against the file.
func TestSharedFunctionCalls(t *testing.T) {
	t.Parallel()
	_, _, _, past := functionStores(t)
	calls := map[string]map[string]bool{}
	for _, name := range harness.FunctionNames {
		calls[name] = map[string]bool{}
	}
	start := func(name string) *recorded { return startRecorded(t, name, past, calls[name]) }
	control := start("control") // the first: it makes the claim
	driveControl(control)
	driveAppend(start)
	driveRead(start("read"))
	driveMaintain(start("maintain"), control)

	got := map[string][]string{}
	for name, operations := range calls {
		got[name] = slices.Sorted(maps.Keys(operations))
	}
	text, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *updateCalls {
		if err := os.WriteFile(callsFile, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(callsFile); err != nil || !bytes.Equal(text, want) {
		t.Errorf("the functions call\n%s\nand %s says\n%s(%v)\nIf that is meant, run this test with -update-calls, and change the roles in iac/modules/service/roles.tf",
			text, callsFile, want, err)
	}
}

// driveControl changes enough for the log of changes to be moved into pages.
func driveControl(control *recorded) {
	config := `{"config":{"create_stream_on_append":true,"create_stream_on_read":true}}`
	control.request("PUT", "/v1/basins/"+functionBasin, config, 201)
	control.request("PUT", "/v1/basins/basin-to-delete", config, 201)
	control.request("GET", "/v1/basins", "", 200)
	control.request("GET", "/v1/basins/"+functionBasin, "", 200)
	control.request("PATCH", "/v1/basins/"+functionBasin, `{}`, 200)
	for i := range 15 {
		control.request("POST", "/v1/streams", fmt.Sprintf(`{"stream":"made-%d"}`, i), 201)
	}
	control.request("GET", "/v1/streams", "", 200)
	control.request("GET", "/v1/streams/made-1", "", 200)
	control.request("PATCH", "/v1/streams/made-1", `{"retention_policy":{"age":1}}`, 200)
	control.request("POST", "/v1/access-tokens", `{"id":"one","scope":{"streams":{"prefix":""},"basins":{"prefix":""},"op_groups":{"stream":{"read":true}}}}`, 201)
	control.request("GET", "/v1/access-tokens", "", 200)
	control.request("DELETE", "/v1/access-tokens/one", "", 204)
	control.request("GET", "/v1/metrics?set=active-basins&start=0&end=3600", "", 200, 501)
	control.request("GET", "/v1/locations", "", 200)
	control.request("DELETE", "/v1/basins/basin-to-delete", "", 202, 204)
}

// driveAppend appends small and large records until pages are made, and again by a process that has to read them.
func driveAppend(start func(name string) *recorded) {
	for range 2 {
		writer := start("append")
		for i := range 16 {
			body := fmt.Sprint(i)
			if i%4 == 0 {
				body = strings.Repeat("large ", 5000)
			}
			writer.ask(directAppend("appended", body), 200)
			writer.ask(directAppend("made-2", body), 200)
			writer.ask(directAppend("made-1", body), 200)
		}
		writer.ask(fmt.Sprintf(`{"operation":"fence","basin":%q,"stream":"appended","fencing_token":"a"}`, functionBasin), 200)
		writer.ask(fmt.Sprintf(`{"operation":"append","basin":%q,"stream":"appended","fencing_token":"a","match_seq_num":0,"records":[{"body":"x"}]}`, functionBasin), 412)
		trim := `[{"headers":[["","dHJpbQ=="]],"body":"AAAAAAAAAAg="}]` // at 8
		writer.ask(fmt.Sprintf(`{"operation":"append","basin":%q,"stream":"made-2","format":"base64","records":%s}`, functionBasin, trim), 200)
	}
}

func driveRead(reader *recorded) {
	reader.ask(fmt.Sprintf(`{"operation":"read","basin":%q,"stream":"appended","seq_num":0}`, functionBasin), 200)
	reader.ask(fmt.Sprintf(`{"operation":"read","basin":%q,"stream":"appended","seq_num":3,"consistency":"eventual"}`, functionBasin), 200)
	reader.ask(fmt.Sprintf(`{"operation":"read","basin":%q,"stream":"appended","timestamp":1}`, functionBasin), 200)
	reader.ask(fmt.Sprintf(`{"operation":"check-tail","basin":%q,"stream":"appended"}`, functionBasin), 200)
	reader.ask(fmt.Sprintf(`{"operation":"read","basin":%q,"stream":"made-by-reading","tail_offset":0,"wait":1}`, functionBasin), 200, 416)
	reader.request("GET", "/v1/streams/appended/fence", "", 200)
}

// driveMaintain has everything that is due done: what was trimmed, what expired, what was deleted, and what is garbage.
func driveMaintain(maintain, control *recorded) {
	control.request("DELETE", "/v1/streams/appended", "", 202, 204)
	var swept struct {
		ObjectsDeleted int `json:"objects_deleted"`
	}
	deadline := time.Now().Add(60 * time.Second)
	for rounds, deleted := 0, 0; rounds < 3 || deleted == 0; rounds++ {
		text, err := maintain.Invoke(maintain.t.Context(), []byte(`{"source":"aws.events"}`), 60*time.Second)
		if err == nil {
			err = json.Unmarshal(text, &swept)
		}
		if err != nil || time.Now().After(deadline) {
			maintain.t.Fatalf("maintain: %s, %v", text, err)
		}
		deleted += swept.ObjectsDeleted
	}
}
