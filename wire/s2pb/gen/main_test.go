package main

import (
	"os"
	"testing"
)

// TestGeneratedIsCurrent fails when s2.proto has changed and nobody ran go generate.
func TestGeneratedIsCurrent(t *testing.T) {
	t.Parallel()
	files, err := generate("..")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 1 {
		t.Fatalf("%d files", len(files))
	}
	for name, want := range files {
		got, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is not what s2.proto makes: run go generate", name)
		}
	}
}
