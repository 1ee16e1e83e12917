package segments_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailrace-streams/tailrace/segments"
)

func TestCheckKey(t *testing.T) {
	t.Parallel()
	part := strings.Repeat("x", segments.MaxKeyPartBytes)
	for key, good := range map[string]bool{
		"a": true, "a/b": true, "A-b_c.d/0": true, "...": true, ".a/a.": true, part: true,
		part + "/" + part + "/" + part + "/" + part + "/" + part[:196]: true,
		part + "/" + part + "/" + part + "/" + part + "/" + part[:197]: false,
		"": false, ".": false, "..": false, "../../etc/x": false, "a/../../b": false, "a/./b": false, "/a": false,
		"a/": false, "a//b": false, `..\x`: false, "%2e%2e/x": false, "a b": false, "日": false, "a\x00": false,
		"~staging/a": false, part + "x": false,
	} {
		err := segments.CheckKey(key)
		if good && err != nil || !good && !errors.Is(err, segments.ErrBadKey) {
			t.Errorf("CheckKey(%q) = %v", key, err)
		}
		if perr := segments.CheckPrefix(key + "/"); (perr == nil) != good {
			t.Errorf("CheckPrefix(%q) = %v", key+"/", perr)
		}
	}
	if segments.CheckPrefix("") != nil || segments.CheckPrefix("a") == nil {
		t.Error("a prefix is empty or ends with a slash")
	}
}
