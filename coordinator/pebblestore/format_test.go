package pebblestore_test

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/pebblestore"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
)

var updateGolden = flag.Bool("update", false, "rewrite the golden files of this package")

func TestReopen(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b") // made on the way
	s, err := pebblestore.Open(dir, pebblestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h, id := create(t, s), s.ID()
	h, err = s.Commit(t.Context(), h.Stream, record(1, 10))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pebblestore.Open(dir, pebblestore.Options{}); err == nil {
		t.Error("opened twice at once")
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatalf("Close: %v", err)
	}
	_, err = s.Commit(t.Context(), h.Stream, record(1, 10))
	if !errors.Is(err, pebblestore.ErrClosed) || !errors.Is(err, coordinator.ErrNotApplied) {
		t.Errorf("a commit after Close: %v", err)
	}
	s, err = pebblestore.Open(dir, pebblestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, err := s.Load(t.Context(), h.Stream); err != nil || !storetest.Equal(got, h) || s.ID() != id {
		t.Errorf("after reopening: %v, store %v, want %v\n%+v", err, s.ID(), id, got)
	}
}

func TestRefusesForeignFolders(t *testing.T) {
	t.Parallel()
	formatKey := []byte("\x00tailrace")
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, dir string)
		want    error
	}{
		"files of a user":        {func(t *testing.T, dir string) { write(t, dir, "thesis.txt") }, pebblestore.ErrForeign},
		"another database":       {func(t *testing.T, dir string) { withDB(t, dir, []byte("k"), []byte("v")) }, pebblestore.ErrForeign},
		"format of another kind": {func(t *testing.T, dir string) { withDB(t, dir, formatKey, []byte("v")) }, pebblestore.ErrCorrupt},
		"newer version": {func(t *testing.T, dir string) {
			withDB(t, dir, formatKey, []byte("\x00\x00\x00\x020123456789abcdef"))
		}, pebblestore.ErrVersion},
		"longer format record": {func(t *testing.T, dir string) {
			withDB(t, dir, formatKey, []byte("\x00\x00\x00\x010123456789abcdefg"))
		}, pebblestore.ErrCorrupt},
		"empty folder":   {func(*testing.T, string) {}, nil},
		"empty database": {func(t *testing.T, dir string) { withDB(t, dir, nil, nil) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			tc.prepare(t, dir)
			before := tree(t, dir)
			s, err := pebblestore.Open(dir, pebblestore.Options{})
			if !errors.Is(err, tc.want) {
				t.Fatalf("Open: %v, want %v", err, tc.want)
			}
			if s != nil {
				defer s.Close()
			} else if after := tree(t, dir); after != before {
				t.Errorf("the folder was changed from\n%s to\n%s", before, after)
			}
		})
	}
}

