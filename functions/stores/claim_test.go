package stores

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/memstore"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/memobjects"
)

func newClaimer(table coordinator.Table, objects segments.Objects, place string) *claimer {
	return &claimer{table: table, objects: objects, id: uuid.New(), place: place, may: true}
}

func TestClaimBringsBucketAndTableTogether(t *testing.T) {
	t.Parallel()
	c := newClaimer(memstore.New(), memobjects.New(), "s3://bucket/a")
	for range 3 {
		if err := c.claim(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	content, err := c.objects.Get(t.Context(), claimKey(c.id), 0, -1)
	if want := `{"tailrace_bucket":1,"store_id":"` + c.id.String() + "\"}\n"; err != nil || string(content) != want {
		t.Errorf("the claim is %q, %v, want %q", content, err, want)
	}
	row, err := c.table.Get(t.Context(), objectsRow)
	if want := `{"objects":"s3://bucket/a"}`; err != nil || string(row.Value) != want || row.Version != 1 {
		t.Errorf("the row is %+v, %v, want %q", row, err, want)
	}
}

// A process that died between the two steps has left nothing that stands in the way.
func TestClaimGoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	c := newClaimer(memstore.New(), memobjects.New(), "s3://bucket")
	if err := c.makeClaim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.claim(t.Context()); err != nil {
		t.Error(err)
	}
	if there, err := c.placed(t.Context()); !there || err != nil {
		t.Errorf("the table names the bucket: %t, %v", there, err)
	}
}

func TestClaimRefuses(t *testing.T) {
	t.Parallel()
	put := func(key, content string) func(*testing.T, *claimer) {
		return func(t *testing.T, c *claimer) {
			t.Helper()
			key := strings.ReplaceAll(key, "ID", c.id.String())
			if err := c.objects.Put(t.Context(), key, []byte(strings.ReplaceAll(content, "ID", c.id.String()))); err != nil {
				t.Fatal(err)
			}
		}
	}
	claimed := func(t *testing.T, c *claimer) {
		t.Helper()
		if err := c.claim(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stranger := uuid.New()
	for name, test := range map[string]struct {
		before func(*testing.T, *claimer)
		change func(*claimer) // nil: none
		says   string
	}{
		"somebody's objects":       {before: put("photos/cat", "meow"), says: `"photos/cat"`},
		"another's claim":          {before: put("store/"+stranger.String(), `{"tailrace_bucket":1,"store_id":"`+stranger.String()+`"}`), says: stranger.String()},
		"a later version":          {before: put("store/ID", `{"tailrace_bucket":2,"store_id":"ID"}`), says: "format 2"},
		"a damaged claim":          {before: put("store/ID", `{"tailrace`), says: "damaged"},
		"a claim of another name":  {before: put("store/x", `{"tailrace_bucket":1,"store_id":"ID"}`), says: "damaged"},
		"another table":            {before: claimed, change: func(c *claimer) { c.id, c.table = uuid.New(), memstore.New() }, says: "claimed for the store of heads"},
		"another bucket":           {before: claimed, change: func(c *claimer) { c.place, c.objects = "s3://b/2", memobjects.New() }, says: "s3://bucket/a and not in s3://b/2"},
		"an emptied bucket":        {before: claimed, change: func(c *claimer) { c.objects = memobjects.New() }, says: "not there any more"},
		"a copied bucket":          {before: claimed, change: func(c *claimer) { c.place = "s3://copy" }, says: "not in s3://copy"},
		"nothing, for an operator": {before: func(*testing.T, *claimer) {}, change: func(c *claimer) { c.may = false }, says: "never been used"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClaimer(memstore.New(), memobjects.New(), "s3://bucket/a")
			test.before(t, c)
			if test.change != nil {
				test.change(c)
			}
			err := c.claim(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.says) || temporary(err) {
				t.Errorf("claim: %v, want one for good that says %q", err, test.says)
			}
		})
	}
}

// Two tables claim one place at once: never both succeed, and one that was refused leaves no claim behind.
func TestClaimRacesOfTables(t *testing.T) {
	t.Parallel()
	for range 200 {
		objects := memobjects.New()
		all := []*claimer{newClaimer(memstore.New(), objects, "s3://b"), newClaimer(memstore.New(), objects, "s3://b")}
		errs := make([]error, len(all))
		var racing sync.WaitGroup
		for i, c := range all {
			racing.Go(func() { errs[i] = c.claim(context.Background()) })
		}
		racing.Wait()
		won := 0
		for i, err := range errs {
			switch {
			case err == nil:
				won++
			case !errors.Is(err, ErrForeignBucket):
				t.Fatal(err)
			default:
				if _, err := objects.Get(t.Context(), claimKey(all[i].id), 0, -1); !errors.Is(err, segments.ErrObjectNotFound) {
					t.Fatalf("a claim is left: %v", err)
				}
			}
		}
		if won > 1 {
			t.Fatal("two tables have one bucket")
		}
	}
}

// Processes of one table that start at once, on the same place or on two: all that succeed agree.
func TestClaimRacesOfOneTable(t *testing.T) {
	t.Parallel()
	for range 200 {
		table, id := memstore.New(), uuid.New()
		buckets := map[string]segments.Objects{"s3://a": memobjects.New(), "s3://b": memobjects.New()}
		places := []string{"s3://a", "s3://a", "s3://b"}
		errs := make([]error, len(places))
		var racing sync.WaitGroup
		for i, place := range places {
			racing.Go(func() { errs[i] = (&claimer{table, buckets[place], id, place, true}).claim(context.Background()) })
		}
		racing.Wait()
		if errs[0] != errs[1] && (errs[0] == nil || errs[1] == nil) || (errs[0] == nil) == (errs[2] == nil) {
			t.Fatalf("the three got %v", errs)
		}
	}
}
