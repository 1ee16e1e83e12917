//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package fileobjects

import (
	"errors"
	"io/fs"
	"os"
)

func lockFile(name string) (release func() error, err error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, filePerm)
	if errors.Is(err, fs.ErrExist) {
		return nil, ErrLocked
	}
	if err != nil {
		return nil, err
	}
	return func() error { return errors.Join(file.Close(), os.Remove(name)) }, nil
}
