package fileobjects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/tailrace-streams/tailrace/segments"
)

// Delete implements segments.Objects. Each folder is synced once, and removed if nothing is left in it. A folder is
// synced even if none of its keys exist, for an earlier try may have removed them and failed to sync. The errors wrap
// also segments.ErrBadKey and ErrNotObject.
func (s *Store) Delete(ctx context.Context, keys []string) map[string]error {
	failed := failures{}
	byFolder := map[string][]string{}
	for _, key := range keys {
		if err := segments.CheckKey(key); err != nil {
			failed.add(err, key)
			continue
		}
		folder := folderOf(key)
		byFolder[folder] = append(byFolder[folder], key)
	}
	for folder, keys := range byFolder {
		if err := ctx.Err(); err != nil {
			failed.add(err, keys...)
			continue
		}
		s.deleteIn(ctx, folder, keys, failed)
	}
	if len(failed) == 0 {
		return nil
	}
	return failed
}

// failures maps keys to the reasons they could not be deleted. The first reason stays.
type failures map[string]error

func (f failures) add(err error, keys ...string) {
	for _, key := range keys {
		f[key] = cmp.Or(f[key], fmt.Errorf("delete object: %w", err))
	}
}

func (s *Store) deleteIn(ctx context.Context, folder string, keys []string, failed failures) {
	held := s.folders.hold(folder)
	defer s.folders.release(held)
	since := held.leaf().group.mark()
	for _, key := range keys {
		if err := s.unlink(key); err != nil {
			failed.add(err, key)
		}
	}
	// No folder is no object, durably: while it is held nobody removes it, and before it is removed it is synced.
	if err := s.folders.sync(ctx, held.leaf(), since); err != nil && !errors.Is(err, fs.ErrNotExist) {
		failed.add(err, keys...)
		return
	}
	s.folders.emptied(held.leaf())
}

func (s *Store) unlink(key string) error {
	info, err := s.fs.Stat(key)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return ErrNotObject // FS.Remove would take an empty one
	}
	if err := s.fs.Remove(key); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
