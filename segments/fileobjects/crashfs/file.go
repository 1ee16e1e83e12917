package crashfs

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"syscall"
	"time"
)

// file is an open file; writes go to its end.
type file struct {
	fs    *FS
	node  *node
	where string
}

func (f *file) Write(p []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.call(); err != nil {
		return 0, pathError("write", f.where, err)
	}
	f.node.data = append(f.node.data, p...)
	f.node.modified = time.Now()
	return len(p), nil
}

func (f *file) ReadAt(p []byte, offset int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	err := f.fs.call()
	if err == nil && f.node.dir {
		err = syscall.EISDIR
	}
	if err != nil {
		return 0, pathError("read", f.where, err)
	}
	return bytes.NewReader(f.node.data).ReadAt(p, offset)
}

func (f *file) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	err := f.fs.call()
	switch {
	case errors.Is(err, ErrPowerOff):
	case err != nil:
		f.node.stuck = true
	case !f.node.stuck:
		f.node.synced = len(f.node.data)
	}
	if err != nil {
		return pathError("sync", f.where, err)
	}
	return nil
}

func (f *file) Close() error { return nil }

func (f *file) Stat() (fs.FileInfo, error) { return f.fs.info(f.where, f.node), nil }

func (f *FS) info(where string, n *node) info {
	f.mu.Lock()
	defer f.mu.Unlock()
	return n.info(path.Base(where))
}

func (n *node) info(base string) info {
	return info{base, int64(len(n.data)), n.modified, n.dir}
}

// info implements fs.FileInfo.
type info struct {
	base     string
	size     int64
	modified time.Time
	dir      bool
}

func (i info) Name() string       { return i.base }
func (i info) Size() int64        { return i.size }
func (i info) ModTime() time.Time { return i.modified }
func (i info) IsDir() bool        { return i.dir }
func (i info) Sys() any           { return nil }
func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}
