package pebblestore

import (
	"context"

	"github.com/zeebo/xxh3"
)

// stripes are locks for any number of keys in constant memory: keys of one stripe share its lock, which costs a wait
// now and then and is never wrong. A lock is held over an fsync, so waiting for one ends with the context.
type stripes []chan struct{}

func newStripes(n int) stripes {
	s := make(stripes, n)
	for i := range s {
		s[i] = make(chan struct{}, 1)
	}
	return s
}

// lock takes the lock of a key and returns what gives it back. It fails if the context ends or the store has failed:
// a failed commit may never give its lock back, and if it does, Pebble shows what is not on the disk.
func (s *Store) lock(ctx context.Context, locks stripes, key []byte) (unlock func(), err error) {
	l := locks[xxh3.Hash(key)%uint64(len(locks))]
	select {
	case l <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.failed:
		return nil, s.failure
	}
	unlock = func() { <-l }
	if err := s.err(); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}
