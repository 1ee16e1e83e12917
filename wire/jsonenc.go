package wire

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"
)

// Format is how bytes (header names, header values, bodies) are written in JSON strings: the header s2-format.
type Format uint8

const (
	// FormatRaw writes the bytes as UTF-8. In a response every byte that is not UTF-8 becomes U+FFFD.
	FormatRaw Format = iota
	// FormatBase64 writes standard, padded base64.
	FormatBase64
)

// String is the format's name in the header s2-format.
func (f Format) String() string {
	if f == FormatBase64 {
		return "base64"
	}
	return "raw"
}

const hexDigits = "0123456789abcdef"

// mustEscape marks the ASCII bytes that a JSON string may not hold as they are. CR and LF are among them, so no JSON
// of this package breaks an SSE line.
var mustEscape = func() (t [utf8.RuneSelf]bool) {
	for c := range byte(0x20) {
		t[c] = true
	}
	t['"'], t['\\'] = true, true
	return t
}()

// appendString appends s as a JSON string; bytes that are not UTF-8 become U+FFFD, one for each.
func appendString[T ~string | ~[]byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	plain := 0 // start of the bytes not yet copied
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if mustEscape[c] {
				dst = appendEscape(append(dst, s[plain:i]...), c)
				plain = i + 1
			}
			i++
			continue
		}
		end := min(i+utf8.UTFMax, len(s))
		r, n := utf8.DecodeRuneInString(string(s[i:end]))
		if r == utf8.RuneError && n == 1 {
			dst = append(append(dst, s[plain:i]...), "\ufffd"...)
			plain = i + 1
		}
		i += n
	}
	return append(append(dst, s[plain:]...), '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
}

// appendData appends bytes as a JSON string in format f.
func appendData(dst, data []byte, f Format) []byte {
	if f == FormatRaw {
		return appendString(dst, data)
	}
	return append(base64.StdEncoding.AppendEncode(append(dst, '"'), data), '"')
}

func appendPosition(dst []byte, p StreamPosition) []byte {
	dst = strconv.AppendUint(append(dst, `{"seq_num":`...), p.SeqNum, 10)
	dst = strconv.AppendUint(append(dst, `,"timestamp":`...), p.Timestamp, 10)
	return append(dst, '}')
}

// AppendTailJSON appends a TailResponse, which is also the body of a 416.
func AppendTailJSON(dst []byte, tail StreamPosition) []byte {
	return append(appendPosition(append(dst, `{"tail":`...), tail), '}')
}

// AppendAckJSON appends an AppendAck; all three positions are always there.
func AppendAckJSON(dst []byte, ack AppendAck) []byte {
	dst = appendPosition(append(dst, `{"start":`...), ack.Start)
	dst = appendPosition(append(dst, `,"end":`...), ack.End)
	dst = appendPosition(append(dst, `,"tail":`...), ack.Tail)
	return append(dst, '}')
}

// AppendReadBatchJSON appends a ReadBatch on one line. A nil tail leaves the key out. Format raw loses bytes that are
// not UTF-8.
func AppendReadBatchJSON(dst []byte, records []Record, tail *StreamPosition, f Format) []byte {
	dst = append(dst, `{"records":[`...)
	for i := range records {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendRecordJSON(dst, &records[i], f)
	}
	dst = append(dst, ']')
	if tail != nil {
		dst = appendPosition(append(dst, `,"tail":`...), *tail)
	}
	return append(dst, '}')
}

// AppendRecordJSON appends a record as it stands in a batch.
func AppendRecordJSON(dst []byte, r *Record, f Format) []byte {
	dst = strconv.AppendUint(append(dst, `{"seq_num":`...), r.SeqNum, 10)
	dst = strconv.AppendUint(append(dst, `,"timestamp":`...), r.Timestamp, 10)
	dst = appendContentJSON(dst, r.Headers, r.Body, f)
	return append(dst, '}')
}

// appendContentJSON appends the two keys that records of both directions share, each only if it is not empty.
func appendContentJSON(dst []byte, headers []Header, body []byte, f Format) []byte {
	if len(headers) > 0 {
		dst = append(dst, `,"headers":[`...)
		for i, h := range headers {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendData(append(dst, '['), h.Name, f)
			dst = appendData(append(dst, ','), h.Value, f)
			dst = append(dst, ']')
		}
		dst = append(dst, ']')
	}
	if len(body) > 0 {
		dst = appendData(append(dst, `,"body":`...), body, f)
	}
	return dst
}

// EncodeAppendInputJSON appends an AppendInput, for a client. Format raw cannot carry bytes that are not UTF-8; it is
// the caller's to choose base64 for them.
func EncodeAppendInputJSON(dst []byte, in AppendInput, f Format) []byte {
	dst = append(dst, `{"records":[`...)
	for i := range in.Records {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendAppendRecordJSON(dst, &in.Records[i], f)
	}
	dst = append(dst, ']')
	if in.MatchSeqNum != nil {
		dst = strconv.AppendUint(append(dst, `,"match_seq_num":`...), *in.MatchSeqNum, 10)
	}
	if in.FencingToken != nil {
		dst = appendString(append(dst, `,"fencing_token":`...), *in.FencingToken)
	}
	return append(dst, '}')
}

func appendAppendRecordJSON(dst []byte, r *AppendRecord, f Format) []byte {
	dst = append(dst, `{"timestamp":`...)
	if r.HasTimestamp {
		dst = strconv.AppendUint(dst, r.Timestamp, 10)
	} else {
		dst = append(dst, "null"...)
	}
	return append(appendContentJSON(dst, r.Headers, r.Body, f), '}')
}
