package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator/memstore"
	"github.com/tailrace-streams/tailrace/coordinator/pebblestore"
	"github.com/tailrace-streams/tailrace/functions/config"
	"github.com/tailrace-streams/tailrace/functions/stores"
	"github.com/tailrace-streams/tailrace/segments/fileobjects"
	"github.com/tailrace-streams/tailrace/segments/memobjects"
)

// openStores opens what the settings name. Whether there may be no store there yet is fresh; of a folder, the caller sees to
// it.
func openStores(ctx context.Context, cfg config.Config, logger zerolog.Logger, fresh bool) (*stores.Stores, error) {
	switch {
	case cfg.Memory:
		return openMemory(), nil
	case cfg.Shared():
		return stores.OpenShared(ctx, cfg, logger, stores.Opening{Claim: fresh})
	}
	return openFolder(cfg.Data, logger)
}

func openMemory() *stores.Stores {
	store := memstore.New()
	return stores.Alone(stores.Backend{Heads: store, Table: store, Objects: memobjects.New()}, stores.Stores{
		Room:  memstore.Room,
		Where: "in memory: it is gone when this process ends",
		Close: func() error { return nil },
	})
}

// openFolder opens the embedded store. What one step opened is closed again when a later one fails, in reverse order;
// the lock goes last, since until then the folder is ours.
func openFolder(path string, logger zerolog.Logger) (_ *stores.Stores, err error) {
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
	return stores.Alone(stores.Backend{Heads: db, Table: db, Objects: objects}, stores.Stores{
		Room: pebblestore.Room, Where: folder.path, Failed: db.Failed(), Close: closeAll,
	}), nil
}
