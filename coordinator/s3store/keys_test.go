package s3store

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// drawSort draws sort keys, many of them at the edges: where a folder is full, where a key is too long to be spelt out.
func drawSort(t *rapid.T, label string) string {
	n := rapid.OneOf(rapid.IntRange(1, 20), rapid.SampledFrom([]int{124, 125, 126, 249, 250, 251, 500, 511, 512, 513, 600, 1024})).Draw(t, label+" length")
	head := strings.Repeat(rapid.SampledFrom([]string{"k", "\x00", "\xff"}).Draw(t, label+" filler"), max(0, n-3))
	return head + string(rapid.SliceOfN(rapid.Byte(), n-len(head), n-len(head)).Draw(t, label+" end"))
}

// Paths sort as the keys do, are read back, and keep the rules of keys on every store.
func TestPathsKeepOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawSort(t, "a"), drawSort(t, "b")
		if rapid.Bool().Draw(t, "begin alike") {
			b = (a + b)[:min(len(a)+len(b), coordinator.MaxSortBytes)]
		}
		pathA, pathB := sortPath(a), sortPath(b)
		if len(a) <= plainBytes || len(b) <= plainBytes {
			if got, want := strings.Compare(pathA, pathB), strings.Compare(a, b); got != want {
				t.Fatalf("%q and %q compare as %d, their paths as %d", a, b, want, got)
			}
		} else if got, want := strings.Compare(stem(a[:plainBytes]), stem(b[:plainBytes])), strings.Compare(a[:plainBytes], b[:plainBytes]); got != want {
			t.Fatalf("long keys compare as %d, their paths as %d", want, got)
		}
		if (pathA == pathB) != (a == b) {
			t.Fatalf("%q and %q: paths %q and %q", a, b, pathA, pathB)
		}
		for _, key := range []string{rowKey(coordinator.Key{Part: strings.Repeat("p", coordinator.MaxPartBytes), Sort: a})} {
			if err := segments.CheckKey(key); err != nil || MaxPrefixBytes+1+len(key) > 1024 {
				t.Fatalf("key of %d bytes: %v", len(key), err)
			}
		}
		sort, whole, err := parsePath(pathA)
		if err != nil || whole != (len(a) <= plainBytes) || sort != a[:min(len(a), plainBytes)] {
			t.Fatalf("%q is read as %q, %t, %v", a, sort, whole, err)
		}
		notBeside(t, pathA, pathB)
	})
}

// notBeside: in no folder is an object named like a folder, nor does a name go on where a folder's ends.
func notBeside(t *rapid.T, a, b string) {
	partsA, partsB := strings.Split(a, "/"), strings.Split(b, "/")
	for i := range min(len(partsA), len(partsB)) {
		folderA, folderB := i < len(partsA)-1, i < len(partsB)-1
		if partsA[i] == partsB[i] {
			if folderA != folderB {
				t.Fatalf("%q is an object and a folder", partsA[i])
			}
			continue
		}
		if folderA && strings.HasPrefix(partsB[i], partsA[i]) || folderB && strings.HasPrefix(partsA[i], partsB[i]) {
			t.Fatalf("%q and %q lie beside each other", partsA[i], partsB[i])
		}
		return
	}
}

// A listing starts below all that it returns, and not below what has spelt-out keys and is before it.
func TestStarts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := drawSort(t, "key")
		prefix := rapid.OneOf(rapid.Just(""), rapid.Just(key[:rapid.IntRange(0, len(key)).Draw(t, "prefix length")]), rapid.Custom(func(t *rapid.T) string {
			return drawSort(t, "prefix")
		})).Draw(t, "prefix")
		after := rapid.OneOf(rapid.Just(""), rapid.Just(key), rapid.Custom(func(t *rapid.T) string { return drawSort(t, "after") })).Draw(t, "after")
		start, any := startOf(prefix, after)
		belongs := strings.HasPrefix(key, prefix) && key > after
		switch {
		case belongs && !any:
			t.Fatal("a listing that has a key is said to be empty")
		case belongs && sortPath(key) <= start:
			t.Fatalf("the start %q is not below %q", start, sortPath(key))
		case any && len(key) <= plainBytes && (key <= after || key < prefix) && sortPath(key) > start && max(len(prefix), len(after)) <= plainBytes:
			t.Fatalf("the start %q is below %q, which is before it", start, sortPath(key))
		}
	})
}

func FuzzParsePath(f *testing.F) {
	for _, sort := range []string{"\x00", "name", strings.Repeat("k", 512), strings.Repeat("k", 513)} {
		f.Add(sortPath(sort))
	}
	f.Fuzz(func(t *testing.T, path string) {
		sort, whole, err := parsePath(path)
		if err == nil && whole && sortPath(sort) != path {
			t.Errorf("%q is read as %q, which lies at %q", path, sort, sortPath(sort))
		}
		if err == nil && !whole && !strings.HasPrefix(path, stem(sort)) {
			t.Errorf("%q is read as beginning with %q", path, sort)
		}
	})
}

// Golden places: a change that this test reports needs another format.
func TestGoldenKeys(t *testing.T) {
	t.Parallel()
	var id segments.StreamID
	for i := range id {
		id[i] = byte(0x10 + i)
	}
	for got, want := range map[string]string{
		headKey(id): "heads/1f/10111213-1415-1617-1819-1a1b1c1d1e1f",
		rowKey(coordinator.Key{Part: "basins", Sort: "my-first-basin"}): "rows/" + digest("basins") + "/emtjrqkafaqo9cc3d6qnjsh0",
		digest("basins"): "i32rvaakt4pgkkpfahmj88hd99",
	} {
		if got != want {
			t.Errorf("it lies at %q, want %q", got, want)
		}
	}
	if !slices.IsSorted(strings.Split(terminator+digits+afterPlain+hashMark, "")) || justBelow >= terminator {
		t.Error("the characters are not in order")
	}
}
