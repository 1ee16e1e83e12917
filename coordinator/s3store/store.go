// Package s3store keeps heads and control records in a bucket, by conditional PUTs and nothing else. README.md says what it
// asks of a store, how things lie there, and why.
package s3store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/s3objects"
)

// Room is how much of a stream stays in its head (protocol 3). A PUT is billed and takes its time by the request, so that a
// head may be larger than where writes are billed by size; but every commit writes all of it.
var Room = coordinator.Room{
	MoveEntries: 64, MaxEntries: 256,
	InlineBatch: 8 << 10, MoveInline: 32 << 10, MaxInline: 64 << 10,
}

// MaxPrefixBytes bounds the prefix, so that the longest names of streams still fit into the keys of S3.
const MaxPrefixBytes = 120

// The errors of Open, beside ErrVersion and those of a probe.
var (
	// ErrForeign: something else lies below the prefix. Nothing was changed.
	ErrForeign = errors.New("the prefix holds something else")
	// ErrNoStore: the prefix was never used, and Options.Create is not set.
	ErrNoStore = errors.New("there is no store")
)

// Options say where the store is.
type Options struct {
	// Bucket is where and how; its prefix is at most MaxPrefixBytes long and is the store's alone.
	Bucket s3objects.Options
	// Create makes a store where there is none yet.
	Create bool
	// Trust takes a store that is there as it is: the bucket was probed when it was made.
	Trust bool
	// UsedOnce, if set, says of a part that nobody writes a row under the key of a deleted one, or minds if such a row goes.
	// Only then can the objects of deleted rows be removed; those of other parts stay, at some hundred bytes each.
	UsedOnce func(part string) bool
	// CacheBytes bounds the memory for states that were seen lately; 32 MiB.
	CacheBytes uint64
	Log        zerolog.Logger
}

// Store is a coordinator.Heads and a coordinator.Table. All methods may be called at once.
type Store struct {
	objects  *s3objects.Store
	heads    *registers[coordinator.Head]
	rows     *registers[storedRow]
	usedOnce func(part string) bool
	log      zerolog.Logger
	id       uuid.UUID
}

var (
	_ coordinator.Heads = (*Store)(nil)
	_ coordinator.Table = (*Store)(nil)
)

// Open returns the store in a bucket, after it has probed whether the bucket can hold one. Errors are ErrForeign, ErrNoStore,
// ErrVersion, and those of the object store: an answer that no store may give on which heads are safe is
// s3objects.ErrMisbehaves, and the error names the check that it failed.
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := dial(o)
	if err != nil {
		return nil, fmt.Errorf("open store of heads: %w", err)
	}
	if s.id, err = s.admit(ctx, o); err != nil {
		s.Close()
		return nil, fmt.Errorf("open store of heads in bucket %s: %w", o.Bucket.Bucket, err)
	}
	return s, nil
}

// admit finds out that the bucket is fit, and which store it holds.
func (s *Store) admit(ctx context.Context, o Options) (uuid.UUID, error) {
	if o.Trust {
		if id, err := s.readMarker(ctx); !errors.Is(err, segments.ErrObjectNotFound) {
			return id, err
		}
	}
	if err := s.Probe(ctx); err != nil {
		return uuid.UUID{}, err
	}
	return s.marker(ctx, o.Create)
}

func dial(o Options) (*Store, error) {
	if len(o.Bucket.Prefix) > MaxPrefixBytes {
		return nil, fmt.Errorf("prefix of %d bytes is longer than %d", len(o.Bucket.Prefix), MaxPrefixBytes)
	}
	if o.UsedOnce == nil {
		o.UsedOnce = func(string) bool { return false }
	}
	client, err := s3objects.Dial(o.Bucket)
	if err != nil {
		return nil, err
	}
	s := &Store{objects: s3objects.New(client), usedOnce: o.UsedOnce, log: o.Log}
	cache := cmp.Or(o.CacheBytes, 32<<20)
	s.heads, err = newRegisters(s.objects, headCodec, cache*3/4, true)
	if err == nil {
		s.rows, err = newRegisters(s.objects, rowCodec, cache/4, false)
	}
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return s, nil
}

// ID names the store's contents; it was drawn when the store was made.
func (s *Store) ID() uuid.UUID { return s.id }

// Stats counts what this process has done since the start.
type Stats struct {
	// Requests is all of them.
	Requests s3objects.Stats
	// HeadWrites is the conditional PUTs of heads that were sent, LostRaces those that another writer was faster than.
	HeadWrites, LostRaces uint64
}

// Stats returns what was counted so far.
func (s *Store) Stats() Stats {
	return Stats{Requests: s.objects.Stats(), HeadWrites: s.heads.writes.Load(), LostRaces: s.heads.lost.Load()}
}

// Close ends idle connections and the caches. No call may run or follow.
func (s *Store) Close() {
	s.heads.known.StopAllGoroutines()
	s.rows.known.StopAllGoroutines()
	_ = s.objects.Close()
}

// storeFormat is the version of what lies where. What is in the objects has versions of its own.
const storeFormat = 1

// marker is the content of the object that makes a prefix a store.
type marker struct {
	Version int       `json:"tailrace_heads"`
	ID      uuid.UUID `json:"id"`
}

// marker reads the id of the store, or makes one. Of several that do so at once, one wins, and its id is everybody's.
func (s *Store) marker(ctx context.Context, create bool) (uuid.UUID, error) {
	for range 2 {
		id, err := s.readMarker(ctx)
		if !errors.Is(err, segments.ErrObjectNotFound) {
			return id, err
		}
		if err := s.mustBeEmpty(ctx); err != nil {
			return uuid.UUID{}, err
		}
		if !create {
			return uuid.UUID{}, ErrNoStore
		}
		data, err := json.Marshal(marker{storeFormat, uuid.New()})
		if err != nil {
			return uuid.UUID{}, fmt.Errorf("encode marker: %w", err)
		}
		// Whatever becomes of it, what is there then is the marker.
		if _, err := s.objects.PutIf(ctx, markerKey, append(data, '\n'), ""); err != nil && judge(err) == refused {
			return uuid.UUID{}, fmt.Errorf("make store: %w", err)
		}
	}
	return s.readMarker(ctx)
}

func (s *Store) readMarker(ctx context.Context) (uuid.UUID, error) {
	data, err := s.objects.Get(ctx, markerKey, 0, -1)
	if err != nil {
		return uuid.UUID{}, fmt.Errorf("read marker: %w", err)
	}
	var m marker
	if err := json.Unmarshal(data, &m); err != nil || m.Version <= 0 || m.ID == (uuid.UUID{}) {
		return uuid.UUID{}, fmt.Errorf("the object %q is not a marker: %w", s.objects.Key(markerKey), ErrForeign)
	}
	if m.Version != storeFormat {
		return uuid.UUID{}, fmt.Errorf("the store has format %d, not %d: %w", m.Version, storeFormat, ErrVersion)
	}
	return m.ID, nil
}

func (s *Store) mustBeEmpty(ctx context.Context) error {
	found, err := s.objects.List(ctx, "", "", mostNames)
	if err != nil {
		return fmt.Errorf("look into the prefix: %w", err)
	}
	for _, info := range found {
		if !strings.HasPrefix(info.Key, probeFolder) && info.Key != markerKey {
			return fmt.Errorf("%q and no marker: choose a prefix that holds nothing: %w", s.objects.Key(info.Key), ErrForeign)
		}
	}
	return nil
}
