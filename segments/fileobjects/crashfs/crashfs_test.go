package crashfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"
	"testing"

	"github.com/tailrace-streams/tailrace/segments/fileobjects/crashfs"
)

var errFault = errors.New("fault")

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// write makes a file, and syncs its bytes if told to. It makes 2 calls, or 3.
func write(t *testing.T, disk *crashfs.FS, name, data string, sync bool) {
	t.Helper()
	file, err := disk.Create(name)
	must(t, err)
	_, err = file.Write([]byte(data))
	must(t, err)
	if sync {
		must(t, file.Sync())
	}
	must(t, file.Close())
}

// files returns "name=data" of all files and "name/" of all folders below one.
func files(t *testing.T, disk *crashfs.FS, dir string) []string {
	t.Helper()
	var all []string
	must(t, disk.ReadDir(dir, func(entry fs.DirEntry) error {
		name := dir + "/" + entry.Name()
		if entry.IsDir() {
			all = append(append(all, name+"/"), files(t, disk, name)...)
			return nil
		}
		file, err := disk.Open(name)
		must(t, err)
		info, err := file.Stat()
		must(t, err)
		data := make([]byte, info.Size())
		_, err = file.ReadAt(data, 0)
		if info.Size() > 0 {
			must(t, err)
		}
		all = append(all, name+"="+string(data))
		return nil
	}))
	slices.Sort(all)
	return all
}

func wantFiles(t *testing.T, disk *crashfs.FS, want ...string) {
	t.Helper()
	if got := files(t, disk, "d"); !slices.Equal(got, want) {
		t.Errorf("there is %q, want %q", got, want)
	}
}

// newDisk has a durable folder d.
func newDisk(t *testing.T) *crashfs.FS {
	t.Helper()
	disk := crashfs.New()
	must(t, disk.Mkdir("d"), disk.SyncDir("."))
	return disk
}

func TestForgets(t *testing.T) {
	t.Parallel()
	disk := newDisk(t)
	write(t, disk, "d/both", "1", true)
	write(t, disk, "d/name only", "2", false)
	write(t, disk, "d/gone", "3", true)
	must(t, disk.SyncDir("d"))
	write(t, disk, "d/bytes only", "4", true)
	must(t, disk.Remove("d/gone"), disk.Mkdir("d/sub"))
	write(t, disk, "d/sub/x", "5", true)
	must(t, disk.SyncDir("d/sub"))
	wantFiles(t, disk, "d/both=1", "d/bytes only=4", "d/name only=2", "d/sub/", "d/sub/x=5")
	wantFiles(t, disk.Crash(crashfs.LoseAll()), "d/both=1", "d/gone=3", "d/name only=")
}

// TestRenameOver: the name has one file or the other, and the old name may be there or not.
func TestRenameOver(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for seed := range uint64(64) {
		disk := newDisk(t)
		write(t, disk, "d/k", "old", true)
		must(t, disk.SyncDir("d"))
		write(t, disk, "d/t", "new", true)
		must(t, disk.Rename("d/t", "d/k"))
		wantFiles(t, disk, "d/k=new")
		seen[fmt.Sprint(files(t, disk.Crash(crashfs.LoseSome(seed)), "d"))] = true
	}
	want := map[string]bool{"[d/k=old]": true, "[d/k=new]": true, "[d/k=old d/t=new]": true, "[d/k=new d/t=new]": true}
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("after crashes there were %v, want %v", seen, want)
	}
}

// TestSameSeed: a seed means the same loss every time, and seeds differ.
func TestSameSeed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for seed := range uint64(20) {
		var before string
		for range 3 {
			disk := newDisk(t)
			for i := range 5 {
				write(t, disk, fmt.Sprint("d/", i), "some bytes", i%2 == 0)
			}
			got := fmt.Sprint(files(t, disk.Crash(crashfs.LoseSome(seed)), "d"))
			if before != "" && got != before {
				t.Errorf("seed %d left %s, and then %s", seed, before, got)
			}
			before = got
		}
		seen[before] = true
	}
	if len(seen) < 10 {
		t.Errorf("20 seeds left only %d states", len(seen))
	}
}

// TestFailedSync: what a failed sync covered is not written by later ones, unless it is changed again.
func TestFailedSync(t *testing.T) {
	t.Parallel()
	disk := newDisk(t)
	write(t, disk, "d/a", "1", true)
	write(t, disk, "d/b", "2", true)
	disk.FailAt(disk.Calls()+1, errFault)
	if err := disk.SyncDir("d"); !errors.Is(err, errFault) {
		t.Errorf("SyncDir = %v", err)
	}
	file, err := disk.Create("d/c")
	must(t, err)
	_, err = file.Write([]byte("3"))
	must(t, err)
	disk.FailAt(disk.Calls()+1, errFault)
	if err := file.Sync(); !errors.Is(err, errFault) {
		t.Errorf("Sync = %v", err)
	}
	must(t, file.Sync(), disk.Rename("d/a", "d/b"), disk.SyncDir("d"))
	wantFiles(t, disk, "d/b=1", "d/c=3")
	wantFiles(t, disk.Crash(crashfs.LoseAll()), "d/b=1", "d/c=")
}

func TestPowerOff(t *testing.T) {
	t.Parallel()
	disk := newDisk(t)
	disk.StopAt(disk.Calls() + 3)
	write(t, disk, "d/a", "1", false) // 2 calls
	_, createErr := disk.Create("d/b")
	_, openErr := disk.Open("d/a")
	_, statErr := disk.Stat("d/a")
	off := func(errs ...error) {
		t.Helper()
		for i, err := range errs {
			if !errors.Is(err, crashfs.ErrPowerOff) {
				t.Errorf("call %d = %v, want ErrPowerOff", i, err)
			}
		}
	}
	off(createErr, openErr, statErr, disk.SyncDir("d"), disk.Mkdir("e"), disk.Remove("d/a"), disk.Rename("d/a", "d/b"),
		disk.ReadDir("d", nil))
	disk.StopAt(0)
	wantFiles(t, disk, "d/a=1")
	left := disk.Crash(crashfs.LoseAll())
	off(disk.SyncDir("d"))
	wantFiles(t, left)
}

func TestErrors(t *testing.T) {
	t.Parallel()
	disk := newDisk(t)
	write(t, disk, "d/f", "1", false)
	_, openErr := disk.Open("d/none")
	_, belowErr := disk.Open("d/f/x")
	_, createErr := disk.Create("d/f")
	for _, c := range []struct{ got, want error }{
		{openErr, fs.ErrNotExist}, {belowErr, syscall.ENOTDIR}, {createErr, fs.ErrExist}, {disk.Mkdir("d"), fs.ErrExist},
		{disk.Mkdir("e/f"), fs.ErrNotExist}, {disk.Mkdir("d/f/x"), syscall.ENOTDIR}, {disk.SyncDir("e"), fs.ErrNotExist},
		{disk.Rename("d/none", "d/g"), fs.ErrNotExist}, {disk.Rename("d/f", "e/f"), fs.ErrNotExist},
		{disk.Rename("d/f", "d"), syscall.EISDIR}, {disk.Remove("d"), syscall.ENOTEMPTY},
		{disk.Remove("d/none"), fs.ErrNotExist}, {disk.ReadDir("e", nil), fs.ErrNotExist},
		{disk.ReadDir("d/f", nil), syscall.ENOTDIR},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("got %v, want %v", c.got, c.want)
		}
	}
}
