// Package s3objects keeps objects in a bucket of any S3-compatible store. README.md says what it asks of a store and what
// was seen of some; fakes3 is the store the tests make misbehave.
package s3objects

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/rs/zerolog"
)

// awsEndpoint is where S3 is in every AWS region. The library turns it into the region's own host.
const awsEndpoint = "https://s3.amazonaws.com"

func init() {
	// The library is told to make one attempt, since only Do knows the deadlines; it would still pause after that one.
	minio.DefaultRetryUnit = time.Nanosecond
}

// Client is a connection pool to one bucket, with what every request to it needs. All methods but Close may be called at
// once.
type Client struct {
	options   Options
	core      *minio.Core
	transport *http.Transport
	meter     *meter
	keys      *keyring
	log       zerolog.Logger
	// signBody: the signature covers the body, so that the store verifies what arrived. It is left out only where AWS is
	// behind TLS, because it costs a function with a small share of a processor more than the transfer does.
	signBody bool
}

// Dial makes a client. It sends nothing: see Store.Probe. The error lists every fault of the options.
func Dial(options Options) (*Client, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	endpoint, err := url.Parse(cmp.Or(options.Endpoint, awsEndpoint))
	if err != nil {
		return nil, fmt.Errorf("parse endpoint: %w", err)
	}
	keys := newKeyring(options.Credentials)
	transport := newTransport(options)
	m := &meter{next: transport, keys: keys, clock: storeClock{now: time.Now}}
	secure := endpoint.Scheme == "https"
	core, err := minio.NewCore(endpoint.Host, &minio.Options{
		Creds:        credentials.New(keys),
		Secure:       secure,
		Transport:    m,
		Region:       options.Region,
		BucketLookup: lookup(options.Addressing),
		MaxRetries:   1,
	})
	if err != nil {
		return nil, fmt.Errorf("make object store client: %w", err)
	}
	core.SetS3EnableDualstack(false) // the plain names are those that private networks route
	return &Client{
		options: options, core: core, transport: transport, meter: m, keys: keys, log: options.Log,
		signBody: !secure || options.Endpoint != "",
	}, nil
}

func lookup(a Addressing) minio.BucketLookupType {
	switch a {
	case AddressPath:
		return minio.BucketLookupPath
	case AddressHost:
		return minio.BucketLookupDNS
	}
	return minio.BucketLookupAuto
}

// Core is the client library's own interface, for requests that this package has no method for. They are made in Do, which
// sees to credentials, deadlines and errors; the library itself repeats nothing.
func (c *Client) Core() *minio.Core { return c.core }

// Bucket is the bucket's name.
func (c *Client) Bucket() string { return c.options.Bucket }

// Key is where the object with a key is in the bucket.
func (c *Client) Key(key string) string { return c.root() + key }

// root is what all keys in the bucket start with.
func (c *Client) root() string {
	if c.options.Prefix == "" {
		return ""
	}
	return c.options.Prefix + "/"
}

// own takes the prefix off a key in the bucket.
func (c *Client) own(key string) (string, bool) { return strings.CutPrefix(key, c.root()) }

// Clock returns the newest reading of the store's clock.
func (c *Client) Clock() Clock { return c.meter.clock.read() }

// Stats returns what was sent so far.
func (c *Client) Stats() Stats {
	return Stats{Requests: c.meter.requests.Load(), Repeated: c.meter.repeated.Load(), Hedged: c.meter.hedged.Load()}
}

// Close ends idle connections and what asks for credentials. No call may run or follow.
func (c *Client) Close() error {
	c.keys.end()
	c.transport.CloseIdleConnections()
	return nil
}
