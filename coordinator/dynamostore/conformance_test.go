package dynamostore

import (
	"testing"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	endpoint := emulator(t)
	storetest.RunHeads(t, func(t *testing.T) coordinator.Heads { return newStoreAt(t, endpoint) })
	storetest.RunTable(t, func(t *testing.T) coordinator.Table { return newStoreAt(t, endpoint) })
}

// The emulator leaves out the item that failed a condition, so the suite above decides refusals by another read. Here
// it is added to the answers, as the service does.
func TestConformanceWithOldItems(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	p.completes = true
	storetest.RunHeads(t, func(t *testing.T) coordinator.Heads { return newStoreAt(t, p.URL) })
	storetest.RunTable(t, func(t *testing.T) coordinator.Table { return newStoreAt(t, p.URL) })
}
