package tailrace_test

import (
	"encoding/json"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/dependencies.md has one bullet for each direct dependency, or for a few that belong together, whose head names
// the modules in backquotes before its first colon.
const dependenciesDoc = "docs/dependencies.md"

var (
	dependencyBullet = regexp.MustCompile("(?m)^- (`[^`]+`(?:,\\s+`[^`]+`)*):")
	backquoted       = regexp.MustCompile("`([^`]+)`")
)

// Every direct dependency costs attention for ever, so each is named with its reason, and a reason without a dependency
// is stale. A module is direct if any package of ours imports it, tests included, or go.mod says so.
func TestDirectDependenciesAreDocumented(t *testing.T) {
	t.Parallel()
	required := requiredModules(t)
	imported := importedModules(t, required)
	documented := documentedModules(string(readFile(t, dependenciesDoc)))
	for _, path := range slices.Sorted(maps.Keys(required)) {
		direct := required[path]
		switch {
		case imported[path] && !documented[path]:
			t.Errorf("%s is imported, and %s does not say why", path, dependenciesDoc)
		case direct && !documented[path]:
			t.Errorf("%s is required by go.mod directly, and %s does not say why", path, dependenciesDoc)
		case !imported[path] && documented[path]:
			t.Errorf("%s is named in %s, and no package imports it", path, dependenciesDoc)
		}
	}
	for path := range documented {
		if _, ok := required[path]; !ok {
			t.Errorf("%s is named in %s, and go.mod does not require it", path, dependenciesDoc)
		}
	}
}

func TestDocumentedModulesReadsHeadsOfBullets(t *testing.T) {
	t.Parallel()
	doc := "# Title\n\n- `a.com/x/v2`: why, not `b.com/y`.\n- `a.com/p`,\n  `a.com/q`: both.\n- prose: `a.com/no`\n  `a.com/no`: no.\n"
	got := documentedModules(doc)
	want := []string{"a.com/p", "a.com/q", "a.com/x/v2"}
	if len(got) != len(want) || slices.ContainsFunc(want, func(path string) bool { return !got[path] }) {
		t.Errorf("documented modules are %v, want %v", got, want)
	}
}

// requiredModules maps every module that go.mod requires to whether it is marked as direct.
func requiredModules(t *testing.T) map[string]bool {
	t.Helper()
	out, err := exec.Command("go", "mod", "edit", "-json").Output()
	if err != nil {
		t.Fatalf("read go.mod: %v", err)
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatalf("decode go.mod: %v", err)
	}
	modules := map[string]bool{}
	for _, require := range mod.Require {
		modules[require.Path] = !require.Indirect
	}
	if len(modules) == 0 {
		t.Fatal("go.mod requires nothing")
	}
	return modules
}

// importedModules returns the modules, out of those required, that packages of ours import.
func importedModules(t *testing.T, required map[string]bool) map[string]bool {
	t.Helper()
	imported := map[string]bool{}
	for _, p := range listPackages(t) {
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if owner := moduleOf(path, required); owner != "" {
				imported[owner] = true
			}
		}
	}
	return imported
}

// moduleOf returns the required module that provides an import path: the longest that is a prefix of it, or none for the
// standard library and ourselves.
func moduleOf(path string, required map[string]bool) string {
	for {
		if _, ok := required[path]; ok {
			return path
		}
		cut := strings.LastIndexByte(path, '/')
		if cut < 0 {
			return ""
		}
		path = path[:cut]
	}
}

// documentedModules returns the modules that the bullets of a document name.
func documentedModules(doc string) map[string]bool {
	documented := map[string]bool{}
	for _, bullet := range dependencyBullet.FindAllStringSubmatch(doc, -1) {
		for _, name := range backquoted.FindAllStringSubmatch(bullet[1], -1) {
			documented[name[1]] = true
		}
	}
	return documented
}
