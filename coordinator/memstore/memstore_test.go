package memstore_test

import (
	"testing"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/memstore"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.RunHeads(t, func(*testing.T) coordinator.Heads { return memstore.New() })
	storetest.RunTable(t, func(*testing.T) coordinator.Table { return memstore.New() })
}
