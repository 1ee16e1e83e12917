package client

import (
	"context"
	"io"
	"net/http"

	"github.com/tailrace-streams/tailrace/wire"
)

// openSession opens a session and gives the answer whose body is the session. Until then nothing of it was sent, so its
// errors are definite.
func (c *Client) openSession(ctx context.Context, op, method, url string, h http.Header, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, refused(op, "%v", err)
	}
	r.Header = h
	c.identify(r.Header)
	response, err := c.sessions.RoundTrip(r)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause // what the transport makes of it is not always the reason
		}
		return nil, unanswered(op, err, false)
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, wire.ErrorBodySizeMax)) // without it the status says enough
	return nil, fromWire(op, wire.DecodeError(response.StatusCode, text, response.Header), false)
}

// askCompressed asks for compressed frames, by which the server chooses. Set by hand, the transport leaves the body alone.
func (c *Client) askCompressed(h http.Header) {
	switch c.o.Compression {
	case CompressionZstd:
		h.Set("Accept-Encoding", "zstd")
	case CompressionGzip:
		h.Set("Accept-Encoding", "gzip")
	}
}
