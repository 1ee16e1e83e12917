package pebblestore

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/maypok86/otter/v2"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// cell is a head and where its log lies. It is immutable: a change makes another one.
type cell struct {
	head coordinator.Head
	// slots are the numbers in the keys of the entries, rising. There may be gaps after an exchange.
	slots []uint64
	// next is above every slot used so far: a slot that was moved away is not used again, so that a reader starts
	// behind its tombstone.
	next uint64
}

func (c *cell) first() uint64 {
	if len(c.slots) == 0 {
		return c.next
	}
	return c.slots[0]
}

// weigh estimates the memory of a cell.
func weigh(_ segments.StreamID, c *cell) uint32 {
	const headBytes, entryBytes, rootBytes = 600, 160, 180
	n := headBytes + entryBytes*uint64(len(c.slots)) + rootBytes*uint64(len(c.head.Pages)) + c.head.InlineBytes
	return uint32(min(n, 1<<31))
}

// lifetimes says how long heads stay in the cache: nothing of an idle stream does. A head that was looked at once, as a
// walk over all streams does, or just made, goes almost at once; one that is asked for or written again stays until a
// minute after the last time, like the sequencer that asks.
type lifetimes struct{}

const (
	afterFirstLook = 2 * time.Second
	afterLastUse   = time.Minute
)

func (lifetimes) ExpireAfterCreate(otter.Entry[segments.StreamID, *cell]) time.Duration {
	return afterFirstLook
}

func (lifetimes) ExpireAfterUpdate(otter.Entry[segments.StreamID, *cell], *cell) time.Duration {
	return afterLastUse
}

func (lifetimes) ExpireAfterRead(otter.Entry[segments.StreamID, *cell]) time.Duration {
	return afterLastUse
}

// write is what a transition does to the log: of the entries from at on, drop are replaced by add.
type write struct {
	at, drop int
	add      []segments.Entry
}

// advance stages the head after a transition and what changes in its log, never an entry that stays where it is.
// The batch grows with the entries added and dropped, not with the log.
func (c *cell) advance(b *pebble.Batch, head coordinator.Head, w write) (*cell, error) {
	next := &cell{head: head, next: c.next}
	end := w.at + w.drop
	keep := min(w.drop, len(w.add))
	next.slots = append(make([]uint64, 0, len(head.Log)), c.slots[:w.at+keep]...)
	gone := c.slots[w.at+keep : end]
	if len(w.add) <= w.drop {
		next.slots = append(next.slots, c.slots[end:]...)
	} else {
		// No room between two slots: what follows is written anew. Only an exchange for a longer run in the middle
		// comes here with entries behind it.
		gone = c.slots[end:]
		for len(next.slots) < len(head.Log) {
			next.slots = append(next.slots, next.next)
			next.next++
		}
	}
	for _, slot := range gone {
		if err := b.Delete(entryKey(head.Stream, slot), nil); err != nil {
			return nil, fmt.Errorf("stage head: %w", err)
		}
	}
	for i := range head.Log {
		replaced := i >= w.at && i < w.at+len(w.add)
		if !replaced && (i < w.at || len(w.add) <= w.drop) {
			continue
		}
		if err := b.Set(entryKey(head.Stream, next.slots[i]), coordinator.AppendEntry(nil, &head.Log[i]), nil); err != nil {
			return nil, fmt.Errorf("stage head: %w", err)
		}
	}
	if err := b.Set(headKey(head.Stream), appendHeadValue(nil, next), nil); err != nil {
		return nil, fmt.Errorf("stage head: %w", err)
	}
	return next, nil
}

// read loads a cell from Pebble. ErrNotFound is an answer.
func (s *Store) read(id segments.StreamID) (*cell, error) {
	value, closer, err := s.db.Get(headKey(id))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, coordinator.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read head: %w", err)
	}
	c, first, count, err := decodeHeadValue(bytes.Clone(value))
	if err := errors.Join(err, closer.Close()); err != nil {
		return nil, fmt.Errorf("read head %s: %w", id, err)
	}
	if count == 0 {
		return c, nil
	}
	if err := s.readLog(c, first, count); err != nil {
		return nil, fmt.Errorf("read log of %s: %w", id, err)
	}
	return c, nil
}

// readLog fills in the log, and holds it against the head.
func (s *Store) readLog(c *cell, first uint64, count int) (err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{
		LowerBound: entryKey(c.head.Stream, first), UpperBound: entryKey(c.head.Stream, c.next),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	c.head.Log = make([]segments.Entry, 0, count)
	c.slots = make([]uint64, 0, count)
	at, inline := c.head.Base, uint64(0)
	for it.First(); it.Valid(); it.Next() {
		slot, err := slotOf(it.Key())
		if err != nil {
			return err
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		e, err := coordinator.DecodeEntry(bytes.Clone(value))
		if err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		c.head.Log, c.slots = append(c.head.Log, e), append(c.slots, slot)
		at, inline = at+uint64(e.N), inline+uint64(len(e.Data))
	}
	if err := it.Error(); err != nil {
		return err
	}
	if len(c.slots) != count || c.slots[0] != first || at != c.head.Tail || inline != c.head.InlineBytes {
		return fmt.Errorf("%w: %d entries to sequence number %d, but the head says %d and %d",
			ErrCorrupt, len(c.slots), at, count, c.head.Tail)
	}
	return nil
}
