package checks

import (
	"testing"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/tailrace-streams/tailrace/functions/config"
)

// notApplicable are the settings that a deployment of functions has no variable for, and why.
var notApplicable = map[string]string{
	"TAILRACE_LISTEN":           "a function has no port",
	"TAILRACE_TLS_CERT":         "the front door of AWS speaks TLS",
	"TAILRACE_TLS_KEY":          "the front door of AWS speaks TLS",
	"TAILRACE_DATA":             "a function has no folder that lasts",
	"TAILRACE_MEMORY":           "a function has no memory that lasts",
	"TAILRACE_AWS_REGION":       "the platform sets AWS_REGION",
	"TAILRACE_UPKEEP_INTERVAL":  "the schedule says when maintain runs",
	"TAILRACE_SHUTDOWN_TIMEOUT": "the platform ends a function between invocations",
	"TAILRACE_LOG_FORMAT":       "a function's log is JSON",
}

// The module sets nothing that is no setting, and every setting is either set or here with its reason.
func TestEnvironmentIsThatOfTheSettings(t *testing.T) {
	t.Parallel()
	loop, ok := local(t, "modules/service/functions.tf", "environment").(*hclsyntax.ForExpr)
	if !ok {
		t.Fatal("the environment is not a loop over what is set")
	}
	set := members(t, loop.CollExpr)
	settings := map[string]bool{}
	for _, entry := range config.Manual() {
		settings[entry.Variable] = true
		_, isSet := set[entry.Variable]
		_, excused := notApplicable[entry.Variable]
		switch {
		case isSet && excused:
			t.Errorf("%s is set, and said to be without use for functions", entry.Variable)
		case !isSet && !excused:
			t.Errorf("%s cannot be set: add it to modules/service, or say why functions have no use for it", entry.Variable)
		}
	}
	for variable := range set {
		if !settings[variable] {
			t.Errorf("%s is set, and no function reads it", variable)
		}
	}
	for variable := range notApplicable {
		if !settings[variable] {
			t.Errorf("%s is excused, and no setting any more", variable)
		}
	}
}
