package segments

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// Header is one name and value of a record, both any bytes.
type Header struct {
	Name, Value []byte
}

// Record is one element of a stream.
//
// Its timestamp, in milliseconds since the Unix epoch, has three meanings in a record's life: what the client sent
// (with HasTimestamp saying whether it sent one), then the raw time that is stored, and for readers the effective
// time, which is the largest raw time up to and including the record (protocol 1, "folded").
type Record struct {
	Timestamp uint64
	// HasTimestamp is false only before admission, on a record whose client gave none.
	HasTimestamp bool
	// Sealed is the metered size of the record that Body holds encrypted, headers and all; 0 for a plain record.
	Sealed  uint32
	Headers []Header
	Body    []byte
}

// MeteredSize is the size that limits, quotas and byte counts of reads speak of (s2-api 3.2).
func (r *Record) MeteredSize() uint64 {
	if r.Sealed != 0 {
		return uint64(r.Sealed)
	}
	n := uint64(8 + 2*len(r.Headers) + len(r.Body))
	for _, h := range r.Headers {
		n += uint64(len(h.Name) + len(h.Value))
	}
	return n
}

// protoSizeMax is what a ReadBatch of this record alone can take in protobuf (s2-api 6). The fields of a header take a
// byte of tag and their length, where the metered size counts two bytes for all of it, so it can be twice as much.
func (r *Record) protoSizeMax() uint64 {
	const number = 1 + binary.MaxVarintLen64
	n := number + number + protoField(uint64(len(r.Body)))
	for _, h := range r.Headers {
		// Of a header without a name and a value the field is there all the same, but such a header is refused.
		n += protoField(protoField(uint64(len(h.Name))) + protoField(uint64(len(h.Value))))
	}
	return protoField(n)
}

// protoField is the size of a field of n bytes, with its tag. An empty one is left out.
func protoField(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	return 1 + uint64(bits.Len64(n)+6)/7 + n
}

// MeteredSize is the sum over records.
func MeteredSize(records []Record) uint64 {
	var n uint64
	for i := range records {
		n += records[i].MeteredSize()
	}
	return n
}

// ErrInvalid is wrapped by every error of ValidateBatch: the batch breaks a rule of the data model, whose text is
// meant for its sender.
var ErrInvalid = errors.New("invalid batch")

type invalidError string

func (e invalidError) Error() string        { return string(e) }
func (e invalidError) Is(target error) bool { return target == ErrInvalid }

func invalidf(format string, args ...any) error { return invalidError(fmt.Sprintf(format, args...)) }

// ValidateBatch checks the limits and the command records of a batch (s2-api 3.2 and 16). It returns the metered
// size of the batch, or an error that is ErrInvalid and names the record.
func ValidateBatch(records []Record) (uint64, error) {
	if len(records) == 0 {
		return 0, invalidf("the batch has no records; send at least one")
	}
	if len(records) > MaxBatchRecords {
		return 0, invalidf("the batch has %d records; at most %d are allowed", len(records), MaxBatchRecords)
	}
	var total uint64
	for i := range records {
		size := records[i].MeteredSize()
		if size > MaxRecordBytes {
			return 0, invalidf("record %d has a metered size of %d bytes; at most %d are allowed", i, size, MaxRecordBytes)
		}
		if n := records[i].protoSizeMax(); n > MaxRecordProtoBytes {
			return 0, invalidf("record %d takes %d bytes in protobuf; at most %d are allowed: send fewer or larger headers", i, n, MaxRecordProtoBytes)
		}
		if _, err := ParseCommand(&records[i]); err != nil {
			return 0, invalidf("record %d: %v", i, err)
		}
		total += size
	}
	if total > MaxBatchBytes {
		return 0, invalidf("the batch has a metered size of %d bytes; at most %d are allowed", total, MaxBatchBytes)
	}
	return total, nil
}

// CommandKind tells command records from ordinary ones.
type CommandKind uint8

// The kinds of s2-api 16.
const (
	NoCommand CommandKind = iota
	FenceCommand
	TrimCommand
)

// Command is what a command record asks for.
type Command struct {
	Kind  CommandKind
	Token string // FenceCommand: the token to install, at most MaxFencingTokenBytes
	Trim  uint64 // TrimCommand: the earliest sequence number to keep
}

// ParseCommand reads a record as a command: a record with exactly one header, whose name is empty. An ordinary
// record gives NoCommand; an ill-formed command an error that is ErrInvalid.
func ParseCommand(r *Record) (Command, error) {
	empty := false
	for _, h := range r.Headers {
		empty = empty || len(h.Name) == 0
	}
	if !empty {
		return Command{}, nil
	}
	if len(r.Headers) != 1 {
		return Command{}, invalidf("an empty header name marks a command record, which has exactly one header")
	}
	switch string(r.Headers[0].Value) {
	case "fence":
		token := string(r.Body)
		return Command{Kind: FenceCommand, Token: token}, CheckFencingToken(token)
	case "trim":
		if len(r.Body) != 8 {
			return Command{}, invalidf("the body of a trim command is an 8-byte big-endian sequence number, not %d bytes", len(r.Body))
		}
		return Command{Kind: TrimCommand, Trim: binary.BigEndian.Uint64(r.Body)}, nil
	}
	return Command{}, invalidf("unknown command; a record with an empty header name is \"fence\" or \"trim\"")
}

// CheckFencingToken refuses what is no fencing token; its error is ErrInvalid. The empty token means none.
func CheckFencingToken(token string) error {
	if len(token) > MaxFencingTokenBytes {
		return invalidf("the fencing token has %d bytes; at most %d are allowed", len(token), MaxFencingTokenBytes)
	}
	if !utf8.ValidString(token) {
		return invalidf("the fencing token is not valid UTF-8")
	}
	return nil
}
