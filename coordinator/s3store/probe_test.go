package s3store

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-streams/tailrace/segments/s3objects"
	"github.com/tailrace-streams/tailrace/segments/s3objects/fakes3"
)

// onPipe is a fake in a bubble, with a store that has not been probed.
func onPipe(t *testing.T, test func(t *testing.T, fake *fakes3.Server, s *Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fake := fakes3.StartPipe(t)
		s := mustDial(t, onFake(fake))
		test(t, fake, s)
	})
}

func TestProbe(t *testing.T) {
	t.Parallel()
	onPipe(t, func(t *testing.T, fake *fakes3.Server, s *Store) {
		fake.SetObject(s.objects.Key("probe/CUTSHORT/a"), nil)
		time.Sleep(2 * time.Hour)
		fake.SetObject(s.objects.Key("probe/UNDERWAY/a"), nil)
		if err := s.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
		if keys := fake.Keys(); len(keys) != 1 || !strings.HasSuffix(keys[0], "probe/UNDERWAY/a") {
			t.Errorf("the probe has left %q", keys)
		}
		if n := fake.Count(""); n > 150 {
			t.Errorf("the probe made %d requests", n)
		}
	})
}

// Stores that are odd in ways that endanger nothing pass.
func TestProbeAccepts(t *testing.T) {
	t.Parallel()
	for name, quirks := range map[string]fakes3.Quirks{
		"412 for what is missing BL-094": {MissingIfMatch: 412},
		"conflicts BL-093":               {Conflicts: 2},
		"plain requests only BL-098":     {RefuseChunked: true, RefuseChecksums: true},
		"short pages":                    {PageKeys: 3},
		"one deletion at a time":         {NoDeleteMany: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onPipe(t, func(t *testing.T, fake *fakes3.Server, s *Store) {
				fake.SetQuirks(quirks)
				if err := s.Probe(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestProbeRefuses: every way of a store that endangers heads is refused by the name of a check, for good, and nothing is left.
func TestProbeRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		quirks fakes3.Quirks
		check  string
	}{
		"no conditions BL-095":              {fakes3.Quirks{IgnoreConditions: true}, "a second creator: If-None-Match is ignored"},
		"no If-None-Match BL-095":           {fakes3.Quirks{IgnoreIfNoneMatch: true}, "a second creator: If-None-Match is ignored"},
		"no If-Match BL-095":                {fakes3.Quirks{IgnoreIfMatch: true}, "a stale ETag: If-Match is ignored"},
		"If-Match makes what is not BL-094": {fakes3.Quirks{MissingIfMatch: 200}, "If-Match on a missing key: "},
		"both creators win":                 {fakes3.Quirks{BothCreatorsWin: true}, "racing creators: "},
		"both writers win":                  {fakes3.Quirks{BothWritersWin: true}, "racing writers: "},
		"no ETag BL-104":                    {fakes3.Quirks{NoETag: true}, "a second creator: the answer to a write has no strong ETag"},
		"weak ETags":                        {fakes3.Quirks{WeakETags: true}, "no strong ETag"},
		"one ETag for all":                  {fakes3.Quirks{OneETag: true}, "a stale ETag: two states have the same ETag"},
		"stale reads BL-104":                {fakes3.Quirks{StaleGets: true}, "a stale ETag: a read shows something else"},
		"stale listings":                    {fakes3.Quirks{StaleLists: true}, "the order of a listing: "},
		"listings by folder":                {fakes3.Quirks{FolderOrder: true}, ""}, // names are such that both orders are one
		"listings from the front":           {fakes3.Quirks{IgnoreStartAfter: true}, "the order of a listing: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onPipe(t, func(t *testing.T, fake *fakes3.Server, s *Store) {
				fake.SetQuirks(c.quirks)
				err := s.Probe(t.Context())
				if c.check == "" {
					if err != nil {
						t.Errorf("Probe = %v", err)
					}
					return
				}
				if !errors.Is(err, s3objects.ErrMisbehaves) || errors.Is(err, s3objects.ErrUnavailable) || !strings.Contains(err.Error(), c.check) {
					t.Errorf("Probe = %v, want %q", err, c.check)
				}
				fake.SetQuirks(fakes3.Quirks{})
				if keys := fake.Keys(); len(keys) != 0 {
					t.Errorf("the probe has left %q", keys)
				}
			})
		})
	}
}

// What somebody has to mend is told apart from what passes.
func TestProbeFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault     fakes3.Fault
		temporary bool
		says      string
	}{
		"no bucket":  {fakes3.Fault{Status: 404, Code: "NoSuchBucket"}, false, "NoSuchBucket"},
		"no writing": {fakes3.Fault{Status: 403, Code: "AccessDenied"}, false, "AccessDenied"},
		"throttled":  {fakes3.Fault{Status: 503, Code: "SlowDown"}, true, "SlowDown"},
		"broken":     {fakes3.Fault{Status: 500, Code: "InternalError"}, true, "InternalError"},
		"cut":        {fakes3.Fault{Reset: true}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onPipe(t, func(t *testing.T, fake *fakes3.Server, s *Store) {
				fake.On(fakes3.Always(fakes3.Is(fakes3.OpPut), c.fault))
				err := s.Probe(t.Context())
				if err == nil || errors.Is(err, s3objects.ErrUnavailable) != c.temporary || errors.Is(err, s3objects.ErrMisbehaves) ||
					!strings.Contains(err.Error(), c.says) {
					t.Errorf("Probe = %v", err)
				}
			})
		})
	}
}
