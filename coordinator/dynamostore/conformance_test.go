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
