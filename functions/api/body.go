package api

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/tailrace-streams/tailrace/wire"
)

// bodyStep is what is taken for a body before any of it has come: a client that announces much and sends little does
// not hold much.
const bodyStep = 64 << 10

// compressedMax bounds a compressed body before it is decoded; what does not shrink grows a little.
const compressedMax = wire.BodySizeMax + bodyStep

// zstdWindowMax bounds the memory that a zstd body may ask its reader for; encoders choose up to 8 MiB unless told
// otherwise.
const zstdWindowMax = 8 << 20

// bodyBudget bounds the bytes of request bodies held at once.
type bodyBudget struct {
	limit int64
	used  atomic.Int64
}

// take books n more bytes for a request, or refuses it.
func (b *bodyBudget) take(x *exchange, n int64) error {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return wire.Errorf(wire.CodeHotServer, "too many bytes of requests in flight; try again shortly")
	}
	x.held += n
	return nil
}

// release gives back all that a request holds.
func (b *bodyBudget) release(x *exchange) {
	b.used.Add(-x.held)
	x.held = 0
}

// readBody reads the whole body of a unary request and undoes its Content-Encoding. What is wrong with the body itself
// has the code bad. Of a body that does not come whole, or in time, nothing is returned, so nothing of it is applied.
func (h *handler) readBody(x *exchange, r *http.Request, bad wire.Code) ([]byte, error) {
	encoding, err := contentEncoding(r)
	if err != nil {
		return nil, err
	}
	limit := int64(wire.BodySizeMax)
	if encoding != "" {
		limit = compressedMax
	}
	if r.ContentLength > limit {
		return nil, tooLarge(bad)
	}
	body, err := h.readAll(x, r.Body, r.ContentLength, limit, bad)
	if err != nil {
		return nil, bodyError(err, bad)
	}
	_ = x.control.SetReadDeadline(time.Time{}) // else it would end what waits for the answer
	if encoding != "" {
		decoder, err := decompress(encoding, body, bad)
		if err != nil {
			return nil, err
		}
		defer decoder.Close()
		if body, err = h.readAll(x, decoder, -1, wire.BodySizeMax, bad); err != nil {
			return nil, bodyError(err, bad)
		}
	}
	x.in += int64(len(body))
	if err := h.stillGood(x, r); err != nil {
		return nil, err
	}
	return body, nil
}

// readAll reads src to its end into memory that is booked as it grows. size is what is announced, -1 for nothing.
func (h *handler) readAll(x *exchange, src io.Reader, size, limit int64, bad wire.Code) ([]byte, error) {
	first := int64(bodyStep)
	if size >= 0 {
		first = min(first, size)
	}
	if err := h.budget.take(x, first); err != nil {
		return nil, err
	}
	buf := make([]byte, 0, first+1) // one more, so that the end is found without growing
	for {
		if len(buf) == cap(buf) {
			next := min(2*int64(cap(buf)), limit) + 1
			if size >= 0 {
				next = size + 1
			}
			if next <= int64(cap(buf)) {
				return nil, tooLarge(bad)
			}
			if err := h.budget.take(x, next-int64(cap(buf))); err != nil {
				return nil, err
			}
			buf = append(make([]byte, 0, next), buf...)
		}
		n, err := src.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			if int64(len(buf)) > limit {
				return nil, tooLarge(bad)
			}
			return buf, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func tooLarge(bad wire.Code) error {
	return wire.Errorf(bad, "the body has more than %d bytes", wire.BodySizeMax)
}

// bodyError says what went wrong while a body was read.
func bodyError(err error, bad wire.Code) error {
	var known *wire.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		e := wire.Errorf(wire.CodeRequestTimeout, "the body took too long to come")
		e.Applied = wire.AppliedNo
		return e
	default:
		return wire.Errorf(bad, "the body did not come whole or does not decompress").Because(err)
	}
}

// contentEncoding is "gzip", "zstd" or "" for a body as it is. Nothing else is decoded, nor two after one another.
func contentEncoding(r *http.Request) (string, error) {
	values := r.Header.Values("Content-Encoding")
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		switch name := strings.ToLower(strings.TrimSpace(values[0])); name {
		case "", "identity":
			return "", nil
		case "gzip", "zstd":
			return name, nil
		}
	}
	return "", &wire.UnsupportedEncoding{Encoding: strings.Join(values, ", ")}
}

// decompress opens a body. Its reader gives out little by little, so a bomb is refused after the limit and not after
// it has gone off.
func decompress(encoding string, body []byte, bad wire.Code) (io.ReadCloser, error) {
	if encoding == "gzip" {
		d, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, wire.Errorf(bad, "the body is not gzip").Because(err)
		}
		return d, nil
	}
	d := zstdReaders.Get().(*zstd.Decoder)
	if err := d.Reset(bytes.NewReader(body)); err != nil {
		return nil, wire.Errorf(bad, "the body is not zstd").Because(err)
	}
	return pooledZstd{d}, nil
}

var zstdReaders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(zstdWindowMax), zstd.WithDecoderMaxMemory(zstdWindowMax))
	if err != nil {
		panic(fmt.Sprintf("api: options of the zstd decoder: %v", err)) // they are constants
	}
	return d
}}

// pooledZstd gives its decoder back when closed.
type pooledZstd struct{ *zstd.Decoder }

func (d pooledZstd) Close() error {
	if d.Reset(nil) == nil {
		zstdReaders.Put(d.Decoder)
	}
	return nil
}
