package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailrace-streams/tailrace/segments/fileobjects"
)

func TestDataFolderKeepsItsID(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a", "b")
	first, err := openDataFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.release(); err != nil {
		t.Fatal(err)
	}
	again, err := openDataFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.release()
	if again.format != first.format || again.format.Version != dataFormat || again.format.StoreID.Version() == 0 {
		t.Errorf("format is %+v, at first it was %+v", again.format, first.format)
	}
	if info, err := os.Stat(filepath.Join(path, formatName)); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("FORMAT can be read by others: %v, %v", info, err)
	}
}

func TestDataFolderInUse(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	first, err := openDataFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openDataFolder(path); !errors.Is(err, fileobjects.ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Errorf("open twice: %v, want one that names the folder", err)
	}
	if err := first.release(); err != nil {
		t.Fatal(err)
	}
	again, err := openDataFolder(path)
	if err != nil {
		t.Fatalf("open after release: %v", err)
	}
	if err := again.release(); err != nil {
		t.Fatal(err)
	}
}

// A folder is judged by what is in it; what a crash of the first start leaves is no stranger.
func TestDataFolderContents(t *testing.T) {
	t.Parallel()
	good := `{"tailrace_data_folder":1,"store_id":"8a3f0b7e-5f5e-4b53-9a55-3d6f1c7f9d10"}`
	for name, test := range map[string]struct {
		files map[string]string
		says  string // empty: it opens
	}{
		"nothing":                   {nil, ""},
		"a crash before FORMAT":     {map[string]string{lockName: "", formatName + ".new": `{"tail`}, ""},
		"a whole folder":            {map[string]string{formatName: good, lockName: "", "db/x": "", "objects/y": ""}, ""},
		"FORMAT lost":               {map[string]string{lockName: "", "db/x": ""}, "not a data folder"},
		"somebody's files":          {map[string]string{"photo.jpg": ""}, `"photo.jpg"`},
		"a later version":           {map[string]string{formatName: strings.Replace(good, ":1", ":2", 1)}, "format 2"},
		"FORMAT of something else":  {map[string]string{formatName: `{"version":1}`}, "damaged"},
		"an empty FORMAT":           {map[string]string{formatName: ""}, "damaged"},
		"FORMAT with an id of none": {map[string]string{formatName: `{"tailrace_data_folder":1,"store_id":"x"}`}, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := t.TempDir()
			for file, content := range test.files {
				file = filepath.Join(path, file)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			folder, err := openDataFolder(path)
			if test.says != "" {
				if err == nil || !strings.Contains(err.Error(), test.says) {
					t.Errorf("open: %v, want an error that says %q", err, test.says)
				}
				_, before := test.files[lockName]
				_, ours := test.files[formatName]
				if _, err := os.Stat(filepath.Join(path, lockName)); err == nil && !before && !ours {
					t.Error("a lock file was put into somebody's folder")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := folder.release(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestDataFolderIsAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openDataFolder(path); err == nil {
		t.Error("a file opened as a data folder")
	}
}
