package fileobjects

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/tailrace-streams/tailrace/segments"
)

// listBatch is how many names of a folder are held at a time; a larger folder is read again for each batch.
const listBatch = 1024

// List implements segments.Objects. Folders whose keys all sort up to startAfter are not read; what is not named like
// an object, or is neither file nor folder, is not listed. It also returns segments.ErrBadKey.
func (s *Store) List(ctx context.Context, prefix, startAfter string, limit int) ([]segments.ObjectInfo, error) {
	if err := cmp.Or(segments.CheckPrefix(prefix), ctx.Err()); err != nil {
		return nil, fmt.Errorf("list objects: %w", err)
	}
	w := walk{fs: s.fs, after: startAfter, limit: limit}
	if limit > 0 {
		if err := w.folder(ctx, prefix); err != nil {
			return nil, fmt.Errorf("list objects: %w", err)
		}
	}
	return w.found, nil
}

// walk goes through folders in the order of keys. In that order a folder sorts as its name with the slash, which all of
// its keys begin with: "a-b" before "a/b" before "a0".
type walk struct {
	fs    FS
	after string
	limit int
	found []segments.ObjectInfo
}

// folder lists the objects whose keys begin with the prefix.
func (w *walk) folder(ctx context.Context, prefix string) error {
	for cursor := ""; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		batch, err := w.batch(prefix, cursor)
		if err != nil {
			return err
		}
		for _, name := range batch {
			if strings.HasSuffix(name, "/") {
				err = w.folder(ctx, prefix+name)
			} else {
				err = w.object(prefix + name)
			}
			if err != nil || len(w.found) >= w.limit {
				return err
			}
		}
		if len(batch) < listBatch {
			return nil
		}
		cursor = batch[len(batch)-1]
	}
}

// batch returns the first names of a folder after the cursor that may lead to keys after w.after, in order; those of
// folders end with a slash.
func (w *walk) batch(prefix, cursor string) ([]string, error) {
	var names maxHeap
	err := w.fs.ReadDir(dirName(prefix), func(entry fs.DirEntry) error {
		name := entry.Name()
		switch {
		case !segments.IsKeyPart(name):
			return nil
		case entry.IsDir():
			name += "/"
		case !entry.Type().IsRegular():
			return nil
		}
		if name <= cursor || !w.reaches(prefix+name) {
			return nil
		}
		if len(names) < listBatch {
			heap.Push(&names, name)
		} else if name < names[0] {
			names[0] = name
			heap.Fix(&names, 0)
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

// reaches reports whether the key, or one below the folder if it ends with a slash, may be after w.after.
func (w *walk) reaches(key string) bool {
	return key > w.after || strings.HasSuffix(key, "/") && strings.HasPrefix(w.after, key)
}

func (w *walk) object(key string) error {
	info, err := w.fs.Stat(key)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // deleted since
	case err != nil:
		return err
	case info.Mode().IsRegular():
		w.found = append(w.found, segments.ObjectInfo{Key: key, Size: info.Size(), Modified: info.ModTime()})
	}
	return nil
}

// dirName is the folder that a prefix names.
func dirName(prefix string) string {
	if prefix == "" {
		return "."
	}
	return strings.TrimSuffix(prefix, "/")
}

// maxHeap has the last name in order at its top.
type maxHeap []string

func (h maxHeap) Len() int           { return len(h) }
func (h maxHeap) Less(i, j int) bool { return h[i] > h[j] }
func (h maxHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *maxHeap) Push(name any)     { *h = append(*h, name.(string)) }

// Pop completes heap.Interface; a batch is sorted at once instead.
func (h *maxHeap) Pop() any {
	last := len(*h) - 1
	name := (*h)[last]
	*h = (*h)[:last]
	return name
}
