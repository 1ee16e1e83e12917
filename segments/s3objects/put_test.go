package s3objects_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/s3objects"
	"github.com/tailrace-streams/tailrace/segments/s3objects/fakes3"
)

// TestRequestCounts: one request a call where nothing goes wrong. A large object is one PUT too (BL-103).
func TestRequestCounts(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
		put(t, store, "a", "0123456789")
		put(t, store, "b", strings.Repeat("x", 20<<20))
		wantCount(t, fake, fakes3.OpPut, 2)
		for _, c := range [][2]int64{{0, -1}, {0, 0}, {3, 4}, {3, -1}, {10, 1}, {99, -1}} {
			if _, err := store.Get(t.Context(), "a", c[0], c[1]); err != nil {
				t.Errorf("Get(%v) = %v", c, err)
			}
		}
		wantCount(t, fake, fakes3.OpGet, 6)
		for _, limit := range []int{1, 2, 3, 1000} {
			if infos, err := store.List(t.Context(), "", "", limit); err != nil || len(infos) != min(limit, 2) {
				t.Errorf("List = %v, %v", infos, err)
			}
		}
		wantCount(t, fake, fakes3.OpList, 4)
		store.Delete(t.Context(), []string{"a"})
		wantCount(t, fake, fakes3.OpDelete, 1)
		store.Delete(t.Context(), []string{"a", "b", "c", "b"})
		wantCount(t, fake, fakes3.OpDeleteMany, 1)
		wantCount(t, fake, "", 14)
		if got := store.Stats(); got != (s3objects.Stats{Requests: 14}) {
			t.Errorf("Stats = %+v", got)
		}
		if n := fake.Requests()[13].Conn; n != 1 {
			t.Errorf("%d connections were made for calls one after the other", n)
		}
	})
}

// TestPutIsRepeated: whatever becomes of the first two PUTs, the third stores the object, and the caller sees nothing of it.
func TestPutIsRepeated(t *testing.T) {
	t.Parallel()
	data := strings.Repeat("0123456789abcdef", 1<<16)
	for name, fault := range map[string]fakes3.Fault{
		"BL-092 answer is lost":             {LoseReply: true},
		"BL-092 answer never comes":         {SwallowReply: true},
		"BL-093 409":                        {Status: http.StatusConflict, Code: "OperationAborted"},
		"BL-097 429":                        {Status: http.StatusTooManyRequests, Code: "SlowDown"},
		"BL-099 503":                        {Status: http.StatusServiceUnavailable, Code: "SlowDown"},
		"BL-099 503 before the body":        {Status: http.StatusServiceUnavailable, Code: "SlowDown", Early: true},
		"BL-099 503 that is done later":     {Status: http.StatusServiceUnavailable, Code: "SlowDown", Late: time.Minute},
		"500":                               {Status: http.StatusInternalServerError, Code: "InternalError"},
		"502 of a proxy":                    {Status: http.StatusBadGateway},
		"504":                               {Status: http.StatusGatewayTimeout},
		"400 RequestTimeout":                {Status: http.StatusBadRequest, Code: "RequestTimeout"},
		"400 body damaged on its way":       {Status: http.StatusBadRequest, Code: "XAmzContentSHA256Mismatch"},
		"BL-126 connection is reset":        {Reset: true},
		"BL-130 connection is a black hole": {BlackHole: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
				fake.On(fakes3.First(2, fakes3.Is(fakes3.OpPut), fault))
				put(t, store, "k", data)
				wantStored(t, fake, "k", data)
				wantCount(t, fake, fakes3.OpPut, 3)
				if keys := fake.Keys(); len(keys) != 1 {
					t.Errorf("stored are %q", keys)
				}
				if got := store.Stats(); got.Requests != 3 || got.Repeated != 2 {
					t.Errorf("Stats = %+v", got)
				}
			})
		})
	}
}

// TestPutIsConfirmed: a 200 without an ETag is taken for the store's word only if the object is there.
func TestPutIsConfirmed(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"", "0123456789"} {
		inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
			fake.On(fakes3.First(1, fakes3.Is(fakes3.OpPut), fakes3.Fault{Status: http.StatusOK}))
			put(t, store, "k", data)
			wantStored(t, fake, "k", data)
			fake.On(fakes3.Always(fakes3.Is(fakes3.OpPut), fakes3.Fault{Status: http.StatusOK}))
			if err := store.Put(t.Context(), "l", []byte(data)); !errors.Is(err, s3objects.ErrUnavailable) {
				t.Errorf("Put = %v", err)
			}
		})
	}
}

