//go:build unix

package fileobjects

import (
	"os"
	"syscall"
)

// openFlags let a pipe be opened without waiting for its other end, to be refused as not a regular file.
const openFlags = syscall.O_NONBLOCK

func syncDir(dir *os.File) error { return dir.Sync() }
