package tenancy

import (
	"reflect"
	"testing"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// leaf is one leaf of the configuration, in everything that can be said of it.
type leaf struct {
	name  string
	set   func(*Settings)        // to a value that is not the system's default
	zero  func(*Settings)        // to the explicit zero, nil if zero is refused or is no value
	null  func(*Patch)           // resets
	value func(*Patch, Settings) // sets to what the settings have
	get   func(coordinator.StreamConfig) any
}

func leaves() []leaf {
	return []leaf{
		{
			"storage_class", func(s *Settings) { s.StorageClass = ptr(coordinator.Standard) }, nil,
			func(p *Patch) { p.StorageClass = Null[coordinator.StorageClass]() },
			func(p *Patch, s Settings) { p.StorageClass = Value(*s.StorageClass) },
			func(c coordinator.StreamConfig) any { return c.StorageClass },
		},
		{
			"retention", func(s *Settings) { s.Retention = &Retention{Age: 60} },
			func(s *Settings) { s.Retention = &Retention{Infinite: true} },
			func(p *Patch) { p.Retention = Null[Retention]() },
			func(p *Patch, s Settings) { p.Retention = Value(*s.Retention) },
			func(c coordinator.StreamConfig) any { return c.RetentionAge },
		},
		{
			"timestamping.mode", func(s *Settings) { s.TimestampingMode = ptr(coordinator.ClientRequire) }, nil,
			func(p *Patch) { p.TimestampingMode = Null[coordinator.TimestampingMode]() },
			func(p *Patch, s Settings) { p.TimestampingMode = Value(*s.TimestampingMode) },
			func(c coordinator.StreamConfig) any { return c.Timestamping },
		},
		{
			"timestamping.uncapped", func(s *Settings) { s.Uncapped = ptr(true) },
			func(s *Settings) { s.Uncapped = ptr(false) },
			func(p *Patch) { p.Uncapped = Null[bool]() },
			func(p *Patch, s Settings) { p.Uncapped = Value(*s.Uncapped) },
			func(c coordinator.StreamConfig) any { return c.Uncapped },
		},
		{
			"delete_on_empty", func(s *Settings) { s.DeleteOnEmptyMinAge = ptr(uint64(60)) },
			func(s *Settings) { s.DeleteOnEmptyMinAge = ptr(uint64(0)) },
			func(p *Patch) { p.DeleteOnEmptyMinAge = Null[uint64]() },
			func(p *Patch, s Settings) { p.DeleteOnEmptyMinAge = Value(*s.DeleteOnEmptyMinAge) },
			func(c coordinator.StreamConfig) any { return c.DeleteOnEmptyMinAge },
		},
		{
			"fencing", func(s *Settings) { s.Fencing = ptr(coordinator.Exclusive) },
			func(s *Settings) { s.Fencing = ptr(coordinator.Cooperative) },
			func(p *Patch) { p.Fencing = Null[coordinator.FencingMode]() },
			func(p *Patch, s Settings) { p.Fencing = Value(*s.Fencing) },
			func(c coordinator.StreamConfig) any { return c.Fencing },
		},
	}
}

// TestStreamLeaves is the table of BL-089 for streams: absent, null, zero and a value, by POST, PUT and PATCH, over a
// basin that has a default for the leaf or not.
func TestStreamLeaves(t *testing.T) {
	t.Parallel()
	system := coordinator.DefaultStreamConfig()
	for _, l := range leaves() {
		var set, zero Settings
		l.set(&set)
		if l.zero != nil {
			l.zero(&zero)
		}
		for _, basin := range []struct {
			name  string
			given Settings
		}{{"no default", Settings{}}, {"default", set}} {
			inherited := l.get(basin.given.over(system))
			for _, said := range []struct {
				name string
				s    Settings
				want any
			}{
				{"absent", Settings{}, inherited},
				{"value", set, l.get(set.over(system))},
				{"zero", zero, l.get(zero.over(coordinator.StreamConfig(basin.given.over(system))))},
			} {
				t.Run(l.name+"/"+basin.name+"/"+said.name, func(t *testing.T) {
					t.Parallel()
					_, d := withBasin(t, BasinConfig{DefaultStream: basin.given})
					want := func(stream string, want any) {
						t.Helper()
						_, c, err := d.GetStream(t.Context(), theBasin, stream)
						must(t, err)
						if got := l.get(c); got != want {
							t.Errorf("%s has %v, want %v", stream, got, want)
						}
					}
					for _, name := range []string{"post", "patch", "null"} {
						_, _, err := d.CreateStream(t.Context(), theBasin, name, said.s, "")
						must(t, err)
						want(name, said.want)
					}
					_, _, err := d.EnsureStream(t.Context(), theBasin, "put", said.s)
					must(t, err)
					want("put", said.want)

					// PUT with nothing resets all but fencing.
					_, _, err = d.EnsureStream(t.Context(), theBasin, "put", Settings{})
					must(t, err)
					if l.name == "fencing" {
						want("put", said.want)
					} else {
						want("put", inherited)
					}

					// PATCH: absent keeps, null takes the basin's current default, a value sets.
					_, _, err = d.ReconfigureStream(t.Context(), theBasin, "patch", Patch{})
					must(t, err)
					want("patch", said.want)
					var patch Patch
					l.value(&patch, set)
					_, c, err := d.ReconfigureStream(t.Context(), theBasin, "patch", patch)
					must(t, err)
					if l.get(c) != l.get(set.over(system)) {
						t.Errorf("patched to %v", l.get(c))
					}
					if l.zero != nil {
						l.value(&patch, zero)
						_, _, err = d.ReconfigureStream(t.Context(), theBasin, "patch", patch)
						must(t, err)
						want("patch", l.get(zero.over(system)))
					}
					patch = Patch{}
					l.null(&patch)
					_, _, err = d.ReconfigureStream(t.Context(), theBasin, "null", patch)
					must(t, err)
					want("null", inherited)
					_, _, err = d.ReconfigureBasin(t.Context(), theBasin, BasinPatch{DefaultStream: NullPatch()})
					must(t, err)
					want("null", inherited) // a change of the defaults does not touch streams
					_, _, err = d.ReconfigureStream(t.Context(), theBasin, "null", patch)
					must(t, err)
					want("null", l.get(system))
				})
			}
		}
	}
}

// TestBasinLeaves is the table of BL-089 for a basin's defaults, where what is unset stays unset.
func TestBasinLeaves(t *testing.T) {
	t.Parallel()
	for _, l := range leaves() {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			var set, zero Settings
			l.set(&set)
			_, d := withBasin(t, BasinConfig{DefaultStream: set})
			want := func(want Settings) {
				t.Helper()
				_, c, err := d.GetBasin(t.Context(), theBasin)
				must(t, err)
				if !reflect.DeepEqual(c.DefaultStream, want) {
					t.Errorf("got %s, want %s", asJSON(c.DefaultStream), asJSON(want))
				}
			}
			patch := func(f func(*Patch)) {
				t.Helper()
				var p BasinPatch
				f(&p.DefaultStream)
				_, _, err := d.ReconfigureBasin(t.Context(), theBasin, p)
				must(t, err)
			}
			want(set)
			patch(func(*Patch) {})
			want(set)
			if l.zero != nil {
				l.zero(&zero)
				patch(func(p *Patch) { l.value(p, zero) })
				want(zero)
			}
			patch(l.null)
			want(Settings{})
			patch(func(p *Patch) { l.value(p, set) })
			want(set)
			_, outcome, err := d.EnsureBasin(t.Context(), theBasin, "", BasinConfig{})
			must(t, err)
			if l.name == "fencing" {
				want(set)
				if outcome != Noop {
					t.Errorf("outcome %q", outcome)
				}
			} else {
				want(Settings{})
				if outcome != Updated {
					t.Errorf("outcome %q", outcome)
				}
			}
		})
	}
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	_, d := withBasin(t, BasinConfig{StreamCipher: "aegis-256"})
	ctx := t.Context()
	_, _, err := d.CreateStream(ctx, theBasin, "one", Settings{}, "")
	must(t, err)
	bad := []Settings{
		{Retention: &Retention{}},
		{Retention: &Retention{Age: 1, Infinite: true}},
		{StorageClass: ptr(coordinator.StorageClass("tape"))},
		{TimestampingMode: ptr(coordinator.TimestampingMode("lunar"))},
		{Fencing: ptr(coordinator.FencingMode("picket"))},
	}
	patches := []Patch{
		{Retention: Value(Retention{})}, {Retention: Value(Retention{Age: 1, Infinite: true})},
		{StorageClass: Value(coordinator.StorageClass("tape"))},
		{TimestampingMode: Value(coordinator.TimestampingMode("lunar"))},
		{Fencing: Value(coordinator.FencingMode("picket"))},
	}
	for i, s := range bad {
		_, _, err := d.CreateStream(ctx, theBasin, "two", s, "")
		wantInvalid(t, err)
		_, _, err = d.EnsureStream(ctx, theBasin, "one", s)
		wantInvalid(t, err)
		_, _, err = d.ReconfigureStream(ctx, theBasin, "one", patches[i])
		wantInvalid(t, err)
		_, _, err = d.CreateBasin(ctx, "two-basin", "", BasinConfig{DefaultStream: s}, "")
		wantInvalid(t, err)
		_, _, err = d.EnsureBasin(ctx, theBasin, "", BasinConfig{DefaultStream: s})
		wantInvalid(t, err)
		_, _, err = d.ReconfigureBasin(ctx, theBasin, BasinPatch{DefaultStream: patches[i]})
		wantInvalid(t, err)
	}
	_, _, err = d.CreateBasin(ctx, "two-basin", "", BasinConfig{StreamCipher: "rot-13"}, "")
	wantInvalid(t, err)
	_, _, err = d.ReconfigureBasin(ctx, theBasin, BasinPatch{StreamCipher: Value("rot-13")})
	wantInvalid(t, err)
	for _, name := range []string{"", "\xff"} {
		_, _, err = d.CreateBasin(ctx, name, "", BasinConfig{}, "")
		wantInvalid(t, err)
		_, _, err = d.CreateStream(ctx, theBasin, name, Settings{}, "")
		wantInvalid(t, err)
		_, err = d.Resolve(ctx, theBasin, name, Append)
		wantInvalid(t, err)
		_, err = d.Resolve(ctx, name, "one", Append)
		wantInvalid(t, err)
	}
}

