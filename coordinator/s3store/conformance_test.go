package s3store

import (
	"testing"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments/s3objects"
	"github.com/tailrace-streams/tailrace/segments/s3objects/fakes3"
)

// TestConformance runs the suites on a fake, plain and with every oddity that must not matter: a store that says 412 where
// AWS says 404, one that conflicts all the time, one that refuses what is not plain.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, quirks := range map[string]fakes3.Quirks{
		"plain": {},
		"odd":   {MissingIfMatch: 412, RefuseChunked: true, RefuseChecksums: true, PageKeys: 7, NoDeleteMany: true, WalkLimit: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := func(t *testing.T) *Store {
				fake := fakes3.Start(t)
				fake.SetQuirks(quirks)
				return mustOpen(t, onFake(fake))
			}
			storetest.RunHeads(t, func(t *testing.T) coordinator.Heads { return open(t) })
			storetest.RunTable(t, func(t *testing.T) coordinator.Table { return open(t) })
		})
	}
}

// TestServers runs the suites on real stores.
func TestServers(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, bucket s3objects.Options) {
		t.Parallel()
		storetest.RunHeads(t, func(t *testing.T) coordinator.Heads { return mustOpen(t, inBucket(bucket)) })
		storetest.RunTable(t, func(t *testing.T) coordinator.Table { return mustOpen(t, inBucket(bucket)) })
	})
}
