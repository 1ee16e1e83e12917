package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// SSEEvent is an event of a read, for a client.
type SSEEvent struct {
	// Ping tells a heartbeat from a batch.
	Ping bool
	// Timestamp is the server's time of a ping, in milliseconds.
	Timestamp uint64
	// ID is a batch's, to resume after it.
	ID EventID
	// Batch has the records of a batch, and the tail of either where the server said it.
	Batch ReadBatch
}

// SSEReader reads the event stream of a read.
type SSEReader struct {
	r      *bufio.Reader
	format Format
	line   []byte
	skipLF bool // the last line ended with a CR: an LF after it is part of the same end
	begun  bool
	err    error
}

// NewSSEReader reads from r batches in the format that the request asked for.
func NewSSEReader(r io.Reader, f Format) *SSEReader {
	return &SSEReader{r: bufio.NewReader(r), format: f}
}

var (
	errEventTooLarge = fmt.Errorf("an event of more than %d bytes", SSEEventSizeMax)
	errEventCut      = fmt.Errorf("event stream without its end: %w", io.ErrUnexpectedEOF)
)

// Next reads an event. It fails with io.EOF after the end mark only, with the error in an error event, and with other
// errors for what is no event stream or ends without the mark (io.ErrUnexpectedEOF); from then on always with the same.
// An event that is cut off is not delivered. Events of unknown names are skipped.
func (s *SSEReader) Next() (SSEEvent, error) {
	for s.err == nil {
		var event rawEvent
		if event, s.err = s.event(); s.err != nil {
			break
		}
		e, known, err := s.decode(event)
		if s.err = err; err == nil && known {
			return e, nil
		}
	}
	return SSEEvent{}, s.err
}

// rawEvent is an event as its lines say it.
type rawEvent struct {
	name, id string
	data     []byte
	hasData  bool
}

// event reads lines up to the empty one. An event without data is none, by the rules of SSE.
func (s *SSEReader) event() (e rawEvent, err error) {
	for {
		line, err := s.readLine()
		if err != nil {
			return rawEvent{}, err
		}
		if len(line) == 0 {
			if e.hasData {
				return e, nil
			}
			e = rawEvent{}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch string(field) {
		case "event":
			e.name = string(value)
		case "id":
			e.id = string(value)
		case "data":
			if e.hasData {
				e.data = append(e.data, '\n')
			}
			e.data, e.hasData = append(e.data, value...), true
		}
		if len(e.data) > SSEEventSizeMax {
			return rawEvent{}, errEventTooLarge
		}
	}
}

// readLine reads a line, valid until the next one; it ends with LF, CR or both.
func (s *SSEReader) readLine() ([]byte, error) {
	s.line = s.line[:0]
	for {
		if _, err := s.r.Peek(1); err != nil {
			if errors.Is(err, io.EOF) {
				return nil, errEventCut
			}
			return nil, fmt.Errorf("read event: %w", err)
		}
		b, _ := s.r.Peek(s.r.Buffered())
		if s.skipLF && b[0] == '\n' {
			s.skipLF = false
			_, _ = s.r.Discard(1)
			continue
		}
		s.skipLF = false
		end := bytes.IndexAny(b, "\r\n")
		if end < 0 {
			s.line = append(s.line, b...)
			_, _ = s.r.Discard(len(b))
			if len(s.line) > SSEEventSizeMax {
				return nil, errEventTooLarge
			}
			continue
		}
		s.line = append(s.line, b[:end]...)
		s.skipLF = b[end] == '\r'
		_, _ = s.r.Discard(end + 1)
		if !s.begun {
			s.begun = true
			return bytes.TrimPrefix(s.line, []byte("\ufeff")), nil
		}
		return s.line, nil
	}
}

func (s *SSEReader) decode(raw rawEvent) (e SSEEvent, known bool, err error) {
	switch raw.name {
	case eventBatch:
		if e.ID, err = ParseEventID(raw.id); err == nil {
			e.Batch, err = DecodeReadBatchJSON(raw.data, s.format)
		}
	case eventPing:
		e, err = decodePing(raw.data)
	case eventError:
		return SSEEvent{}, true, decodeEventError(raw.data)
	case "", "message":
		if string(raw.data) == eventDone {
			return SSEEvent{}, true, io.EOF
		}
		return SSEEvent{}, false, nil
	default:
		return SSEEvent{}, false, nil
	}
	if err != nil {
		return SSEEvent{}, true, fmt.Errorf("read %s event: %w", raw.name, err)
	}
	return e, true, nil
}

// decodePing reads the data of a ping; older servers send no tail.
func decodePing(data []byte) (SSEEvent, error) {
	e, err := decodeAs(data, func(s *scanner) (e SSEEvent, err error) {
		err = s.fields(map[string]field{
			"timestamp": plainField(&e.Timestamp, (*scanner).u64),
			"tail":      nullableField(&e.Batch.Tail, readPosition),
		})
		return e, err
	})
	e.Ping = true
	return e, err
}
