// Package fileobjects keeps objects as files in a folder: the object store of a single machine. README.md tells the
// life of a put and what is assumed of the file system; crashfs is the file system the tests lose power on.
package fileobjects

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tailrace-streams/tailrace/segments"
)

const (
	// staging is the folder in which files are written before they get their names. No key can name it.
	staging    = "~staging"
	tempSuffix = ".tmp"
)

// ErrNotObject is returned for a key at which there is something that is not a file, such as a folder.
var ErrNotObject = errors.New("not an object")

// Store implements segments.Objects: the object with key K is the file K below the store's folder. All methods may be
// called at once, but by one process: see LockDir.
type Store struct {
	fs      FS
	folders *folders
	close   func() error
	removed int
}

// Open opens the store in a folder, which it makes if it is missing, and removes what puts that a crash cut short have
// left. No other process may use the folder; nor may it hold anything else that is named like an object.
func Open(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open object folder: %w", err)
	}
	if err := makeDir(dir); err != nil {
		return nil, fmt.Errorf("open object folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open object folder: %w", err)
	}
	s, err := OpenFS(osFS{root})
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	s.close = root.Close
	return s, nil
}

// OpenFS is Open on another file system.
func OpenFS(fsys FS) (*Store, error) {
	s := &Store{fs: fsys, folders: newFolders(fsys), close: func() error { return nil }}
	if err := fsys.Mkdir(staging); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("open object folder: %w", err)
	}
	if err := s.clearStaging(); err != nil {
		return nil, fmt.Errorf("open object folder: clear %s: %w", staging, err)
	}
	return s, nil
}

func (s *Store) clearStaging() error {
	return s.fs.ReadDir(staging, func(entry fs.DirEntry) error {
		if !entry.Type().IsRegular() || !strings.HasSuffix(entry.Name(), tempSuffix) {
			return nil
		}
		s.removed++
		return s.fs.Remove(staging + "/" + entry.Name())
	})
}

// Removed is how many unfinished files Open removed.
func (s *Store) Removed() int { return s.removed }

// Close frees the folder's handle. No call may run or follow.
func (s *Store) Close() error { return s.close() }

// Put implements segments.Objects. If the object exists it is replaced, so a retry depends on nothing an earlier try
// left behind; callers promise that the bytes are equal. It also returns segments.ErrNoRoom when the disk is full,
// segments.ErrBadKey and ErrFolderLost.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	err := cmp.Or(segments.CheckKey(key), ctx.Err())
	if err == nil {
		err = s.put(ctx, key, data)
	}
	switch {
	case err == nil:
		return nil
	case full(err):
		return fmt.Errorf("put object: %w: %w", segments.ErrNoRoom, err)
	}
	return fmt.Errorf("put object: %w", err)
}

func (s *Store) put(ctx context.Context, key string, data []byte) error {
	held := s.folders.hold(folderOf(key))
	defer s.folders.release(held)
	if err := s.folders.make(ctx, held); err != nil {
		return err
	}
	temp, err := s.stage(data)
	if err != nil {
		return err
	}
	return s.publish(ctx, held, temp, key)
}

// stage writes data durably to a file of its own, whose name nothing needs to outlive a crash.
func (s *Store) stage(data []byte) (temp string, err error) {
	temp = staging + "/" + rand.Text() + tempSuffix
	file, err := s.fs.Create(temp)
	if err != nil {
		return "", fmt.Errorf("create file: %w", err)
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	// After a sync that failed no other would tell what reached the disk, so the file is not used.
	if err := errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("write file: %w", errors.Join(err, s.fs.Remove(temp)))
	}
	return temp, nil
}

// publish gives a staged file the object's name and makes that durable. If the sync fails the file stays: to remove it
// could undo another Put of the same object that has been acknowledged, and a retry renames anew, so it is not misled.
func (s *Store) publish(ctx context.Context, held chain, temp, key string) error {
	if err := ctx.Err(); err != nil {
		return errors.Join(err, s.fs.Remove(temp))
	}
	since := held.leaf().group.mark()
	if err := s.fs.Rename(temp, key); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			s.folders.forget(held)
		}
		return errors.Join(fmt.Errorf("name file: %w", err), s.fs.Remove(temp))
	}
	return s.folders.sync(ctx, held.leaf(), since)
}

// Get implements segments.Objects. The caller owns the result. It also returns segments.ErrBadKey and ErrNotObject.
func (s *Store) Get(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	if err := cmp.Or(segments.CheckKey(key), ctx.Err()); err != nil {
		return nil, fmt.Errorf("get object: %w", err)
	}
	if offset < 0 {
		return nil, fmt.Errorf("get object: offset %d is negative", offset)
	}
	file, err := s.fs.Open(key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("get object: %w", segments.ErrObjectNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("get object: %w", err)
	}
	defer file.Close()
	data, err := readRange(file, offset, length)
	if err != nil {
		return nil, fmt.Errorf("get object: %w", err)
	}
	return data, nil
}

func readRange(file File, offset, length int64) ([]byte, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, ErrNotObject
	}
	rest := max(0, info.Size()-offset)
	if length < 0 {
		length = rest
	}
	data := make([]byte, min(length, rest))
	// The file is never changed, so an end before its size is damage.
	if _, err := io.ReadFull(io.NewSectionReader(file, offset, int64(len(data))), data); err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	return data, nil
}
