package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Compression is how a frame's payload or a body is compressed.
type Compression uint8

// The compressions of S2.
const (
	CompressionNone Compression = iota
	CompressionZstd
	CompressionGzip
)

// errTooLarge says that decompressed bytes exceed the limit.
var errTooLarge = errors.New("too large when decompressed")

// zstdWindowMax is the largest window that a frame of zstd may announce: what the format asks every decoder to take.
const zstdWindowMax = 8 << 20

// NegotiateCompression chooses by Accept-Encoding (all lines, q ignored): zstd if it is mentioned, else gzip.
func NegotiateCompression(h http.Header) Compression {
	var mentioned []string
	for _, line := range h.Values("Accept-Encoding") {
		for element := range strings.SplitSeq(line, ",") {
			name, _, _ := strings.Cut(element, ";")
			mentioned = append(mentioned, strings.ToLower(strings.TrimSpace(name)))
		}
	}
	switch {
	case slices.Contains(mentioned, "zstd"):
		return CompressionZstd
	case slices.Contains(mentioned, "gzip"):
		return CompressionGzip
	}
	return CompressionNone
}

// The zstd coders are made on first use and shared: their *All methods may be called at once and start no goroutine.
var (
	zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
		return must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(0),
			zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(zstdWindowMax)))
	})
	zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
		return must(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(FrameSizeMax), zstd.WithLowerEncoderMem(true)))
	})
	zstdScratch = sync.Pool{New: func() any { b := make([]byte, BodySizeMax); return &b }}
	gzipReaders sync.Pool
	gzipWriters = sync.Pool{New: func() any { return must(gzip.NewWriterLevel(nil, gzip.BestSpeed)) }}
)

// must is for constructors that fail only on options that no input chooses.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// decompress gives at most limit bytes (limit at most BodySizeMax), or errTooLarge, or an error for corrupt bytes. It
// allocates no more than the limit says, whatever the bytes claim.
func decompress(c Compression, b []byte, limit int) ([]byte, error) {
	var out []byte
	var err error
	switch c {
	case CompressionNone:
		out = b
	case CompressionZstd:
		out, err = unzstd(b, limit)
	case CompressionGzip:
		out, err = gunzip(b, limit)
	default:
		err = fmt.Errorf("unknown compression %d", c)
	}
	switch {
	case err != nil:
		return nil, err
	case len(out) > limit:
		return nil, errTooLarge
	}
	return out, nil
}

// unzstd decodes into a shared buffer of the limit's size, which the decoder does not outgrow, and copies what came: the
// size that a frame announces is not trusted, and one without a size costs no more.
func unzstd(b []byte, limit int) ([]byte, error) {
	scratch := zstdScratch.Get().(*[]byte)
	defer zstdScratch.Put(scratch)
	out, err := zstdDecoder().DecodeAll(b, (*scratch)[:0:limit])
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return nil, errTooLarge
	case err != nil:
		return nil, err
	}
	return bytes.Clone(out), nil
}

func gunzip(b []byte, limit int) ([]byte, error) {
	r, ok := gzipReaders.Get().(*gzip.Reader)
	if !ok {
		r = new(gzip.Reader)
	}
	defer gzipReaders.Put(r)
	if err := r.Reset(bytes.NewReader(b)); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, int64(limit)+1))
}

// compress appends b compressed to dst.
func compress(c Compression, dst, b []byte) []byte {
	if c == CompressionZstd {
		return zstdEncoder().EncodeAll(b, dst)
	}
	out := bytes.NewBuffer(dst)
	w := gzipWriters.Get().(*gzip.Writer)
	defer gzipWriters.Put(w)
	w.Reset(out)
	_, _ = w.Write(b) // a bytes.Buffer refuses nothing
	_ = w.Close()
	return out.Bytes()
}
