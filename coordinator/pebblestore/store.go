// Package pebblestore keeps heads and control records in one folder on the local disk, with fsync before every
// answer. README.md gives the layout and the reasons.
package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"github.com/maypok86/otter/v2"
	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// Room is how much of a stream stays in its head. More than in a store that rewrites the whole head at each commit:
// here a commit writes its own entries only (see README.md).
var Room = coordinator.Room{
	MoveEntries: 256, MaxEntries: 1024,
	InlineBatch: 16 << 10, MoveInline: 128 << 10, MaxInline: 4 << 20,
}

// The errors of Open and of a store that cannot go on.
var (
	// ErrForeign: the folder holds something that this package did not write. Nothing in it was changed.
	ErrForeign = errors.New("the folder is not a store of this service")
	// ErrVersion: the store is of a format that this build does not know. Nothing in it was changed.
	ErrVersion = errors.New("the store has an unknown format version")
	// ErrCorrupt: what is stored contradicts itself.
	ErrCorrupt = errors.New("the store is corrupt")
	// ErrFailed: a write failed in a way that leaves open what a restart will find. Every call from then on fails;
	// the process must end and the folder be opened anew.
	ErrFailed = errors.New("the store failed and must be reopened")
	// ErrClosed: the call came after Close.
	ErrClosed = errors.New("the store is closed")
)

// Options are what a store is opened with; the zero value is good for use.
type Options struct {
	// FS is the file system, the operating system's if nil.
	FS vfs.FS
	// Log gets Pebble's messages at debug level, and failures at error level.
	Log zerolog.Logger
	// HeadCacheBytes bounds the memory of the cache of hot heads; 0 means 128 MiB.
	HeadCacheBytes uint64
}

// Store is a coordinator.Heads and a coordinator.Table. A call that returns nil is on the disk, and nobody sees an
// effect before it is. Writes answer ErrUnknown when their context ends, or the disk fails, while they are being
// synced; every other error of a write is definite.
type Store struct {
	db  *pebble.DB
	id  uuid.UUID
	log zerolog.Logger

	hot       *otter.Cache[segments.StreamID, *cell]
	headLocks stripes
	rowLocks  stripes
	// rowsInFlight counts rows that a listing may see though they are not yet durable.
	rowsInFlight atomic.Int64

	failure  error // set before failed is closed
	failOnce sync.Once
	failed   chan struct{}

	mu     sync.RWMutex // closed, and calls.Add against it
	closed bool
	calls  sync.WaitGroup
}

var (
	_ coordinator.Heads = (*Store)(nil)
	_ coordinator.Table = (*Store)(nil)
)

// Open opens the store in dir, and makes one if dir is empty or not there. One process at a time can have it open.
// Errors are ErrForeign, ErrVersion, or those of the file system.
func Open(dir string, opts Options) (*Store, error) {
	if opts.FS == nil {
		opts.FS = vfs.Default
	}
	if opts.HeadCacheBytes == 0 {
		opts.HeadCacheBytes = 128 << 20
	}
	s := &Store{
		log:       opts.Log,
		headLocks: newStripes(4096),
		rowLocks:  newStripes(1024),
		failed:    make(chan struct{}),
	}
	var err error
	s.hot, err = otter.New(&otter.Options[segments.StreamID, *cell]{
		MaximumWeight: opts.HeadCacheBytes, Weigher: weigh, ExpiryCalculator: lifetimes{},
	})
	if err != nil {
		return nil, fmt.Errorf("make head cache: %w", err)
	}
	if err := checkFolder(dir, opts.FS); err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	s.db, err = pebble.Open(dir, s.pebbleOptions(opts.FS))
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	if s.id, err = initialize(s.db); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", dir, err), s.db.Close())
	}
	return s, nil
}

// ID names the store; it was drawn when the store was made.
func (s *Store) ID() uuid.UUID { return s.id }

// Failed is closed when the store has failed (ErrFailed). A process should then end.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Close waits for the calls that are under way and closes the files. Calls that come later fail. A store that has
// failed is left as it is, its folder locked until the process ends: Pebble may not come back from its own Close.
func (s *Store) Close() error {
	s.mu.Lock()
	already := s.closed
	s.closed = true
	s.mu.Unlock()
	if already {
		return nil
	}
	s.hot.StopAllGoroutines()
	done := make(chan struct{})
	go func() {
		s.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-s.failed:
	}
	if err := s.err(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// begin lets a call in; s.calls.Done ends it.
func (s *Store) begin(ctx context.Context) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return ErrClosed
	}
	if err := s.err(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.calls.Add(1)
	return nil
}

// err is not nil once the store has failed.
func (s *Store) err() error {
	select {
	case <-s.failed:
		return s.failure
	default:
		return nil
	}
}

// fail makes every later call fail. The first reason stays.
func (s *Store) fail(reason error) {
	s.failOnce.Do(func() {
		s.failure = fmt.Errorf("%w: %w", ErrFailed, reason)
		s.log.Error().Err(reason).Msg("the store failed")
		close(s.failed)
	})
}

// commit makes a batch durable, sharing the fsync with whoever else commits. It calls durable, if it is, and then
// release, also when it returned before: with ErrUnknown, because the context ended or the store failed meanwhile.
func (s *Store) commit(ctx context.Context, b *pebble.Batch, durable, release func()) error {
	done := make(chan error, 1)
	s.calls.Add(1)
	go func() {
		defer s.calls.Done()
		defer release()
		err := s.commitNow(b)
		if err == nil {
			durable()
		}
		done <- err
	}()
	select {
	case err := <-done:
		return unknown(err)
	case <-ctx.Done():
	case <-s.failed:
	}
	select {
	case err := <-done: // an answer is better than none, also at the last moment
		return unknown(err)
	default:
	}
	if err := s.err(); err != nil {
		return unknown(err)
	}
	return unknown(ctx.Err())
}

// unknown marks the error of a write that may or may not be found after a restart.
func unknown(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", coordinator.ErrUnknown, err)
}

// commitNow fails the store on any error: Pebble calls Fatalf, which panics here, when it cannot tell what is in
// its log, and nothing may be acknowledged after that.
func (s *Store) commitNow(b *pebble.Batch) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("commit: %v", r)
		}
		if err != nil {
			s.fail(err)
			err = s.failure
		}
	}()
	if err := b.Commit(pebble.Sync); err != nil {
		return err
	}
	_ = b.Close() // gives memory back; the commit stands
	return nil
}

// notApplied marks the error of a write that was given up before anything of it was written.
func notApplied(err error) error { return fmt.Errorf("%w: %w", coordinator.ErrNotApplied, err) }
