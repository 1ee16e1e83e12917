package e2e

import (
	"testing"

	"github.com/tailrace-streams/tailrace/e2e/faultproxy"
	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// proxies puts one before each of the shared stores, and returns the flags by which a server goes through them.
func proxies(t *testing.T) (s3, dynamoDB *faultproxy.Proxy, flags []string) {
	t.Helper()
	s3URL, dynamoDBURL, err := harness.Endpoints()
	if err != nil {
		t.Fatal(err)
	}
	s3, dynamoDB = faultproxy.Start(t, s3URL), faultproxy.Start(t, dynamoDBURL)
	return s3, dynamoDB, []string{"--s3-endpoint=" + s3.URL, "--dynamodb-endpoint=" + dynamoDB.URL}
}

// What may be wrong with all requests to a store.
var (
	gone   = faultproxy.Always(faultproxy.Any, faultproxy.Fault{Reset: true})
	silent = faultproxy.Always(faultproxy.Any, faultproxy.Fault{BlackHole: true})
)

// refusing is a rule by which everything is refused.
func refusing(r *faultproxy.Refusal) faultproxy.Rule {
	return faultproxy.Always(faultproxy.Any, faultproxy.Fault{Refuse: r})
}
