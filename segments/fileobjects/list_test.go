package fileobjects_test

import (
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"testing"

	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/fileobjects"
	"github.com/tailrace-streams/tailrace/segments/fileobjects/crashfs"
)

// readDirs records which folders are read.
type readDirs struct {
	fileobjects.FS
	mu   sync.Mutex
	read []string
}

func (r *readDirs) ReadDir(name string, visit func(fs.DirEntry) error) error {
	r.mu.Lock()
	r.read = append(r.read, name)
	r.mu.Unlock()
	return r.FS.ReadDir(name, visit)
}

// TestListReads: only folders that hold keys of the answer are read.
func TestListReads(t *testing.T) {
	t.Parallel()
	fsys := &readDirs{FS: crashfs.New()}
	s := openFS(t, fsys)
	for i := range 9 {
		put(t, s, fmt.Sprintf("b/%d/s/k", i), fmt.Sprintf("b/%d-x", i))
	}
	for _, c := range []struct {
		prefix, after string
		limit         int
		want          []string
	}{
		{"b/7/", "", 9, []string{"b/7", "b/7/s"}},
		{"b/", "b/6/s/k", 2, []string{"b", "b/6", "b/6/s", "b/7", "b/7/s"}},
		{"b/", "b/6-x", 1, []string{"b", "b/6", "b/6/s"}},
		{"", "b/7/t", 9, []string{".", "b", "b/7", "b/8", "b/8/s"}},
		{"", "c", 9, []string{"."}},
		{"b/", "", 0, nil},
	} {
		fsys.read = nil
		if _, err := s.List(t.Context(), c.prefix, c.after, c.limit); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(fsys.read, c.want) {
			t.Errorf("List(%q, %q, %d) read %q, want %q", c.prefix, c.after, c.limit, fsys.read, c.want)
		}
	}
}

// TestListLargeFolder: a folder of more names than are held at a time, empty folders among them.
func TestListLargeFolder(t *testing.T) {
	t.Parallel()
	disk := crashfs.New()
	s := openFS(t, disk)
	var want []string
	for i := range 2500 {
		name := fmt.Sprintf("big/%05d", (i*7919)%2500)
		if i%3 == 0 {
			want = append(want, name+"/x")
			put(t, s, name+"/x")
			continue
		}
		if i%3 == 1 {
			want = append(want, name)
			put(t, s, name)
			continue
		}
		if err := disk.Mkdir(name); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	for _, limit := range []int{1, 700, 1024, len(want), 9999} {
		for _, from := range []int{0, 1, 1000, len(want) - 1} {
			infos, err := s.List(t.Context(), "big/", want[from], limit)
			if err != nil {
				t.Fatal(err)
			}
			rest := want[from+1:]
			rest = rest[:min(limit, len(rest))]
			same := func(info segments.ObjectInfo, key string) bool { return info.Key == key }
			if !slices.EqualFunc(infos, rest, same) {
				t.Errorf("List from %d of %d: %d objects, want %d, or they differ", from, limit, len(infos), len(rest))
			}
		}
	}
}
