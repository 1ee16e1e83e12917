package s3objects

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/segments"
)

// Defaults of Options. A call to a store that has gone silent ends within DefaultCallTimeout; with the commit that follows
// a Put, an append then still answers within ten seconds.
const (
	DefaultAttemptTimeout = 2 * time.Second
	DefaultCallTimeout    = 8 * time.Second
	DefaultMaxAttempts    = 8
	DefaultMaxConnections = 256

	// MaxPrefixBytes bounds Options.Prefix.
	MaxPrefixBytes = 200
	// maxStoreKeyBytes is the longest key S3 takes, prefix included.
	maxStoreKeyBytes = 1024
)

// Addressing is where a request names its bucket.
type Addressing uint8

const (
	// AddressAuto is AddressHost for the large clouds that ask for it, AddressPath for every other endpoint.
	AddressAuto Addressing = iota
	// AddressPath names the bucket in the path: http://HOST/BUCKET/KEY. Local stores need it.
	AddressPath
	// AddressHost names the bucket in the host: https://BUCKET.HOST/KEY.
	AddressHost
)

// Options says where a bucket is and how patiently it is used. The zero value of every field but Bucket is its default;
// without an Endpoint, Region is needed too.
type Options struct {
	// Bucket must exist: it is never created.
	Bucket string
	// Prefix is put before every key, with a slash between. It follows the rules of a key (segments.CheckKey) and is at
	// most MaxPrefixBytes long. Empty: the bucket is ours alone.
	Prefix string
	// Endpoint is the URL of a store that is not AWS, or not AWS's usual address: http://127.0.0.1:9000. It is
	// independent of where credentials come from. Empty: AWS S3 in Region.
	Endpoint string
	// Region is what requests are signed for; with an Endpoint it is us-east-1 unless given, which most other stores
	// take or ignore.
	Region string
	// Addressing is left at AddressAuto unless a store needs otherwise.
	Addressing Addressing
	// Credentials is asked for keys to sign with, and again before those expire. Nil: DefaultCredentials.
	Credentials CredentialsFunc
	// RootCAs are the authorities trusted for an https endpoint. Nil: the system's.
	RootCAs *x509.CertPool

	// AttemptTimeout bounds one request to its last byte. A second is added for every 4 MiB that it carries; for a thousand
	// keys listed, or deleted, it is three times as long.
	AttemptTimeout time.Duration
	// CallTimeout bounds a call with all its attempts and pauses, and is at least one attempt's timeout. Listings and
	// deletes of many keys get three times as long for every thousand.
	CallTimeout time.Duration
	// MaxAttempts bounds the requests made for one call, hedges not counted.
	MaxAttempts int
	// HedgeDelay is how long a GET waits for an answer before a second one is sent beside it; the first answer wins. Zero:
	// what 95 % of recent answers took. Negative: never. Hedges are at most a tenth of all GETs.
	HedgeDelay time.Duration
	// MaxConnections bounds the connections to the store; further requests wait, within their timeout.
	MaxConnections int

	// Dial makes connections. Nil: TCP by net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Log gets a line at debug level for every attempt that is repeated. It sees no keys, credentials or data.
	Log zerolog.Logger
}

// ParseURL splits s3://BUCKET/PREFIX, the form in which a bucket is configured.
func ParseURL(s string) (bucket, prefix string, err error) {
	rest, ok := strings.CutPrefix(s, "s3://")
	bucket, prefix, _ = strings.Cut(rest, "/")
	if !ok || bucket == "" {
		return "", "", fmt.Errorf("parse bucket URL %q: want s3://BUCKET or s3://BUCKET/PREFIX", s)
	}
	return bucket, strings.TrimSuffix(prefix, "/"), nil
}

// complete fills in the defaults and returns every fault of the options together.
func (o Options) complete() (Options, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if o.Bucket == "" {
		fault("no bucket is named")
	}
	if o.Prefix != "" && (len(o.Prefix) > MaxPrefixBytes || segments.CheckKey(o.Prefix) != nil) {
		fault("prefix %q is not of parts of [0-9A-Za-z._-] with slashes between, or is longer than %d bytes", o.Prefix, MaxPrefixBytes)
	}
	if o.Endpoint == "" && o.Region == "" {
		fault("neither a region nor an endpoint is given")
	}
	if o.Endpoint != "" && !isEndpoint(o.Endpoint) {
		fault("endpoint %q is not a URL of the form http://HOST or https://HOST:PORT", o.Endpoint)
	}
	for name, n := range map[string]int64{
		"attempt timeout": int64(o.AttemptTimeout), "call timeout": int64(o.CallTimeout),
		"attempts": int64(o.MaxAttempts), "connections": int64(o.MaxConnections),
	} {
		if n < 0 {
			fault("%s is negative", name)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return o, fmt.Errorf("check object store options: %w", err)
	}
	orDefault(&o.Region, "us-east-1")
	orDefault(&o.AttemptTimeout, DefaultAttemptTimeout)
	orDefault(&o.CallTimeout, DefaultCallTimeout)
	orDefault(&o.MaxAttempts, DefaultMaxAttempts)
	orDefault(&o.MaxConnections, DefaultMaxConnections)
	if o.Credentials == nil {
		o.Credentials = DefaultCredentials(ChainOptions{Region: o.Region})
	}
	return o, nil
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// isEndpoint reports whether s is a scheme and a host: what signs a request must know all of its path.
func isEndpoint(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" &&
		(u.Path == "" || u.Path == "/") && u.RawQuery == "" && u.Fragment == "" && u.User == nil
}
