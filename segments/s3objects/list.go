package s3objects

import (
	"context"
	"fmt"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/tailrace-streams/tailrace/segments"
)

// pageKeys is the most keys that S3 lists or deletes in one request.
const pageKeys = 1000

// List implements segments.Objects. Callers go on from the last key of a page, so an order other than bytewise would make
// them miss objects: the answer is checked, and any other is ErrMisbehaves. What is not named like an object is left out.
func (s *Store) List(ctx context.Context, prefix, startAfter string, limit int) ([]segments.ObjectInfo, error) {
	const op = "list objects"
	if err := segments.CheckPrefix(prefix); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	after, any := startWithin(prefix, startAfter)
	if !any || limit <= 0 {
		return nil, nil
	}
	l := listing{store: s, prefix: prefix}
	if after != "" {
		l.after = s.Key(after)
	}
	for len(l.found) < limit && !l.complete {
		err := s.Do(ctx, Call{Op: op, Walk: true}, func(ctx context.Context) error {
			return l.more(ctx, min(limit-len(l.found), pageKeys))
		})
		if err != nil {
			return nil, err
		}
	}
	return l.found, nil
}

// startWithin turns a start into one that every store takes, which has the same keys after it: stores differ in what they
// do with one outside the prefix, or with bytes that are not text. It reports false if no key of the prefix is after it.
func startWithin(prefix, startAfter string) (string, bool) {
	if !strings.HasPrefix(startAfter, prefix) {
		return "", startAfter < prefix
	}
	for i := range len(startAfter) {
		switch b := startAfter[i]; {
		case b < ' ':
			// No key has a byte as low, so those after it are those after what stands before it.
			startAfter = startAfter[:i]
		case b > '~':
			startAfter = startAfter[:i] + "~" // nor one above z, so ~ is as high
		default:
			continue
		}
		break
	}
	if len(startAfter) <= len(prefix) {
		return "", true
	}
	return startAfter, true
}

// listing is a list as far as it has come. A page that failed in the middle is gone on with from where it broke.
type listing struct {
	store    *Store
	prefix   string
	after    string // the last key seen in the bucket, or where to start; empty at the very start
	found    []segments.ObjectInfo
	complete bool
}

// more asks for at most n keys. It ends early where the store says that there are no more.
func (l *listing) more(ctx context.Context, n int) error {
	options := minio.ListObjectsOptions{
		Prefix: l.store.Key(l.prefix), StartAfter: l.after, Recursive: true, MaxKeys: n, FetchOwner: new(bool),
	}
	for object := range l.store.core.ListObjectsIter(ctx, l.store.Bucket(), options) {
		if object.Err != nil {
			return object.Err
		}
		if err := l.take(object); err != nil {
			return err
		}
		if n--; n == 0 {
			return nil
		}
	}
	if err := ctx.Err(); err != nil {
		return err // the library ends such a listing without a word
	}
	l.complete = true
	return nil
}

func (l *listing) take(object minio.ObjectInfo) error {
	key, ok := l.store.own(object.Key)
	switch {
	case !ok || !strings.HasPrefix(key, l.prefix):
		return fmt.Errorf("listing has a key that was not asked for: %w", ErrMisbehaves)
	case object.Key <= l.after:
		return fmt.Errorf("listing is not in bytewise order, or begins before where it should: %w", ErrMisbehaves)
	case object.LastModified.IsZero():
		return fmt.Errorf("listing does not say how old an object is: %w", ErrMisbehaves)
	}
	l.after = object.Key
	if segments.CheckKey(key) == nil {
		l.found = append(l.found, segments.ObjectInfo{Key: key, Size: object.Size, Modified: object.LastModified})
	}
	return nil
}
