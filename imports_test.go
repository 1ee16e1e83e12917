package tailrace_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/tailrace-streams/tailrace"

// mayImport says which of our top folders each may import, besides its own sub-packages, which are always allowed. A
// folder that is not here may not exist. Tests are held to the same edges.
var mayImport = map[string][]string{
	".":           nil,
	"wire":        nil,
	"segments":    nil,
	"coordinator": {"segments"},
	"tenancy":     {"coordinator", "segments"},
	"functions":   {"wire", "segments", "coordinator", "tenancy"},
	"client":      {"wire"},
	"cmd":         {"functions", "tenancy", "coordinator", "segments", "client", "wire"},
	"e2e":         {"client", "wire"},
	"localstack":  {"e2e"},
	"tools":       nil,
}

// onlyIn keeps the modules that stand for a backend or a platform inside the packages that adapt them: an import path
// that starts with the key belongs in these folders and nowhere else.
var onlyIn = map[string][]string{
	"github.com/aws/aws-sdk-go-v2":  {"coordinator/dynamostore", "functions/config"},
	"github.com/aws/smithy-go":      {"coordinator/dynamostore", "functions/config"},
	"github.com/minio/minio-go":     {"segments/s3objects", "coordinator/s3store"},
	"github.com/cockroachdb/pebble": {"coordinator/pebblestore"},
	"github.com/aws/aws-lambda-go": {
		"functions/lambda", "functions/append", "functions/read", "functions/control", "functions/maintain",
	},
}

// mustNotLink names what a folder's packages may not depend on at any remove, tests aside: mains pass the backends in, so
// that a function, whose start-up time is its callers' wait, does not carry the embedded store.
var mustNotLink = map[string][]string{
	"functions": {"github.com/cockroachdb/pebble"},
}

// goPackage is what the checks need of one package, as `go list -json` prints it.
type goPackage struct {
	ImportPath     string
	Dir            string
	Imports        []string
	TestImports    []string
	XTestImports   []string
	IgnoredGoFiles []string
	Deps           []string
}

func TestImportsKeepToTheTable(t *testing.T) {
	t.Parallel()
	packages := listPackages(t)
	for _, violation := range violations(packages) {
		t.Error(violation)
	}
}

// listPackages lists every package of the module. It also walks the tree with this process's own calls: the go command's
// test cache knows the files that a test opens, not those that a command it starts opens.
func listPackages(t *testing.T) []goPackage {
	t.Helper()
	if len(treeFiles(t)) == 0 {
		t.Fatal("the tree has no files")
	}
	cmd := exec.Command("go", "list", "-e",
		"-json=ImportPath,Dir,Imports,TestImports,XTestImports,IgnoredGoFiles,Deps", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list packages: %v\n%s", err, &stderr)
	}
	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("decode the package list: %v", err)
		}
		p.TestImports = append(p.TestImports, ignoredImports(t, p)...)
		packages = append(packages, p)
	}
	if len(packages) == 0 {
		t.Fatal("the module has no packages")
	}
	return packages
}

// ignoredImports reads the imports of the files that build tags exclude here; they are edges like any other.
func ignoredImports(t *testing.T, p goPackage) []string {
	t.Helper()
	var imports []string
	for _, name := range p.IgnoredGoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatalf("parse %s: %v", name, err)
		}
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatalf("parse an import of %s: %v", name, err)
			}
			imports = append(imports, path)
		}
	}
	return imports
}

