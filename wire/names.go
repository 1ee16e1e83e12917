package wire

import (
	"strings"
	"unicode/utf8"
)

// The Check functions refuse a value that is no name. Their errors have the code `at`, which is the caller's to choose
// by where the value came from: CodeBadPath, CodeBadQuery, CodeBadJSON, CodeBadHeader, or CodeInvalid. Lengths are in
// bytes. (S2 API, "Names".)

// CheckBasinName refuses what is not 8 to 48 of a-z, 0-9 and "-", with a letter or digit at both ends.
func CheckBasinName(name string, at Code) error {
	if len(name) < BasinNameMin || len(name) > BasinNameMax {
		return Errorf(at, "a basin name has %d to %d bytes", BasinNameMin, BasinNameMax)
	}
	if err := checkBasinPrefix(name, at); err != nil {
		return err
	}
	if name[len(name)-1] == '-' {
		return Errorf(at, "a basin name ends with a letter or digit")
	}
	return nil
}

// checkBasinPrefix refuses what cannot begin a basin's name; the empty prefix can.
func checkBasinPrefix(prefix string, at Code) error {
	if len(prefix) > BasinNameMax {
		return Errorf(at, "a basin name has at most %d bytes", BasinNameMax)
	}
	for i := range len(prefix) {
		switch c := prefix[i]; {
		case 'a' <= c && c <= 'z', isDigit(c):
		case c == '-' && i > 0:
		case c == '-':
			return Errorf(at, "a basin name starts with a letter or digit")
		default:
			return Errorf(at, "a basin name has only a-z, 0-9 and -")
		}
	}
	return nil
}

// CheckStreamName refuses what is not 1 to 512 bytes of UTF-8 without NUL, or is "." or "..".
func CheckStreamName(name string, at Code) error {
	return checkText("a stream name", name, StreamNameMax, at)
}

// CheckTokenID refuses what is not the id of an access token: 1 to 96 bytes, as a stream name otherwise.
func CheckTokenID(id string, at Code) error {
	return checkText("an access token id", id, TokenIDMax, at)
}

func checkText(what, name string, size int, at Code) error {
	switch name {
	case "":
		return Errorf(at, "%s must not be empty", what)
	case ".", "..":
		return Errorf(at, "%s must not be %q", what, name)
	}
	return checkTextPrefix(what, name, size, at)
}

func checkTextPrefix(what, prefix string, size int, at Code) error {
	switch {
	case len(prefix) > size:
		return Errorf(at, "%s has at most %d bytes", what, size)
	case !utf8.ValidString(prefix):
		return Errorf(at, "%s is UTF-8", what)
	case strings.IndexByte(prefix, 0) >= 0:
		return Errorf(at, "%s has no NUL", what)
	}
	return nil
}

// CheckLocationName refuses what is not 1 to 64 letters, digits, ":", "." and "-".
func CheckLocationName(name string, at Code) error {
	if name == "" || len(name) > LocationNameMax {
		return Errorf(at, "a location name has 1 to %d bytes", LocationNameMax)
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', isDigit(c), c == ':', c == '.', c == '-':
		default:
			return Errorf(at, "a location name has only letters, digits, colons, dots and hyphens")
		}
	}
	return nil
}

// CheckFencingToken refuses more than 36 bytes and what is not UTF-8. The empty token means none.
func CheckFencingToken(token string, at Code) error {
	if len(token) > FencingTokenMax {
		return Errorf(at, "a fencing token has at most %d bytes", FencingTokenMax)
	}
	if !utf8.ValidString(token) {
		return Errorf(at, "a fencing token is UTF-8")
	}
	return nil
}

// NameKind is what a listing lists; it decides which prefixes are possible.
type NameKind uint8

// The kinds of listings.
const (
	BasinNames NameKind = iota
	StreamNames
	TokenIDs
)

// CheckPrefix refuses a `prefix` or `start_after` that no name of the kind can have. The empty one is fine.
func CheckPrefix(kind NameKind, prefix string, at Code) error {
	switch kind {
	case BasinNames:
		return checkBasinPrefix(prefix, at)
	case TokenIDs:
		return checkTextPrefix("an access token id", prefix, TokenIDMax, at)
	default:
		return checkTextPrefix("a stream name", prefix, StreamNameMax, at)
	}
}
