package wire

import (
	"net/url"
	"strconv"
	"strings"
)

// Revision names a state that a later read can demand: BASIN/STREAM@INCARNATION.VERSION, the stream percent-encoded.
// Clients treat the text as opaque. Without a stream it names a state of the basin's directory.
type Revision struct {
	Basin, Stream string
	// Incarnation is the id of the stream: one that was created anew under the same name has another.
	Incarnation string
	Version     uint64
}

// String is the revision as it is sent.
func (r Revision) String() string {
	return r.Basin + "/" + url.PathEscape(r.Stream) + "@" + r.Incarnation + "." + strconv.FormatUint(r.Version, 10)
}

// ParseRevision reads what String writes. Its error has the code `at`: CodeBadHeader or CodeBadQuery.
func ParseRevision(text string, at Code) (Revision, error) {
	bad := Errorf(at, "a revision is BASIN/STREAM@INCARNATION.VERSION")
	basin, rest, ok := strings.Cut(text, "/")
	mark := strings.LastIndexByte(rest, '@') // a name may have one, an incarnation has none
	dot := strings.LastIndexByte(rest, '.')
	if !ok || mark < 0 || dot < mark {
		return Revision{}, bad
	}
	stream, err := url.PathUnescape(rest[:mark])
	if err != nil {
		return Revision{}, bad
	}
	version, err := parseU64(rest[dot+1:])
	if err != nil {
		return Revision{}, bad
	}
	r := Revision{Basin: basin, Stream: stream, Incarnation: rest[mark+1 : dot], Version: version}
	if CheckBasinName(basin, at) != nil || r.Incarnation == "" || stream != "" && CheckStreamName(stream, at) != nil {
		return Revision{}, bad
	}
	return r, nil
}
