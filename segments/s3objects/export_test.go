package s3objects

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
)

// ForceOffset makes the client believe that the store's clock is ahead, until the next answer with a date.
func (c *Client) ForceOffset(offset time.Duration) { c.meter.clock.last.Store(&Clock{Offset: offset}) }

// HedgeDelay is how long a GET of a length would wait now.
func (s *Store) HedgeDelay(length int64) time.Duration { return s.hedgeDelay(length) }

// Address is the host and path that a GET of a key asks. Nothing is sent.
func (c *Client) Address(t *testing.T, key string) string {
	t.Helper()
	if err := c.keys.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	var address string
	c.transport.RegisterProtocol("https", nowhere(func(r *http.Request) { address = r.URL.Host + r.URL.Path }))
	c.transport.RegisterProtocol("http", nowhere(func(r *http.Request) { address = r.URL.Host + r.URL.Path }))
	_, _, _, _ = c.core.GetObject(t.Context(), c.Bucket(), c.Key(key), minio.GetObjectOptions{})
	return address
}

// nowhere is a transport that looks at requests and fails them.
type nowhere func(*http.Request)

func (n nowhere) RoundTrip(r *http.Request) (*http.Response, error) {
	n(r)
	return nil, errors.New("nowhere to go")
}
