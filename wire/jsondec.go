package wire

import (
	"bytes"
	"encoding/base64"
	"errors"
)

// decodeJSON reads one value and nothing after it. It owns text from here on.
func decodeJSON(text []byte, read func(*scanner) error) error {
	s, err := newScanner(text)
	if err != nil {
		return err
	}
	if err := read(s); err != nil {
		return err
	}
	return s.end()
}

// within puts the name of a field before the message of an error found in it.
func within(field string, err error) error {
	var e *Error
	if err == nil || !errors.As(err, &e) {
		return err
	}
	c := *e
	c.Message = field + ": " + c.Message
	return &c
}

// nullable reads null as absence, and else a value.
func nullable[T any](s *scanner, read func(*scanner) (T, error)) (*T, error) {
	if s.null() {
		return nil, nil
	}
	v, err := read(s)
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// assign reads a value into *to.
func assign[T any](s *scanner, to *T, read func(*scanner) (T, error)) error {
	v, err := read(s)
	if err == nil {
		*to = v
	}
	return err
}

// assignNullable reads a value or null into *to.
func assignNullable[T any](s *scanner, to **T, read func(*scanner) (T, error)) error {
	v, err := nullable(s, read)
	if err == nil {
		*to = v
	}
	return err
}

func readString(s *scanner) (string, error) {
	b, err := s.str()
	return string(b), err
}

func missing(field string) error { return Errorf(CodeBadJSON, "missing field %q", field) }

// DecodeAppendInputJSON reads the body of an append. It takes body over: strings are unescaped in it, and the result
// points into it. Errors are `bad_json`, or `invalid` for base64 that is not base64 and for more than RecordsDecodeMax
// records. JSON that is not UTF-8, or has half of a surrogate pair, is refused.
func DecodeAppendInputJSON(body []byte, f Format) (AppendInput, error) {
	var in AppendInput
	seen := false
	err := decodeJSON(body, func(s *scanner) error {
		return s.object(func(key []byte) error {
			switch string(key) {
			case "records":
				seen = true
				return readAppendRecords(s, &in)
			case "match_seq_num":
				return within("match_seq_num", assignNullable(s, &in.MatchSeqNum, (*scanner).u64))
			case "fencing_token":
				return within("fencing_token", assignNullable(s, &in.FencingToken, readFencingToken))
			}
			return s.skip()
		})
	})
	switch {
	case err != nil:
		return AppendInput{}, err
	case !seen:
		return AppendInput{}, missing("records")
	case f == FormatBase64:
		// Only after the whole body has been read: what is no JSON at all is that first.
		if err := decodeBase64(in.Records); err != nil {
			return AppendInput{}, err
		}
	}
	return in, nil
}

func readFencingToken(s *scanner) (string, error) {
	token, err := readString(s)
	if err != nil {
		return "", err
	}
	return token, CheckFencingToken(token, CodeBadJSON)
}

func readAppendRecords(s *scanner, in *AppendInput) error {
	in.Records = nil
	var headers []Header // of all records together, to allocate a few times in all
	err := s.array(func(index int) error {
		if index == RecordsDecodeMax {
			return Errorf(CodeInvalid, "a batch has more than %d records", RecordsDecodeMax)
		}
		in.Records = append(in.Records, AppendRecord{})
		r := &in.Records[index]
		return s.object(func(key []byte) (err error) {
			switch string(key) {
			case "timestamp":
				r.Timestamp, r.HasTimestamp = 0, false
				if !s.null() {
					r.HasTimestamp = true
					r.Timestamp, err = s.u64()
				}
			case "headers":
				headers, r.Headers, err = readHeaders(s, headers)
			case "body":
				r.Body, err = readData(s)
			default:
				return s.skip()
			}
			return within("records", err)
		})
	})
	return err
}

// readHeaders appends the headers of one record to all and returns both the longer slice and the record's part of it.
func readHeaders(s *scanner, all []Header) (longer, own []Header, err error) {
	start := len(all)
	err = s.array(func(int) error {
		var h Header
		n := 0
		err := s.array(func(index int) (err error) {
			switch n = index + 1; index {
			case 0:
				h.Name, err = readData(s)
			case 1:
				h.Value, err = readData(s)
			default:
				err = s.fail("a header of two strings")
			}
			return err
		})
		if err == nil && n != 2 {
			err = s.fail("a header of two strings")
		}
		all = append(all, h)
		return err
	})
	if len(all) == start {
		return all, nil, err
	}
	return all, all[start:len(all):len(all)], err
}

// readData reads a string that stands for bytes, as it is written.
func readData(s *scanner) ([]byte, error) {
	b, err := s.str()
	if len(b) == 0 {
		return nil, err
	}
	return b, err
}

// decodeBase64 replaces each string of the records by what it encodes, all in one new allocation.
func decodeBase64(records []AppendRecord) error {
	size := 0
	eachData(records, func(_ int, data *[]byte) error {
		size += base64.StdEncoding.DecodedLen(len(*data))
		return nil
	})
	decoded := make([]byte, 0, size)
	return eachData(records, func(index int, data *[]byte) error {
		if len(*data) == 0 {
			return nil
		}
		start := len(decoded)
		var err error
		// encoding/base64 skips line breaks wherever they are; a second spelling of the same bytes is refused.
		if decoded, err = base64.StdEncoding.Strict().AppendDecode(decoded, *data); err != nil || bytes.ContainsAny(*data, "\r\n") {
			return Errorf(CodeInvalid, "record %d: not standard padded base64", index)
		}
		*data = decoded[start:len(decoded):len(decoded)]
		return nil
	})
}

// eachData calls visit for each name, value and body, with the index of its record.
func eachData(records []AppendRecord, visit func(index int, data *[]byte) error) error {
	for i := range records {
		r := &records[i]
		for j := range r.Headers {
			if err := visit(i, &r.Headers[j].Name); err != nil {
				return err
			}
			if err := visit(i, &r.Headers[j].Value); err != nil {
				return err
			}
		}
		if err := visit(i, &r.Body); err != nil {
			return err
		}
	}
	return nil
}

// DecodeReadBatchJSON reads a ReadBatch, for a client. It takes body over as DecodeAppendInputJSON does.
func DecodeReadBatchJSON(body []byte, f Format) (ReadBatch, error) {
	var batch ReadBatch
	var records []AppendRecord // the part that base64 is about
	err := decodeJSON(body, func(s *scanner) error {
		return s.object(func(key []byte) error {
			switch string(key) {
			case "records":
				batch.Records, records = nil, nil
				return s.array(func(int) error {
					seq, r, err := readSequencedRecord(s)
					batch.Records = append(batch.Records, Record{SeqNum: seq, Timestamp: r.Timestamp})
					records = append(records, r)
					return within("records", err)
				})
			case "tail":
				return within("tail", assignNullable(s, &batch.Tail, readPosition))
			}
			return s.skip()
		})
	})
	if err == nil && f == FormatBase64 {
		err = decodeBase64(records)
	}
	if err != nil {
		return ReadBatch{}, err
	}
	for i, r := range records {
		batch.Records[i].Headers, batch.Records[i].Body = r.Headers, r.Body
	}
	return batch, nil
}

func readSequencedRecord(s *scanner) (seq uint64, r AppendRecord, err error) {
	hasSeq := false
	err = s.object(func(key []byte) (err error) {
		switch string(key) {
		case "seq_num":
			hasSeq = true
			seq, err = s.u64()
		case "timestamp":
			r.HasTimestamp = true
			r.Timestamp, err = s.u64()
		case "headers":
			_, r.Headers, err = readHeaders(s, nil)
		case "body":
			r.Body, err = readData(s)
		default:
			err = s.skip()
		}
		return err
	})
	if err == nil && (!hasSeq || !r.HasTimestamp) {
		err = Errorf(CodeBadJSON, "a record without seq_num or timestamp")
	}
	return seq, r, err
}

func readPosition(s *scanner) (p StreamPosition, err error) {
	err = s.object(func(key []byte) error {
		switch string(key) {
		case "seq_num":
			return assign(s, &p.SeqNum, (*scanner).u64)
		case "timestamp":
			return assign(s, &p.Timestamp, (*scanner).u64)
		}
		return s.skip()
	})
	return p, err
}

// DecodeAppendAckJSON reads an AppendAck, for a client.
func DecodeAppendAckJSON(body []byte) (ack AppendAck, err error) {
	err = decodeJSON(body, func(s *scanner) error {
		return s.object(func(key []byte) error {
			switch string(key) {
			case "start":
				return assign(s, &ack.Start, readPosition)
			case "end":
				return assign(s, &ack.End, readPosition)
			case "tail":
				return assign(s, &ack.Tail, readPosition)
			}
			return s.skip()
		})
	})
	return ack, err
}
