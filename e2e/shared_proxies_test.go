package e2e

import (
	"testing"

	"github.com/tailrace-streams/tailrace/e2e/faultproxy"
	"github.com/tailrace-streams/tailrace/e2e/harness"
)

// proxies puts one before each of the shared stores, and returns the flags by which a server goes through them. Where both are
// one bucket, the proxy of the heads is given what is about those.
func proxies(t *testing.T) (s3, heads *faultproxy.Proxy, flags []string) {
	t.Helper()
	s3URL, dynamoDBURL, err := harness.Endpoints()
	if err != nil {
		t.Fatal(err)
	}
	s3 = faultproxy.Start(t, s3URL)
	flags = []string{"--s3-endpoint=" + s3.URL}
	if harness.BucketAlone() {
		heads = faultproxy.Start(t, s3URL)
		s3.Divert(faultproxy.Below("/"+harness.HeadsFolder+"/"), heads)
		return s3, heads, flags
	}
	heads = faultproxy.Start(t, dynamoDBURL)
	return s3, heads, append(flags, "--dynamodb-endpoint="+heads.URL)
}

// throttled is how the store of the heads asks for patience.
func throttled() *faultproxy.Refusal {
	if harness.BucketAlone() {
		return faultproxy.SlowDown
	}
	return faultproxy.Throttled
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
