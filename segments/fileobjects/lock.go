package fileobjects

import (
	"errors"
	"fmt"
	"path/filepath"
)

// lockName is the file in a data folder that is locked while a process uses it.
const lockName = "LOCK"

// ErrLocked is returned by LockDir for a folder that another process, or this one, holds.
var ErrLocked = errors.New("folder is in use by another process")

// LockDir takes a data folder for this process, making it if it is missing, until release is called or the process
// ends. An error that wraps ErrLocked names the folder. Since the file LOCK is named like an object, a store is to be in
// a folder below the one locked. The lock is the system's own and vanishes with the process; where there is none
// (Windows) it is the file itself, which after a crash must be removed by hand.
func LockDir(dir string) (release func() error, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("lock folder: %w", err)
	}
	if err := makeDir(dir); err != nil {
		return nil, fmt.Errorf("lock folder: %w", err)
	}
	release, err = lockFile(filepath.Join(dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("lock folder %s: %w", dir, err)
	}
	return release, nil
}
