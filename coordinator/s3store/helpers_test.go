package s3store

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/s3objects"
	"github.com/tailrace-streams/tailrace/segments/s3objects/fakes3"
)

// servers are the real stores that tests run on, by the variables that tools/with-servers sets.
var servers = map[string]string{"versitygw": "TAILRACE_S3_VERSITYGW", "minio": "TAILRACE_S3_MINIO"}

// onServers runs a test on every real store that is there. One that is not is skipped, or fails where nothing may be left out.
func onServers(t *testing.T, test func(t *testing.T, bucket s3objects.Options)) {
	for name, variable := range servers {
		t.Run(name, func(t *testing.T) {
			endpoint := os.Getenv(variable)
			switch {
			case endpoint != "":
			case os.Getenv("TAILRACE_REQUIRE") == "all":
				t.Fatalf("%s is not set: run under tools/with-servers %s", variable, name)
			default:
				t.Skipf("%s is not set: no %s to test with", variable, name)
			}
			test(t, makeBucket(t, endpoint))
		})
	}
}

// makeBucket makes a bucket on a real store. Requests have more time than by default, since the machine may be busy with
// other tests.
func makeBucket(t testing.TB, endpoint string) s3objects.Options {
	t.Helper()
	o := s3objects.Options{Bucket: "tailrace-" + randomPart(), Endpoint: endpoint, AttemptTimeout: 30 * time.Second, CallTimeout: time.Minute}
	client, err := s3objects.Dial(o)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	err = client.Do(t.Context(), s3objects.Call{Op: "make bucket"}, func(ctx context.Context) error {
		return client.Core().MakeBucket(ctx, o.Bucket, minio.MakeBucketOptions{})
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func randomPart() string { return strings.ToLower(rand.Text()) }

// inBucket is a bucket with a prefix of its own in it.
func inBucket(o s3objects.Options) Options {
	o.Prefix = randomPart()[:12]
	return Options{Bucket: o, Create: true}
}

// onFake is the bucket of a fake.
func onFake(fake *fakes3.Server) Options {
	return inBucket(s3objects.Options{
		Bucket: fakes3.Bucket, Endpoint: fake.URL, Dial: fake.Dial,
		Credentials: s3objects.StaticCredentials(s3objects.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}),
	})
}

func mustOpen(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// mustDial is a store without a probe, for tests about what a store does that a probe would refuse, or that count requests.
func mustDial(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := dial(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// plainCommit adds one inline record.
func plainCommit(label segments.Label) *coordinator.Commit {
	return &coordinator.Commit{
		Entries: []segments.Entry{{
			ID: segments.EntryID{Object: segments.NewObjectID(label)}, N: 1, MaxTime: uint64(label), Bytes: 9, Data: []byte("x"),
		}},
		MaxEntries: 1 << 20, MaxInline: 1 << 20,
	}
}

func ignore[T any](_ T, err error) error { return err }
