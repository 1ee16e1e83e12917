package s3objects_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tailrace-streams/tailrace/segments/s3objects"
	"github.com/tailrace-streams/tailrace/segments/s3objects/fakes3"
)

func putMany(t *testing.T, store *s3objects.Store, n int) (keys []string) {
	t.Helper()
	for i := range n {
		keys = append(keys, fmt.Sprintf("k/%03d", i))
		put(t, store, keys[i], "data")
	}
	return keys
}

// TestDeleteErrorsOfKeys: each key that stays has its own reason, and what may pass is asked again, that alone.
func TestDeleteErrorsOfKeys(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
		keys := putMany(t, store, 10)
		internal := 2
		fake.SetQuirks(fakes3.Quirks{DeleteCode: func(key string) string {
			switch {
			case strings.HasSuffix(key, "3"):
				return "AccessDenied"
			case strings.HasSuffix(key, "7") && internal > 0:
				internal--
				return "InternalError"
			case strings.HasSuffix(key, "9"):
				return "InvalidArgument" // which the library takes for success
			}
			return ""
		}})
		failed := store.Delete(t.Context(), keys)
		if len(failed) != 2 || len(fake.Keys()) != 2 {
			t.Errorf("Delete = %v, left are %q", failed, fake.Keys())
		}
		wantError(t, failed["k/003"], "delete object: store answered AccessDenied: as the test asked")
		if err := failed["k/009"]; err == nil || errors.Is(err, s3objects.ErrUnavailable) {
			t.Errorf("k/009: %v", err)
		}
		wantCount(t, fake, fakes3.OpDeleteMany, 3)
	})
}

// TestDeleteIsRepeated: a delete of many may be asked again as it is.
func TestDeleteIsRepeated(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]fakes3.Fault{
		"503": {Status: 503, Code: "SlowDown"}, "answer is lost": {LoseReply: true}, "black hole": {BlackHole: true},
		"answer is cut": {CutAfter: 60},
	} {
		for _, n := range []int{1, 5} {
			t.Run(fmt.Sprintf("%s %d", name, n), func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
					keys := putMany(t, store, n)
					fake.On(fakes3.First(2, fakes3.Is(fakes3.OpDelete, fakes3.OpDeleteMany), fault))
					if failed := store.Delete(t.Context(), keys); failed != nil || len(fake.Keys()) != 0 {
						t.Errorf("Delete = %v, left are %q", failed, fake.Keys())
					}
				})
			})
		}
	}
}

// TestDeleteNotAnswered: a key of which the answer says nothing is not deleted.
func TestDeleteNotAnswered(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
		keys := putMany(t, store, 4)
		fake.SetQuirks(fakes3.Quirks{SkipInAnswer: func(key string) bool { return strings.HasSuffix(key, "2") }})
		failed := store.Delete(t.Context(), keys)
		if len(failed) != 1 || !errors.Is(failed["k/002"], s3objects.ErrMisbehaves) {
			t.Errorf("Delete = %v", failed)
		}
	})
}

// TestDeleteOneByOne: a store without the request for many is noticed once.
func TestDeleteOneByOne(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
		fake.SetQuirks(fakes3.Quirks{NoDeleteMany: true})
		keys := putMany(t, store, 20)
		for _, part := range [][]string{keys[:10], keys[10:]} {
			if failed := store.Delete(t.Context(), part); failed != nil {
				t.Errorf("Delete = %v", failed)
			}
		}
		wantCount(t, fake, fakes3.OpDeleteMany, 1)
		wantCount(t, fake, fakes3.OpDelete, 20)
		if keys := fake.Keys(); len(keys) != 0 {
			t.Errorf("left are %q", keys)
		}
	})
}
