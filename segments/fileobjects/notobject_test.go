//go:build unix

package fileobjects_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tailrace-streams/tailrace/segments"
)

// TestNotObjects: what is not a regular file is neither read, listed nor overwritten, and is never "not found". No link
// leads out, and what is deleted below an object leaves the object alone.
func TestNotObjects(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	dir := filepath.Join(above, "objects")
	s := open(t, dir)
	put(t, s, "a/folder/x", "a/real")
	secret := filepath.Join(above, "secret")
	err := errors.Join(os.WriteFile(secret, []byte("secret"), 0o600), os.Symlink(secret, filepath.Join(dir, "a", "out")),
		os.Symlink(above, filepath.Join(dir, "a", "up")), syscall.Mkfifo(filepath.Join(dir, "a", "pipe"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a/folder", "a/out", "a/pipe", "a/up", "a/up/secret", "a/real/x"} {
		if data, err := s.Get(t.Context(), key, 0, -1); err == nil || errors.Is(err, segments.ErrObjectNotFound) {
			t.Errorf("Get(%q) = %q, %v", key, data, err)
		}
	}
	infos, err := s.List(t.Context(), "a/", "", 10)
	if err != nil || len(infos) != 2 || infos[0].Key != "a/folder/x" || infos[1].Key != "a/real" {
		t.Errorf("List = %v, %v; want the two objects", infos, err)
	}
	for _, key := range []string{"a/folder", "a/real/x", "a/up/secret"} {
		if failed := s.Delete(t.Context(), []string{key, "a/none"}); failed[key] == nil || len(failed) != 1 {
			t.Errorf("Delete(%q) = %v", key, failed)
		}
		if err := s.Put(t.Context(), key, nil); err == nil {
			t.Errorf("Put(%q) over a folder or below a file is no error", key)
		}
	}
	want := "objects objects/a objects/a/folder objects/a/folder/x objects/a/out objects/a/pipe objects/a/real " +
		"objects/a/up objects/~staging secret"
	if got := strings.Join(tree(t, above), " "); got != want {
		t.Errorf("there is %q, want %q", got, want)
	}
}
