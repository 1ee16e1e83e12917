package client

import (
	"encoding/binary"

	"github.com/tailrace-streams/tailrace/wire"
)

// Limits of one batch (S2 API, "Records and batches"). The server is who refuses; a [Producer] cuts its batches by them.
const (
	// MaxBatchRecords is the most records of one batch.
	MaxBatchRecords = 1000
	// MaxBatchBytes is the most metered bytes of one batch, and of one record; see [MeteredSize].
	MaxBatchBytes = 1 << 20
)

// The shapes that the API has, as they are on the wire.
type (
	// Position is a sequence number and a timestamp in milliseconds since the Unix epoch.
	Position = wire.StreamPosition
	// Record is a record as it is read.
	Record = wire.Record
	// AppendRecord is a record to append.
	AppendRecord = wire.AppendRecord
	// Header is a name and a value of a record, both any bytes.
	Header = wire.Header
	// Batch is records to append together, all or none, with their conditions: MatchSeqNum and FencingToken are nil
	// where there is none, and 0 and the empty token are values.
	Batch = wire.AppendInput
)

// Ack acknowledges a batch: it is durable.
type Ack struct {
	// Start is the first record; End is after the last, with the last's timestamp; Tail is the tail meanwhile.
	Start, End, Tail Position
	// Revision names the state that the append made, for [Stream.WithMinRevision]. Empty from servers without revisions.
	Revision Revision
}

// Text is a record of a text.
func Text(body string) AppendRecord { return AppendRecord{Body: []byte(body)} }

// Bytes is a record of bytes, which belong to the record from now on.
func Bytes(body []byte) AppendRecord { return AppendRecord{Body: body} }

// FenceCommand is the command record that installs a fencing token in order with the records around it; the empty token
// clears. Unlike [Stream.Fence] it works on every S2 server, and is subject to the conditions of its batch.
func FenceCommand(token string) AppendRecord { return command("fence", []byte(token)) }

// TrimCommand is the command record that lets go of all records before seqNum.
func TrimCommand(seqNum uint64) AppendRecord {
	return command("trim", binary.BigEndian.AppendUint64(nil, seqNum))
}

func command(name string, body []byte) AppendRecord {
	return AppendRecord{Headers: []Header{{Value: []byte(name)}}, Body: body}
}

// IsCommand reports whether a record is a command to the stream: it has one header, and that has no name.
func IsCommand(r *Record) bool { return len(r.Headers) == 1 && len(r.Headers[0].Name) == 0 }

// MeteredSize is what a record counts for in limits: 8, the bytes of its body, and those of each header and 2.
func MeteredSize(r *AppendRecord) int { return metered(r.Headers, r.Body) }

func metered(headers []Header, body []byte) int {
	size := 8 + len(body)
	for _, h := range headers {
		size += 2 + len(h.Name) + len(h.Value)
	}
	return size
}

// framedMax is what the records of a batch may take in a frame. Records of many small headers take twice their metered size,
// so this and not the limit of a batch is what refuses them.
const framedMax = wire.FramePayloadMax - wire.SizeConditionsProto

func framedBatch(records []AppendRecord) (size int) {
	for i := range records {
		size += wire.SizeAppendRecordProto(&records[i])
	}
	return size
}

func meteredBatch(records []AppendRecord) (size int) {
	for i := range records {
		size += MeteredSize(&records[i])
	}
	return size
}
