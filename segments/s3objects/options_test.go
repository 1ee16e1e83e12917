package s3objects_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tailrace-streams/tailrace/segments/s3objects"
	"github.com/tailrace-streams/tailrace/segments/s3objects/fakes3"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][2]string{
		"s3://b": {"b", ""}, "s3://b/": {"b", ""}, "s3://b/p": {"b", "p"}, "s3://b/p/q/": {"b", "p/q"},
	} {
		if bucket, prefix, err := s3objects.ParseURL(in); err != nil || bucket != want[0] || prefix != want[1] {
			t.Errorf("ParseURL(%q) = %q, %q, %v", in, bucket, prefix, err)
		}
	}
	for _, in := range []string{"", "s3://", "s3:///p", "b/p", "http://b/p", "S3://b"} {
		if _, _, err := s3objects.ParseURL(in); err == nil {
			t.Errorf("ParseURL(%q) is taken", in)
		}
	}
}

// TestOptionsTellAllFaults: every fault is named, in one error.
func TestOptionsTellAllFaults(t *testing.T) {
	t.Parallel()
	_, err := s3objects.Dial(s3objects.Options{Prefix: "/p/", Endpoint: "localhost:9000", CallTimeout: -1, MaxAttempts: -1})
	for _, part := range []string{"no bucket", `prefix "/p/"`, `endpoint "localhost:9000"`, "call timeout is negative", "attempts is negative"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("Dial = %v, without %q", err, part)
		}
	}
	for name, o := range map[string]s3objects.Options{
		"no region":    {Bucket: "b"},
		"long prefix":  {Bucket: "b", Region: "r", Prefix: strings.Repeat("p", s3objects.MaxPrefixBytes+1)},
		"path":         {Bucket: "b", Endpoint: "http://h/path"},
		"query":        {Bucket: "b", Endpoint: "http://h?q"},
		"user":         {Bucket: "b", Endpoint: "http://u:p@h"},
		"other scheme": {Bucket: "b", Endpoint: "ftp://h"},
		"no host":      {Bucket: "b", Endpoint: "http://"},
	} {
		if _, err := s3objects.Dial(o); err == nil {
			t.Errorf("%s: Dial takes %+v", name, o)
		}
	}
}

// TestAddresses: where the bucket is named, and which host is asked.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options s3objects.Options
		want    string
	}{
		"other store":   {s3objects.Options{Endpoint: "http://s3.test"}, "s3.test/bucket/p/k"},
		"path":          {s3objects.Options{Endpoint: "http://s3.test", Addressing: s3objects.AddressPath}, "s3.test/bucket/p/k"},
		"host":          {s3objects.Options{Endpoint: "http://s3.test", Addressing: s3objects.AddressHost}, "bucket.s3.test/p/k"},
		"AWS":           {s3objects.Options{Region: "eu-north-1"}, "bucket.s3.eu-north-1.amazonaws.com/p/k"},
		"AWS by path":   {s3objects.Options{Region: "eu-north-1", Addressing: s3objects.AddressPath}, "s3.eu-north-1.amazonaws.com/bucket/p/k"},
		"port":          {s3objects.Options{Endpoint: "http://127.0.0.1:9000"}, "127.0.0.1:9000/bucket/p/k"},
		"private AWS":   {s3objects.Options{Endpoint: "https://bucket.vpce-1.s3.eu-north-1.vpce.amazonaws.com", Region: "eu-north-1", Addressing: s3objects.AddressPath}, "bucket.vpce-1.s3.eu-north-1.vpce.amazonaws.com/bucket/p/k"},
		"old host name": {s3objects.Options{Endpoint: "https://s3.eu-north-1.amazonaws.com/", Region: "eu-north-1"}, "bucket.s3.eu-north-1.amazonaws.com/p/k"},
	} {
		options := c.options
		options.Bucket, options.Prefix, options.Credentials = "bucket", "p", static
		client, err := s3objects.Dial(options)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := client.Address(t, "k"); got != c.want {
			t.Errorf("%s: asks %s, want %s", name, got, c.want)
		}
	}
}

// TestHostAddressing keeps an object where the bucket is named by the host.
func TestHostAddressing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, fake *fakes3.Server, _ *s3objects.Store) {
		store := open(t, fake, func(o *s3objects.Options) { o.Addressing = s3objects.AddressHost })
		put(t, store, "k", "data")
		want(t, store, "k", "data")
		if r := fake.Requests()[0]; r.Host != "bucket.fake.s3.test" || r.Method != http.MethodPut {
			t.Errorf("request = %+v", r)
		}
	})
}
