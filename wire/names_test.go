package wire

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	t.Parallel()
	prefix := func(kind NameKind) func(string, Code) error {
		return func(name string, at Code) error { return CheckPrefix(kind, name, at) }
	}
	of := func(n int) string { return strings.Repeat("a", n) }
	tests := []struct {
		name      string
		check     func(string, Code) error
		good, bad []string
	}{
		{"basin", CheckBasinName, []string{of(8), of(48), "a------9", "12345678"}, []string{"", of(7), of(49), "-asinone", "basinone-", "basin_one", "Basin-one", "bäsinone", "basin one", "basin.one", "basin\x00one"}},
		{"basin prefix", prefix(BasinNames), []string{"", "a", "a-", of(48), "1"}, []string{"-", of(49), "A", "a_"}},
		{"stream", CheckStreamName, []string{"a", of(512), "...", " ", "/", "a//b", "../x", "%", "😀", "\n", strings.Repeat("é", 256)}, []string{"", ".", "..", of(513), "a\x00", "\xff", "a\xed\xa0\x80", strings.Repeat("é", 257)}},
		{"stream prefix", prefix(StreamNames), []string{"", ".", "..", of(512)}, []string{of(513), "\x00", "\xff"}},
		{"token", CheckTokenID, []string{"a", of(96), "a/b"}, []string{"", ".", "..", of(97), "\xff"}},
		{"token prefix", prefix(TokenIDs), []string{"", ".", of(96)}, []string{of(97), "\xff"}},
		{"location", CheckLocationName, []string{"a", "aws:us-east-1", "A.b", of(64)}, []string{"", of(65), "a_b", "a/b", "é", "a b"}},
		{"fencing token", CheckFencingToken, []string{"", of(36), strings.Repeat("é", 18), "\x00"}, []string{of(37), strings.Repeat("é", 19), "\xff"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range test.good {
				if err := test.check(name, CodeBadPath); err != nil {
					t.Errorf("%q: %v", name, err)
				}
			}
			for _, name := range test.bad {
				for _, at := range []Code{CodeBadPath, CodeBadQuery, CodeBadJSON, CodeBadHeader} {
					if err := test.check(name, at); err == nil {
						t.Errorf("%q is accepted", name)
					} else {
						wantCode(t, err, at)
					}
				}
			}
		})
	}
}
