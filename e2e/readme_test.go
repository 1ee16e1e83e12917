package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block is one fenced block of a document, with the words after its fence.
type block struct {
	words []string
	text  string
}

var fence = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")

func blocksOf(t *testing.T, path string) []block {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, block{strings.Fields(m[1]), m[2]})
	}
	return blocks
}

// is reports whether a block holds commands of a kind.
func (b block) is(kind string) bool {
	return len(b.words) == 2 && b.words[0] == "sh" && b.words[1] == kind
}

// changing matches what differs from run to run: times, and where the server listens.
var changing = regexp.MustCompile(`\b1[0-9]{12}\b|\b\d{4}-\d\d-\d\dT[0-9:.]+Z|127\.0\.0\.1:\d+`)

// loosely makes texts comparable: without what changes, without blank lines and blanks around lines. Answers of curl end
// without a newline, so one may begin on the line where another ended.
func loosely(text string) string {
	text = changing.ReplaceAllString(text, "*")
	text = strings.ReplaceAll(text, "}{", "}\n{")
	text = regexp.MustCompile(`( \d{3})\{`).ReplaceAllString(text, "$1\n{")
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// The tour in the README runs as it stands.
func TestReadmeTourRunsAsWritten(t *testing.T) {
	t.Parallel()
	runsAsWritten(t, filepath.Join("..", "README.md"), "tour")
}

// So does the guide to coordination.
func TestCoordinationGuideRunsAsWritten(t *testing.T) {
	t.Parallel()
	runsAsWritten(t, filepath.Join("..", "docs", "coordination.md"), "coordinate")
}

// runsAsWritten runs the blocks of a kind: one shell, a fresh server, block by block, and each prints what the block behind
// it shows.
func runsAsWritten(t *testing.T, path, kind string) {
	t.Helper()
	tool(t, "curl", "TAILRACE_CURL")
	server := start(t, dataFolder(t))
	blocks := blocksOf(t, path)
	const mark = "@@@ end of block"
	script := "set -eu\n"
	var shown []string
	for i, b := range blocks {
		if !b.is(kind) {
			continue
		}
		if i+1 == len(blocks) || len(blocks[i+1].words) != 1 || blocks[i+1].words[0] == "sh" {
			t.Fatalf("no output is shown behind the block\n%s", b.text)
		}
		script += strings.ReplaceAll(b.text, "http://127.0.0.1:8080", server.URL) + "printf '%s\\n' '" + mark + "'\n"
		shown = append(shown, blocks[i+1].text)
	}
	if len(shown) < 5 {
		t.Fatalf("%s has %d blocks", path, len(shown))
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("run the blocks of %s: %v\n%s", path, err, out)
	}
	printed := strings.Split(string(out), mark)
	if len(printed) != len(shown)+1 {
		t.Fatalf("%d blocks printed something, %s has %d", len(printed)-1, path, len(shown))
	}
	for i, want := range shown {
		if got, want := loosely(printed[i]), loosely(want); got != want {
			t.Errorf("block %d prints\n%s\n%s shows\n%s", i+1, got, path, want)
		}
	}
}

// The command that the server suggests in its first lines works as it stands, and again.
func TestSuggestedCommandWorks(t *testing.T) {
	t.Parallel()
	tool(t, "curl", "TAILRACE_CURL")
	server := start(t, dataFolder(t))
	_, command, found := strings.Cut(server.Stdout(), "\ntry:")
	if !found || strings.Count(strings.TrimSpace(command), "\n") != 0 {
		t.Fatalf("the first lines are\n%s", server.Stdout())
	}
	for range 2 {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput()
		if err != nil || !strings.Contains(string(out), `"name":"first-basin"`) {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
}

// The commands in the operator's guide run as they stand, on a folder that holds something.
func TestOperatingCommandsRunAsWritten(t *testing.T) {
	t.Parallel()
	data := dataFolder(t)
	server := start(t, data)
	c := newClient(server.URL, "operated")
	c.create(t, "s")
	c.mustAppend(t, "s", appendInput{Records: bodies("one", "two", "three")})
	stop(t, server)
	commands := 0
	for _, b := range blocksOf(t, filepath.Join("..", "docs", "operating.md")) {
		if !b.is("operate") {
			continue
		}
		for line := range strings.Lines(b.text) {
			commands++
			checks := strings.Contains(line, "admin check")
			line = strings.ReplaceAll(line, "./tailrace-data", data)
			line = strings.Replace(line, "tailrace ", bin+" ", 1)
			out, err := exec.CommandContext(t.Context(), "sh", "-c", line).CombinedOutput()
			if err != nil || len(out) == 0 {
				t.Errorf("%s: %v\n%s", line, err, out)
			}
			if checks && !strings.Contains(string(out), "records 3, damaged streams 0") {
				t.Errorf("%s says %s", line, out)
			}
		}
	}
	if commands < 2 {
		t.Errorf("the guide has %d commands", commands)
	}
}
