package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/tailrace-streams/tailrace/segments"
)

// ObjectsURL names the bucket of the objects: s3://BUCKET/PREFIX in text. The zero value, empty in text, names none.
type ObjectsURL struct{ Bucket, Prefix string }

// HeadsURL names where the heads are: dynamodb://TABLE or s3://BUCKET/PREFIX in text. The zero value, empty in text, names
// nothing; every other has a Table or a Bucket.
type HeadsURL struct{ Table, Bucket, Prefix string }

// Endpoint is the URL of a service, a scheme and a host alone; empty for the service's usual one.
type Endpoint string

// Region is the name of an AWS region, or empty.
type Region string

// Addressing is where a request to an object store names its bucket.
type Addressing string

// The kinds of addressing.
const (
	AddressAuto Addressing = "auto"
	AddressPath Addressing = "path"
	AddressHost Addressing = "host"
)

const (
	objectsScheme = "s3://"
	headsScheme   = "dynamodb://"
	// maxPrefixBytes leaves room for our own part of a key, of which S3 takes 1,024 bytes.
	maxPrefixBytes = 200
	// maxHeadsPrefixBytes leaves room for a name of a stream in a key, spelt out.
	maxHeadsPrefixBytes = 120
)

// What S3 and DynamoDB take for names. Buckets of some stores may have other names; none that is worth a second form.
var (
	bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	tableName  = regexp.MustCompile(`^[a-zA-Z0-9_.-]{3,255}$`)
	regionName = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)
)

var (
	errNotObjects  = errors.New("is not the URL of a bucket")
	errNotHeads    = errors.New("is not the URL of a table or a bucket")
	errNotEndpoint = errors.New("is not the URL of a service")
	errNotRegion   = errors.New("is not a region")
)

// ParseObjectsURL reads the text form of an ObjectsURL. A slash at the end is left out.
func ParseObjectsURL(text string) (ObjectsURL, error) {
	if text == "" {
		return ObjectsURL{}, nil
	}
	bucket, prefix, ok := parseBucket(text, maxPrefixBytes)
	if !ok {
		return ObjectsURL{}, fmt.Errorf("%q %w", text, errNotObjects)
	}
	return ObjectsURL{bucket, prefix}, nil
}

// parseBucket reads s3://BUCKET/PREFIX.
func parseBucket(text string, maxPrefix int) (bucket, prefix string, ok bool) {
	rest, ok := strings.CutPrefix(text, objectsScheme)
	bucket, prefix, _ = strings.Cut(rest, "/")
	prefix = strings.TrimSuffix(prefix, "/")
	fits := prefix == "" || len(prefix) <= maxPrefix && segments.CheckKey(prefix) == nil
	return bucket, prefix, ok && bucketName.MatchString(bucket) && fits
}

func (u ObjectsURL) String() string { return bucketURL(u.Bucket, u.Prefix) }

func bucketURL(bucket, prefix string) string {
	switch {
	case bucket == "":
		return ""
	case prefix == "":
		return objectsScheme + bucket
	}
	return objectsScheme + bucket + "/" + prefix
}

// ParseHeadsURL reads the text form of a HeadsURL.
func ParseHeadsURL(text string) (HeadsURL, error) {
	if text == "" {
		return HeadsURL{}, nil
	}
	if table, ok := strings.CutPrefix(text, headsScheme); ok && tableName.MatchString(table) {
		return HeadsURL{Table: table}, nil
	}
	if bucket, prefix, ok := parseBucket(text, maxHeadsPrefixBytes); ok {
		return HeadsURL{Bucket: bucket, Prefix: prefix}, nil
	}
	return HeadsURL{}, fmt.Errorf("%q %w", text, errNotHeads)
}

func (u HeadsURL) String() string {
	if u.Table != "" {
		return headsScheme + u.Table
	}
	return bucketURL(u.Bucket, u.Prefix)
}

// overlaps reports whether two prefixes have keys in common: one is the other, or lies in it.
func (u HeadsURL) overlaps(o ObjectsURL) bool {
	if u.Bucket != o.Bucket {
		return false
	}
	below := func(prefix string) string {
		if prefix == "" {
			return ""
		}
		return prefix + "/"
	}
	heads, objects := below(u.Prefix), below(o.Prefix)
	return strings.HasPrefix(heads, objects) || strings.HasPrefix(objects, heads)
}

