package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// The real input: the standard library's sources, concatenated until both are reached.
const (
	realLines = 100_000
	realBytes = 20 << 20
)

// goSources is the text of many files, valid UTF-8 throughout, so that it can travel in JSON.
func goSources(t *testing.T) []byte {
	t.Helper()
	root, err := harness.GoSources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	lines := 0
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || filepath.Ext(path) != ".go" {
			return err
		}
		if lines >= realLines && text.Len() >= realBytes {
			return fs.SkipAll
		}
		content, err := os.ReadFile(path)
		if err == nil && utf8.Valid(content) {
			text.Write(content)
			lines += bytes.Count(content, []byte("\n"))
		}
		return err
	})
	if err != nil {
		t.Fatalf("read Go sources: %v", err)
	}
	if lines < realLines || text.Len() < realBytes {
		t.Fatalf("the Go sources below %s have %d lines and %d bytes, too little", root, lines, text.Len())
	}
	return text.Bytes()
}

// inBatches cuts a text into records of one line each, and these into batches that the API takes.
func inBatches(text []byte) [][]newRecord {
	var batches [][]newRecord
	var batch []newRecord
	size := 0
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		if metered := 8 + len(line); len(batch) == 1000 || size+metered > 1<<20 {
			batches, batch, size = append(batches, batch), nil, 0
		}
		batch = append(batch, newRecord{Body: string(line)})
		size += 8 + len(line)
	}
	return append(batches, batch)
}

// joined puts a text together again from what was read.
func joined(all []record) []byte {
	var text bytes.Buffer
	for i, r := range all {
		if i > 0 {
			text.WriteByte('\n')
		}
		text.WriteString(r.Body)
	}
	return text.Bytes()
}

func sameText(t *testing.T, when string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s: read %d bytes (sha256 %x), want %d (%x)", when, len(got), sha256.Sum256(got), len(want), sha256.Sum256(want))
	}
}

// A real text goes in over HTTP, every tenth batch by curl, and comes back byte for byte: at once, after a stop and after
// a kill.
func TestRealFileSurvivesRestarts(t *testing.T) {
	t.Parallel()
	curl := tool(t, "curl", "TAILRACE_CURL")
	text := goSources(t)
	data := dataFolder(t)
	server := start(t, data)
	c := newClient(server.URL, "real-file")
	c.create(t, "go/sources")
	var next uint64
	for i, batch := range inBatches(text) {
		var got ack
		if i%10 == 0 {
			got = appendByCurl(t, curl, c, "go/sources", batch)
		} else {
			got = c.mustAppend(t, "go/sources", appendInput{Records: batch})
		}
		if got.Start.SeqNum != next || got.End.SeqNum != next+uint64(len(batch)) {
			t.Fatalf("batch %d of %d records at %d was acknowledged as %+v", i, len(batch), next, got)
		}
		next = got.End.SeqNum
	}
	sameText(t, "before a restart", joined(c.readAll(t, "go/sources", 0, next)), text)

	stop(t, server)
	server = start(t, data)
	sameText(t, "after a stop", joined(c.at(server.URL).readAll(t, "go/sources", 0, next)), text)

	server.Kill()
	server = start(t, data)
	sameText(t, "after a kill", joined(c.at(server.URL).readAll(t, "go/sources", 0, next)), text)
	if got := c.at(server.URL).tail(t, "go/sources"); got != next {
		t.Errorf("the tail is %d, want %d", got, next)
	}
}

// appendByCurl appends as the README does.
func appendByCurl(t *testing.T, curl string, c *client, stream string, batch []newRecord) ack {
	t.Helper()
	input, err := json.Marshal(appendInput{Records: batch})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), curl, "--silent", "--show-error", "--fail-with-body", c.url+records(stream),
		"-H", "s2-basin: "+c.basin, "-H", "content-type: application/json", "--data-binary", "@-")
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("curl: %v\n%s", err, out)
	}
	var got ack
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("decode what curl printed: %v\n%s", err, out)
	}
	return got
}

// The same text by the public TypeScript SDK, as JSON strings and as protobuf bytes, also across a restart.
func TestRealFileByTypeScriptSDK(t *testing.T) {
	t.Parallel()
	node := tool(t, "node", "TAILRACE_NODE")
	if os.Getenv("TAILRACE_NODE_DIR") == "" {
		leaveOut(t, "TAILRACE_NODE_DIR is not set (tools/setup node-sdk installs the SDK and sets it)")
	}
	file := filepath.Join(t.TempDir(), "sources.txt")
	if err := os.WriteFile(file, goSources(t), 0o600); err != nil {
		t.Fatal(err)
	}
	data := dataFolder(t)
	server := start(t, data)
	roundtrip := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), node, append([]string{filepath.Join("node", "roundtrip.mjs"), "--file", file,
			"--basin", "typescript-sdk"}, args...)...)
		cmd.Env = append(os.Environ(), "S2_ACCESS_TOKEN=any",
			"S2_ACCOUNT_ENDPOINT="+server.URL, "S2_BASIN_ENDPOINT="+server.URL)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), `"ok":true`) {
			t.Errorf("roundtrip %v: %v\n%s", args, err, out)
			return
		}
		t.Logf("roundtrip %v: %s", args, out)
	}
	for _, format := range []string{"string", "bytes"} {
		roundtrip("--stream", "by-"+format, "--format", format)
	}
	stop(t, server)
	server = start(t, data)
	for _, format := range []string{"string", "bytes"} {
		roundtrip("--stream", "by-"+format, "--format", format, "--mode", "verify")
	}
}
