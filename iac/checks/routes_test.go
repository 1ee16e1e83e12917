package checks

import (
	"maps"
	"testing"

	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// What runs here as an API of one basin has the routes of the one that is deployed.
func TestRoutesAreThoseOfTheLocalGateway(t *testing.T) {
	t.Parallel()
	deployed := map[string]string{}
	for route, function := range members(t, local(t, "modules/basin/main.tf", "routes")) {
		value, faults := function.Value(nil)
		if faults.HasErrors() {
			t.Fatal(faults)
		}
		deployed[route] = value.AsString()
	}
	if !maps.Equal(deployed, harness.BasinRoutes) {
		t.Errorf("the module has the routes\n%v\nand the local gateway\n%v", deployed, harness.BasinRoutes)
	}
}
