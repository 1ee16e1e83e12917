package cli

import (
	"fmt"
	"strings"

	"github.com/tailrace-streams/tailrace/client"
)

// The schemes of addresses. S2's own is taken too, so that scripts can be carried over.
const (
	scheme   = "tailrace://"
	schemeS2 = "s2://"
)

// address names a basin, and perhaps a stream or the beginning of streams' names.
type address struct{ basin, stream string }

func (a address) String() string { return scheme + a.basin + "/" + a.stream }

// parseAddress reads tailrace://BASIN/STREAM. Everything behind the first slash is the stream's name, byte for byte: names
// may hold slashes, blanks and percent signs, and nothing is decoded.
func parseAddress(text string) (address, error) {
	rest, found := strings.CutPrefix(text, scheme)
	if !found {
		rest, found = strings.CutPrefix(text, schemeS2)
	}
	if !found {
		return address{}, usagef("%q is not an address: write %sBASIN/STREAM", text, scheme)
	}
	basin, stream, _ := strings.Cut(rest, "/")
	if basin == "" {
		return address{}, usagef("the address %q names no basin: write %sBASIN/STREAM", text, scheme)
	}
	return address{basin, stream}, nil
}

// streamAddress is parseAddress where a stream is needed.
func streamAddress(text string) (address, error) {
	a, err := parseAddress(text)
	if err == nil && a.stream == "" {
		err = usagef("the address %q names no stream: write %s%s/STREAM", text, scheme, a.basin)
	}
	return a, err
}

// basinName takes a basin by its name or its address.
func basinName(text string) (string, error) {
	if !strings.Contains(text, "://") {
		return text, nil
	}
	a, err := parseAddress(text)
	if err == nil && a.stream != "" {
		err = usagef("the address %q names a stream, and this is about a basin", text)
	}
	return a.basin, err
}

func (a address) of(c *client.Client) *client.Stream { return c.Basin(a.basin).Stream(a.stream) }

// shown is a name as it is printed for people: quoted where it holds what a terminal would act on, or what hides.
func shown(name string) string {
	if quoted := fmt.Sprintf("%q", name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}