// TestCipher: a stream keeps the cipher of its creation; a basin keeps what it has though the server lost it.
func TestCipher(t *testing.T) {
	t.Parallel()
	w, d := withBasin(t, BasinConfig{StreamCipher: "aegis-256"})
	ctx := t.Context()
	_, _, err := d.CreateStream(ctx, theBasin, "one", Settings{}, "")
	must(t, err)
	plain := w.directory()
	plain.Ciphers = nil
	_, _, err = plain.ReconfigureBasin(ctx, theBasin, BasinPatch{CreateOnRead: ptr(true)})
	must(t, err)
	_, _, err = d.ReconfigureBasin(ctx, theBasin, BasinPatch{StreamCipher: Null[string]()})
	must(t, err)
	_, _, err = d.CreateStream(ctx, theBasin, "two", Settings{}, "")
	must(t, err)
	_, _, err = d.EnsureStream(ctx, theBasin, "one", Settings{Uncapped: ptr(true)})
	must(t, err)
	page, err := d.ListStreams(ctx, theBasin, "", "", 0)
	must(t, err)
	if len(page.Streams) != 2 || page.Streams[0].Cipher != "aegis-256" || page.Streams[1].Cipher != "" {
		t.Errorf("ciphers of %+v", page.Streams)
	}
}
