package objectstest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tailrace-streams/tailrace/segments"
)

func (s suite) list(prefix, startAfter string, limit int) []segments.ObjectInfo {
	s.Helper()
	infos, err := s.objects.List(s.Context(), prefix, startAfter, limit)
	if err != nil {
		s.Fatalf("List(%q, %q, %d) = %v", prefix, startAfter, limit, err)
	}
	if len(infos) > limit {
		s.Fatalf("List(%q, %q, %d) = %d objects", prefix, startAfter, limit, len(infos))
	}
	return infos
}

func (s suite) wantKeys(prefix string, want ...string) {
	s.Helper()
	s.wantListing(prefix, "", len(want)+1, want)
}

func (s suite) wantListing(prefix, startAfter string, limit int, want []string) {
	s.Helper()
	if got := keysOf(s.list(prefix, startAfter, limit)); !slices.Equal(got, want) {
		s.Errorf("List(%q, %q, %d) = %q, want %q", prefix, startAfter, limit, got, want)
	}
}

func keysOf(infos []segments.ObjectInfo) []string {
	keys := make([]string, len(infos))
	for i, info := range infos {
		keys[i] = info.Key
	}
	return keys
}

// treeKeys sort otherwise as keys than as paths: '-' and '.' come before the slash, letters and digits after it.
var treeKeys = []string{
	"a-/z", "a-b", "a.b", "a.b-c/x", "a/b-c", "a/b.c", "a/b/c", "a/b/d", "a/b0", "a/bb/c", "a0", "aa/b",
	"B/x", "0/9", "_/x", "a/b_/c", "A", "z/...", "z/.b", "z/-",
}

// order compares listings of a tree, from every start and of every length, with the sorted keys.
func (s suite) order() {
	for _, key := range treeKeys {
		s.put(key, []byte(key))
	}
	sorted := slices.Sorted(slices.Values(treeKeys))
	starts := append([]string{
		"", "a", "a/", "a-", "a/b", "a/b/", "a/b/cc", "a/b/z", "a/b/\xff", "a/c", "a~", "z/", "zz", "\x00", "\xff", "/", "..",
	}, treeKeys...)
	for _, prefix := range []string{"", "a/", "a/b/", "a.b-c/", "z/", "none/", "a/none/"} {
		for _, start := range starts {
			for _, limit := range []int{1, 2, 3, 7, len(sorted), 1000} {
				s.wantListing(prefix, start, limit, within(sorted, prefix, start, limit))
			}
		}
	}
	for _, info := range s.list("", "", 1000) {
		if info.Size != int64(len(info.Key)) {
			s.Errorf("List says that %q has %d bytes, want %d", info.Key, info.Size, len(info.Key))
		}
	}
}

// within is what List should answer.
func within(sorted []string, prefix, startAfter string, limit int) []string {
	var keys []string
	for _, key := range sorted {
		if strings.HasPrefix(key, prefix) && key > startAfter && len(keys) < limit {
			keys = append(keys, key)
		}
	}
	return keys
}

// pages walks a listing from page to page, as callers do, while its objects vanish behind it.
func (s suite) pages() {
	var want, got []string
	for i := range 25 {
		want = append(want, fmt.Sprintf("pages/%c/%02d", 'a'+i/10, i))
		s.put(want[i], nil)
	}
	for after := ""; ; {
		page := keysOf(s.list("pages/", after, 4))
		got = append(got, page...)
		if len(page) < 4 {
			break
		}
		if failed := s.objects.Delete(s.Context(), page); failed != nil {
			s.Fatalf("Delete = %v", failed)
		}
		after = page[len(page)-1]
	}
	if !slices.Equal(got, want) {
		s.Errorf("pages = %q, want %q", got, want)
	}
	s.wantKeys("pages/", want[24:]...)
}

// many is beyond what an object store lists or deletes in one request (1000 in S3).
func (s suite) many() {
	want := make([]string, 1005)
	keys := make(chan string)
	var puts sync.WaitGroup
	for range 16 {
		puts.Go(func() {
			for key := range keys {
				if err := s.objects.Put(s.Context(), key, []byte("x")); err != nil {
					s.Errorf("Put = %v", err)
				}
			}
		})
	}
	for i := range want {
		want[i] = fmt.Sprintf("many/%d/%04d", i/500, i)
		keys <- want[i]
	}
	close(keys)
	puts.Wait()
	s.wantListing("many/", "", 2000, want)
	s.wantListing("many/", "", 1003, want[:1003])
	s.wantListing("many/", want[1], 1003, want[2:])
	if failed := s.objects.Delete(s.Context(), want[:1003]); failed != nil {
		s.Errorf("Delete = %d failed keys", len(failed))
	}
	s.wantKeys("", want[1003:]...)
}
