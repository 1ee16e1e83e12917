// Package crashfs is a file system in memory that forgets what was not synced, for crash tests of fileobjects and of
// what is built on it:
//
//	disk := crashfs.New()
//	disk.StopAt(n)                        // the power fails at the n-th call
//	store, err := fileobjects.OpenFS(disk)
//	...                                   // work until calls return ErrPowerOff
//	disk = disk.Crash(crashfs.LoseAll())  // what the disk holds when the power is back
//
// It is as unkind as POSIX allows: the bytes of a file survive only if Sync has returned, and the name of a file or
// folder only if SyncDir of the folder it is in has. What was not synced survives or not by the choice made at Crash,
// each name by itself, even the two names of one Rename; but a name that was renamed over has either file, whole. After a
// sync that failed, the system takes what it covered for written although it is not: later syncs succeed without it.
package crashfs

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tailrace-streams/tailrace/segments/fileobjects"
)

// ErrPowerOff is returned by all calls once the power has failed.
var ErrPowerOff = errors.New("crashfs: the power is off")

// FS implements fileobjects.FS. All methods may be called at once.
type FS struct {
	mu     sync.Mutex
	root   *node
	calls  int
	stopAt int           // the call at which the power fails; 0 for never
	failAt map[int]error // calls that fail, without effect
	off    bool          // after Crash
}

// node is a file or a folder.
type node struct {
	dir      bool
	modified time.Time

	// A file's bytes, and how many of them were synced. stuck is set by a failed sync: no later one helps.
	data   []byte
	synced int
	stuck  bool

	names map[string]*name // of a folder
}

// name is one name in a folder, and all it may stand for after a crash: the node that was synced, or any that it was
// given since. A nil node means that there is nothing of that name.
type name struct {
	durable *node
	since   []change
}

type change struct {
	to    *node
	stuck bool // a sync that covered the change failed
}

func (n *name) current() *node {
	if len(n.since) == 0 {
		return n.durable
	}
	return n.since[len(n.since)-1].to
}

// New returns an empty file system.
func New() *FS { return &FS{root: newDir(), failAt: map[int]error{}} }

func newDir() *node { return &node{dir: true, modified: time.Now(), names: map[string]*name{}} }

// Calls is how many calls were made so far, of FS and of its files. All but Close and Stat of a file count.
func (f *FS) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// StopAt makes the power fail at call n, counted from 1 since New or Crash: it and all after it do nothing and return
// ErrPowerOff. 0 turns the power on again with nothing lost, as when only the process had died.
func (f *FS) StopAt(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopAt = n
}

// FailAt makes call n fail with err, without effect.
func (f *FS) FailAt(n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failAt[n] = err
}

// call counts a call and returns the error it must fail with. f.mu is held.
func (f *FS) call() error {
	if f.off {
		return ErrPowerOff
	}
	f.calls++
	if f.stopAt > 0 && f.calls >= f.stopAt {
		return ErrPowerOff
	}
	return f.failAt[f.calls]
}

// find returns what is at a path, or nil, and an error if something above it is no folder. f.mu is held.
func (f *FS) find(where string) (*node, error) {
	at := f.root
	if where == "." {
		return at, nil
	}
	for part := range strings.SplitSeq(where, "/") {
		if !at.dir {
			return nil, syscall.ENOTDIR
		}
		entry := at.names[part]
		if entry == nil || entry.current() == nil {
			return nil, fs.ErrNotExist
		}
		at = entry.current()
	}
	return at, nil
}

// slot returns the name that a path's last part is in its folder. f.mu is held.
func (f *FS) slot(where string) (*name, error) {
	dir, err := f.find(path.Dir(where))
	if err != nil {
		return nil, err
	}
	if !dir.dir {
		return nil, syscall.ENOTDIR
	}
	base := path.Base(where)
	if dir.names[base] == nil {
		dir.names[base] = &name{}
	}
	return dir.names[base], nil
}

func (n *name) set(to *node) { n.since = append(n.since, change{to: to}) }

