package tenancy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace-streams/tailrace/coordinator/storetest"
)

func (w *world) streams(d *Directory, names ...string) {
	w.t.Helper()
	for _, name := range names {
		_, _, err := d.CreateStream(w.t.Context(), theBasin, name, Settings{}, "")
		must(w.t, err)
	}
}

func listed(p StreamPage) []string {
	names := []string{}
	for _, s := range p.Streams {
		names = append(names, s.Name)
	}
	return names
}

// TestListBounds is BL-076: any prefix with any start_after.
func TestListBounds(t *testing.T) {
	t.Parallel()
	w, d := withBasin(t, BasinConfig{})
	w.streams(d, "prod-1", "staging-1", "staging-2", "staging", "\u00e9", "z\u0000z")
	for _, c := range []struct {
		prefix, after string
		want          []string
	}{
		{"", "", []string{"prod-1", "staging", "staging-1", "staging-2", "z\u0000z", "\u00e9"}},
		{"staging-", "prod-api", []string{"staging-1", "staging-2"}},
		{"staging-", "staging-1", []string{"staging-2"}},
		{"staging-", "zzz", []string{}},
		{"staging", "staging", []string{"staging-1", "staging-2"}},
		{"", "staging-2", []string{"z\u0000z", "\u00e9"}},
		{"q", "", []string{}},
	} {
		page, err := d.ListStreams(t.Context(), theBasin, c.prefix, c.after, 0)
		must(t, err)
		if !slices.Equal(listed(page), c.want) || page.HasMore {
			t.Errorf("prefix %q after %q: %q, more %v; want %q", c.prefix, c.after, listed(page), page.HasMore, c.want)
		}
	}
	_, err := d.ListStreams(t.Context(), "no-such-basin", "", "", 0)
	wantErr(t, err, ErrBasinNotFound)
}

// TestListPages is BL-077: has_more is exact when the page is exactly full and when what follows is tombstones; and a
// page costs what it shows, not what is stored.
func TestListPages(t *testing.T) {
	t.Parallel()
	w, d := withBasin(t, BasinConfig{})
	var names []string
	for i := range ListMax + 1 {
		names = append(names, fmt.Sprintf("s%05d", i))
	}
	w.streams(d, names[:ListMax]...)
	pages := func(limit int) (all []string, count int) {
		t.Helper()
		for after := ""; ; count++ {
			page, err := d.ListStreams(t.Context(), theBasin, "", after, limit)
			must(t, err)
			all = append(all, listed(page)...)
			if !page.HasMore {
				return all, count + 1
			}
			if len(page.Streams) == 0 {
				t.Fatal("an empty page with more to come")
			}
			after = page.Streams[len(page.Streams)-1].Name
		}
	}
	for _, limit := range []int{0, ListMax, ListMax + 1, -1} {
		if all, count := pages(limit); count != 1 || !slices.Equal(all, names[:ListMax]) {
			t.Errorf("limit %d: %d names on %d pages", limit, len(all), count)
		}
	}
	w.streams(d, names[ListMax])
	if all, count := pages(ListMax); count != 2 || !slices.Equal(all, names) {
		t.Errorf("%d names on %d pages", len(all), count)
	}

	// Every second one and the last hundred are deleted, and some more are being deleted.
	var rest []string
	for i, name := range names {
		if i%2 == 1 || i > 900 {
			_, err := d.DeleteStream(t.Context(), theBasin, name)
			must(t, err)
		} else {
			rest = append(rest, name)
		}
	}
	w.sweep(d)
	for _, name := range rest[3:6] {
		_, err := d.DeleteStream(t.Context(), theBasin, name)
		must(t, err)
	}
	for _, limit := range []int{1, 2, 7, len(rest) - 1, len(rest), len(rest) + 1, ListMax} {
		want := (len(rest) + limit - 1) / limit
		if all, count := pages(limit); count != want || !slices.Equal(all, rest) {
			t.Errorf("limit %d: %d names on %d pages, want %d on %d", limit, len(all), count, len(rest), want)
		}
	}
}

// TestListCost: a page of a large basin is one bounded scan.
func TestListCost(t *testing.T) {
	t.Parallel()
	w, d := withBasin(t, BasinConfig{})
	for i := range 3000 {
		w.streams(d, fmt.Sprintf("s%05d", i))
	}
	lists := 0
	w.faults.Set(func(c storetest.Call) storetest.Outcome {
		if c.Op == "List" {
			lists++
		}
		return storetest.Pass
	})
	page, err := d.ListStreams(t.Context(), theBasin, "s0", "s01500", 10)
	must(t, err)
	if len(page.Streams) != 10 || !page.HasMore || lists != 1 {
		t.Errorf("%d streams, more %v, by %d scans", len(page.Streams), page.HasMore, lists)
	}
}

// TestListModel draws names, deletions and queries, and compares with a sorted slice.
func TestListModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		d := w.directory()
		ctx := t.Context()
		name := rapid.StringMatching(`[ab]{1,3}-basin`)
		model := map[string]bool{}
		for range rapid.IntRange(0, 30).Draw(r, "steps") {
			n := name.Draw(r, "name")
			if rapid.Bool().Draw(r, "delete") && model[n] {
				if _, err := d.DeleteBasin(ctx, n); err != nil {
					r.Fatal(err)
				}
				w.sweep(d)
				delete(model, n)
			} else if _, _, err := d.EnsureBasin(ctx, n, "", BasinConfig{}); err != nil {
				r.Fatal(err)
			} else {
				model[n] = true
			}
		}
		prefix := rapid.StringMatching(`[ab]{0,2}`).Draw(r, "prefix")
		after := rapid.StringMatching(`([ab]{0,3}|[ab]{1,3}-basin|z)`).Draw(r, "after")
		limit := rapid.IntRange(1, 6).Draw(r, "limit")
		var want []string
		for n := range model {
			if strings.HasPrefix(n, prefix) && n > after {
				want = append(want, n)
			}
		}
		slices.Sort(want)
		page, err := d.ListBasins(ctx, prefix, after, limit)
		if err != nil {
			r.Fatal(err)
		}
		var got []string
		for _, b := range page.Basins {
			got = append(got, b.Name)
		}
		if more := len(want) > limit; page.HasMore != more || !slices.Equal(got, want[:min(limit, len(want))]) {
			r.Fatalf("got %q, more %v; of %q", got, page.HasMore, want)
		}
	})
}
