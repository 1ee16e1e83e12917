package segments

import (
	"context"
	"errors"
	"time"
)

// Objects is the object store: immutable values under keys that are never written with other bytes. Keys are
// slash-separated parts of [0-9A-Za-z._-], at most 200 characters a part and 1000 in all, and no part is "." or "..";
// an implementation may rely on it (see Key). All methods may be called at once, and honour ctx.
//
// An error other than ErrObjectNotFound says nothing about what was stored: a Put that failed may have stored the
// object or may store it later, and may be repeated freely.
type Objects interface {
	// Put stores data under key, durably before it returns nil. It must not keep data. Putting the same bytes again
	// is allowed and changes nothing a reader can see.
	Put(ctx context.Context, key string, data []byte) error
	// Get reads length bytes from offset, or everything from offset on if length is negative. A range that reaches
	// beyond the end is cut there. ErrObjectNotFound if there is no such object; a failed read is another error.
	Get(ctx context.Context, key string, offset, length int64) ([]byte, error)
	// List returns at most limit objects whose keys have the prefix and sort after startAfter, in bytewise order.
	// Fewer than limit means that there are no more. The prefix ends with a slash, or is empty.
	List(ctx context.Context, prefix, startAfter string, limit int) ([]ObjectInfo, error)
	// Delete removes objects, durably; deleting what is not there is not an error. It returns the keys that could
	// not be deleted, each with its reason, and nil if all went.
	Delete(ctx context.Context, keys []string) map[string]error
}

// ObjectInfo is what a listing says of an object.
type ObjectInfo struct {
	Key  string
	Size int64
	// Modified is when the store wrote the object, by the store's own clock.
	Modified time.Time
}

// ErrObjectNotFound is returned by Get when the store answered that there is no such object.
var ErrObjectNotFound = errors.New("object not found")

// ErrNoRoom is in the errors of a Put that the store refused because it is full: trying again does not help until somebody
// makes room.
var ErrNoRoom = errors.New("the store has no room left")

// SegmentKey is where a segment of a basin lies (design 10).
func SegmentKey(basin BasinID, id ObjectID) string {
	return "basins/" + basin.String() + "/segments/" + id.String()
}

// PageKey is where a page of a basin lies (design 10).
func PageKey(basin BasinID, id ObjectID) string {
	return "basins/" + basin.String() + "/pages/" + id.String()
}

// BasinPrefix is what the keys of all objects of a basin start with.
func BasinPrefix(basin BasinID) string { return "basins/" + basin.String() + "/" }
