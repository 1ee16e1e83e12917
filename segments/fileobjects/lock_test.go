package fileobjects_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailrace-streams/tailrace/segments/fileobjects"
)

func TestLockDir(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "data")
	for range 2 {
		release, err := fileobjects.LockDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fileobjects.LockDir(dir); !errors.Is(err, fileobjects.ErrLocked) || !strings.Contains(err.Error(), dir) {
			t.Errorf("second LockDir = %v, want ErrLocked and the folder's name", err)
		}
		other, err := fileobjects.LockDir(dir + "2")
		if err != nil {
			t.Fatalf("LockDir of another folder = %v", err)
		}
		if err := errors.Join(release(), other()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := fileobjects.LockDir(filepath.Join(dir, "LOCK")); err == nil || errors.Is(err, fileobjects.ErrLocked) {
		t.Errorf("LockDir of a file = %v", err)
	}
}
