package checks

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// permissions are the actions that a call needs, by the operations that a recorded run names (e2e's TestSharedFunctionCalls).
var permissions = map[string]struct {
	on, action string
}{
	"PutObject":     {"objects", "s3:PutObject"},
	"GetObject":     {"objects", "s3:GetObject"},
	"HeadObject":    {"objects", "s3:GetObject"},
	"DeleteObject":  {"objects", "s3:DeleteObject"},
	"DeleteObjects": {"objects", "s3:DeleteObject"},
	// The first process to open the stores tries the bucket, in a folder of its own.
	"DeleteObjects probe/": {"probe", "s3:DeleteObject"},
	"ListObjectsV2":        {"bucket", "s3:ListBucket"},
	"GetItem":              {"table", "dynamodb:GetItem"},
	"PutItem":              {"table", "dynamodb:PutItem"},
	"UpdateItem":           {"table", "dynamodb:UpdateItem"},
	"DeleteItem":           {"table", "dynamodb:DeleteItem"},
	"Query":                {"table", "dynamodb:Query"},
}

// unrecorded are actions that no call shows, and why functions need them all the same: in every role, on the bucket.
var unrecorded = map[string]string{
	"s3:ListBucket": "without it S3 says of an object that is gone that access is denied, and not that it is not there, which tells a read to load the head again",
}

// Each role has the actions of the calls that its function was recorded to make, and those that no call shows, and no more.
func TestRolesAreWhatFunctionsUse(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/calls.json")
	if err != nil {
		t.Fatal(err)
	}
	var calls map[string][]string
	if err := json.Unmarshal(text, &calls); err != nil {
		t.Fatal(err)
	}
	written := members(t, local(t, "modules/service/roles.tf", "actions"))
	if len(written) != len(calls) {
		t.Errorf("%d functions have actions, %d were recorded", len(written), len(calls))
	}
	for function, operations := range calls {
		want := map[string][]string{"objects": {}, "probe": {}, "bucket": {}, "table": {}}
		for _, operation := range operations {
			p, known := permissions[operation]
			if !known {
				t.Fatalf("%s calls %s, of which no action is known", function, operation)
			}
			want[p.on] = append(want[p.on], p.action)
		}
		for action := range unrecorded {
			want["bucket"] = append(want["bucket"], action)
		}
		if written[function] == nil {
			t.Errorf("%s has no actions", function)
			continue
		}
		for on, expression := range members(t, written[function]) {
			got, need := texts(t, expression), want[on]
			slices.Sort(need)
			need = slices.Compact(need)
			if on == "probe" && slices.Contains(want["objects"], "s3:DeleteObject") {
				need = nil // it may delete everywhere
			}
			if !slices.Equal(got, need) {
				t.Errorf("%s on %s: the role has %v, the function uses %v", function, on, got, need)
			}
		}
	}
}
