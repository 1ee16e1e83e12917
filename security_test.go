package tailrace_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every abuse case of docs/security.md names tests, and every test that it names exists.
func TestEveryAbuseCaseIsATest(t *testing.T) {
	t.Parallel()
	defined := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	for _, name := range repositoryFiles(t) {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, found := range function.FindAllStringSubmatch(string(readFile(t, name)), -1) {
			defined[found[1]] = true
		}
	}
	row := regexp.MustCompile(`(?m)^\| (\d+) \|.*\|([^|]*)\|$`)
	named := regexp.MustCompile("`(\\w+)`")
	cases := row.FindAllStringSubmatch(string(readFile(t, "docs/security.md")), -1)
	for i, c := range cases {
		if c[1] != strconv.Itoa(i+1) {
			t.Errorf("row %d has the number %s", i+1, c[1])
		}
		tests := named.FindAllStringSubmatch(c[2], -1)
		if len(tests) == 0 {
			t.Errorf("case %s names no test", c[1])
		}
		for _, test := range tests {
			if !defined[test[1]] {
				t.Errorf("case %s names %s, which is no test", c[1], test[1])
			}
		}
	}
	if len(cases) < 15 {
		t.Errorf("only %d abuse cases were found", len(cases))
	}
	if !slices.ContainsFunc(cases, func(c []string) bool { return strings.Contains(c[2], "TestBL137_NoTokenNoAnswer") }) {
		t.Error("the table was not read: requests without a token are not in it")
	}
}
