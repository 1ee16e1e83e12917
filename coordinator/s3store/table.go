package s3store

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/tailrace-streams/tailrace/coordinator"
)

func rowKey(key coordinator.Key) string { return partFolder(key.Part) + sortPath(key.Sort) }

// Get implements coordinator.Table.
func (s *Store) Get(ctx context.Context, key coordinator.Key) (coordinator.Row, error) {
	if err := key.Validate(); err != nil {
		return coordinator.Row{}, fmt.Errorf("get row: %w", err)
	}
	found, err := s.rows.read(ctx, rowKey(key))
	if err == nil {
		err = mustBe(found.value, key)
	}
	switch {
	case err != nil:
		return coordinator.Row{}, fmt.Errorf("get row: %w", err)
	case found.value.version() == 0:
		return coordinator.Row{}, coordinator.ErrNotFound
	}
	return owned(found.value.Row), nil
}

// mustBe refuses a row that lies where another should: its object was put there by somebody else.
func mustBe(r *storedRow, key coordinator.Key) error {
	if r.version() != 0 && r.Key != key {
		return fmt.Errorf("a row lies where another should: %w", ErrCorrupt)
	}
	return nil
}

// owned copies the value, which callers may reuse.
func owned(row coordinator.Row) coordinator.Row {
	row.Value = bytes.Clone(row.Value)
	return row
}

// Put implements coordinator.Table.
func (s *Store) Put(ctx context.Context, row coordinator.Row, ifVersion uint64) (coordinator.Row, error) {
	if err := row.Validate(); err != nil {
		return coordinator.Row{}, fmt.Errorf("put row: %w", err)
	}
	row = owned(row)
	row.Version = ifVersion + 1
	var guess *state[storedRow]
	if ifVersion == 0 {
		guess = &state[storedRow]{}
	}
	_, err := s.rows.update(ctx, rowKey(row.Key), guess, func(old *storedRow) (*storedRow, error) {
		if err := mustBe(old, row.Key); err != nil {
			return nil, notApplied(err)
		}
		if old.version() != ifVersion {
			return nil, conflict(old)
		}
		return &storedRow{Row: row}, nil
	})
	if err != nil {
		return coordinator.Row{}, fmt.Errorf("put row: %w", err)
	}
	return owned(row), nil
}

func conflict(found *storedRow) error {
	if found.version() == 0 {
		return &coordinator.Conflict{}
	}
	return &coordinator.Conflict{Found: owned(found.Row)}
}

// Delete implements coordinator.Table. What is left of the row is a tombstone, unless its part is one of UsedOnce: then the
// object goes too, now or, if that fails, when a listing comes across it.
func (s *Store) Delete(ctx context.Context, key coordinator.Key, ifVersion uint64) error {
	if err := key.Validate(); err != nil {
		return fmt.Errorf("delete row: %w", err)
	}
	path := rowKey(key)
	_, err := s.rows.update(ctx, path, nil, func(old *storedRow) (*storedRow, error) {
		if err := mustBe(old, key); err != nil {
			return nil, notApplied(err)
		}
		switch old.version() {
		case 0:
			return nil, coordinator.ErrNotFound
		case ifVersion:
			return &storedRow{dead: true}, nil
		}
		return nil, conflict(old)
	})
	if errors.Is(err, coordinator.ErrNotFound) {
		return coordinator.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("delete row: %w", err)
	}
	if s.usedOnce(key.Part) {
		s.bury(ctx, []string{path})
	}
	return nil
}

// bury removes tombstones under keys that nobody will use again.
func (s *Store) bury(ctx context.Context, paths []string) {
	for _, err := range s.objects.Delete(ctx, paths) {
		s.log.Debug().Err(err).Msg("a tombstone stays until a listing comes across it")
		break
	}
	for _, path := range paths {
		s.rows.known.Invalidate(path)
	}
}
