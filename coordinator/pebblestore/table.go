package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// Get implements coordinator.Table.
func (s *Store) Get(ctx context.Context, key coordinator.Key) (coordinator.Row, error) {
	if err := key.Validate(); err != nil {
		return coordinator.Row{}, fmt.Errorf("get row: %w", err)
	}
	if err := s.begin(ctx); err != nil {
		return coordinator.Row{}, fmt.Errorf("get row: %w", err)
	}
	defer s.calls.Done()
	stored := rowKey(key)
	// As for heads: what Pebble shows may still be on its way to the disk.
	unlock, err := s.lock(ctx, s.rowLocks, stored)
	if err != nil {
		return coordinator.Row{}, fmt.Errorf("get row: %w", err)
	}
	defer unlock()
	return s.row(key, stored)
}

// Put implements coordinator.Table.
func (s *Store) Put(ctx context.Context, row coordinator.Row, ifVersion uint64) (coordinator.Row, error) {
	if err := row.Validate(); err != nil {
		return coordinator.Row{}, fmt.Errorf("put row: %w", err)
	}
	row.Version = ifVersion + 1
	row.Value = append([]byte(nil), row.Value...)
	err := s.change(ctx, row.Key, func(b *pebble.Batch, key []byte, found coordinator.Row) error {
		if found.Version != ifVersion {
			return &coordinator.Conflict{Found: found}
		}
		return b.Set(key, appendRowValue(nil, &row), nil)
	})
	if err != nil {
		return coordinator.Row{}, err
	}
	return row, nil
}

// Delete implements coordinator.Table.
func (s *Store) Delete(ctx context.Context, key coordinator.Key, ifVersion uint64) error {
	if err := key.Validate(); err != nil {
		return fmt.Errorf("delete row: %w", err)
	}
	return s.change(ctx, key, func(b *pebble.Batch, stored []byte, found coordinator.Row) error {
		switch found.Version {
		case 0:
			return coordinator.ErrNotFound
		case ifVersion:
			return b.Delete(stored, nil)
		}
		return &coordinator.Conflict{Found: found}
	})
}

// change stages one row's update on the row as it is, Version 0 if there is none, and makes it durable.
func (s *Store) change(ctx context.Context, key coordinator.Key, stage func(*pebble.Batch, []byte, coordinator.Row) error) error {
	if err := s.begin(ctx); err != nil {
		return fmt.Errorf("write row: %w", notApplied(err))
	}
	defer s.calls.Done()
	stored := rowKey(key)
	unlock, err := s.lock(ctx, s.rowLocks, stored)
	if err != nil {
		return fmt.Errorf("write row: %w", notApplied(err))
	}
	found, err := s.row(key, stored)
	if err != nil && !errors.Is(err, coordinator.ErrNotFound) {
		unlock()
		return fmt.Errorf("write row: %w", notApplied(err))
	}
	b := s.db.NewBatch()
	if err := stage(b, stored, found); err != nil {
		unlock()
		_ = b.Close()
		if coordinator.Definite(err) {
			return err
		}
		return fmt.Errorf("write row: %w", notApplied(err))
	}
	s.rowsInFlight.Add(1)
	release := func() {
		s.rowsInFlight.Add(-1)
		unlock()
	}
	if err := s.commit(ctx, b, func() {}, release); err != nil {
		return fmt.Errorf("write row: %w", err)
	}
	return nil
}

// row reads one row. The caller holds its lock.
func (s *Store) row(key coordinator.Key, stored []byte) (coordinator.Row, error) {
	value, closer, err := s.db.Get(stored)
	if errors.Is(err, pebble.ErrNotFound) {
		return coordinator.Row{}, coordinator.ErrNotFound
	}
	if err != nil {
		return coordinator.Row{}, fmt.Errorf("read row: %w", err)
	}
	row, err := decodeRowValue(key, value)
	return row, errors.Join(err, closer.Close())
}

// List implements coordinator.Table.
func (s *Store) List(ctx context.Context, part, prefix, after string, limit int) ([]coordinator.Row, error) {
	if err := coordinator.ValidatePart(part); err != nil {
		return nil, fmt.Errorf("list rows: %w", err)
	}
	if err := s.begin(ctx); err != nil {
		return nil, fmt.Errorf("list rows: %w", err)
	}
	defer s.calls.Done()
	rows, err := s.scan(ctx, part, prefix, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list rows: %w", err)
	}
	return rows, nil
}

func (s *Store) scan(ctx context.Context, part, prefix, after string, limit int) (rows []coordinator.Row, err error) {
	if limit <= 0 {
		return nil, nil
	}
	whole := rowKey(coordinator.Key{Part: part})
	from := append(whole[:len(whole):len(whole)], max(prefix, after)...)
	if after >= prefix && after != "" {
		from = append(from, 0) // the smallest key above after
	}
	it, err := s.db.NewIter(&pebble.IterOptions{
		LowerBound: from, UpperBound: keyAfter(append(whole[:len(whole):len(whole)], prefix...)),
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	for it.First(); it.Valid() && len(rows) < limit; it.Next() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, err
		}
		sort := strings.Clone(string(it.Key()[len(whole):]))
		row, err := decodeRowValue(coordinator.Key{Part: part, Sort: sort}, value)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, it.Error()
}

// settle returns when every row that an iterator made before shows is durable. With no write in flight all are;
// otherwise an empty record, synced, has them on the disk before it.
func (s *Store) settle(ctx context.Context) error {
	if s.rowsInFlight.Load() == 0 {
		return s.err() // a write that failed is not in flight, and not durable
	}
	b := s.db.NewBatch()
	if err := b.LogData(nil, nil); err != nil {
		return err
	}
	return s.commit(ctx, b, func() {}, func() {})
}