// TestPutGivesUp: in the end the error has the store's own code (BL-099), says whether to come back (BL-093, BL-101), and
// comes within the call's timeout.
func TestPutGivesUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault     fakes3.Fault
		parts     []string
		temporary bool
		requests  int // 0 if time ran out first
	}{
		"503":        {fakes3.Fault{Status: 503, Code: "SlowDown"}, []string{"put object", "503 SlowDown", "8 attempts"}, true, 8},
		"BL-093 409": {fakes3.Fault{Status: 409, Code: "OperationAborted"}, []string{"409 OperationAborted"}, true, 8},
		"503 proxy":  {fakes3.Fault{Status: 503}, []string{"store answered 503"}, true, 8},
		"403":        {fakes3.Fault{Status: 403, Code: "AccessDenied"}, []string{"403 AccessDenied: as the test asked"}, false, 1},
		"404":        {fakes3.Fault{Status: 404, Code: "NoSuchBucket"}, []string{"404 NoSuchBucket"}, false, 1},
		"412":        {fakes3.Fault{Status: 412, Code: "PreconditionFailed"}, []string{"412"}, false, 1},
		"501":        {fakes3.Fault{Status: 501, Code: "NotImplemented"}, []string{"501 NotImplemented"}, false, 1},
		"token":      {fakes3.Fault{Status: 400, Code: "ExpiredToken"}, []string{"ExpiredToken"}, false, 2},
		"reset":      {fakes3.Fault{Reset: true}, []string{"connection closed by the store", "8 attempts"}, true, 8},
		"black hole": {fakes3.Fault{BlackHole: true}, []string{"no answer in time"}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
				fake.On(fakes3.Always(fakes3.Any, c.fault))
				start := time.Now()
				err := store.Put(t.Context(), "k", []byte("data"))
				if took := time.Since(start); took > s3objects.DefaultCallTimeout {
					t.Errorf("Put took %v", took)
				}
				wantError(t, err, c.parts...)
				if errors.Is(err, s3objects.ErrUnavailable) != c.temporary {
					t.Errorf("Put = %v; temporary: want %v", err, c.temporary)
				}
				if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
					t.Errorf("Put = %v, which is about a context the caller does not know", err)
				}
				if e, ok := errors.AsType[*s3objects.Error](err); !ok || !e.Sent {
					t.Errorf("Put = %+v, want an Error that says it was sent", err)
				}
				if c.requests != 0 {
					wantCount(t, fake, fakes3.OpPut, c.requests)
				}
			})
		})
	}
}

// TestCallerGoesFirst: a caller's own context ends the call at once, whatever the call is waiting for.
func TestCallerGoesFirst(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]fakes3.Fault{
		"answer": {BlackHole: true}, "pause": {Status: 503, Code: "SlowDown", RetryAfter: 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
				fake.On(fakes3.Always(fakes3.Any, fault))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				start := time.Now()
				err := store.Put(ctx, "k", []byte("data"))
				if took := time.Since(start); took != time.Second || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Put = %v after %v", err, took)
				}
				if fault.Code != "" {
					wantError(t, err, "put object: context deadline exceeded, after put object: store answered 503 SlowDown")
				}
				wantCount(t, fake, fakes3.OpPut, 1)
			})
		})
	}
}

// TestRetryAfter: the store's own word on when to come back is kept.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
		fake.On(fakes3.First(1, fakes3.Any, fakes3.Fault{Status: 503, Code: "SlowDown", RetryAfter: 3}))
		start := time.Now()
		put(t, store, "k", "data")
		if took := time.Since(start); took.Round(time.Millisecond) != 3*time.Second {
			t.Errorf("Put took %v", took)
		}
		fake.On(fakes3.First(1, fakes3.Any, fakes3.Fault{Status: 503, Code: "SlowDown", RetryAfter: 3600}))
		if err := store.Put(t.Context(), "k", []byte("data")); !errors.Is(err, s3objects.ErrUnavailable) {
			t.Errorf("Put = %v, though the store asked for more time than there is", err)
		}
		wantCount(t, fake, fakes3.OpPut, 3)
	})
}

