package pebblestore

import (
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// DB is the database below a store, for tests of what lies in it and what it costs.
func (s *Store) DB() *pebble.DB { return s.db }

// InCache reports whether a head is in the cache, of which some test wants to be sure. It does not count as a use.
func (s *Store) InCache(id [16]byte) bool {
	_, ok := s.hot.GetEntryQuietly(id)
	return ok
}

// CleanUpCache finishes evictions that are due.
func (s *Store) CleanUpCache() { s.hot.CleanUp() }

// Fail is what Pebble's listeners call.
func (s *Store) Fail(reason error) { s.fail(reason) }

func memory() Options { return Options{FS: vfs.NewMem()} }
