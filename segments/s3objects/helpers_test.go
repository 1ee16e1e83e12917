package s3objects_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tailrace-streams/tailrace/segments/s3objects"
	"github.com/tailrace-streams/tailrace/segments/s3objects/fakes3"
)

const prefix = "pre/fix"

var static = s3objects.StaticCredentials(s3objects.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"})

// open makes a store on a fake, with the defaults unless changed.
func open(t *testing.T, fake *fakes3.Server, changes ...func(*s3objects.Options)) *s3objects.Store {
	t.Helper()
	options := s3objects.Options{
		Bucket: fakes3.Bucket, Prefix: prefix, Endpoint: fake.URL, RootCAs: fake.Roots, Dial: fake.Dial, Credentials: static,
	}
	for _, change := range changes {
		change(&options)
	}
	return openOptions(t, options)
}

// noHedge is for tests that count GETs while the machine may be slow.
func noHedge(o *s3objects.Options) { o.HedgeDelay = -1 }

// inBubble runs a test in which time passes only while everything waits, on a fake in memory.
func inBubble(t *testing.T, test func(t *testing.T, fake *fakes3.Server, store *s3objects.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fake := fakes3.StartPipe(t)
		test(t, fake, open(t, fake))
	})
}

func put(t *testing.T, store *s3objects.Store, key, data string) {
	t.Helper()
	if err := store.Put(t.Context(), key, []byte(data)); err != nil {
		t.Fatalf("Put = %v", err)
	}
}

func want(t *testing.T, store *s3objects.Store, key, data string) {
	t.Helper()
	if got, err := store.Get(t.Context(), key, 0, -1); err != nil || string(got) != data {
		t.Errorf("Get = %.20q of %d bytes, %v; want %.20q of %d", got, len(got), err, data, len(data))
	}
}

func wantStored(t *testing.T, fake *fakes3.Server, key, data string) {
	t.Helper()
	if got, ok := fake.Object(prefix + "/" + key); !ok || string(got) != data {
		t.Errorf("stored is %.20q of %d bytes, %v; want %.20q of %d", got, len(got), ok, data, len(data))
	}
}

func wantCount(t *testing.T, fake *fakes3.Server, op fakes3.Op, n int) {
	t.Helper()
	if got := fake.Count(op); got != n {
		t.Errorf("%d requests %q, want %d", got, op, n)
	}
}

// wantError checks an error's text for what must be in it, and for what must never be.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not have %q in it", err, part)
		}
	}
	for _, part := range []string{"secret", "Signature", "://", prefix} {
		if strings.Contains(err.Error(), part) {
			t.Errorf("error %q has %q in it", err, part)
		}
	}
}

func randomPart() string { return strings.ToLower(rand.Text()) }
