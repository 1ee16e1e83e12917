package s3objects_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tailrace-streams/tailrace/segments/s3objects"
	"github.com/tailrace-streams/tailrace/segments/s3objects/fakes3"
)

// TestListIsGoneOnWith: a listing that breaks in the middle goes on from there.
func TestListIsGoneOnWith(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]fakes3.Fault{
		"503": {Status: 503, Code: "SlowDown"}, "reset": {Reset: true}, "body is cut": {CutAfter: 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
				var want []string
				for i := range 95 {
					want = append(want, fmt.Sprintf("k/%03d", i))
					put(t, store, want[i], "data")
				}
				fake.SetQuirks(fakes3.Quirks{PageKeys: 10})
				n := 0
				fake.On(func(r fakes3.Request) fakes3.Fault {
					if n++; n%3 == 2 {
						return fault
					}
					return fakes3.Fault{}
				})
				infos, err := store.List(t.Context(), "k/", "", 1000)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, info := range infos {
					got = append(got, info.Key)
				}
				if !slices.Equal(got, want) {
					t.Errorf("List = %q", got)
				}
				if lists := fake.Count(fakes3.OpList); lists != 15 {
					t.Errorf("%d requests for 10 pages of which every third request fails", lists)
				}
			})
		})
	}
}

// TestListLies: a listing that would make callers miss objects is an error, at once.
func TestListLies(t *testing.T) {
	t.Parallel()
	for name, quirks := range map[string]fakes3.Quirks{
		"order of folders": {FolderOrder: true}, "start is ignored": {IgnoreStartAfter: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
				for _, key := range []string{"a/a", "a/b-c", "a/b/c"} {
					put(t, store, key, "data")
				}
				fake.SetQuirks(quirks)
				_, err := store.List(t.Context(), "a/", "a/a", 10)
				if !errors.Is(err, s3objects.ErrMisbehaves) || errors.Is(err, s3objects.ErrUnavailable) {
					t.Errorf("List = %v", err)
				}
				wantCount(t, fake, fakes3.OpList, 1)
			})
		})
	}
}

// TestListLeavesOutStrangers: a bucket may hold what is not ours, below our prefix too.
func TestListLeavesOutStrangers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
		for _, key := range []string{"", "a/", "a/b c", "a/ü", "a//b", "b/" + "<&>"} {
			fake.SetObject(prefix+"/"+key, nil)
		}
		fake.SetObject("pre/fixed", nil)
		fake.SetObject("other", nil)
		put(t, store, "a/b", "data")
		put(t, store, "z", "data")
		for _, limit := range []int{1, 2, 3} {
			infos, err := store.List(t.Context(), "", "", limit)
			if err != nil || len(infos) != min(limit, 2) || infos[0].Key != "a/b" || infos[len(infos)-1].Key == "other" {
				t.Errorf("List of %d = %v, %v", limit, infos, err)
			}
		}
	})
}
