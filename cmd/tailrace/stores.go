package main

import (
	"errors"
	"fmt"

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
	// where says it to a person.
	where string
	// failed is closed when a store cannot go on, which only a new start mends; nil never is.
	failed <-chan struct{}
	// close is called once, when nobody uses the stores any more.
	close func() error
}

func openStores(cfg config.Config, logger zerolog.Logger) (*stores, error) {
	if cfg.Memory {
		return openMemory(), nil
	}
	return openFolder(cfg.Data, logger)
}

func openMemory() *stores {
	store := memstore.New()
	return &stores{
		heads: store, table: store, objects: memobjects.New(), room: memstore.Room,
		where: "in memory: it is gone when this process ends",
		close: func() error { return nil },
	}
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
	return &stores{
		heads: db, table: db, objects: objects, room: pebblestore.Room,
		where: folder.path, failed: db.Failed(), close: closeAll,
	}, nil
}
