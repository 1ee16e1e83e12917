package pebblestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"regexp"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/segments"
)

// pebbleOptions suit a small machine: at most 4 memtables of 4 MiB and a block cache of 8 MiB, since both stay when all
// streams are idle. The log takes about 30 MiB of the disk, whatever is stored: Pebble keeps five files of a memtable's
// size for reuse. Larger memtables would save little, as most of what a commit writes is replaced by the next one or
// moved away within the same memtable. The format is pinned, so that a new version of the library does not make stores
// that the last release cannot open.
func (s *Store) pebbleOptions(fs vfs.FS) *pebble.Options {
	o := &pebble.Options{
		FS:                          fs,
		FormatMajorVersion:          pebble.FormatTableFormatV6,
		MemTableSize:                4 << 20,
		MemTableStopWritesThreshold: 4,
		CacheSize:                   8 << 20,
		Logger:                      &logger{s},
		EventListener: &pebble.EventListener{
			// Pebble tries again by itself: a flush that failed left its log in place.
			BackgroundError: func(err error) { s.log.Error().Err(err).Msg("background work of the store failed") },
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				s.fail(fmt.Errorf("%w: %s: %w", ErrCorrupt, info.Path, info.Details))
			},
		},
	}
	// Filters answer Create and Put, which look for what is mostly not there, without reading a block.
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return o
}

// logger hands Pebble's messages to zerolog.
type logger struct{ s *Store }

func (l *logger) Infof(format string, args ...any) { l.s.log.Debug().Msgf("pebble: "+format, args...) }

func (l *logger) Errorf(format string, args ...any) { l.s.log.Error().Msgf("pebble: "+format, args...) }

// Fatalf must not return: Pebble would go on as if the write had succeeded. In a commit the panic ends as ErrUnknown;
// in work of Pebble's own it ends the process, with the reason in the log before it.
func (l *logger) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	l.s.fail(err)
	panic(err)
}

// ownFiles are the names Pebble gives to files; what it left of a creation cut short has no others.
var ownFiles = regexp.MustCompile(`^(LOCK|CURRENT|MANIFEST-\d+|OPTIONS-\d+|marker\..*|\d+\.(log|sst|blob|dbtmp)|temporary\..*\.dbtmp)$`)

// checkFolder returns ErrForeign or ErrVersion before anything in the folder is changed. An existing database is
// opened read-only for it, since opening it to write would rewrite another program's files.
func checkFolder(dir string, fs vfs.FS) error {
	names, err := fs.List(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if !ownFiles.MatchString(name) {
			return fmt.Errorf("%w: it holds %q", ErrForeign, name)
		}
	}
	found, err := pebble.Peek(dir, fs)
	if err != nil {
		return err
	}
	if !found.Exists {
		return nil
	}
	quiet := &Store{log: zerolog.Nop(), failed: make(chan struct{})}
	o := quiet.pebbleOptions(fs)
	o.ReadOnly = true
	db, err := pebble.Open(dir, o)
	if err != nil {
		return err
	}
	_, _, err = format(db)
	return errors.Join(err, db.Close())
}

// format reads the format record; ok is false for a store that was never used. Keys without one are ErrForeign.
func format(db *pebble.DB) (id uuid.UUID, ok bool, err error) {
	value, closer, err := db.Get(formatKey)
	if err == nil {
		id, err = decodeFormat(value)
		return id, err == nil, errors.Join(err, closer.Close())
	}
	if !errors.Is(err, pebble.ErrNotFound) {
		return id, false, err
	}
	it, err := db.NewIter(nil)
	if err != nil {
		return id, false, err
	}
	if it.First() {
		err = fmt.Errorf("%w: it is another program's database", ErrForeign)
	}
	return id, false, errors.Join(err, it.Error(), it.Close())
}

// initialize writes the format record of a new store, and returns the store's id.
func initialize(db *pebble.DB) (uuid.UUID, error) {
	id, ok, err := format(db)
	if err != nil || ok {
		return id, err
	}
	id, err = uuid.NewRandom()
	if err != nil {
		return id, err
	}
	return id, db.Set(formatKey, appendFormat(nil, id), pebble.Sync)
}

// slotOf reads the slot out of an entry's key.
func slotOf(key []byte) (uint64, error) {
	const prefix = 1 + len(segments.StreamID{})
	if len(key) != prefix+8 {
		return 0, fmt.Errorf("%w: entry key of %d bytes", ErrCorrupt, len(key))
	}
	return binary.BigEndian.Uint64(key[prefix:]), nil
}

// MemFS is a file system in memory, for Options.FS in tests that need this store's ways without its disk.
func MemFS() vfs.FS { return vfs.NewMem() }
