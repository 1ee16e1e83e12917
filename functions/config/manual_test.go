package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew")

//go:generate go test -run ^TestDocumentIsCurrent$ . -update

func TestDocumentIsCurrent(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "docs", "configuration.md")
	if *update {
		if err := os.WriteFile(path, []byte(Document()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("read the document: %v", err)
	}
	if string(got) != Document() {
		t.Errorf("%s differs from what config.go says; run go generate ./functions/config", path)
	}
}

func TestManualSaysSomethingOfEverySetting(t *testing.T) {
	t.Parallel()
	if len(Manual()) != len(settings) || len(settings) == 0 {
		t.Fatalf("%d entries for %d settings", len(Manual()), len(settings))
	}
	for _, entry := range Manual() {
		if len(entry.Text) < 20 || !strings.HasSuffix(entry.Text, ".") || strings.ContainsAny(entry.Text, "|\n") {
			t.Errorf("%s: %q is no comment for a table", entry.Setting, entry.Text)
		}
		if !strings.HasPrefix(entry.Text, strings.TrimSuffix(entry.Summary, ".")) {
			t.Errorf("%s: the summary %q does not begin %q", entry.Setting, entry.Summary, entry.Text)
		}
	}
}
