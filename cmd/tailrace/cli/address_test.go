package cli

import (
	"errors"
	"strings"
	"testing"
)

func TestParseAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]address{
		"tailrace://my-basin/orders":         {"my-basin", "orders"},
		"s2://my-basin/orders":               {"my-basin", "orders"},
		"tailrace://my-basin/rooms/7/ü %2F?": {"my-basin", "rooms/7/ü %2F?"},
		"tailrace://my-basin//":              {"my-basin", "/"},
		"tailrace://my-basin/":               {"my-basin", ""},
		"tailrace://my-basin":                {"my-basin", ""},
	} {
		if got, err := parseAddress(text); err != nil || got != want {
			t.Errorf("%q is %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "my-basin", "my-basin/orders", "tailrace:/my-basin/s", "http://my-basin/s", "tailrace://", "tailrace:///s", "S2://b/s"} {
		if got, err := parseAddress(text); !errors.Is(err, errUsage) {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	if _, err := streamAddress("s2://my-basin/"); !errors.Is(err, errUsage) {
		t.Errorf("an address without a stream: %v", err)
	}
	if name, err := basinName("tailrace://my-basin/"); name != "my-basin" || err != nil {
		t.Errorf("a basin by its address is %q, %v", name, err)
	}
	if _, err := basinName("tailrace://my-basin/s"); !errors.Is(err, errUsage) {
		t.Errorf("a stream where a basin is needed: %v", err)
	}
}

// An address that was read is written so that it is read as the same, and what is shown of a name cannot move a terminal.
func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"tailrace://b/s", "s2://b//x", "tailrace://b/\x1b[2J", "tailrace://b/ü\n", "x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseAddress(text)
		if err != nil {
			return
		}
		if again, err := parseAddress(a.String()); err != nil || again != a {
			t.Errorf("%q is %+v, and written again %+v, %v", text, a, again, err)
		}
		if s := shown(a.String()); strings.ContainsAny(s, "\x1b\n\r\x00\x07") {
			t.Errorf("%q is shown as %q", text, s)
		}
	})
}