func write(t *testing.T, dir, name string) {
	if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func withDB(t *testing.T, dir string, key, value []byte) {
	db, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatMinSupported, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	if key != nil {
		err = db.Set(key, value, pebble.Sync)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

type quiet struct{}

func (quiet) Infof(string, ...any)           {}
func (quiet) Errorf(string, ...any)          {}
func (quiet) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

// tree lists the files of a folder with sizes. Locking leaves an empty file.
func tree(t *testing.T, dir string) string {
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if f.Name() != "LOCK" {
			fmt.Fprintf(&b, "%s %d\n", f.Name(), info.Size())
		}
	}
	return b.String()
}

// A crash while the store is made for the first time leaves a folder that can be opened.
func TestCrashDuringCreation(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 0))
		mem := vfs.NewCrashableMem()
		s := openOn(t, mem, pebblestore.Options{})
		crashed := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		again := openOn(t, crashed, pebblestore.Options{})
		if again.ID() != s.ID() {
			t.Errorf("seed %d: another store", seed)
		}
		if err := errors.Join(s.Close(), again.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestLayout holds what lies in the database against a golden file: every kind of key and value.
func TestLayout(t *testing.T) {
	t.Parallel()
	s := open(t, pebblestore.Options{FS: vfs.NewMem()})
	h := coordinator.Head{
		V: 1, State: coordinator.Active, Basin: segments.BasinID(fill(0x10)), Stream: segments.StreamID(fill(0x20)),
		Config: coordinator.DefaultStreamConfig(), CreatedAt: 300,
	}
	if err := s.Create(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(3) {
		c := record(1, 2)
		c.Entries[0].ID = segments.EntryID{Object: segments.ObjectID(fill(byte(0x30 + i))), Attempt: 7}
		if _, err := s.Commit(t.Context(), h.Stream, c); err != nil {
			t.Fatal(err)
		}
	}
	h, err := s.Load(t.Context(), h.Stream)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Splice(t.Context(), h.Stream, &coordinator.Splice{Retire: &coordinator.Retire{
		Old: h.Log[:1], NewBase: 1, Horizon: segments.MaxLabel, MinLabel: segments.MaxLabel,
	}}); err != nil {
		t.Fatal(err)
	}
	row := coordinator.Row{
		Key:   coordinator.Key{Part: "part", Sort: "sort\x00\xff"},
		Value: []byte("value"), ID: coordinator.OpID(fill(0x50)),
	}
	if _, err := s.Put(t.Context(), row, 0); err != nil {
		t.Fatal(err)
	}
	got := dump(t, s)
	path := filepath.Join("testdata", "layout.txt")
	if *updateGolden {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("%v: the store holds\n%s, want\n%s", err, got, want)
	}
}

func fill(b byte) (id [16]byte) {
	for i := range id {
		id[i] = b + byte(i)
	}
	return id
}

// dump lists keys and values in hex; the store's id is drawn at random and left out.
func dump(t *testing.T, s *pebblestore.Store) string {
	it, err := s.DB().NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	var b strings.Builder
	for it.First(); it.Valid(); it.Next() {
		id := s.ID()
		value := strings.ReplaceAll(hex.EncodeToString(it.Value()), hex.EncodeToString(id[:]), "STORE-ID")
		fmt.Fprintf(&b, "%x\n  %s\n", it.Key(), value)
	}
	return b.String()
}

// What does not belong together is found when a head is read, and nothing is made of it.
func TestCorruption(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(db *pebble.DB, key []byte) error{
		"an entry is missing": func(db *pebble.DB, key []byte) error { return db.Delete(key, pebble.NoSync) },
		"an entry is cut":     func(db *pebble.DB, key []byte) error { return db.Set(key, []byte{0x10}, pebble.NoSync) },
		"an entry has more records": func(db *pebble.DB, key []byte) error {
			return alter(db, key, func(e *segments.Entry) { e.N++ })
		},
		"an entry has more bytes": func(db *pebble.DB, key []byte) error {
			return alter(db, key, func(e *segments.Entry) { e.Data = append([]byte("more"), e.Data...) })
		},
		"one entry too many": func(db *pebble.DB, key []byte) error { return db.Set(append(key, 0), nil, pebble.NoSync) },
		"the head is too short": func(db *pebble.DB, key []byte) error {
			return db.Set(append([]byte("h"), key[1:17]...), []byte("x"), pebble.NoSync)
		},
		"the head is another": func(db *pebble.DB, key []byte) error {
			return db.Set(append([]byte("h"), key[1:17]...), make([]byte, 60), pebble.NoSync)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, pebblestore.Options{FS: vfs.NewMem(), HeadCacheBytes: 1})
			h := create(t, s)
			for i := range 3 {
				if _, err := s.Commit(t.Context(), h.Stream, record(segments.Label(i+1), 3)); err != nil {
					t.Fatal(err)
				}
			}
			s.CleanUpCache()
			key := append(append([]byte("e"), h.Stream[:]...), 0, 0, 0, 0, 0, 0, 0, 1)
			if err := spoil(s.DB(), key); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Load(t.Context(), h.Stream); !errors.Is(err, pebblestore.ErrCorrupt) {
				t.Errorf("Load: %v, want ErrCorrupt", err)
			}
			_, err := s.Commit(t.Context(), h.Stream, record(9, 3))
			if !errors.Is(err, pebblestore.ErrCorrupt) || !errors.Is(err, coordinator.ErrNotApplied) {
				t.Errorf("Commit: %v, want ErrCorrupt and ErrNotApplied", err)
			}
		})
	}
}

// alter stores an entry that is good by itself but not the one that the head counted.
func alter(db *pebble.DB, key []byte, change func(*segments.Entry)) error {
	value, closer, err := db.Get(key)
	if err != nil {
		return err
	}
	e, err := coordinator.DecodeEntry(append([]byte(nil), value...))
	if err != nil {
		return err
	}
	change(&e)
	return errors.Join(closer.Close(), db.Set(key, coordinator.AppendEntry(nil, &e), pebble.NoSync))
}

// The log has no data in it, and Pebble's chatter only at debug level.
func TestLogging(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	s := open(t, pebblestore.Options{FS: vfs.NewMem(), Log: zerolog.New(&b).Level(zerolog.InfoLevel)})
	row := coordinator.Row{Key: coordinator.Key{Part: "tokens", Sort: "secret-name"}, Value: []byte("secret-value")}
	if _, err := s.Put(t.Context(), row, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.DB().Flush(); err != nil {
		t.Fatal(err)
	}
	if b.Len() != 0 {
		t.Errorf("logged: %s", b.String())
	}
}
