package main

import (
	"archive/zip"
	"bytes"
	"io"
	"testing"
)

func TestPackIsTheSameEveryTime(t *testing.T) {
	t.Parallel()
	program := bytes.Repeat([]byte("program "), 10_000)
	var first, second bytes.Buffer
	if err := pack(&first, program); err != nil {
		t.Fatal(err)
	}
	if err := pack(&second, program); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("two packages of one program differ, %v", err)
	}
	z, err := zip.NewReader(bytes.NewReader(first.Bytes()), int64(first.Len()))
	if err != nil || len(z.File) != 1 || z.File[0].Name != "bootstrap" || z.File[0].Mode().Perm() != 0o755 {
		t.Fatalf("the package holds %+v, %v", z.File, err)
	}
	file, err := z.File[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(file); err != nil || !bytes.Equal(got, program) {
		t.Errorf("the program came back with %d bytes, %v", len(got), err)
	}
}
