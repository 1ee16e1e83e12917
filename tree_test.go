package tailrace_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// unwanted says what no text file of the repository may contain, and in files of which names. The patterns are written so
// that none matches its own line here.
var unwanted = []struct {
	what    string
	pattern *regexp.Regexp
	names   *regexp.Regexp
}{
	{
		"a path of one machine",
		regexp.MustCompile(`(?:^|[^A-Za-z0-9_./])/(?:home|root|Users|work|farm)/[A-Za-z0-9.]`),
		regexp.MustCompile(`.`),
	},
	{
		"a word for unfinished work",
		regexp.MustCompile(`\b(?:TO[D]O|FI[X]ME|X[X]X)\b`),
		regexp.MustCompile(`.`),
	},
	{
		"a phrase for unfinished work",
		regexp.MustCompile(`\b(?:for[ ]now|place[h]older|not implemented[ ]yet)\b`),
		regexp.MustCompile(`\.(?:go|md|tf)$`),
	},
}

// lockFiles hold checksums, in which any word can turn up. They have a test of their own.
var lockFiles = []string{"go.sum", "package-lock.json"}

// notWalked are folders that building and serving make in a clone; git ignores them too.
var notWalked = []string{".git", "bin", "node_modules", "tailrace-data"}

func TestNoFileCarriesWhatItShouldNot(t *testing.T) {
	t.Parallel()
	for _, name := range repositoryFiles(t) {
		content := readFile(t, name)
		isText := bytes.IndexByte(content, 0) < 0
		if !isText || slices.Contains(lockFiles, filepath.Base(name)) {
			continue
		}
		for _, fault := range unwantedIn(name, string(content)) {
			t.Error(fault)
		}
	}
}

func TestUnwantedInFindsPlantedText(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, content, want string }{
		{"a.go", "package a\n\n// A path: /ho" + "me/someone/a.\n", "a.go:3: a path of one machine:  /ho" + "me/s"},
		{"run.sh", "# TO" + "DO: all of it\n", "run.sh:1: a word for unfinished work: TO" + "DO"},
		{"a.md", "It works for" + " now.\n", "a.md:1: a phrase for unfinished work: for" + " now"},
		{"a.html", "<input place" + "holder=x>\n", ""},
		{"a.go", "GET /v1/home/x, ToDo, https://example.com/work/a\n", ""},
	}
	for _, test := range tests {
		if got := strings.Join(unwantedIn(test.name, test.content), "; "); got != test.want {
			t.Errorf("in %s with %q: found %q, want %q", test.name, test.content, got, test.want)
		}
	}
}

// Each machine has a registry of its own set up; a lock file that named one would send every other machine there.
func TestLockFilesNameNoRegistry(t *testing.T) {
	t.Parallel()
	locks := 0
	for _, name := range repositoryFiles(t) {
		if filepath.Base(name) != "package-lock.json" {
			continue
		}
		locks++
		if bytes.Contains(readFile(t, name), []byte(`"resolved"`)) {
			t.Errorf("%s records where packages came from: set omit-lockfile-registry-resolved and write it anew", name)
		}
	}
	if locks == 0 {
		t.Error("no package-lock.json found, and e2e/node has one")
	}
}

// unwantedIn returns a line for each line of a file that matches one of the patterns.
func unwantedIn(name, content string) []string {
	var faults []string
	for _, u := range unwanted {
		if !u.names.MatchString(name) {
			continue
		}
		for i, line := range strings.Split(content, "\n") {
			if match := u.pattern.FindString(line); match != "" {
				faults = append(faults, fmt.Sprintf("%s:%d: %s: %s", name, i+1, u.what, match))
			}
		}
	}
	return faults
}

// repositoryFiles are the files that git tracks or would add. Where there is no git, as in an unpacked archive, they are
// all files of the tree.
func repositoryFiles(t *testing.T) []string {
	t.Helper()
	files := treeFiles(t)
	out, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Logf("git ls-files: %v; looking at every file of the tree", err)
		return files
	}
	listed := map[string]bool{}
	for name := range strings.SplitSeq(string(out), "\x00") {
		listed[name] = true
	}
	return slices.DeleteFunc(files, func(name string) bool { return !listed[name] })
}

// treeFiles walks the tree from the root of the repository, which is these tests' working folder.
func treeFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(notWalked, entry.Name()):
			return fs.SkipDir
		case entry.Type().IsRegular():
			files = append(files, filepath.ToSlash(path))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("walk the tree: %v", err)
	}
	return files
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("read a file of the repository: %v", err)
	}
	return content
}
