//go:build unix

package fileobjects

import (
	"errors"
	"os"
	"syscall"
)

// openFlags let a pipe be opened without waiting for its other end, to be refused as not a regular file.
const openFlags = syscall.O_NONBLOCK

func syncDir(dir *os.File) error { return dir.Sync() }

// full reports whether an error says that the disk, or what this user may have of it, is used up.
func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
