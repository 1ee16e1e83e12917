package memstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// part holds the rows of one part, and their sort keys in order. A sorted slice makes an insertion linear in the
// part, which a store in memory can afford, and a listing two searches.
type part struct {
	keys []string
	rows map[string]coordinator.Row
}

// Get implements coordinator.Table.
func (s *Store) Get(ctx context.Context, key coordinator.Key) (coordinator.Row, error) {
	if err := readable(ctx, key); err != nil {
		return coordinator.Row{}, fmt.Errorf("get row: %w", err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	row, ok := s.row(key)
	if !ok {
		return coordinator.Row{}, coordinator.ErrNotFound
	}
	return owned(row), nil
}

// Put implements coordinator.Table.
func (s *Store) Put(ctx context.Context, row coordinator.Row, ifVersion uint64) (coordinator.Row, error) {
	if err := row.Validate(); err != nil {
		return coordinator.Row{}, fmt.Errorf("put row: %w", err)
	}
	if err := begun(ctx); err != nil {
		return coordinator.Row{}, fmt.Errorf("put row: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, there := s.row(row.Key)
	if found.Version != ifVersion {
		return coordinator.Row{}, &coordinator.Conflict{Found: owned(found)}
	}
	row.Version = ifVersion + 1
	p := s.parts[row.Key.Part]
	if p == nil {
		p = &part{rows: map[string]coordinator.Row{}}
		s.parts[row.Key.Part] = p
	}
	if !there {
		at, _ := slices.BinarySearch(p.keys, row.Key.Sort)
		p.keys = slices.Insert(p.keys, at, row.Key.Sort)
	}
	p.rows[row.Key.Sort] = owned(row)
	return owned(row), nil
}

// Delete implements coordinator.Table.
func (s *Store) Delete(ctx context.Context, key coordinator.Key, ifVersion uint64) error {
	if err := key.Validate(); err != nil {
		return fmt.Errorf("delete row: %w", err)
	}
	if err := begun(ctx); err != nil {
		return fmt.Errorf("delete row: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, there := s.row(key)
	switch {
	case !there:
		return coordinator.ErrNotFound
	case found.Version != ifVersion:
		return &coordinator.Conflict{Found: owned(found)}
	}
	p := s.parts[key.Part]
	at, _ := slices.BinarySearch(p.keys, key.Sort)
	p.keys = slices.Delete(p.keys, at, at+1)
	delete(p.rows, key.Sort)
	if len(p.keys) == 0 {
		delete(s.parts, key.Part)
	}
	return nil
}

// List implements coordinator.Table.
func (s *Store) List(ctx context.Context, partName, prefix, after string, limit int) ([]coordinator.Row, error) {
	if err := coordinator.ValidatePart(partName); err != nil {
		return nil, fmt.Errorf("list rows: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list rows: %w", err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	p := s.parts[partName]
	if p == nil {
		return nil, nil
	}
	at, found := slices.BinarySearch(p.keys, max(prefix, after))
	if found && after >= prefix {
		at++
	}
	var rows []coordinator.Row
	for _, key := range p.keys[at:] {
		if len(rows) >= limit || !strings.HasPrefix(key, prefix) {
			break
		}
		rows = append(rows, owned(p.rows[key]))
	}
	return rows, nil
}

func (s *Store) row(key coordinator.Key) (coordinator.Row, bool) {
	p := s.parts[key.Part]
	if p == nil {
		return coordinator.Row{}, false
	}
	row, ok := p.rows[key.Sort]
	return row, ok
}

func readable(ctx context.Context, key coordinator.Key) error {
	if err := key.Validate(); err != nil {
		return err
	}
	return ctx.Err()
}

// owned copies the value, which callers may reuse.
func owned(row coordinator.Row) coordinator.Row {
	row.Value = bytes.Clone(row.Value)
	return row
}
