package wire

import (
	"errors"
	"io"
	"net/http"
	"strings"
)

// growthMin is how much is allocated on the word of a length alone; beyond it bytes must arrive first.
const growthMin = 64 << 10

// ReadBody reads a unary request's body and undoes its Content-Encoding. A body that is too large or corrupt has the
// code `at` (CodeBadJSON or CodeBadProto, by what the body should have been); an encoding other than gzip and zstd is
// an *UnsupportedEncoding; a body that does not come is `client_hangup`, not applied.
func ReadBody(r *http.Request, at Code) ([]byte, error) {
	c, err := contentEncoding(r.Header)
	if err != nil {
		return nil, err
	}
	tooLarge := Errorf(at, "the body has more than %d bytes", BodySizeMax)
	if r.ContentLength > BodySizeMax {
		return nil, tooLarge
	}
	size := BodySizeMax + 1
	if r.ContentLength >= 0 {
		size = int(r.ContentLength)
	}
	body, err := readUpTo(r.Body, size)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		e := Errorf(CodeClientHangup, "the body did not arrive").Because(err)
		e.Applied = AppliedNo
		return nil, e
	case len(body) > BodySizeMax:
		return nil, tooLarge
	}
	body, err = decompress(c, body, BodySizeMax)
	switch {
	case errors.Is(err, errTooLarge):
		return nil, tooLarge
	case err != nil:
		return nil, Errorf(at, "the body is not in its content encoding").Because(err)
	}
	return body, nil
}

func contentEncoding(h http.Header) (Compression, error) {
	value := strings.ToLower(strings.TrimSpace(strings.Join(h.Values("Content-Encoding"), ",")))
	switch value {
	case "", "identity":
		return CompressionNone, nil
	case "zstd":
		return CompressionZstd, nil
	case "gzip":
		return CompressionGzip, nil
	}
	return CompressionNone, &UnsupportedEncoding{Encoding: value}
}

// readUpTo reads n bytes, or fewer with the reader's error, io.EOF included. What it allocates grows with what arrives,
// so that lengths without bytes cost nothing.
func readUpTo(r io.Reader, n int) ([]byte, error) {
	b := make([]byte, 0, min(n, growthMin))
	for len(b) < n {
		if len(b) == cap(b) {
			grown := make([]byte, len(b), min(n, 4*cap(b)))
			copy(grown, b)
			b = grown
		}
		m, err := r.Read(b[len(b):min(n, cap(b))])
		b = b[:len(b)+m]
		if err != nil && len(b) < n {
			return b, err
		}
	}
	return b, nil
}
