package s3objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/minio/minio-go/v7"
)

// deletesAtOnce bounds the requests of one Delete to a store that takes a key at a time.
const deletesAtOnce = 8

// Delete implements segments.Objects. A key counts as deleted only if the store names it as such.
func (s *Store) Delete(ctx context.Context, keys []string) map[string]error {
	const op = "delete object"
	failed := map[string]error{}
	var good []string
	for _, key := range keys {
		if err := cmp.Or(s.checkKey(key), ctx.Err()); err != nil {
			failed[key] = fmt.Errorf("%s: %w", op, err)
		} else {
			good = append(good, key)
		}
	}
	slices.Sort(good)
	for batch := range slices.Chunk(slices.Compact(good), pageKeys) {
		maps.Copy(failed, s.deleteBatch(ctx, op, batch))
	}
	if len(failed) == 0 {
		return nil
	}
	return failed
}

func (s *Store) deleteBatch(ctx context.Context, op string, keys []string) map[string]error {
	if len(keys) == 1 || s.single.Load() {
		return s.deleteSingly(ctx, op, keys)
	}
	left := map[string]error{}
	for _, key := range keys {
		left[key] = nil
	}
	err := s.Do(ctx, Call{Op: op, Walk: true}, func(ctx context.Context) error { return s.deleteMany(ctx, left) })
	if e, ok := errors.AsType[*Error](err); ok && cannotDeleteMany(e) {
		s.single.Store(true)
		return s.deleteSingly(ctx, op, keys)
	}
	for key, why := range left {
		if why == nil {
			why = err
		}
		left[key] = why
	}
	return left
}

// cannotDeleteMany reports whether an answer means that the store does not know the request.
func cannotDeleteMany(e *Error) bool {
	return e.Status == http.StatusNotImplemented || e.Status == http.StatusMethodNotAllowed || e.Code == minio.NotImplemented
}

// deleteMany makes one request for all keys that are left, takes away those that the store names as deleted, and notes what
// it says of the others. It returns an error while some are left: the worst, so that a repeat is not ruled out by one key
// that can never be deleted.
func (s *Store) deleteMany(ctx context.Context, left map[string]error) error {
	objects := make(chan minio.ObjectInfo, len(left))
	for key := range left {
		objects <- minio.ObjectInfo{Key: s.Key(key)}
		left[key] = nil
	}
	close(objects)
	var worst error
	for result := range s.core.RemoveObjectsWithResult(ctx, s.Bucket(), objects, minio.RemoveObjectsOptions{}) {
		key, _ := s.own(result.ObjectName)
		_, asked := left[key]
		switch {
		case result.Err != nil && !isOfOneKey(result.Err):
			worst = result.Err
		case !asked:
		case result.Err == nil:
			delete(left, key)
		default:
			f := read("delete object", result.Err)
			f.Attempts = 1
			left[key] = &f.Error
			if worst == nil || f.Temporary {
				worst = result.Err
			}
		}
	}
	if worst == nil && len(left) > 0 {
		return fmt.Errorf("answer does not say what became of %d keys: %w", len(left), ErrMisbehaves)
	}
	return worst
}

// isOfOneKey reports whether an error came for one key inside an answer, which has no status, and not for the request.
func isOfOneKey(err error) bool {
	answer, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && answer.StatusCode == 0 && answer.Code != ""
}

func (s *Store) deleteSingly(ctx context.Context, op string, keys []string) map[string]error {
	failed := map[string]error{}
	var mu sync.Mutex
	var all sync.WaitGroup
	next := make(chan string)
	for range min(deletesAtOnce, len(keys)) {
		all.Go(func() {
			for key := range next {
				err := s.Do(ctx, Call{Op: op}, func(ctx context.Context) error {
					err := s.core.RemoveObject(ctx, s.Bucket(), s.Key(key), minio.RemoveObjectOptions{})
					if isNotFound(err) {
						return nil // some stores say so
					}
					return err
				})
				if err != nil {
					mu.Lock()
					failed[key] = err
					mu.Unlock()
				}
			}
		})
	}
	for _, key := range keys {
		next <- key
	}
	close(next)
	all.Wait()
	return failed
}
