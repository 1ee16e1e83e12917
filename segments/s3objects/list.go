package s3objects

import (
	"context"
	"fmt"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/tailrace-streams/tailrace/segments"
)

const (
	// pageKeys is the most keys that S3 lists or deletes in one request.
	pageKeys = 1000
	// spareKeys is how many more are asked for than are wanted. MinIO stops its walk after as many objects as were asked
	// for, and a few more, and counts some that come before the start: those whose names go on where a part of the start
	// ends, as a-b does for a/c. When it has stopped early, it says that there are no more.
	spareKeys = 64
)

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
// do with one outside the prefix, with bytes that no key has, and with the parts "." and "..". It reports false if no key
// of the prefix is after it.
func startWithin(prefix, startAfter string) (string, bool) {
	if !strings.HasPrefix(startAfter, prefix) {
		return "", startAfter < prefix
	}
	start := plainStart(startAfter)
	if len(start) <= len(prefix) || !strings.HasPrefix(start, prefix) {
		return "", true
	}
	return start, true
}

// keyBytes are those of keys, in order. The tilde is above them all, and no store minds it at the end.
const keyBytes = "-./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"

// plainStart returns a start of bytes of keys, and perhaps a tilde at the end, without the parts "." and "..". No key lies
// between it and s.
func plainStart(s string) string {
	if i := strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune(keyBytes, r) }); i >= 0 {
		below := strings.IndexFunc(keyBytes, func(r rune) bool { return r > rune(s[i]) })
		switch {
		case below == 0: // a key that goes on from here at all is above s
			s = s[:i]
		case below < 0:
			s = s[:i] + "~"
		default:
			s = s[:i] + keyBytes[below-1:below] + "~"
		}
	}
	for from := 0; from < len(s); {
		part, _, more := strings.Cut(s[from:], "/")
		if part != "." && part != ".." {
			from += len(part) + 1
			continue
		}
		if more { // above all parts that go on with a byte below the slash, of which the dot is the last
			return s[:from] + part + ".~"
		}
		return s[:from] + part[1:] + "-~" // no key ends like this, so those below are those that have a hyphen for the dot
	}
	return s
}

// listing is a list as far as it has come. A page that failed in the middle is gone on with from where it broke.
type listing struct {
	store    *Store
	prefix   string
	after    string // the last key seen in the bucket, or where to start; empty at the very start
	found    []segments.ObjectInfo
	complete bool
}

// more takes at most n keys. It ends early where the store says that there are no more.
func (l *listing) more(ctx context.Context, n int) error {
	options := minio.ListObjectsOptions{
		Prefix: l.store.Key(l.prefix), StartAfter: l.after, Recursive: true, MaxKeys: min(n+spareKeys, pageKeys),
		FetchOwner: new(bool),
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
