package wire

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads one JSON text in a single pass over the caller's bytes. encoding/json would do but for three things:
// it takes null for any field, matches keys without regard to case, and mends what is not UTF-8; all of them would
// let a request through that the API refuses. It would also copy each body twice.
//
// Strings are unescaped in place and results alias the text: an unescaped string is never longer than its escapes.
type scanner struct {
	b     []byte
	i     int
	depth int
}

// newScanner refuses text that is not UTF-8 at once, so that every string in it is. Mending it instead would store a
// record that nobody sent.
func newScanner(text []byte) (*scanner, error) {
	if !utf8.Valid(text) {
		return nil, Errorf(CodeBadJSON, "the body is not UTF-8")
	}
	return &scanner{b: text}, nil
}

func (s *scanner) fail(want string) error {
	if s.i >= len(s.b) {
		return Errorf(CodeBadJSON, "want %s, but the body ends", want)
	}
	return Errorf(CodeBadJSON, "want %s at byte %d", want, s.i)
}

// peek skips white space and returns the byte after it, or 0 at the end (a NUL is no JSON either).
func (s *scanner) peek() byte {
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) expect(c byte, want string) error {
	if s.peek() != c {
		return s.fail(want)
	}
	s.i++
	return nil
}

// end refuses anything but white space after the value.
func (s *scanner) end() error {
	if s.peek(); s.i < len(s.b) {
		return s.fail("nothing more")
	}
	return nil
}

func (s *scanner) open(c byte, want string) error {
	if err := s.expect(c, want); err != nil {
		return err
	}
	if s.depth++; s.depth > NestingMax {
		return Errorf(CodeBadJSON, "the body is nested deeper than %d levels", NestingMax)
	}
	return nil
}

// object reads an object and calls field for each key, which must read the value. The key is valid until then. A key
// that comes twice calls field twice: the last one wins.
func (s *scanner) object(field func(key []byte) error) error {
	if err := s.open('{', "an object"); err != nil {
		return err
	}
	if s.peek() != '}' {
		for {
			key, err := s.str()
			if err != nil {
				return err
			}
			if err := s.expect(':', "a colon"); err != nil {
				return err
			}
			if err := field(key); err != nil {
				return err
			}
			if s.peek() != ',' {
				break
			}
			s.i++
		}
	}
	s.depth--
	return s.expect('}', "a comma or the end of the object")
}

// array reads an array and calls element for each of its elements, which must read it.
func (s *scanner) array(element func(index int) error) error {
	if err := s.open('[', "an array"); err != nil {
		return err
	}
	if s.peek() != ']' {
		for n := 0; ; n++ {
			if err := element(n); err != nil {
				return err
			}
			if s.peek() != ',' {
				break
			}
			s.i++
		}
	}
	s.depth--
	return s.expect(']', "a comma or the end of the array")
}

// literal reads word if it is next.
func (s *scanner) literal(word string) bool {
	s.peek()
	if !bytes.HasPrefix(s.b[s.i:], []byte(word)) {
		return false
	}
	s.i += len(word)
	return true
}

// null reads a null if one is next.
func (s *scanner) null() bool { return s.literal("null") }

func (s *scanner) boolean() (bool, error) {
	switch {
	case s.literal("true"):
		return true, nil
	case s.literal("false"):
		return false, nil
	}
	return false, s.fail("true or false")
}

// u64 reads an unsigned integer. 1.0, 1e3 and -0 are numbers that other readers take for integers; S2 does not.
func (s *scanner) u64() (uint64, error) {
	const want = "an unsigned 64-bit integer"
	s.peek()
	n, digits := uint64(0), 0
	i := s.i
	for ; i < len(s.b) && isDigit(s.b[i]); i++ {
		d := uint64(s.b[i] - '0')
		if n > (1<<64-1-d)/10 {
			return 0, s.fail(want)
		}
		n = n*10 + d
		digits++
	}
	if digits == 0 || digits > 1 && s.b[s.i] == '0' {
		return 0, s.fail(want)
	}
	if i < len(s.b) && (s.b[i] == '.' || s.b[i] == 'e' || s.b[i] == 'E') {
		return 0, s.fail(want)
	}
	s.i = i
	return n, nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// str reads a string. The result aliases the text.
func (s *scanner) str() ([]byte, error) {
	if err := s.expect('"', "a string"); err != nil {
		return nil, err
	}
	start := s.i
	for ; s.i < len(s.b); s.i++ {
		if c := s.b[s.i]; c < utf8.RuneSelf && mustEscape[c] {
			break
		}
	}
	end := s.i // the unescaped string so far is [start, end)
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return s.b[start:end:end], nil
		case c == '\\':
			n, err := s.unescape(end)
			if err != nil {
				return nil, err
			}
			end += n
		case c < 0x20:
			return nil, s.fail("an escaped control character")
		default:
			s.b[end] = c
			end++
			s.i++
		}
	}
	return nil, s.fail("the end of the string")
}

// unescape reads the escape at s.i and writes what it stands for at to, which is never beyond s.i.
func (s *scanner) unescape(to int) (n int, err error) {
	if s.i+1 >= len(s.b) {
		s.i = len(s.b)
		return 0, s.fail("the end of the string")
	}
	var c byte
	switch e := s.b[s.i+1]; e {
	case '"', '\\', '/':
		c = e
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		r, size := s.rune4()
		if size == 0 {
			return 0, s.fail("a whole character in an escape")
		}
		s.i += size
		return utf8.EncodeRune(s.b[to:], r), nil
	default:
		return 0, s.fail("a known escape")
	}
	s.b[to] = c
	s.i += 2
	return 1, nil
}

// rune4 reads \uXXXX at s.i, or two of them that make a surrogate pair. The size is 0 if it is neither: half a pair
// is no character, and replacing it would store something nobody sent.
func (s *scanner) rune4() (r rune, size int) {
	r, ok := hex4(s.b[s.i:])
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	low, ok := hex4(s.b[s.i+6:])
	if !ok {
		return 0, 0
	}
	if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
		return 0, 0
	}
	return r, 12
}

// hex4 reads \uXXXX at the start of b.
func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	for _, c := range b[2:6] {
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// skip reads a value of any kind: that of a key which is not known.
func (s *scanner) skip() error {
	switch c := s.peek(); {
	case c == '{':
		return s.object(func([]byte) error { return s.skip() })
	case c == '[':
		return s.array(func(int) error { return s.skip() })
	case c == '"':
		_, err := s.str()
		return err
	case c == '-' || isDigit(c):
		return s.number()
	case s.literal("null") || s.literal("true") || s.literal("false"):
		return nil
	}
	return s.fail("a value")
}

// number reads a number by the grammar of JSON and forgets it.
func (s *scanner) number() error {
	if s.b[s.i] == '-' {
		s.i++
	}
	if s.i < len(s.b) && s.b[s.i] == '0' {
		s.i++
	} else if !s.digits() {
		return s.fail("a digit")
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if !s.digits() {
			return s.fail("a digit")
		}
	}
	if s.i < len(s.b) && (s.b[s.i] == 'e' || s.b[s.i] == 'E') {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		if !s.digits() {
			return s.fail("a digit")
		}
	}
	return nil
}

// digits reads a run of digits and reports whether there was one.
func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && isDigit(s.b[s.i]) {
		s.i++
	}
	return s.i > start
}
