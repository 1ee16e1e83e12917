package wire

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// protoField is one field of a message: a number or bytes, whichever its wire type gives; other types are skipped.
type protoField struct {
	num  protowire.Number
	typ  protowire.Type
	uint uint64
	data []byte
}

// nextField reads a field off b. ok is false if b is no protobuf. A field that is neither a number nor bytes comes with
// number 0, which no message has; one of a known number and another type than the message says is unknown, as the
// protobuf rules have it.
func nextField(b []byte) (f protoField, rest []byte, ok bool) {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 || num > protowire.MaxValidNumber {
		return f, nil, false
	}
	b = b[n:]
	f.num, f.typ = num, typ
	switch typ {
	case protowire.VarintType:
		f.uint, n = protowire.ConsumeVarint(b)
	case protowire.BytesType:
		f.data, n = protowire.ConsumeBytes(b)
	default:
		n = protowire.ConsumeFieldValue(num, typ, b)
		f.num = 0
	}
	if n < 0 {
		return f, nil, false
	}
	return f, b[n:], true
}

// isUint and isData tell which field it is.
func (f protoField) isUint(num protowire.Number) bool {
	return f.num == num && f.typ == protowire.VarintType
}

func (f protoField) isData(num protowire.Number) bool {
	return f.num == num && f.typ == protowire.BytesType
}

// value is the field's bytes, nil if there are none.
func (f protoField) value() []byte {
	if len(f.data) == 0 {
		return nil
	}
	return f.data[:len(f.data):len(f.data)]
}

// DecodeAppendInputProto reads an AppendInput; the result points into body. What is no protobuf, or has a fencing token
// that is not UTF-8, has the code `at`: CodeBadProto for a unary body, CodeBadFrame for a frame. A fencing token that
// is too long, and more than RecordsDecodeMax records or HeadersDecodeMax headers, are `invalid`.
func DecodeAppendInputProto(body []byte, at Code) (AppendInput, error) {
	bad := Errorf(at, "not a protobuf AppendInput")
	d := inputDecoder{}
	for len(body) > 0 {
		f, rest, ok := nextField(body)
		if !ok {
			return AppendInput{}, bad
		}
		body = rest
		switch {
		case f.isData(inputRecords):
			ok = d.record(f.data)
		case f.isUint(inputMatchSeqNum):
			n := f.uint // a copy, or every field would be allocated
			d.in.MatchSeqNum = &n
		case f.isData(inputFencingToken):
			token := string(f.data)
			d.in.FencingToken, ok = &token, utf8.Valid(f.data)
		}
		if !ok {
			return AppendInput{}, bad
		}
		if err := d.tooMany(); err != nil {
			return AppendInput{}, err
		}
	}
	if d.in.FencingToken != nil {
		if err := CheckFencingToken(*d.in.FencingToken, CodeInvalid); err != nil {
			return AppendInput{}, err
		}
	}
	return d.in, nil
}

// inputDecoder gathers the headers of all records in one slice, to allocate a few times in all.
type inputDecoder struct {
	in      AppendInput
	headers []Header
}

func (d *inputDecoder) tooMany() error {
	if len(d.in.Records) > RecordsDecodeMax {
		return Errorf(CodeInvalid, "a batch has more than %d records", RecordsDecodeMax)
	}
	if len(d.headers) > HeadersDecodeMax {
		return Errorf(CodeInvalid, "a batch has more than %d headers", HeadersDecodeMax)
	}
	return nil
}

func (d *inputDecoder) record(b []byte) bool {
	var r AppendRecord
	start := len(d.headers)
	for len(b) > 0 {
		f, rest, ok := nextField(b)
		if !ok {
			return false
		}
		b = rest
		switch {
		case f.isUint(appendRecordTimestamp):
			r.Timestamp, r.HasTimestamp = f.uint, true
		case f.isData(appendRecordHeaders):
			h, ok := decodeHeader(f.data)
			if !ok {
				return false
			}
			if d.headers = append(d.headers, h); len(d.headers) > HeadersDecodeMax {
				return true // the caller refuses the batch
			}
		case f.isData(appendRecordBody):
			r.Body = f.value()
		}
	}
	if end := len(d.headers); end > start {
		r.Headers = d.headers[start:end:end]
	}
	d.in.Records = append(d.in.Records, r)
	return true
}

func decodeHeader(b []byte) (h Header, ok bool) {
	for len(b) > 0 {
		f, rest, ok := nextField(b)
		if !ok {
			return Header{}, false
		}
		b = rest
		switch {
		case f.isData(headerName):
			h.Name = f.value()
		case f.isData(headerValue):
			h.Value = f.value()
		}
	}
	return h, true
}

// decodePosition reads b into *p; fields that b does not have stay, as protobuf merges messages that come twice.
func decodePosition(b []byte, p *StreamPosition) bool {
	for len(b) > 0 {
		f, rest, ok := nextField(b)
		if !ok {
			return false
		}
		b = rest
		switch {
		case f.isUint(positionSeqNum):
			p.SeqNum = f.uint
		case f.isUint(positionTimestamp):
			p.Timestamp = f.uint
		}
	}
	return true
}

// DecodeAckProto reads an AppendAck, for a client: `bad_proto` if it is none. All three positions must be there.
func DecodeAckProto(body []byte) (ack AppendAck, err error) {
	bad := Errorf(CodeBadProto, "not a protobuf AppendAck")
	seen := 0
	for len(body) > 0 {
		f, rest, ok := nextField(body)
		if !ok {
			return AppendAck{}, bad
		}
		body = rest
		for i, to := range []*StreamPosition{&ack.Start, &ack.End, &ack.Tail} {
			if f.isData(ackStart + protowire.Number(i)) {
				ok = decodePosition(f.data, to)
				seen |= 1 << i
			}
		}
		if f.isUint(ackVersion) {
			ack.Version = f.uint
		}
		if !ok {
			return AppendAck{}, bad
		}
	}
	if seen != 0b111 {
		return AppendAck{}, Errorf(CodeBadProto, "an AppendAck without start, end or tail")
	}
	return ack, nil
}

// DecodeReadBatchProto reads a ReadBatch, for a client: `bad_proto` if it is none. The result points into body.
func DecodeReadBatchProto(body []byte) (batch ReadBatch, err error) {
	bad := Errorf(CodeBadProto, "not a protobuf ReadBatch")
	for len(body) > 0 {
		f, rest, ok := nextField(body)
		if !ok {
			return ReadBatch{}, bad
		}
		body = rest
		switch {
		case f.isData(batchRecords):
			var r Record
			r, ok = decodeRecord(f.data)
			batch.Records = append(batch.Records, r)
		case f.isData(batchTail):
			if batch.Tail == nil {
				batch.Tail = new(StreamPosition)
			}
			ok = decodePosition(f.data, batch.Tail)
		}
		if !ok {
			return ReadBatch{}, bad
		}
	}
	return batch, nil
}

func decodeRecord(b []byte) (r Record, ok bool) {
	for len(b) > 0 {
		f, rest, ok := nextField(b)
		if !ok {
			return Record{}, false
		}
		b = rest
		switch {
		case f.isUint(recordSeqNum):
			r.SeqNum = f.uint
		case f.isUint(recordTimestamp):
			r.Timestamp = f.uint
		case f.isData(recordHeaders):
			h, ok := decodeHeader(f.data)
			if !ok {
				return Record{}, false
			}
			r.Headers = append(r.Headers, h)
		case f.isData(recordBody):
			r.Body = f.value()
		}
	}
	return r, true
}
