package stores

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// bucketFormat is the version of what lies where in a bucket. What is in the objects has versions of its own.
const bucketFormat = 1

// A store of heads, below "the table", and the prefix of a bucket belong to each other, or records would be looked for where they are not. Each names
// the other from its first use on:
//
//	store/ID in the bucket    claims the prefix for the table whose id that is; its content says the format
//	store, objects            a row of the table: where its objects are
//
// The claim is made first, then the row. Two tables that claim a prefix at once both see both claims, or the later one
// does; whoever sees another's claim gives up. So no store needs to honour conditions on objects for this.
const claimFolder = "store/"

// ProbeFolder is where s3objects.Store.Probe puts what it tries a bucket with.
const ProbeFolder = "probe/"

var objectsRow = coordinator.Key{Part: "store", Sort: "objects"}

// claimContent is what the claim holds.
type claimContent struct {
	Version int       `json:"tailrace_bucket"`
	StoreID uuid.UUID `json:"store_id"`
}

// objectsPlace is what the row holds.
type objectsPlace struct {
	Objects string `json:"objects"`
}

// ErrForeignBucket is in the errors about a bucket that is not, or not this table's.
var ErrForeignBucket = errors.New("the bucket is not this store's")

// ErrNoStores refuses to look after stores that are not there: opening them would make them, and a misspelt folder would
// be reported as empty and well.
var ErrNoStores = errors.New("there are no stores to look after; name them with --data, or --objects and --heads")

// claimer brings a table and a bucket together, or finds that they belong to others.
type claimer struct {
	table   coordinator.Table
	objects segments.Objects
	id      uuid.UUID // of the table
	place   string    // s3://BUCKET/PREFIX
	may     bool      // make a claim where there is none
}

// claim returns once bucket and table name each other. It costs a read, a listing and a read when they already do. Errors
// that do not match ErrForeignBucket are the stores' own.
func (c *claimer) claim(ctx context.Context) error {
	there, err := c.placed(ctx)
	if err != nil {
		return err
	}
	claimed, err := c.claimed(ctx)
	switch {
	case err != nil:
		return err
	case !claimed && there:
		return fmt.Errorf("the store of heads keeps its objects in %s, and its claim is not there any more; is it the right endpoint, "+
			"and has the bucket been emptied? %w", c.place, ErrForeignBucket)
	case !claimed && !c.may:
		return fmt.Errorf("%s has never been used with this store of heads: %w", c.place, ErrNoStores)
	case !claimed:
		if err := c.makeClaim(ctx); err != nil {
			return err
		}
	}
	if there {
		return nil
	}
	return c.makeRow(ctx)
}

// placed reports whether the table says that its objects are here. That they are elsewhere is an error.
func (c *claimer) placed(ctx context.Context) (bool, error) {
	row, err := c.table.Get(ctx, objectsRow)
	if errors.Is(err, coordinator.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read where the objects are: %w", err)
	}
	err = c.compare(row)
	return err == nil, err
}

func (c *claimer) compare(row coordinator.Row) error {
	var place objectsPlace
	if err := json.Unmarshal(row.Value, &place); err != nil || place.Objects == "" {
		return fmt.Errorf("the row on where the objects are is damaged: %w", ErrForeignBucket)
	}
	if place.Objects != c.place {
		return fmt.Errorf("the store of heads keeps its objects in %s and not in %s: %w", place.Objects, c.place, ErrForeignBucket)
	}
	return nil
}

// claimed reports whether the bucket is claimed for the table, in a format that this build knows. A claim for another one
// is an error.
func (c *claimer) claimed(ctx context.Context) (bool, error) {
	found, err := c.objects.List(ctx, claimFolder, "", 10)
	if err != nil {
		return false, fmt.Errorf("look for a claim: %w", err)
	}
	ours := false
	for _, info := range found {
		content, err := c.readClaim(ctx, info.Key)
		switch {
		case errors.Is(err, segments.ErrObjectNotFound):
			continue // another table claimed the place at the same time and gave up
		case err != nil:
			return false, err
		case content.StoreID != c.id:
			return false, fmt.Errorf("%s is claimed for the store of heads with id %s by the object %s, and this one has id %s: %w",
				c.place, content.StoreID, info.Key, c.id, ErrForeignBucket)
		}
		ours = true
	}
	return ours, nil
}

func (c *claimer) readClaim(ctx context.Context, key string) (claimContent, error) {
	data, err := c.objects.Get(ctx, key, 0, -1)
	if err != nil {
		return claimContent{}, fmt.Errorf("read a claim: %w", err)
	}
	var content claimContent
	if err := json.Unmarshal(data, &content); err != nil || content.Version <= 0 || claimKey(content.StoreID) != key {
		return claimContent{}, fmt.Errorf("the object %s in %s is damaged, or not ours: %w", key, c.place, ErrForeignBucket)
	}
	if content.Version != bucketFormat {
		return claimContent{}, fmt.Errorf("%s has format %d, and this version of tailrace reads format %d: %w",
			c.place, content.Version, bucketFormat, ErrForeignBucket)
	}
	return content, nil
}

func claimKey(id uuid.UUID) string { return claimFolder + id.String() }

// makeClaim claims a place that holds nothing.
func (c *claimer) makeClaim(ctx context.Context) error {
	found, err := c.objects.List(ctx, "", "", 1000)
	if err != nil {
		return fmt.Errorf("look into the bucket: %w", err)
	}
	for _, info := range found {
		if !strings.HasPrefix(info.Key, ProbeFolder) && info.Key != claimKey(c.id) {
			return fmt.Errorf("%s holds %q and no claim: choose a prefix that holds nothing: %w",
				c.place, info.Key, ErrForeignBucket)
		}
	}
	data, err := json.Marshal(claimContent{bucketFormat, c.id})
	if err != nil {
		return fmt.Errorf("encode claim: %w", err)
	}
	if err := c.objects.Put(ctx, claimKey(c.id), append(data, '\n')); err != nil {
		return fmt.Errorf("claim the bucket: %w", err)
	}
	claimed, err := c.claimed(ctx)
	if err == nil && !claimed {
		err = fmt.Errorf("%s does not list what was just written: %w", c.place, ErrForeignBucket)
	}
	return c.giveUpOn(ctx, err)
}

// makeRow notes in the table where its objects are. Another process may be doing the same.
func (c *claimer) makeRow(ctx context.Context) error {
	value, err := json.Marshal(objectsPlace{c.place})
	if err != nil {
		return fmt.Errorf("encode place: %w", err)
	}
	_, err = c.table.Put(ctx, coordinator.Row{Key: objectsRow, Value: value, ID: coordinator.NewOpID()}, 0)
	var conflict *coordinator.Conflict
	if errors.As(err, &conflict) {
		return c.giveUpOn(ctx, c.compare(conflict.Found))
	}
	if err != nil {
		return fmt.Errorf("note where the objects are: %w", err)
	}
	return nil
}

// giveUpOn takes our claim back when it turned out that the place or the table is another's; unless a process of the same
// table has found otherwise meanwhile, and relies on it.
func (c *claimer) giveUpOn(ctx context.Context, err error) error {
	if !errors.Is(err, ErrForeignBucket) {
		return err
	}
	if here, _ := c.placed(ctx); !here {
		// What cannot be deleted shows at the next start, by its own words.
		_ = c.objects.Delete(ctx, []string{claimKey(c.id)})
	}
	return err
}
