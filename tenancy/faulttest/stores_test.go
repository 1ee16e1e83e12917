package faulttest

import (
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/dynamostore/dynamotest"
	"github.com/tailrace-streams/tailrace/coordinator/memstore"
	"github.com/tailrace-streams/tailrace/coordinator/pebblestore"
	"github.com/tailrace-streams/tailrace/coordinator/s3store"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/fileobjects"
	"github.com/tailrace-streams/tailrace/segments/memobjects"
	"github.com/tailrace-streams/tailrace/segments/s3objects"
	"github.com/tailrace-streams/tailrace/segments/s3objects/fakes3"
	"github.com/tailrace-streams/tailrace/tenancy"
)

// stores are what one case runs on, empty at first.
type stores struct {
	heads   coordinator.Heads
	table   coordinator.Table
	objects segments.Objects
}

// kind is a pair of stores that a server may be run on.
type kind struct {
	name string
	open func(t *testing.T) stores
	// bubble: cases run in a synctest bubble, where time-outs take no time.
	bubble bool
	// Cases are run for so long, and at least so many.
	time    time.Duration
	atLeast int
	// missing says what the machine lacks to run it.
	missing func(t *testing.T) string
}

func kinds() []kind {
	return []kind{
		{name: "memory", bubble: true, time: 12 * time.Second, atLeast: 100, open: openMemory},
		{name: "files", time: 10 * time.Second, atLeast: 24, open: openFiles},
		{name: "a bucket alone", bubble: true, time: 12 * time.Second, atLeast: 24, open: openFake},
		{name: "table and bucket", time: 10 * time.Second, atLeast: 24, open: openShared, missing: missingServers},
	}
}

func openMemory(*testing.T) stores {
	s := memstore.New()
	return stores{s, s, memobjects.New()}
}

func openFiles(t *testing.T) stores {
	t.Helper()
	heads, err := pebblestore.Open(t.TempDir(), pebblestore.Options{FS: pebblestore.MemFS()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = heads.Close() })
	objects, err := fileobjects.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = objects.Close() })
	return stores{heads, heads, objects}
}

// openFake keeps heads, table and objects in a bucket in memory, through all that stands between them and one on a network.
func openFake(t *testing.T) stores {
	t.Helper()
	fake := fakes3.StartPipe(t)
	at := func(prefix string) s3objects.Options {
		return s3objects.Options{
			Bucket: fakes3.Bucket, Prefix: prefix, Endpoint: fake.URL, Dial: fake.Dial,
			Credentials: s3objects.StaticCredentials(s3objects.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}),
		}
	}
	heads, err := s3store.Open(t.Context(), s3store.Options{Bucket: at("heads"), Create: true, UsedOnce: tenancy.UsedOnce})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(heads.Close)
	client, err := s3objects.Dial(at("objects"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return stores{heads, heads, s3objects.New(client)}
}

// s3Variables are where tools/with-servers says that an object store is; the first one is used.
var s3Variables = []string{"TAILRACE_S3_VERSITYGW", "TAILRACE_S3_MINIO"}

func s3Endpoint() string {
	for _, variable := range s3Variables {
		if url := os.Getenv(variable); url != "" {
			return url
		}
	}
	return ""
}

func missingServers(t *testing.T) string {
	if dynamotest.Endpoint(t) == "" || s3Endpoint() == "" {
		return "no DynamoDB emulator or no S3 server; run tools/with-servers versitygw dynalite -- go test ..."
	}
	return ""
}

func openShared(t *testing.T) stores {
	t.Helper()
	client, err := s3objects.Dial(s3objects.Options{
		Bucket: os.Getenv("TAILRACE_S3_BUCKET"), Prefix: strings.ToLower(rand.Text()), Endpoint: s3Endpoint(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	heads := dynamotest.Open(t, dynamotest.Endpoint(t))
	return stores{heads, heads, s3objects.New(client)}
}
