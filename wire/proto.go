package wire

import "google.golang.org/protobuf/encoding/protowire"

// The field numbers of s2pb/s2.proto, which is the definition; a test compares them. The code here writes and reads
// the wire by hand: it needs no messages in between, points into the body instead of copying it, and costs a fraction.
const (
	positionSeqNum    protowire.Number = 1
	positionTimestamp protowire.Number = 2

	headerName  protowire.Number = 1
	headerValue protowire.Number = 2

	appendRecordTimestamp protowire.Number = 1
	appendRecordHeaders   protowire.Number = 2
	appendRecordBody      protowire.Number = 3

	inputRecords      protowire.Number = 1
	inputMatchSeqNum  protowire.Number = 2
	inputFencingToken protowire.Number = 3

	ackStart protowire.Number = 1
	ackEnd   protowire.Number = 2
	ackTail  protowire.Number = 3
	// ackVersion is Tailrace's, sent to those who ask; S2 counts its fields from below.
	ackVersion protowire.Number = 15

	recordSeqNum    protowire.Number = 1
	recordTimestamp protowire.Number = 2
	recordHeaders   protowire.Number = 3
	recordBody      protowire.Number = 4

	batchRecords protowire.Number = 1
	batchTail    protowire.Number = 2
)

// All field numbers are below 16, so every tag takes one byte.
const tagSize = 1

func sizeUint(v uint64) int {
	if v == 0 {
		return 0
	}
	return tagSize + protowire.SizeVarint(v)
}

func sizeData(n int) int {
	if n == 0 {
		return 0
	}
	return tagSize + protowire.SizeBytes(n)
}

// appendUint writes a number with implicit presence: 0 is not written.
func appendUint(dst []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return appendUintAlways(dst, num, v)
}

func appendUintAlways(dst []byte, num protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, num, protowire.VarintType), v)
}

// appendBytes writes bytes with implicit presence: empty ones are not written.
func appendBytes(dst []byte, num protowire.Number, v []byte) []byte {
	if len(v) == 0 {
		return dst
	}
	return protowire.AppendBytes(protowire.AppendTag(dst, num, protowire.BytesType), v)
}

// openMessage writes the tag and size of a submessage, also of an empty one.
func openMessage(dst []byte, num protowire.Number, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, num, protowire.BytesType), uint64(size))
}

func appendPositionProto(dst []byte, num protowire.Number, p StreamPosition) []byte {
	dst = openMessage(dst, num, sizeUint(p.SeqNum)+sizeUint(p.Timestamp))
	dst = appendUint(dst, positionSeqNum, p.SeqNum)
	return appendUint(dst, positionTimestamp, p.Timestamp)
}

func sizeHeader(h Header) int { return sizeData(len(h.Name)) + sizeData(len(h.Value)) }

func sizeHeaders(headers []Header) (size int) {
	for _, h := range headers {
		size += tagSize + protowire.SizeBytes(sizeHeader(h))
	}
	return size
}

func appendHeadersProto(dst []byte, num protowire.Number, headers []Header) []byte {
	for _, h := range headers {
		dst = openMessage(dst, num, sizeHeader(h))
		dst = appendBytes(dst, headerName, h.Name)
		dst = appendBytes(dst, headerValue, h.Value)
	}
	return dst
}

// EncodeAckProto appends an AppendAck; all three positions are written, also when they are zero. A version follows them in
// a field that S2 does not have and its clients skip.
func EncodeAckProto(dst []byte, ack AppendAck) []byte {
	dst = appendPositionProto(dst, ackStart, ack.Start)
	dst = appendPositionProto(dst, ackEnd, ack.End)
	dst = appendPositionProto(dst, ackTail, ack.Tail)
	return appendUint(dst, ackVersion, ack.Version)
}

// EncodeReadBatchProto appends a ReadBatch. A nil tail is left out; a zero tail is written.
func EncodeReadBatchProto(dst []byte, records []Record, tail *StreamPosition) []byte {
	for i := range records {
		r := &records[i]
		dst = openMessage(dst, batchRecords, sizeRecord(r))
		dst = appendUint(dst, recordSeqNum, r.SeqNum)
		dst = appendUint(dst, recordTimestamp, r.Timestamp)
		dst = appendHeadersProto(dst, recordHeaders, r.Headers)
		dst = appendBytes(dst, recordBody, r.Body)
	}
	if tail != nil {
		dst = appendPositionProto(dst, batchTail, *tail)
	}
	return dst
}

func sizeRecord(r *Record) int {
	return sizeUint(r.SeqNum) + sizeUint(r.Timestamp) + sizeHeaders(r.Headers) + sizeData(len(r.Body))
}

// SizeRecordProto is what a record adds to the protobuf of a ReadBatch, in bytes. A batch must fit a frame
// (FramePayloadMax) with SizeTailProto for its tail; metered sizes do not tell, for small headers take twice theirs.
func SizeRecordProto(r *Record) int { return tagSize + protowire.SizeBytes(sizeRecord(r)) }

// SizeTailProto is the most that a tail adds to the protobuf of a ReadBatch, in bytes.
const SizeTailProto = 2*tagSize + 2*(tagSize+10)

func sizeAppendRecord(r *AppendRecord) int {
	size := sizeHeaders(r.Headers) + sizeData(len(r.Body))
	if r.HasTimestamp {
		size += tagSize + protowire.SizeVarint(r.Timestamp)
	}
	return size
}

// SizeAppendRecordProto is what a record adds to the protobuf of an AppendInput, in bytes. An input must fit a frame
// (FramePayloadMax) with SizeConditionsProto for its conditions; as with SizeRecordProto, metered sizes do not tell.
func SizeAppendRecordProto(r *AppendRecord) int {
	return tagSize + protowire.SizeBytes(sizeAppendRecord(r))
}

// SizeConditionsProto is the most that the conditions add to the protobuf of an AppendInput, in bytes.
const SizeConditionsProto = tagSize + 10 + tagSize + 1 + FencingTokenMax

// EncodeAppendInputProto appends an AppendInput, for a client.
func EncodeAppendInputProto(dst []byte, in AppendInput) []byte {
	for i := range in.Records {
		r := &in.Records[i]
		dst = openMessage(dst, inputRecords, sizeAppendRecord(r))
		if r.HasTimestamp {
			dst = appendUintAlways(dst, appendRecordTimestamp, r.Timestamp)
		}
		dst = appendHeadersProto(dst, appendRecordHeaders, r.Headers)
		dst = appendBytes(dst, appendRecordBody, r.Body)
	}
	if in.MatchSeqNum != nil {
		dst = appendUintAlways(dst, inputMatchSeqNum, *in.MatchSeqNum)
	}
	if in.FencingToken != nil {
		dst = protowire.AppendString(protowire.AppendTag(dst, inputFencingToken, protowire.BytesType), *in.FencingToken)
	}
	return dst
}
