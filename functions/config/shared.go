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

// HeadsURL names the table of the heads: dynamodb://TABLE in text. The zero value, empty in text, names none.
type HeadsURL struct{ Table string }

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
)

// What S3 and DynamoDB take for names. Buckets of some stores may have other names; none that is worth a second form.
var (
	bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	tableName  = regexp.MustCompile(`^[a-zA-Z0-9_.-]{3,255}$`)
	regionName = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)
)

var (
	errNotObjects  = errors.New("is not the URL of a bucket")
	errNotHeads    = errors.New("is not the URL of a table")
	errNotEndpoint = errors.New("is not the URL of a service")
	errNotRegion   = errors.New("is not a region")
)

// ParseObjectsURL reads the text form of an ObjectsURL. A slash at the end is left out.
func ParseObjectsURL(text string) (ObjectsURL, error) {
	if text == "" {
		return ObjectsURL{}, nil
	}
	rest, ok := strings.CutPrefix(text, objectsScheme)
	bucket, prefix, _ := strings.Cut(rest, "/")
	prefix = strings.TrimSuffix(prefix, "/")
	fits := prefix == "" || len(prefix) <= maxPrefixBytes && segments.CheckKey(prefix) == nil
	if !ok || !bucketName.MatchString(bucket) || !fits {
		return ObjectsURL{}, fmt.Errorf("%q %w", text, errNotObjects)
	}
	return ObjectsURL{bucket, prefix}, nil
}

func (u ObjectsURL) String() string {
	switch {
	case u.Bucket == "":
		return ""
	case u.Prefix == "":
		return objectsScheme + u.Bucket
	}
	return objectsScheme + u.Bucket + "/" + u.Prefix
}

// ParseHeadsURL reads the text form of a HeadsURL.
func ParseHeadsURL(text string) (HeadsURL, error) {
	if text == "" {
		return HeadsURL{}, nil
	}
	table, ok := strings.CutPrefix(text, headsScheme)
	if !ok || !tableName.MatchString(table) {
		return HeadsURL{}, fmt.Errorf("%q %w", text, errNotHeads)
	}
	return HeadsURL{table}, nil
}

func (u HeadsURL) String() string {
	if u.Table == "" {
		return ""
	}
	return headsScheme + u.Table
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

// Shared reports whether the stores are a bucket and a table, which other processes may use at the same time.
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
		v.fault("heads", c.Heads, "is missing", "name the table, as in dynamodb://tailrace")
	case !shared:
		v.withoutEffect(c)
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
