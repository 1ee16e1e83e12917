package s3store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/tailrace-streams/tailrace/segments/s3objects"
)

// otherVariable is the endpoint of one more store for TestSeen, which takes the credentials of the environment.
const otherVariable = "TAILRACE_S3_OTHER"

// TestSeen prints what each store answers to conditions, for docs/stores.md, and whether a probe accepts it. What the store was
// refused for is no failure: refusing it is what the probe is for.
func TestSeen(t *testing.T) {
	look := func(t *testing.T, bucket s3objects.Options) {
		s := mustDial(t, inBucket(bucket))
		verdict := "accepted"
		if err := s.Probe(t.Context()); err != nil {
			if !errors.Is(err, s3objects.ErrMisbehaves) {
				t.Fatal(err)
			}
			verdict = "refused: " + err.Error()
		}
		_, name, _ := strings.Cut(t.Name(), "/")
		t.Logf("\n| %s | %s | %s |", name, strings.Join(seen(t, s), " | "), verdict)
	}
	onServers(t, look)
	if endpoint := os.Getenv(otherVariable); endpoint != "" {
		t.Run("other", func(t *testing.T) { look(t, makeBucket(t, endpoint)) })
	}
}

// seen are the statuses that a store answers with: to a create where something is, to a PUT for an earlier state and for one of
// what is missing, to a GET for another state; and whether equal bodies have equal ETags.
func seen(t *testing.T, s *Store) []string {
	t.Helper()
	key, ctx := "seen", t.Context()
	put := func(body string, match s3objects.Tag) (s3objects.Tag, string) {
		tag, err := s.objects.PutIf(ctx, key, []byte(body), match)
		return tag, statusOf(err)
	}
	first, _ := put("A", "")
	_, created := put("A", "")
	second, _ := put("B", first)
	_, stale := put("C", first)
	again, _ := put("A", second)
	get := statusOf(s.objects.Do(ctx, s3objects.Call{Op: "get", Once: true}, func(ctx context.Context) error {
		var o minio.GetObjectOptions
		_ = o.SetMatchETag(strings.Trim(string(second), `"`))
		body, _, _, err := s.objects.Core().GetObject(ctx, s.objects.Bucket(), s.objects.Key(key), o)
		if err == nil {
			err = body.Close()
		}
		return err
	}))
	key = "missing"
	_, missing := put("A", first)
	return []string{created, stale, missing, get, fmt.Sprint(first == again)}
}

func statusOf(err error) string {
	if err == nil {
		return "200"
	}
	if e, ok := errors.AsType[*s3objects.Error](err); ok && e.Status != 0 {
		return fmt.Sprint(e.Status)
	}
	return err.Error()
}
