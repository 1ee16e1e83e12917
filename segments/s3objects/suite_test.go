package s3objects_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/objectstest"
	"github.com/tailrace-streams/tailrace/segments/s3objects"
	"github.com/tailrace-streams/tailrace/segments/s3objects/fakes3"
)

// TestSuite runs the conformance suite on stores that are odd in ways that must not matter. BL-095: conditions mean
// nothing to objects. BL-098: no checksum headers, no chunks, on http and https. BL-104: nor do ETags.
func TestSuite(t *testing.T) {
	t.Parallel()
	plain := fakes3.Quirks{RefuseChunked: true, RefuseChecksums: true}
	for name, c := range map[string]struct {
		start  func(testing.TB) *fakes3.Server
		quirks fakes3.Quirks
	}{
		"http BL-098":  {fakes3.Start, plain},
		"https BL-098": {fakes3.StartTLS, plain},
		"odd store BL-095, BL-104": {fakes3.Start, fakes3.Quirks{
			IgnoreConditions: true, NoETag: true, PageKeys: 300, WalkLimit: true, NoDeleteMany: true,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objectstest.Run(t, func(t *testing.T) segments.Objects {
				fake := c.start(t)
				fake.SetQuirks(c.quirks)
				t.Cleanup(func() { wantPlainRequests(t, fake.Requests()) })
				return open(t, fake)
			})
		})
	}
}

// wantPlainRequests: what some store somewhere refuses is never sent (BL-098), nor is a large object in parts (BL-103).
func wantPlainRequests(t *testing.T, requests []fakes3.Request) {
	t.Helper()
	for _, r := range requests {
		if r.Op == fakes3.OpOther || r.Op == fakes3.OpBucket {
			t.Errorf("request %d: %s with %v, want only those of objects", r.N, r.Method, r.Query)
		}
		if r.Op == fakes3.OpPut && (r.Length < 0 || len(r.Header.Get("X-Amz-Content-Sha256")) != 64) {
			t.Errorf("PUT has length %d and payload signature %q", r.Length, r.Header.Get("X-Amz-Content-Sha256"))
		}
		if r.Op == fakes3.OpPut && r.Header.Get("Content-Md5") != "" {
			t.Error("PUT has a Content-MD5")
		}
		for name, values := range r.Header {
			if strings.Contains(name, "Checksum") || name == "X-Amz-Trailer" || name == "Trailer" || name == "Transfer-Encoding" ||
				name == "Content-Encoding" || strings.Contains(values[0], "STREAMING") {
				t.Errorf("%s has header %s: %s", r.Op, name, values)
			}
		}
	}
}

// TestRefusalsOfTheFake shows that the quirks of BL-098 would be seen: the library's own ways run into both.
func TestRefusalsOfTheFake(t *testing.T) {
	t.Parallel()
	fake := fakes3.Start(t)
	core := open(t, fake).Core()
	upload := func(o minio.PutObjectOptions) error {
		_, err := core.Client.PutObject(t.Context(), fakes3.Bucket, "k", strings.NewReader("data"), 4, o)
		return err
	}
	streaming, md5 := minio.PutObjectOptions{DisableMultipart: true}, minio.PutObjectOptions{SendContentMd5: true}
	for _, o := range []minio.PutObjectOptions{streaming, md5} {
		if err := upload(o); err != nil {
			t.Errorf("PUT %+v = %v before the quirk", o, err)
		}
	}
	if got, _ := fake.Object("k"); string(got) != "data" {
		t.Errorf("stored is %q", got)
	}
	fake.SetQuirks(fakes3.Quirks{RefuseChunked: true})
	if err := upload(streaming); minio.ToErrorResponse(err).StatusCode != http.StatusNotImplemented {
		t.Errorf("streamed PUT = %v", err)
	}
	fake.SetQuirks(fakes3.Quirks{RefuseChecksums: true})
	if err := upload(md5); minio.ToErrorResponse(err).StatusCode != http.StatusBadRequest {
		t.Errorf("PUT with MD5 = %v", err)
	}
}

// servers are the real stores the suite runs on, by the variables that tools/with-servers sets.
var servers = map[string]string{"versitygw": "TAILRACE_S3_VERSITYGW", "minio": "TAILRACE_S3_MINIO"}

// server returns the options of a bucket of its own on a real store.
func server(t *testing.T, name string) s3objects.Options {
	t.Helper()
	endpoint := os.Getenv(servers[name])
	switch {
	case endpoint != "":
	case os.Getenv("TAILRACE_REQUIRE") == "all":
		t.Fatalf("%s is not set: run under tools/with-servers %s", servers[name], name)
	default:
		t.Skipf("%s is not set: no %s to test with", servers[name], name)
	}
	return makeBucket(t, endpoint)
}

func makeBucket(tb testing.TB, endpoint string) s3objects.Options {
	tb.Helper()
	options := s3objects.Options{Bucket: "tailrace-" + randomPart(), Endpoint: endpoint}
	client, err := s3objects.Dial(options)
	if err != nil {
		tb.Fatal(err)
	}
	defer client.Close()
	err = client.Do(tb.Context(), s3objects.Call{Op: "make bucket"}, func(ctx context.Context) error {
		return client.Core().MakeBucket(ctx, options.Bucket, minio.MakeBucketOptions{})
	})
	if err != nil {
		tb.Fatal(err)
	}
	return options
}

func TestServers(t *testing.T) {
	t.Parallel()
	for name := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := server(t, name)
			if err := openOptions(t, options).Probe(t.Context()); err != nil {
				t.Error(err)
			}
			objectstest.Run(t, func(t *testing.T) segments.Objects {
				options := options
				options.Prefix = randomPart()[:12]
				return openOptions(t, options)
			})
		})
	}
}

func openOptions(t *testing.T, options s3objects.Options) *s3objects.Store {
	t.Helper()
	client, err := s3objects.Dial(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return s3objects.New(client)
}
