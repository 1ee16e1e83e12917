package s3objects_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/segments/s3objects"
	"github.com/tailrace-streams/tailrace/segments/s3objects/fakes3"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
		fake.SetObject(prefix+"/probe/CUTSHORT/a", nil)
		time.Sleep(2 * time.Hour)
		fake.SetObject(prefix+"/probe/UNDERWAY/a", nil)
		before := fake.Count("")
		if err := store.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := fake.Keys(), []string{prefix + "/probe/UNDERWAY/a"}; !slices.Equal(got, want) {
			t.Errorf("the probe has left %q, want %q", got, want)
		}
		if n := fake.Count("") - before; n > 12 {
			t.Errorf("the probe made %d requests", n)
		}
	})
}

// TestProbeRefuses names the step and the reason, tells what is for a person to put right, and leaves nothing.
func TestProbeRefuses(t *testing.T) {
	t.Parallel()
	denied := fakes3.Fault{Status: 403, Code: "AccessDenied"}
	for name, c := range map[string]struct {
		quirks     fakes3.Quirks
		rule       fakes3.Rule
		parts      []string
		misbehaves bool
	}{
		"no bucket":      {rule: fakes3.Always(fakes3.Any, fakes3.Fault{Status: 404, Code: "NoSuchBucket"}), parts: []string{"write: ", "NoSuchBucket"}},
		"wrong keys":     {rule: fakes3.Always(fakes3.Any, fakes3.Fault{Status: 403, Code: "InvalidAccessKeyId"}), parts: []string{"InvalidAccessKeyId"}},
		"no writing":     {rule: fakes3.Always(fakes3.Is(fakes3.OpPut), denied), parts: []string{"write: ", "AccessDenied"}},
		"no reading":     {rule: fakes3.Always(fakes3.Is(fakes3.OpGet), denied), parts: []string{"read: ", "AccessDenied"}},
		"no listing":     {rule: fakes3.Always(fakes3.Is(fakes3.OpList), denied), parts: []string{"list: ", "AccessDenied"}},
		"absence hidden": {quirks: fakes3.Quirks{HideMissing: true}, parts: []string{"s3:ListBucket", "AccessDenied"}},
		"no ranges":      {quirks: fakes3.Quirks{IgnoreRange: true}, misbehaves: true},
		"odd order":      {quirks: fakes3.Quirks{FolderOrder: true}, parts: []string{"list: "}, misbehaves: true},
		"no start":       {quirks: fakes3.Quirks{IgnoreStartAfter: true}, misbehaves: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
				fake.SetQuirks(c.quirks)
				fake.On(c.rule)
				err := store.Probe(t.Context())
				wantError(t, err, append(c.parts, "probe bucket bucket: ")...)
				if errors.Is(err, s3objects.ErrUnavailable) || errors.Is(err, s3objects.ErrMisbehaves) != c.misbehaves {
					t.Errorf("Probe = %v", err)
				}
				if keys := fake.Keys(); len(keys) != 0 {
					t.Errorf("the probe has left %q", keys)
				}
			})
		})
	}
	inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
		fake.On(fakes3.Always(fakes3.Is(fakes3.OpDelete, fakes3.OpDeleteMany), denied))
		wantError(t, store.Probe(t.Context()), "delete: ", "AccessDenied")
	})
}

// TestProbeFindsLyingDeletes: a store that says many are deleted, and keeps them, is asked for one at a time from then on.
func TestProbeFindsLyingDeletes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
		fake.SetQuirks(fakes3.Quirks{LieOnDelete: true})
		if err := store.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantCount(t, fake, fakes3.OpDeleteMany, 1)
		if failed := store.Delete(t.Context(), putMany(t, store, 5)); failed != nil {
			t.Errorf("Delete = %v", failed)
		}
		if keys := fake.Keys(); len(keys) != 0 {
			t.Errorf("left are %q", keys)
		}
		wantCount(t, fake, fakes3.OpDeleteMany, 1)
	})
}

// TestBL101 starts while the store throttles everything for a minute: each probe says that it is worth another, and the
// first one after that minute passes.
func TestBL101(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, fake *fakes3.Server, store *s3objects.Store) {
		start := time.Now()
		fake.On(func(fakes3.Request) fakes3.Fault {
			if time.Since(start) < time.Minute {
				return fakes3.Fault{Status: 503, Code: "SlowDown"}
			}
			return fakes3.Fault{}
		})
		probes := 0
		for ; ; probes++ {
			err := store.Probe(t.Context())
			if err == nil {
				break
			}
			if !errors.Is(err, s3objects.ErrUnavailable) {
				t.Fatalf("Probe = %v", err)
			}
		}
		if took := time.Since(start); took < time.Minute || took > 70*time.Second || probes == 0 {
			t.Errorf("the probe passed after %v and %d failures", took, probes)
		}
		put(t, store, "k", "data")
	})
}
