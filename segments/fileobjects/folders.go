package fileobjects

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
)

// minSweep is how many folders are remembered before those not in use are forgotten.
const minSweep = 4096

// ErrFolderLost is returned by Put for a folder whose own name could not be synced. Whether it would survive a crash is
// unknown, and a second sync that succeeds would not tell, so nothing more is stored in it: until it could be removed
// and made anew, which is tried whenever it is empty, or the store is opened again.
var ErrFolderLost = errors.New("folder could not be synced")

// folders knows which folders are certain to survive a crash, and which are in use. It makes them when an object needs
// them and removes them when the last object is gone.
//
// A folder is removed only while no call uses it or one below it. So no Put loses the folder it is about to store into,
// or has it made again behind its back by another that has not synced it yet; and no Delete finds the folder gone, and
// calls its object deleted, before any sync covered that.
type folders struct {
	fs FS

	mu      sync.Mutex
	byPath  map[string]*folder
	sweepAt int // the number of folders at which to forget the unused
}

type folder struct {
	path  string
	group syncGroup // shares syncs of the names in the folder

	// Guarded by folders.mu.
	users   int   // calls that use it or a folder below
	durable bool  // it exists, and a sync of its parent that began after it was made has succeeded
	lost    error // a sync of its parent failed
	tidy    bool  // objects were removed from it: try to remove it
}

// chain is a folder with all those above it, the root first.
type chain []*folder

func (c chain) leaf() *folder { return c[len(c)-1] }

func newFolders(fsys FS) *folders {
	root := &folder{path: ".", durable: true}
	return &folders{fs: fsys, byPath: map[string]*folder{".": root}, sweepAt: minSweep}
}

// hold marks a folder and those above it as in use, whether they exist or not. The caller must release them.
func (f *folders) hold(path string) chain {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sweep()
	c := chain{f.byPath["."]}
	for end := 0; path != "." && end < len(path); end++ {
		if next := strings.IndexByte(path[end:], '/'); next >= 0 {
			end += next
		} else {
			end = len(path)
		}
		at := f.byPath[path[:end]]
		if at == nil {
			at = &folder{path: path[:end]}
			f.byPath[at.path] = at
		}
		c = append(c, at)
	}
	for _, at := range c {
		at.users++
	}
	return c
}

// sweep forgets folders that nobody uses, unless a sync of them failed. All it costs is one more sync when they are used
// again.
func (f *folders) sweep() {
	if len(f.byPath) < f.sweepAt {
		return
	}
	for path, at := range f.byPath {
		if at.users == 0 && at.lost == nil && at.group.mark() == 0 && path != "." {
			delete(f.byPath, path)
		}
	}
	f.sweepAt = max(minSweep, 2*len(f.byPath))
}

// release ends the use of held folders, and removes those that are empty. The removal is not synced: a folder that
// comes back after a crash is empty, because the names that were in it were synced away.
func (f *folders) release(c chain) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(c) - 1; i >= 0; i-- {
		at := c[i]
		at.users--
		if at.users > 0 || i == 0 || !at.tidy && at.lost == nil {
			continue
		}
		at.tidy = false
		if err := f.remove(at.path); err == nil || errors.Is(err, fs.ErrNotExist) {
			delete(f.byPath, at.path)
			c[i-1].tidy = true
		}
	}
}

// remove removes an empty folder. What is no folder stays: it is an object, which a bad key took for one.
func (f *folders) remove(path string) error {
	info, err := f.fs.Stat(path)
	if err == nil && !info.IsDir() {
		err = ErrNotObject
	}
	if err != nil {
		return err
	}
	return f.fs.Remove(path)
}

// make makes the folders of a held chain that are missing, and returns once all of them are durable. Those that exist
// but are not known to be durable may come from a process that died too early, so they are synced as if new.
func (f *folders) make(ctx context.Context, c chain) error {
	for i, at := range c[1:] {
		f.mu.Lock()
		durable, lost := at.durable, at.lost
		f.mu.Unlock()
		switch {
		case durable:
			continue
		case lost != nil:
			return fmt.Errorf("%w: %w", ErrFolderLost, lost)
		}
		if err := f.makeOne(ctx, c[i], at); err != nil {
			return err
		}
	}
	return nil
}

func (f *folders) makeOne(ctx context.Context, parent, at *folder) error {
	since := parent.group.mark()
	switch err := f.fs.Mkdir(at.path); {
	case errors.Is(err, fs.ErrExist):
		since = 0
	case err != nil:
		return fmt.Errorf("make folder: %w", err)
	}
	err := f.sync(ctx, parent, since)
	if gaveUp := ctx.Err(); err != nil && gaveUp != nil && errors.Is(err, gaveUp) {
		return err // the sync may have gone well
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		at.durable, at.lost = true, nil
	} else if !at.durable {
		at.lost = err
	}
	return err
}

// forget makes the next Put look anew whether the folders of a chain exist: someone else has removed one.
func (f *folders) forget(c chain) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, at := range c[1:] {
		at.durable = false
	}
}

// sync makes durable what was changed in a folder after the mark and before the call.
func (f *folders) sync(ctx context.Context, at *folder, since mark) error {
	err := at.group.sync(ctx, since, func() error { return f.fs.SyncDir(at.path) })
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}

// emptied notes that objects were removed from a held folder.
func (f *folders) emptied(at *folder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at.tidy = true
}
