package pebblestore

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// formatVersion is the version of everything below and of the heads and entries in it. Raise it when an older build
// would read a newer store wrongly.
const formatVersion = 1

// The first byte of a key says what it is the key of. README.md shows the layout as a table.
const (
	kindFormat = 0x00
	kindEntry  = 'e'
	kindHead   = 'h'
	kindRow    = 'r'
)

var formatKey = append([]byte{kindFormat}, "tailrace"...)

func appendFormat(dst []byte, id uuid.UUID) []byte {
	return append(binary.BigEndian.AppendUint32(dst, formatVersion), id[:]...)
}

// decodeFormat gives the store's id, or ErrVersion for every layout but this build's.
func decodeFormat(b []byte) (id uuid.UUID, err error) {
	if len(b) < 4 {
		return id, fmt.Errorf("%w: format record of %d bytes", ErrCorrupt, len(b))
	}
	if v := binary.BigEndian.Uint32(b); v != formatVersion {
		return id, fmt.Errorf("%w: %d; this build knows version %d", ErrVersion, v, formatVersion)
	}
	if copy(id[:], b[4:]) != len(id) || len(b) != 4+len(id) {
		return id, fmt.Errorf("%w: format record of %d bytes", ErrCorrupt, len(b))
	}
	return id, nil
}

func headKey(id segments.StreamID) []byte { return append([]byte{kindHead}, id[:]...) }

func entryKey(id segments.StreamID, slot uint64) []byte {
	return appendEntryKey(make([]byte, 0, 25), id, slot)
}

func appendEntryKey(dst []byte, id segments.StreamID, slot uint64) []byte {
	return binary.BigEndian.AppendUint64(append(append(dst, kindEntry), id[:]...), slot)
}

const headPrefix = 8 + 8 + 4

// appendHeadValue writes where the entries lie, and the head without its log.
func appendHeadValue(dst []byte, c *cell) []byte {
	dst = binary.BigEndian.AppendUint64(dst, c.first())
	dst = binary.BigEndian.AppendUint64(dst, c.next)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(c.slots)))
	return coordinator.AppendHead(dst, &c.head, false)
}

// decodeHeadValue reads what appendHeadValue wrote: a cell without its log, the first slot and the number of slots.
func decodeHeadValue(b []byte) (c *cell, first uint64, count int, err error) {
	if len(b) < headPrefix {
		return nil, 0, 0, fmt.Errorf("%w: head of %d bytes", ErrCorrupt, len(b))
	}
	first = binary.BigEndian.Uint64(b)
	c = &cell{next: binary.BigEndian.Uint64(b[8:])}
	count = int(binary.BigEndian.Uint32(b[16:]))
	c.head, err = coordinator.DecodeHead(b[headPrefix:])
	switch {
	case err != nil:
		return nil, 0, 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
	case len(c.head.Log) > 0 || first > c.next || uint64(count) > c.next-first:
		return nil, 0, 0, fmt.Errorf("%w: head with %d entries from slot %d to %d", ErrCorrupt, count, first, c.next)
	}
	return c, first, count, nil
}

// rowKey keeps the order of (part, sort key): no part has a byte below 0x20, so the zero byte after it sorts before
// every longer part and cannot be mistaken.
func rowKey(key coordinator.Key) []byte {
	b := make([]byte, 0, 2+len(key.Part)+len(key.Sort))
	return append(append(append(append(b, kindRow), key.Part...), 0), key.Sort...)
}

const rowPrefix = 8 + 16

func appendRowValue(dst []byte, r *coordinator.Row) []byte {
	dst = binary.BigEndian.AppendUint64(dst, r.Version)
	return append(append(dst, r.ID[:]...), r.Value...)
}

// decodeRowValue copies what it returns.
func decodeRowValue(key coordinator.Key, b []byte) (coordinator.Row, error) {
	if len(b) < rowPrefix {
		return coordinator.Row{}, fmt.Errorf("%w: row of %d bytes", ErrCorrupt, len(b))
	}
	return coordinator.Row{
		Key: key, Version: binary.BigEndian.Uint64(b), ID: coordinator.OpID(b[8:rowPrefix]),
		Value: append([]byte(nil), b[rowPrefix:]...),
	}, nil
}

// keyAfter is the smallest key above all that have the prefix; nil if there is none.
func keyAfter(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			end := append([]byte(nil), prefix[:i+1]...)
			end[i]++
			return end
		}
	}
	return nil
}
