package fileobjects

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
)

// FS is what the store needs of a file system. Names are slash-separated paths below its root, "." is the root, and
// no name climbs. All methods may be called at once. A missing name is fs.ErrNotExist, a taken one fs.ErrExist.
// Nothing is durable before File.Sync (the bytes) and SyncDir (the names) have returned nil.
type FS interface {
	// Create makes a file and opens it for writing. The name must be free.
	Create(name string) (File, error)
	// Open opens a file for reading. It follows symbolic links only to where they stay below the root.
	Open(name string) (File, error)
	// Stat describes what is at the name, which may be a symbolic link.
	Stat(name string) (fs.FileInfo, error)
	// ReadDir calls visit for each entry of a folder, in no order, until it returns an error.
	ReadDir(name string, visit func(fs.DirEntry) error) error
	// Mkdir makes a folder. Its parent must exist, the name must be free.
	Mkdir(name string) error
	// Rename gives a file another name, in place of the file that has it.
	Rename(from, to string) error
	// Remove removes a file or an empty folder.
	Remove(name string) error
	// SyncDir makes durable which names a folder holds: what was changed before the call, at least.
	SyncDir(name string) error
}

// File is an open file. One goroutine uses it.
type File interface {
	io.Writer
	io.ReaderAt
	io.Closer
	Stat() (fs.FileInfo, error)
	Sync() error
}

const (
	filePerm = 0o600
	dirPerm  = 0o700
	// readDirBatch is how many entries are read from a folder at a time.
	readDirBatch = 1024
)

// osFS is the operating system's file system below one folder. os.Root refuses every way out of it, symbolic links
// included.
type osFS struct{ root *os.Root }

func (f osFS) Create(name string) (File, error) {
	return asFile(f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, filePerm))
}

func (f osFS) Open(name string) (File, error) {
	return asFile(f.root.OpenFile(name, os.O_RDONLY|openFlags, 0))
}

// asFile keeps a nil *os.File from becoming a File that is not nil.
func asFile(file *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return file, nil
}

func (f osFS) Stat(name string) (fs.FileInfo, error) { return f.root.Lstat(name) }
func (f osFS) Mkdir(name string) error               { return f.root.Mkdir(name, dirPerm) }
func (f osFS) Rename(from, to string) error          { return f.root.Rename(from, to) }
func (f osFS) Remove(name string) error              { return f.root.Remove(name) }

func (f osFS) ReadDir(name string, visit func(fs.DirEntry) error) error {
	dir, err := f.root.Open(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(readDirBatch)
		for _, entry := range entries {
			if err := visit(entry); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

func (f osFS) SyncDir(name string) error {
	dir, err := f.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(syncDir(dir), dir.Close())
}

// folderOf returns the folder a key's file lies in, "." for the root.
func folderOf(key string) string { return path.Dir(key) }
