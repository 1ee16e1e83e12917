package checks

import (
	"path/filepath"
	"testing"

	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// local returns the expression of a local value of a module's file.
func local(t *testing.T, file, name string) hclsyntax.Expression {
	t.Helper()
	parsed, faults := hclparse.NewParser().ParseHCLFile(filepath.Join("..", filepath.FromSlash(file)))
	if faults.HasErrors() {
		t.Fatal(faults)
	}
	for _, block := range parsed.Body.(*hclsyntax.Body).Blocks {
		if block.Type != "locals" {
			continue
		}
		if a, ok := block.Body.Attributes[name]; ok {
			return a.Expr
		}
	}
	t.Fatalf("%s has no local value %s", file, name)
	return nil
}

// members are the names and expressions of an object as it is written.
func members(t *testing.T, e hclsyntax.Expression) map[string]hclsyntax.Expression {
	t.Helper()
	object, ok := e.(*hclsyntax.ObjectConsExpr)
	if !ok {
		t.Fatalf("%s: not an object", e.Range())
	}
	all := map[string]hclsyntax.Expression{}
	for _, item := range object.Items {
		key, faults := item.KeyExpr.Value(nil)
		if faults.HasErrors() {
			t.Fatal(faults)
		}
		name := key.AsString()
		if _, twice := all[name]; twice {
			t.Fatalf("%s: %s is there twice", item.KeyExpr.Range(), name)
		}
		all[name] = item.ValueExpr
	}
	return all
}

// texts are the elements of a list of literal texts.
func texts(t *testing.T, e hclsyntax.Expression) (list []string) {
	t.Helper()
	value, faults := e.Value(nil)
	if faults.HasErrors() {
		t.Fatal(faults)
	}
	for _, element := range value.AsValueSlice() {
		list = append(list, element.AsString())
	}
	return list
}
