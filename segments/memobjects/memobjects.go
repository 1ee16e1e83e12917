// Package memobjects is an object store in memory, for tests and simulations: it passes the conformance suite of
// objectstest, starts no goroutine, and reads no clock but the one it is given.
package memobjects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tailrace-streams/tailrace/segments"
)

// ErrChanged is returned by Put for a key that holds other bytes. A real store would overwrite them without a word;
// objects are immutable, so here it is a fault of the caller that should be seen.
var ErrChanged = errors.New("object already holds other bytes")

// Store implements segments.Objects in memory. All methods may be called at once.
type Store struct {
	now func() time.Time

	mu      sync.RWMutex
	objects map[string]object
	keys    []string // the keys of objects in bytewise order
}

type object struct {
	data     []byte // never changed once stored
	modified time.Time
}

// Option changes how a Store is made.
type Option func(*Store)

// WithClock sets the clock that Modified is read from; time.Now is the default.
func WithClock(now func() time.Time) Option {
	return func(s *Store) { s.now = now }
}

// New makes an empty store.
func New(opts ...Option) *Store {
	s := &Store{now: time.Now, objects: map[string]object{}}
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// Put implements segments.Objects. Like S3, it renews Modified when the same bytes are put again. It also returns
// ErrChanged and segments.ErrBadKey.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	if err := check(ctx, segments.CheckKey(key)); err != nil {
		return fmt.Errorf("put object: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.objects[key]
	if ok && !bytes.Equal(old.data, data) {
		return fmt.Errorf("put object: %w", ErrChanged)
	}
	if !ok {
		old.data = bytes.Clone(data)
		at, _ := slices.BinarySearch(s.keys, key)
		s.keys = slices.Insert(s.keys, at, key)
	}
	s.objects[key] = object{old.data, s.now()}
	return nil
}

// Get implements segments.Objects. The caller owns the result.
func (s *Store) Get(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	if err := check(ctx, segments.CheckKey(key)); err != nil {
		return nil, fmt.Errorf("get object: %w", err)
	}
	if offset < 0 {
		return nil, fmt.Errorf("get object: offset %d is negative", offset)
	}
	s.mu.RLock()
	o, ok := s.objects[key]
	s.mu.RUnlock()
	if !ok {
		return nil, fmt.Errorf("get object: %w", segments.ErrObjectNotFound)
	}
	rest := o.data[min(offset, int64(len(o.data))):]
	if length >= 0 {
		rest = rest[:min(length, int64(len(rest)))]
	}
	return append([]byte{}, rest...), nil
}

// List implements segments.Objects.
func (s *Store) List(ctx context.Context, prefix, startAfter string, limit int) ([]segments.ObjectInfo, error) {
	if err := check(ctx, segments.CheckPrefix(prefix)); err != nil {
		return nil, fmt.Errorf("list objects: %w", err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	// Nothing sorts between a key and the same key with a zero byte, so this is the first key after startAfter.
	at, _ := slices.BinarySearch(s.keys, max(prefix, startAfter+"\x00"))
	var found []segments.ObjectInfo
	for _, key := range s.keys[at:] {
		if len(found) >= limit || !strings.HasPrefix(key, prefix) {
			break
		}
		o := s.objects[key]
		found = append(found, segments.ObjectInfo{Key: key, Size: int64(len(o.data)), Modified: o.modified})
	}
	return found, nil
}

// Delete implements segments.Objects.
func (s *Store) Delete(ctx context.Context, keys []string) map[string]error {
	var failed map[string]error
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		if err := check(ctx, segments.CheckKey(key)); err != nil {
			if failed == nil {
				failed = map[string]error{}
			}
			failed[key] = fmt.Errorf("delete object: %w", err)
			continue
		}
		if at, ok := slices.BinarySearch(s.keys, key); ok {
			s.keys = slices.Delete(s.keys, at, at+1)
			delete(s.objects, key)
		}
	}
	return failed
}

// Len is the number of objects stored.
func (s *Store) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.keys)
}

func check(ctx context.Context, keyErr error) error {
	if keyErr != nil {
		return keyErr
	}
	return ctx.Err()
}