// violations returns one line for every edge that the tables above do not allow, in the order of the packages.
func violations(packages []goPackage) []string {
	var found []string
	for _, p := range packages {
		from := folderOf(p.ImportPath)
		if _, known := mayImport[top(from)]; !known {
			found = append(found, fmt.Sprintf("%s: the folder %s is not in the table of imports", from, top(from)))
			continue
		}
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if fault := faultOf(from, path); fault != "" {
				found = append(found, fault)
			}
		}
		for _, prefix := range mustNotLink[top(from)] {
			if i := slices.IndexFunc(p.Deps, func(dep string) bool { return under(dep, prefix) }); i >= 0 {
				found = append(found, fmt.Sprintf("%s links %s; run go list -deps to see through what", from, p.Deps[i]))
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// faultOf says what is wrong with one import by a package in folder from, or nothing.
func faultOf(from, path string) string {
	if path == module || strings.HasPrefix(path, module+"/") {
		to := folderOf(path)
		if top(to) == top(from) || slices.Contains(mayImport[top(from)], top(to)) {
			return ""
		}
		return fmt.Sprintf("%s imports %s: %s may import of ours only its own and %v", from, to, top(from), mayImport[top(from)])
	}
	for prefix, folders := range onlyIn {
		inside := func(folder string) bool { return under(from, folder) }
		if under(path, prefix) && !slices.ContainsFunc(folders, inside) {
			return fmt.Sprintf("%s imports %s: it belongs only in %v", from, path, folders)
		}
	}
	return ""
}

// under reports whether path is prefix or below it.
func under(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// folderOf turns an import path of ours into a folder, "." for the root.
func folderOf(importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}

// top is the first element of a folder.
func top(folder string) string {
	first, _, _ := strings.Cut(folder, "/")
	return first
}

// A checker that finds nothing is right only if it would have found something: every kind of bad edge, planted.
func TestViolationsFindsPlantedEdges(t *testing.T) {
	t.Parallel()
	ours := func(folder string) string { return module + "/" + folder }
	tests := []struct {
		name string
		p    goPackage
		want []string
	}{
		{"a good package", goPackage{
			ImportPath: ours("functions/api"),
			Imports:    []string{"context", ours("wire"), ours("coordinator/memstore"), ours("functions/config")},
			Deps:       []string{"context", "github.com/aws/aws-sdk-go-v2/aws"},
		}, nil},
		{"an upward edge", goPackage{
			ImportPath: ours("segments"), Imports: []string{ours("coordinator")},
		}, []string{"segments imports coordinator: segments may import of ours only its own and []"}},
		{"an upward edge to a sub-package", goPackage{
			ImportPath: ours("wire/s2s"), Imports: []string{ours("segments/memobjects")},
		}, []string{"wire/s2s imports segments/memobjects: wire may import of ours only its own and []"}},
		{"a sideways edge", goPackage{
			ImportPath: ours("client"), Imports: []string{ours("tenancy")},
		}, []string{"client imports tenancy: client may import of ours only its own and [wire]"}},
		{"an edge of a test in the package", goPackage{
			ImportPath: ours("tenancy"), TestImports: []string{ours("functions/api")},
		}, []string{"tenancy imports functions/api: tenancy may import of ours only its own and [coordinator segments]"}},
		{"an edge of a test beside the package", goPackage{
			ImportPath: ours("e2e"), XTestImports: []string{ours("coordinator")},
		}, []string{"e2e imports coordinator: e2e may import of ours only its own and [client wire]"}},
		{"an edge of the root", goPackage{
			ImportPath: module, XTestImports: []string{ours("wire")},
		}, []string{". imports wire: . may import of ours only its own and []"}},
		{"a name that only starts like ours", goPackage{
			ImportPath: ours("wire"), Imports: []string{module + "-other/segments"},
		}, nil},
		{"an unknown folder", goPackage{
			ImportPath: ours("helpers/x"),
		}, []string{"helpers/x: the folder helpers is not in the table of imports"}},
		{"Pebble outside its store", goPackage{
			ImportPath: ours("coordinator"), Imports: []string{"github.com/cockroachdb/pebble/v2/vfs"},
		}, []string{"coordinator imports github.com/cockroachdb/pebble/v2/vfs: it belongs only in [coordinator/pebblestore]"}},
		{"Pebble in its store", goPackage{
			ImportPath: ours("coordinator/pebblestore"), Imports: []string{"github.com/cockroachdb/pebble/v2"},
		}, nil},
		{"a folder named like an allowed one", goPackage{
			ImportPath: ours("segments/s3objectsx"), Imports: []string{"github.com/minio/minio-go/v7"},
		}, []string{
			"segments/s3objectsx imports github.com/minio/minio-go/v7: " +
				"it belongs only in [segments/s3objects coordinator/s3store]",
		}},
		{"the AWS SDK in a main", goPackage{
			ImportPath: ours("cmd/tailrace"), Imports: []string{"github.com/aws/aws-sdk-go-v2/config"},
		}, []string{
			"cmd/tailrace imports github.com/aws/aws-sdk-go-v2/config: " +
				"it belongs only in [coordinator/dynamostore functions/config]",
		}},
		{"Pebble linked into a function", goPackage{
			ImportPath: ours("functions/append"), Imports: []string{ours("coordinator/pebblestore")},
			Deps: []string{ours("coordinator/pebblestore"), "github.com/cockroachdb/pebble/v2"},
		}, []string{"functions/append links github.com/cockroachdb/pebble/v2; run go list -deps to see through what"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := violations([]goPackage{test.p}); !slices.Equal(got, test.want) {
				t.Errorf("violations are\n%q, want\n%q", got, test.want)
			}
		})
	}
}
