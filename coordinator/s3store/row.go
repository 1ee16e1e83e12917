package s3store

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// storedRow is a row, or the tombstone of one: then only dead is set. A deleted row leaves its object behind, because no
// store can be relied on to remove an object only if it is still the one that was meant.
type storedRow struct {
	coordinator.Row
	dead bool
}

// version is that of the row, 0 if there is none.
func (r *storedRow) version() uint64 {
	if r == nil || r.dead {
		return 0
	}
	return r.Version
}

// The fields of a row's payload, in order: protobuf's wire format. That of a tombstone is empty.
const (
	rowPart = iota + 1
	rowSort
	rowVersion
	rowID
	rowValue
)

var rowCodec = codec[storedRow]{
	encode: encodeRow, decode: decodeRow, dead: func(r *storedRow) bool { return r.dead },
	weigh: func(r *storedRow) int { return len(r.Key.Part) + len(r.Key.Sort) + len(r.Value) },
}

func encodeRow(r *storedRow) []byte {
	if r.dead {
		return nil
	}
	b := protowire.AppendBytes(protowire.AppendTag(nil, rowPart, protowire.BytesType), []byte(r.Key.Part))
	b = protowire.AppendBytes(protowire.AppendTag(b, rowSort, protowire.BytesType), []byte(r.Key.Sort))
	b = protowire.AppendVarint(protowire.AppendTag(b, rowVersion, protowire.VarintType), r.Version)
	b = protowire.AppendBytes(protowire.AppendTag(b, rowID, protowire.BytesType), r.ID[:])
	return protowire.AppendBytes(protowire.AppendTag(b, rowValue, protowire.BytesType), r.Value)
}

// decodeRow reads what encodeRow wrote, and nothing else. The row owns its memory.
func decodeRow(payload []byte) (*storedRow, error) {
	if len(payload) == 0 {
		return &storedRow{dead: true}, nil
	}
	in := bodyReader{rest: payload}
	r := &storedRow{}
	r.Key.Part, r.Key.Sort = string(in.bytes(rowPart)), string(in.bytes(rowSort))
	r.Version = in.varint(rowVersion)
	id := in.bytes(rowID)
	r.Value = bytes.Clone(in.bytes(rowValue))
	copy(r.ID[:], id)
	if in.bad || r.Version == 0 || r.Validate() != nil || !bytes.Equal(encodeRow(r), payload) {
		return nil, fmt.Errorf("row of %d bytes: %w", len(payload), ErrCorrupt)
	}
	return r, nil
}
