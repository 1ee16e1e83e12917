// Command packagefunctions builds the AWS Lambda functions and packs each into a zip for the runtime provided.al2023:
//
//	go run ./tools/packagefunctions [-out DIR] [-arch arm64,amd64] [-name append,read,control,maintain]
//
// It writes OUT/ARCH/NAME.zip with the one file bootstrap in it. The same sources and Go version give the same bytes on every
// machine: paths are trimmed, times are fixed. See docs/functions.md.
package main

import (
	"archive/zip"
	"compress/flate"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	out := flag.String("out", "bin/functions", "the folder to write to")
	arch := flag.String("arch", "arm64,amd64", "the processors to build for")
	names := flag.String("name", "append,read,control,maintain", "the functions to build")
	flag.Parse()
	for _, a := range strings.Split(*arch, ",") {
		for _, name := range strings.Split(*names, ",") {
			size, err := build(*out, a, name)
			if err != nil {
				fmt.Fprintln(os.Stderr, "packagefunctions:", err)
				os.Exit(1)
			}
			fmt.Printf("%s/%s/%s.zip %d bytes\n", *out, a, name, size)
		}
	}
}

// build makes one package and returns its size.
func build(out, arch, name string) (size int64, err error) {
	dir := filepath.Join(out, arch)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, fmt.Errorf("make folder: %w", err)
	}
	program := filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-tags", "lambda.norpc", "-trimpath", "-ldflags", "-s -w", "-o", program, "./functions/"+name)
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("build %s for %s: %w", name, arch, err)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	file, err := os.Create(program + ".zip")
	if err != nil {
		return 0, fmt.Errorf("pack %s: %w", name, err)
	}
	if err = pack(file, content); err == nil {
		size, err = file.Seek(0, io.SeekCurrent)
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Remove(program)
	}
	return size, err
}

// pack writes a package. Nothing in it depends on when or where it is made.
func pack(w io.Writer, program []byte) error {
	z := zip.NewWriter(w)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	header := &zip.FileHeader{Name: "bootstrap", Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
	header.SetMode(0o755)
	file, err := z.CreateHeader(header)
	if err == nil {
		_, err = file.Write(program)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return fmt.Errorf("write zip: %w", err)
	}
	return nil
}
