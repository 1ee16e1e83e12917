package lambda

import (
	"net/url"
	"strings"
)

// withoutStage takes the stage of an API off the path. With a custom domain the path may come without it.
func withoutStage(path, stage string) string {
	if stage == "" || stage == "$default" {
		return path
	}
	rest, ok := strings.CutPrefix(path, "/"+stage)
	if !ok || !rooted(rest) {
		return path
	}
	return rest
}

// rooted reports whether a path is one of ours by its first element.
func rooted(path string) bool {
	if strings.HasPrefix(path, "/v1/") {
		return true
	}
	for _, probe := range probes {
		if path == probe {
			return true
		}
	}
	return false
}

// nameSuffixes are what may follow a stream's name in a path, the longest first.
var nameSuffixes = []string{"/records/tail", "/records", "/fence", ""}

// escapePath makes a request's path of one that API Gateway may have decoded, as HTTP APIs do and REST APIs do not; the
// event does not say which. Characters that no path has are escaped, escapes are kept, and slashes within the name of a
// stream are known by the routes. Where the gateway's route has a {stream} of its own, its value tells decoded text and
// escapes apart; without that, a name with an escape in it, such as "%41" itself, is taken for the escape.
func escapePath(path string, parameters map[string]string) string {
	rest, ok := strings.CutPrefix(path, "/v1/streams/")
	if !ok {
		return escapeLoose(path)
	}
	for _, suffix := range nameSuffixes {
		name, ok := strings.CutSuffix(rest, suffix)
		if !ok || name == "" {
			continue
		}
		if given, ok := parameters["stream"]; ok && given == name {
			name = url.PathEscape(name)
		} else {
			name = strings.ReplaceAll(escapeLoose(name), "/", "%2F")
		}
		return "/v1/streams/" + name + suffix
	}
	return escapeLoose(path)
}

const upperHex = "0123456789ABCDEF"

// escapeLoose escapes what cannot stand in an escaped path, and leaves escapes alone.
func escapeLoose(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' && i+2 < len(path) && isHex(path[i+1]) && isHex(path[i+2]) || c != '%' && mayStand(c) {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(upperHex[c>>4])
		b.WriteByte(upperHex[c&15])
	}
	return b.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// mayStand reports whether a byte stands for itself in a path (RFC 3986, pchar and the slash).
func mayStand(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~!$&'()*+,;=:@/", c) >= 0
}
