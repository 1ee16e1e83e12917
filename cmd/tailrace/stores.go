package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/memstore"
	"github.com/tailrace-streams/tailrace/coordinator/pebblestore"
	"github.com/tailrace-streams/tailrace/functions/config"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/fileobjects"
	"github.com/tailrace-streams/tailrace/segments/memobjects"
)

// stores is where everything is kept, and what the rest of the program needs to know of it. Another way to run adds a
// function like openFolder.
type stores struct {
	heads   coordinator.Heads
	table   coordinator.Table
	objects segments.Objects
	room    coordinator.Room
	// shared says that other processes may use the same stores.
	shared bool
	// where says it to a person.
	where string
	// opened is closed once the stores answer; until then calls fail.
	opened <-chan struct{}
	// failed is closed when a store cannot go on, which only a new start mends; nil never is.
	failed <-chan struct{}
	// now is the clock that labels and ages of records are taken by; nil is the process's own.
	now func() time.Time
	// collectors are of the stores' own figures.
	collectors []prometheus.Collector
	// close is called once, when nobody uses the stores any more.
	close func() error
}

// openStores opens what the settings name. Whether there may be no store there yet is fresh; of a folder, the caller sees to
// it.
func openStores(ctx context.Context, cfg config.Config, logger zerolog.Logger, fresh bool) (*stores, error) {
	switch {
	case cfg.Memory:
		return openMemory(), nil
	case cfg.Shared():
		return openShared(ctx, cfg, logger, fresh)
	}
	return openFolder(cfg.Data, logger)
}

// alone are stores of this process's own, which are open from the start.
func alone(b backend, s stores) *stores {
	g := guarded(b)
	opened := make(chan struct{})
	close(opened)
	s.heads, s.table, s.objects = guardedHeads{g}, guardedTable{g}, guardedObjects{g}
	s.opened, s.collectors = opened, g.collectors()
	return &s
}

func openMemory() *stores {
	store := memstore.New()
	return alone(backend{store, store, memobjects.New()}, stores{
		room:  memstore.Room,
		where: "in memory: it is gone when this process ends",
		close: func() error { return nil },
	})
}

// openFolder opens the embedded store. What one step opened is closed again when a later one fails, in reverse order;
// the lock goes last, since until then the folder is ours.
func openFolder(path string, logger zerolog.Logger) (_ *stores, err error) {
	folder, err := openDataFolder(path)
	if err != nil {
		return nil, err
	}
	closers := []func() error{folder.release}
	closeAll := func() error {
		var all error
		for i := len(closers) - 1; i >= 0; i-- {
			all = errors.Join(all, closers[i]())
		}
		return all
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll())
		}
	}()
	objects, err := fileobjects.Open(folder.objects())
	if err != nil {
		return nil, fmt.Errorf("open data folder: %w", err)
	}
	closers = append(closers, objects.Close)
	db, err := pebblestore.Open(folder.db(), pebblestore.Options{Log: logger})
	if err != nil {
		return nil, fmt.Errorf("open data folder: %w", err)
	}
	closers = append(closers, db.Close)
	return alone(backend{db, db, objects}, stores{
		room: pebblestore.Room, where: folder.path, failed: db.Failed(), close: closeAll,
	}), nil
}
