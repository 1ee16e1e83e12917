package s3objects

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/tailrace-streams/tailrace/segments"
)

// beyond is an offset behind every object: S3 has none above 50 TB, and not every store takes numbers near 2^63.
const beyond = 1 << 47

// Get implements segments.Objects. An answer is taken only whole, and only if it is the range that was asked for. It also
// returns segments.ErrBadKey and ErrMisbehaves. The caller owns the result.
func (s *Store) Get(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	const op = "get object"
	if err := cmp.Or(s.checkKey(key), ctx.Err()); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if offset < 0 {
		return nil, fmt.Errorf("%s: offset %d is negative", op, offset)
	}
	span := newSpan(offset, length)
	var data []byte
	missing := false
	err := s.Do(ctx, Call{Op: op}, func(ctx context.Context) (err error) {
		data, err = s.hedge(ctx, span.length, func(ctx context.Context) ([]byte, error) { return s.fetch(ctx, key, span) })
		missing = isNotFound(err)
		return err
	})
	switch {
	case missing:
		return nil, fmt.Errorf("%s: %w", op, segments.ErrObjectNotFound)
	case err != nil:
		return nil, err
	case length == 0:
		return []byte{}, nil
	}
	return data, nil
}

// span is a range of an object: length bytes from offset, or all if length is negative.
type span struct{ offset, length int64 }

// newSpan asks for one byte where none is wanted: the request still tells whether there is an object. The request that asks
// for nothing but that, HEAD, does not: a missing bucket looks the same.
func newSpan(offset, length int64) span {
	if length == 0 {
		length = 1
	}
	return span{min(offset, beyond), min(length, beyond)}
}

// fetch makes one GET and reads all of its answer.
func (s *Store) fetch(ctx context.Context, key string, want span) ([]byte, error) {
	var options minio.GetObjectOptions
	if want.offset > 0 || want.length >= 0 {
		last := int64(0) // in the library's words: to the end
		if want.length >= 0 {
			last = want.offset + want.length - 1
		}
		options.Set("Range", "bytes="+strconv.FormatInt(want.offset, 10)+"-"+optional(last, want.length >= 0))
	}
	asked := time.Now()
	body, _, header, err := s.core.GetObject(ctx, s.Bucket(), s.Key(key), options)
	if err == nil || ctx.Err() != nil {
		s.latency.observe(time.Since(asked)) // of one given up, it is known that it took longer
	}
	if err != nil {
		if answer := minio.ToErrorResponse(err); answer.StatusCode == http.StatusRequestedRangeNotSatisfiable {
			return []byte{}, nil // there is an object, and it ends before the range begins
		}
		return nil, err
	}
	defer body.Close()
	length, err := readAnswer(header, want)
	if err != nil {
		return nil, err
	}
	if a := attemptOf(ctx); a != nil {
		a.expect(length)
	}
	data := make([]byte, length)
	if _, err := io.ReadFull(body, data); err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	return data, nil
}

func optional(n int64, there bool) string {
	if !there {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// readAnswer judges the headers of an answer by what was asked for, and returns how many bytes of the body that is. A store
// must say how much is to come, since a body without a length may end anywhere, and where in the object it is: an answer
// that does not may be the whole object, which will do only for a range that begins where it begins.
func readAnswer(header http.Header, want span) (int64, error) {
	size, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64)
	if err != nil || size < 0 {
		return 0, fmt.Errorf("answer without a length: %w", ErrMisbehaves)
	}
	got, total := span{0, size}, size
	if ranged := header.Get("Content-Range"); ranged != "" {
		if got, total, err = parseContentRange(ranged); err != nil {
			return 0, err
		}
	}
	end := total
	if want.length >= 0 {
		end = min(end, want.offset+want.length)
	}
	if got.length != size || got.offset != want.offset || got.offset+got.length < end {
		return 0, fmt.Errorf("answer is another range: %w", ErrMisbehaves)
	}
	length := end - want.offset
	if length > segments.MaxObjectBytes {
		return 0, fmt.Errorf("%d bytes are more than an object may have: %w", length, ErrMisbehaves)
	}
	return length, nil
}

// parseContentRange reads "bytes FIRST-LAST/SIZE".
func parseContentRange(s string) (got span, total int64, err error) {
	bad := fmt.Errorf("content range is not one: %w", ErrMisbehaves)
	rest, ok := strings.CutPrefix(s, "bytes ")
	ends, size, ok2 := strings.Cut(rest, "/")
	from, to, ok3 := strings.Cut(ends, "-")
	if !ok || !ok2 || !ok3 {
		return span{}, 0, bad
	}
	var n [3]int64
	for i, digits := range []string{from, to, size} {
		v, err := strconv.ParseUint(digits, 10, 62)
		if err != nil {
			return span{}, 0, bad
		}
		n[i] = int64(v)
	}
	first, last, total := n[0], n[1], n[2]
	if first > last || last >= total {
		return span{}, 0, bad
	}
	return span{first, last - first + 1}, total, nil
}
