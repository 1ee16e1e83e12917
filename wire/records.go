package wire

// StreamPosition is a place in a stream: a sequence number and a timestamp in milliseconds since the Unix epoch.
type StreamPosition struct {
	SeqNum    uint64 `json:"seq_num"`
	Timestamp uint64 `json:"timestamp"`
}

// TailResponse answers a check-tail; see AppendTailJSON for writing it.
type TailResponse struct {
	Tail StreamPosition `json:"tail"`
}

// AppendAck acknowledges a batch: the position of its first record, that after its last (with the timestamp of the
// last), and the durable tail. See AppendAckJSON for writing it.
//
// Version is Tailrace's own: in a session whose client asked for it (RevisionInAcksOf), the version of the revision that the
// batch made. Basin, stream and incarnation are those of the answer's header Tailrace-Revision. 0 is none, and JSON has no
// place for it: a unary answer has the header.
type AppendAck struct {
	Start   StreamPosition `json:"start"`
	End     StreamPosition `json:"end"`
	Tail    StreamPosition `json:"tail"`
	Version uint64         `json:"-"`
}

// Header is a name and a value of a record, both any bytes. A command record has one header without a name.
type Header struct {
	Name, Value []byte
}

// Record is a record as it is read. JSON and protobuf are both written from it, so a server converts once.
type Record struct {
	SeqNum    uint64
	Timestamp uint64 // milliseconds since the Unix epoch
	Headers   []Header
	Body      []byte
}

// ReadBatch is what a client reads: records, perhaps none, and the durable tail where the server said it.
type ReadBatch struct {
	Records []Record
	Tail    *StreamPosition
}

// AppendRecord is a record as it is appended. Empty headers and bodies decode to nil.
type AppendRecord struct {
	Timestamp    uint64 // milliseconds since the Unix epoch; meaningful if HasTimestamp
	HasTimestamp bool   // 0 is a timestamp like any other
	Headers      []Header
	Body         []byte
}

// AppendInput is a batch to append with its conditions. It has the shape of the API; whether its records make a valid
// batch is not decided here.
type AppendInput struct {
	Records []AppendRecord
	// MatchSeqNum, if there, must be the next sequence number; 0 is a value.
	MatchSeqNum *uint64
	// FencingToken, if there, must be the one in force; the empty one is a value. At most FencingTokenMax bytes.
	FencingToken *string
}
