package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/tailrace-streams/tailrace/segments/fileobjects"
)

// dataFormat is the version of the data folder's layout: which stores are where. What is in the stores has versions of
// its own.
const dataFormat = 1

// What a data folder holds, and nothing else:
//
//	FORMAT    which format this is, and the store's id: the last thing made of a new folder
//	LOCK      locked while a process has the folder
//	db/       Pebble: heads and control records
//	objects/  segments and pages
const (
	formatName  = "FORMAT"
	lockName    = "LOCK"
	dbName      = "db"
	objectsName = "objects"
)

// folderFormat is the content of FORMAT.
type folderFormat struct {
	Version int `json:"tailrace_data_folder"`
	// StoreID tells stores apart, for logs and for tools that copy them. Nothing is keyed by it.
	StoreID uuid.UUID `json:"store_id"`
}

// dataFolder is a data folder held by this process.
type dataFolder struct {
	path    string // absolute
	format  folderFormat
	release func() error
}

func (d *dataFolder) db() string      { return filepath.Join(d.path, dbName) }
func (d *dataFolder) objects() string { return filepath.Join(d.path, objectsName) }

// openDataFolder locks a folder, and makes it one of ours if it is new. It refuses a folder in use, one of another
// format, and one that holds something else: what lies there may be someone's data, or ours with FORMAT lost.
func openDataFolder(path string) (*dataFolder, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open data folder: %w", err)
	}
	if err := checkBeforeLock(path); err != nil {
		return nil, fmt.Errorf("open data folder %s: %w", path, err)
	}
	release, err := fileobjects.LockDir(path)
	if errors.Is(err, fileobjects.ErrLocked) {
		return nil, fmt.Errorf("the data folder %s is in use by another process: stop it, or choose another folder with "+
			"--data: %w", path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open data folder: %w", err)
	}
	d := &dataFolder{path: path, release: release}
	if d.format, err = readFormat(path); errors.Is(err, fs.ErrNotExist) {
		d.format = folderFormat{Version: dataFormat, StoreID: uuid.New()}
		err = writeFormat(path, d.format)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open data folder %s: %w", path, err), release())
	}
	return d, nil
}

// checkBeforeLock refuses a foreign folder before the lock file is put into it.
func checkBeforeLock(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var stranger string
	for _, entry := range entries {
		switch entry.Name() {
		case formatName:
			return nil
		case lockName, formatName + ".new":
		default:
			stranger = entry.Name()
		}
	}
	if stranger != "" {
		return fmt.Errorf("it holds %q and no %s file: it is not a data folder of tailrace; choose an empty one", stranger, formatName)
	}
	return nil
}

func readFormat(path string) (folderFormat, error) {
	content, err := os.ReadFile(filepath.Join(path, formatName))
	if err != nil {
		return folderFormat{}, err
	}
	var format folderFormat
	if err := json.Unmarshal(content, &format); err != nil || format.Version <= 0 {
		return folderFormat{}, fmt.Errorf("the file %s is damaged: it should hold JSON with tailrace_data_folder and store_id",
			formatName)
	}
	if format.Version != dataFormat {
		return folderFormat{}, fmt.Errorf("it has format %d, and this version of tailrace reads format %d: use a version that "+
			"reads %d", format.Version, dataFormat, format.Version)
	}
	return format, nil
}

// writeFormat makes FORMAT durably: a crash leaves none or all of it.
func writeFormat(path string, format folderFormat) error {
	content, err := json.Marshal(format)
	if err != nil {
		return fmt.Errorf("encode format: %w", err)
	}
	fresh := filepath.Join(path, formatName+".new")
	if err := writeSynced(fresh, append(content, '\n')); err != nil {
		return fmt.Errorf("write format: %w", err)
	}
	if err := os.Rename(fresh, filepath.Join(path, formatName)); err != nil {
		return fmt.Errorf("name format: %w", err)
	}
	return syncFolder(path)
}

func writeSynced(name string, content []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
