// Command generate writes the schema that the provider beside it serves, from the npm package @cdktf/provider-aws, whose
// classes are themselves generated from the real provider: names, types and what is required are the real ones.
//
//	generate PACKAGE/lib <resources >schema.json
//
// PACKAGE is the unpacked package; standard input names its folders, one a line. iac/provider/README.md has the whole command.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tailrace-streams/tailrace/iac/provider/schema"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: generate PACKAGE/lib <resources >schema.json")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(lib string) error {
	all := schema.Provider{Resources: map[string]schema.Block{}, DataSources: map[string]schema.Block{}}
	names := bufio.NewScanner(os.Stdin)
	for names.Scan() {
		name := strings.TrimSpace(names.Text())
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if err := add(&all, lib, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := names.Err(); err != nil {
		return fmt.Errorf("read names: %w", err)
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", " ")
	return out.Encode(all)
}

// add reads one folder of the package: its code has the names and types of arguments, its declarations say which of them
// are required.
func add(all *schema.Provider, lib, name string) error {
	code, err := os.ReadFile(filepath.Join(lib, name, "index.js"))
	if err != nil {
		return err
	}
	declarations, err := os.ReadFile(filepath.Join(lib, name, "index.d.ts"))
	if err != nil {
		return err
	}
	f := &folder{code: string(code), declarations: string(declarations)}
	tfName, version, err := f.identity()
	if err != nil {
		return err
	}
	block, err := f.resource()
	if err != nil {
		return err
	}
	if all.Version == "" {
		all.Version = version
	} else if all.Version != version {
		return fmt.Errorf("it is of version %s, others of %s", version, all.Version)
	}
	switch {
	case name == "provider":
		all.Configuration = block
	case strings.HasPrefix(tfName, "data."):
		all.DataSources[strings.TrimPrefix(tfName, "data.")] = block
	default:
		all.Resources[tfName] = block
	}
	return nil
}
