package pebblestore_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/pebblestore"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
)

func open(t *testing.T, opts pebblestore.Options) *pebblestore.Store {
	t.Helper()
	s, err := pebblestore.Open(t.TempDir(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.RunHeads(t, func(t *testing.T) coordinator.Heads { return open(t, pebblestore.Options{FS: vfs.NewMem()}) })
	storetest.RunTable(t, func(t *testing.T) coordinator.Table { return open(t, pebblestore.Options{FS: vfs.NewMem()}) })
}

// Without a cache every answer comes from what is stored.
func TestConformanceUncached(t *testing.T) {
	t.Parallel()
	storetest.RunHeads(t, func(t *testing.T) coordinator.Heads {
		return open(t, pebblestore.Options{FS: vfs.NewMem(), HeadCacheBytes: 1})
	})
}
