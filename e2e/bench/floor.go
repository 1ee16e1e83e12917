package main

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// floor is what the file system itself can do.
type floor struct {
	append1K latencies // one 1 KiB write and its sync
	write1M  float64   // MiB/s of 1 MiB writes, each synced
	read1M   float64   // MiB/s of reading that file back, from the kernel's cache
}

// measureFloor writes and reads files in dir, each for about half of the time.
func measureFloor(dir string, each time.Duration) (floor, error) {
	var f floor
	path := filepath.Join(dir, "floor")
	defer os.Remove(path)
	var err error
	if f.append1K, err = syncedWrites(path, 1<<10, each); err != nil {
		return f, err
	}
	large, err := syncedWrites(path, 1<<20, each)
	if err != nil {
		return f, err
	}
	f.write1M = float64(len(large)) / large.total().Seconds()
	f.read1M, err = readBack(path)
	return f, err
}

// syncedWrites writes blocks to the end of a new file for a while and syncs after each.
func syncedWrites(path string, size int, each time.Duration) (latencies, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	block := make([]byte, size)
	if _, err := rand.Read(block); err != nil {
		return nil, err
	}
	var took latencies
	for end := time.Now().Add(each); time.Now().Before(end); {
		since := time.Now()
		if _, err := file.Write(block); err != nil {
			return nil, fmt.Errorf("write: %w", err)
		}
		if err := syncData(file); err != nil {
			return nil, fmt.Errorf("sync: %w", err)
		}
		took = append(took, time.Since(since))
	}
	return took, nil
}

func readBack(path string) (float64, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	since := time.Now()
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{file}, make([]byte, 1<<20))
	return mib(n) / time.Since(since).Seconds(), err
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
