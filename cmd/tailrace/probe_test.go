package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/memstore"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments/memobjects"
)

func TestProbeMeasuresAndLeavesNothing(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	w := newWorld()
	_, status := w.serving(t, "--data", data)
	w.signals <- syscall.SIGTERM
	if got := <-status; got != exitOK {
		t.Fatalf("status is %d; log:\n%s", got, w.log.String())
	}
	w = newWorld()
	if got := w.run([]string{"admin", "probe", "--data", data, "--each=20ms", "--json"}); got != exitOK {
		t.Fatalf("status is %d: %s", got, w.log.String())
	}
	var figures []figure
	if err := json.Unmarshal([]byte(w.out.String()), &figures); err != nil || len(figures) != 3 {
		t.Fatalf("it prints %q: %v", w.out.String(), err)
	}
	for _, f := range figures {
		if f.Calls == 0 || f.P50 <= 0 || f.P99 < f.P50 || f.What == "" {
			t.Errorf("a figure is %+v", f)
		}
	}
	err := filepath.WalkDir(filepath.Join(data, objectsName), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			err = errors.New(path + " is left")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	folder, err := openDataFolder(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := folder.release(); err != nil {
		t.Fatal(err)
	}
}

// A write whose answer is lost ends the measurement, and is removed like every other.
func TestProbeRemovesWhatItIsInDoubtOf(t *testing.T) {
	t.Parallel()
	for _, nth := range []int{1, 2} {
		inner := memstore.New()
		m := &measurement{
			table:   storetest.NewFaults(storetest.Nth("Put", nth, storetest.Lose)).Table(inner),
			objects: memobjects.New(), key: coordinator.Key{Part: "probe", Sort: "s"},
		}
		if _, err := m.run(t.Context(), 20*time.Millisecond); !errors.Is(err, coordinator.ErrUnknown) {
			t.Errorf("put %d: %v", nth, err)
		}
		if rows, err := inner.List(t.Context(), "probe", "", "", 10); err != nil || len(rows) != 0 {
			t.Errorf("put %d: %d rows are left, %v", nth, len(rows), err)
		}
	}
}