// TestBL097 puts to a store that takes one write a second of each key. Objects have keys of their own, so it is met only by
// repeats, which wait.
func TestBL097(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
		fake.SetQuirks(fakes3.Quirks{WriteEvery: time.Second})
		for i := range 50 {
			put(t, store, "k/"+strconv.Itoa(i), "data")
		}
		wantCount(t, fake, fakes3.OpPut, 50)
		put(t, store, "k/49", "data")
		if n := fake.Count(fakes3.OpPut); n <= 51 {
			t.Errorf("%d PUTs: the quirk was not met", n)
		}
	})
}

// TestBytesAreTheCallers: once Put has returned nobody reads the bytes, whatever has become of the request. The race
// detector sees it if the transport does; a body that changed on its way would be stored, or refused by its digest.
func TestBytesAreTheCallers(t *testing.T) {
	t.Parallel()
	fake := fakes3.Start(t)
	store := open(t, fake, func(o *s3objects.Options) { o.MaxAttempts = 1 })
	fake.On(fakes3.Always(fakes3.Any, fakes3.Fault{Status: 503, Code: "SlowDown", Early: true}))
	data := make([]byte, 4<<20)
	for i := range 20 {
		if err := store.Put(t.Context(), "k", data); err == nil {
			t.Fatal("no error")
		}
		for j := range data {
			data[j] = byte(i)
		}
	}
	if keys := fake.Keys(); len(keys) != 0 {
		t.Errorf("stored are %q", keys)
	}
}

func TestPutRefuses(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
		long := open(t, fake, func(o *s3objects.Options) { o.Prefix = strings.Repeat("p", 100) })
		part := strings.Repeat("x", segments.MaxKeyPartBytes)
		longest := strings.Repeat(part+"/", 4) + strings.Repeat("y", 190)
		put(t, store, longest, "data")
		for _, err := range []error{
			store.Put(t.Context(), "../k", nil), store.Put(t.Context(), "", nil), long.Put(t.Context(), longest, nil),
			long.Delete(t.Context(), []string{longest})[longest],
		} {
			if !errors.Is(err, segments.ErrBadKey) {
				t.Errorf("a bad key gave %v", err)
			}
		}
		if err := store.Put(t.Context(), "k", make([]byte, segments.MaxObjectBytes+1)); err == nil {
			t.Error("an object above the limit was put")
		}
		wantCount(t, fake, "", 1)
		if got, _ := fake.Object(prefix + "/" + longest); !bytes.Equal(got, []byte("data")) {
			t.Errorf("stored is %q", got)
		}
	})
}

// TestOnce: a request that must not be repeated is not, by anyone (BL-092): neither here, nor in the library, nor in
// net/http, which on its own repeats what it takes for harmless on a connection that has gone.
func TestOnce(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]fakes3.Fault{
		"answer is lost": {LoseReply: true}, "503": {Status: 503, Code: "SlowDown"}, "500": {Status: 500, Code: "InternalError"},
		"reset": {Reset: true}, "409": {Status: 409, Code: "ConditionalRequestConflict"}, "no answer": {SwallowReply: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
				put(t, store, "warm", "data")
				fake.On(fakes3.Always(fakes3.Any, fault))
				options := minio.PutObjectOptions{DisableContentSha256: true}
				options.SetMatchETagExcept("*")
				err := store.Do(t.Context(), s3objects.Call{Op: "put head", Once: true}, func(ctx context.Context) error {
					_, err := store.Core().PutObject(ctx, store.Bucket(), store.Key("k"), strings.NewReader("data"), 4, "", "", options)
					return err
				})
				if e, ok := errors.AsType[*s3objects.Error](err); !ok || !e.Sent || e.Attempts != 1 {
					t.Errorf("Do = %+v", err)
				}
				wantCount(t, fake, fakes3.OpPut, 2)
				if r := fake.Requests()[1]; !r.Conditional() {
					t.Errorf("request = %+v", r)
				}
			})
		})
	}
}