func parseEndpoint(text string) (Endpoint, error) {
	u, err := url.Parse(text)
	plain := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil &&
		(u.Path == "" || u.Path == "/") && u.RawQuery == "" && !u.ForceQuery && u.Fragment == ""
	if text != "" && !plain {
		return "", fmt.Errorf("%q %w", text, errNotEndpoint)
	}
	return Endpoint(strings.TrimSuffix(text, "/")), nil
}

func parseRegion(text string) (Region, error) {
	if text != "" && !regionName.MatchString(text) {
		return "", fmt.Errorf("%q %w", text, errNotRegion)
	}
	return Region(text), nil
}

// Shared reports whether the stores are a bucket, or a bucket and a table, which other processes may use at the same time.
func (c Config) Shared() bool { return c.Objects != ObjectsURL{} && c.Heads != HeadsURL{} }

// stores refuses what says two things about where data lives, and what would have no effect.
func (v *validator) stores(c Config, rules rules) {
	noObjects := c.Objects == ObjectsURL{} && !v.isUnread("objects")
	noHeads := c.Heads == HeadsURL{} && !v.isUnread("heads")
	_, dataGiven := v.origins["data"]
	shared := !noObjects || !noHeads
	if shared && c.Memory {
		v.fault("memory", c.Memory, "contradicts objects and heads, which keep everything", "set one or the others")
	}
	if dataGiven && c.Memory {
		v.fault("data", c.Data, "contradicts memory, which keeps nothing", "set one of the two")
	} else if dataGiven && shared {
		v.fault("data", c.Data, "contradicts objects and heads, which keep everything elsewhere", "set one or the others")
	} else if c.Data == "" {
		v.fault("data", c.Data, "is empty", "name a folder")
	}
	switch {
	case noObjects && !noHeads && rules != forTable:
		v.fault("objects", c.Objects, "is missing, and heads is set", "name the bucket, or remove heads to use a folder")
	case noHeads && (!noObjects || rules == forTable):
		v.fault("heads", c.Heads, "is missing", "name the table, as in dynamodb://tailrace"+orBucket(rules))
	case !shared:
		v.withoutEffect(c)
	case c.Heads.Bucket != "":
		v.bucketHeads(c, rules)
	}
}

// orBucket is what else heads may be, where it need not be a table.
func orBucket(rules rules) string {
	if rules == forTable {
		return ""
	}
	return ", or a prefix of a bucket, as in s3://my-bucket/tailrace-heads"
}

// bucketHeads judges heads in a bucket. They and the objects must have prefixes apart: what is listed as objects may be
// deleted.
func (v *validator) bucketHeads(c Config, rules rules) {
	switch {
	case rules == forTable:
		v.fault("heads", c.Heads, "is not a table", "a bucket needs no setting up; for a table, write dynamodb://TABLE")
	case c.Objects != ObjectsURL{} && c.Heads.overlaps(c.Objects):
		v.fault("heads", c.Heads, fmt.Sprintf("overlaps with objects, %s", c.Objects),
			"choose two prefixes of which neither lies in the other, such as tailrace/heads and tailrace/objects")
	}
	if c.DynamoDBEndpoint != "" {
		v.fault("dynamodb-endpoint", c.DynamoDBEndpoint, "has no effect with heads in a bucket", "remove it")
	}
}

// withoutEffect refuses settings of a bucket and a table that are not used: somebody believes that they are.
func (v *validator) withoutEffect(c Config) {
	for _, given := range []struct {
		name, value string
		set         bool
	}{
		{"aws-region", string(c.AWSRegion), c.AWSRegion != ""},
		{"s3-endpoint", string(c.S3Endpoint), c.S3Endpoint != ""},
		{"s3-region", string(c.S3Region), c.S3Region != ""},
		{"s3-addressing", string(c.S3Addressing), c.S3Addressing != AddressAuto},
		{"dynamodb-endpoint", string(c.DynamoDBEndpoint), c.DynamoDBEndpoint != ""},
	} {
		if given.set {
			v.fault(given.name, given.value, "has no effect without objects and heads", "set those, or remove it")
		}
	}
}
