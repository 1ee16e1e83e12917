package fileobjects

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// makeDir makes a folder and those above it that are missing, durably. The folder it starts from may have been made
// by a process that died before it synced that, so its own entry is synced too, where the parent can be read.
func makeDir(dir string) error {
	parent := filepath.Dir(dir)
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("make folder %s: it is a file", dir)
	case err == nil:
		if err := syncPath(parent); err != nil && !errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("sync folder %s: %w", parent, err)
		}
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("make folder: %w", err)
	}
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, dirPerm); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := syncPath(parent); err != nil {
		return fmt.Errorf("sync folder %s: %w", parent, err)
	}
	return nil
}

func syncPath(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(syncDir(file), file.Close())
}
