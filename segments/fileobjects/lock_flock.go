//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package fileobjects

import (
	"errors"
	"os"
	"syscall"
)

// lockFile never removes the file: a process that had just opened it would then lock a file that nobody else sees.
func lockFile(name string) (release func() error, err error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, filePerm)
	if err != nil {
		return nil, err
	}
	switch err := flock(file); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, errors.Join(ErrLocked, file.Close())
	case err != nil:
		return nil, errors.Join(err, file.Close())
	}
	return file.Close, nil
}

func flock(file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
