package fileobjects_test

import (
	"encoding/base32"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/fileobjects"
	"github.com/tailrace-streams/tailrace/segments/fileobjects/crashfs"
	"github.com/tailrace-streams/tailrace/segments/objectstest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	objectstest.Run(t, func(t *testing.T) segments.Objects { return open(t, t.TempDir()) })
}

func TestStoreOnCrashFS(t *testing.T) {
	t.Parallel()
	objectstest.Run(t, func(t *testing.T) segments.Objects { return openFS(t, crashfs.New()) })
}

func open(t *testing.T, dir string) *fileobjects.Store {
	t.Helper()
	s, err := fileobjects.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func openFS(t *testing.T, fsys fileobjects.FS) *fileobjects.Store {
	t.Helper()
	s, err := fileobjects.OpenFS(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *fileobjects.Store, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if err := s.Put(t.Context(), key, dataOf(key)); err != nil {
			t.Fatalf("Put(%q) = %v", key, err)
		}
	}
}

// tree returns all paths below a folder, sorted.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(dir, path); rel != "." {
			paths = append(paths, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// TestNothingOutside: no key reaches beyond the store's folder, or into its staging (BL-071).
func TestNothingOutside(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	s := open(t, filepath.Join(above, "new", "objects"))
	want := strings.Join(tree(t, above), " ")
	if want != "new new/objects new/objects/~staging" {
		t.Fatalf("a new store is %q", want)
	}
	for _, key := range []string{
		"..", ".", "", "../x", "../../etc/x", "a/../../b", "a/..", `..\x`, "%2e%2e/x", "/etc/x", "a//b", "a/", "~staging",
		"~staging/x", "a\x00b", "日", strings.Repeat("x", 201),
	} {
		putErr := s.Put(t.Context(), key, []byte("x"))
		_, getErr := s.Get(t.Context(), key, 0, -1)
		_, listErr := s.List(t.Context(), key+"/", "", 1)
		deleteErr := s.Delete(t.Context(), []string{key})[key]
		for _, err := range []error{putErr, getErr, listErr, deleteErr} {
			if !errors.Is(err, segments.ErrBadKey) {
				t.Errorf("key %q gave %v, want ErrBadKey", key, err)
			}
		}
	}
	if got := strings.Join(tree(t, above), " "); got != want {
		t.Errorf("after bad keys there is %q, want %q", got, want)
	}
}

// TestLongestNames: a stream name of 512 bytes becomes a key in base32hex, in parts of 200 characters (BL-073).
func TestLongestNames(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	for _, name := range []string{strings.Repeat("x", 512), strings.Repeat("日", 170)} {
		key := "n"
		for rest := base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString([]byte(name)); rest != ""; {
			n := min(len(rest), segments.MaxKeyPartBytes)
			key, rest = key+"/"+rest[:n], rest[n:]
		}
		put(t, s, key)
		if data, err := s.Get(t.Context(), key, 0, -1); err != nil || string(data) != string(dataOf(key)) {
			t.Errorf("Get = %d bytes, %v", len(data), err)
		}
		if infos, err := s.List(t.Context(), "n/", "", 2); err != nil || len(infos) != 1 || infos[0].Key != key {
			t.Errorf("List = %v, %v", infos, err)
		}
		if failed := s.Delete(t.Context(), []string{key}); failed != nil {
			t.Errorf("Delete = %v", failed)
		}
	}
}

// TestFoldersGo: the last object of a folder takes it along, and those above it, but nothing that is in use.
func TestFoldersGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	keys := []string{"b/1/segments/a", "b/1/segments/b", "b/1/pages/a", "b/2/pages/a"}
	put(t, s, keys...)
	for _, step := range []struct {
		del  []string
		want string
	}{
		{keys[:1], "b b/1 b/1/pages b/1/pages/a b/1/segments b/1/segments/b b/2 b/2/pages b/2/pages/a ~staging"},
		{keys[1:2], "b b/1 b/1/pages b/1/pages/a b/2 b/2/pages b/2/pages/a ~staging"},
		{keys[:3], "b b/2 b/2/pages b/2/pages/a ~staging"},
		{keys, "~staging"},
	} {
		if failed := s.Delete(t.Context(), step.del); failed != nil {
			t.Errorf("Delete(%q) = %v", step.del, failed)
		}
		if got := strings.Join(tree(t, dir), " "); got != step.want {
			t.Errorf("after Delete(%q) there is %q, want %q", step.del, got, step.want)
		}
	}
	put(t, s, keys...)
}

// TestOpenClears: Open removes what a crash left in staging, only that, and says how much it was.
func TestOpenClears(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, open(t, dir), "a/b")
	for _, name := range []string{"~staging/one.tmp", "~staging/two.tmp", "~staging/notes", "a/three.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n := open(t, dir).Removed(); n != 2 {
		t.Errorf("Removed = %d, want 2", n)
	}
	if got, want := strings.Join(tree(t, dir), " "), "a a/b a/three.tmp ~staging ~staging/notes"; got != want {
		t.Errorf("after Open there is %q, want %q", got, want)
	}
}

// TestRemovedBehindItsBack: a folder that someone else removed costs one failed Put.
func TestRemovedBehindItsBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, "a/b/c")
	if err := os.RemoveAll(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "a/b/c", nil); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, segments.ErrObjectNotFound) {
		t.Errorf("Put = %v", err)
	}
	put(t, s, "a/b/c")
}