// add makes a new node at a free path.
func (f *FS) add(op, where string, n *node) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call(); err != nil {
		return pathError(op, where, err)
	}
	at, err := f.slot(where)
	if err == nil && at.current() != nil {
		err = fs.ErrExist
	}
	if err != nil {
		return pathError(op, where, err)
	}
	at.set(n)
	return nil
}

// Create implements fileobjects.FS.
func (f *FS) Create(where string) (fileobjects.File, error) {
	n := &node{modified: time.Now()}
	if err := f.add("create", where, n); err != nil {
		return nil, err
	}
	return &file{f, n, where}, nil
}

// Mkdir implements fileobjects.FS.
func (f *FS) Mkdir(where string) error { return f.add("mkdir", where, newDir()) }

func (f *FS) lookup(op, where string) (*node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.call()
	var n *node
	if err == nil {
		n, err = f.find(where)
	}
	if err != nil {
		return nil, pathError(op, where, err)
	}
	return n, nil
}

// Open implements fileobjects.FS.
func (f *FS) Open(where string) (fileobjects.File, error) {
	n, err := f.lookup("open", where)
	if err != nil {
		return nil, err
	}
	return &file{f, n, where}, nil
}

// Stat implements fileobjects.FS.
func (f *FS) Stat(where string) (fs.FileInfo, error) {
	n, err := f.lookup("stat", where)
	if err != nil {
		return nil, err
	}
	return f.info(where, n), nil
}

// ReadDir implements fileobjects.FS. The entries are those at the time of the call.
func (f *FS) ReadDir(where string, visit func(fs.DirEntry) error) error {
	n, err := f.lookup("readdir", where)
	if err == nil && !n.dir {
		err = pathError("readdir", where, syscall.ENOTDIR)
	}
	if err != nil {
		return err
	}
	for _, info := range f.entries(n) {
		if err := visit(fs.FileInfoToDirEntry(info)); err != nil {
			return err
		}
	}
	return nil
}

func (f *FS) entries(dir *node) []info {
	f.mu.Lock()
	defer f.mu.Unlock()
	var infos []info
	for base, entry := range dir.names {
		if n := entry.current(); n != nil {
			infos = append(infos, n.info(base))
		}
	}
	return infos
}

// Rename implements fileobjects.FS. Folders cannot be renamed.
func (f *FS) Rename(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call(); err != nil {
		return pathError("rename", from, err)
	}
	n, err := f.find(from)
	if err != nil {
		return pathError("rename", from, err)
	}
	dest, err := f.slot(to)
	if err != nil {
		return pathError("rename", to, err)
	}
	if old := dest.current(); n.dir || old != nil && old.dir {
		return pathError("rename", to, syscall.EISDIR)
	}
	source, err := f.slot(from)
	if err != nil {
		return pathError("rename", from, err)
	}
	source.set(nil)
	dest.set(n)
	return nil
}

// Remove implements fileobjects.FS.
func (f *FS) Remove(where string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call(); err != nil {
		return pathError("remove", where, err)
	}
	n, err := f.find(where)
	if err != nil {
		return pathError("remove", where, err)
	}
	for _, entry := range n.names {
		if entry.current() != nil {
			return pathError("remove", where, syscall.ENOTEMPTY)
		}
	}
	at, err := f.slot(where)
	if err != nil {
		return pathError("remove", where, err)
	}
	at.set(nil)
	return nil
}

// SyncDir implements fileobjects.FS.
func (f *FS) SyncDir(where string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	fault := f.call()
	if errors.Is(fault, ErrPowerOff) {
		return pathError("sync", where, fault)
	}
	dir, err := f.find(where)
	if err != nil {
		return pathError("sync", where, err)
	}
	for _, entry := range dir.names {
		entry.sync(fault != nil)
	}
	if fault != nil {
		return pathError("sync", where, fault)
	}
	return nil
}

// sync makes the name durable as it is, unless that is stuck; a sync that fails makes it so.
func (n *name) sync(fails bool) {
	if len(n.since) == 0 {
		return
	}
	last := &n.since[len(n.since)-1]
	switch {
	case fails:
		last.stuck = true
	case !last.stuck:
		n.durable, n.since = last.to, nil
	}
}

func pathError(op, where string, err error) error {
	return &fs.PathError{Op: op, Path: where, Err: err}
}
