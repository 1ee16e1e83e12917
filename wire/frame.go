package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// A frame is three bytes of length, a byte of flags, and a payload; the length counts the flags and the payload.
//
//	+--------+--------+--------+--------+------------------+
//	| length, big endian       | flags  | payload ...      |
//	+--------+--------+--------+--------+------------------+
const (
	frameHeaderSize = 4
	frameLengthSize = 3

	flagTerminal    = 0x80 // the last frame of a session: a status and an error body
	flagCompression = 0x60 // 00 none, 01 zstd, 10 gzip, 11 invalid
	flagReconnect   = 0x10 // the server drains: reopen elsewhere
	flagConflict    = 0x01 // Tailrace: an error of one batch, in a session that asked for it; S2 reserves the bit

	compressionShift = 5
)

// Frame is one frame of a session, decompressed.
type Frame struct {
	// Payload belongs to whoever got the frame.
	Payload []byte
	// Terminal ends the session with an error; only servers send it.
	Terminal bool
	// Conflict refuses one batch and leaves the session alive; only servers send it, if Tailrace-Conflicts asked.
	Conflict bool
	// Reconnect advises the client to open the session elsewhere.
	Reconnect bool
}

// Err is the error that a terminal or conflict frame carries; nil for other frames.
func (f Frame) Err() error {
	if !f.Terminal && !f.Conflict {
		return nil
	}
	return DecodeTerminal(f.Payload)
}

// FrameReader reads the frames of one body. It keeps a small buffer and nothing of a frame.
type FrameReader struct {
	r       io.Reader
	applied Applied
	err     error
}

// NewFrameReader reads what a client sends. Bytes that are no frames are `bad_frame`, and definite: of a frame that
// could not be read nothing is applied.
func NewFrameReader(r io.Reader) *FrameReader { return &FrameReader{r: r} }

// NewAnswerReader reads what a server sends. Its `bad_frame` errors are indefinite, for an answer that cannot be read
// says nothing about what was asked.
func NewAnswerReader(r io.Reader) *FrameReader { return &FrameReader{r: r, applied: AppliedUnknown} }

// Next reads a frame. It fails with io.EOF at the end of the body, with `bad_frame` for bytes that are no frame, and
// with another error if the body could not be read; from then on always with the same.
func (fr *FrameReader) Next() (Frame, error) {
	if fr.err != nil {
		return Frame{}, fr.err
	}
	f, err := fr.next()
	if err != nil {
		fr.err = err
		return Frame{}, err
	}
	return f, nil
}

// NextInput reads a frame and the AppendInput in it, for a server. Errors are those of Next and of
// DecodeAppendInputProto; a terminal frame is `bad_frame`.
func (fr *FrameReader) NextInput() (AppendInput, error) {
	f, err := fr.Next()
	if err != nil {
		return AppendInput{}, err
	}
	if f.Terminal {
		fr.err = fr.bad("a client sends no terminal frame")
		return AppendInput{}, fr.err
	}
	return DecodeAppendInputProto(f.Payload, CodeBadFrame)
}

func (fr *FrameReader) bad(format string, args ...any) error {
	e := Errorf(CodeBadFrame, format, args...)
	e.Applied = fr.applied
	return e
}

func (fr *FrameReader) next() (Frame, error) {
	header, err := readUpTo(fr.r, frameHeaderSize)
	if err != nil {
		if len(header) == 0 && err == io.EOF {
			return Frame{}, io.EOF
		}
		return Frame{}, fr.cut(err)
	}
	length := int(header[0])<<16 | int(header[1])<<8 | int(header[2])
	if length < 1 || length > FrameSizeMax {
		return Frame{}, fr.bad("a frame of %d bytes; it has 1 to %d", length, FrameSizeMax)
	}
	flags := header[3]
	if flags&flagCompression == flagCompression {
		return Frame{}, fr.bad("a frame of unknown compression")
	}
	payload, err := readUpTo(fr.r, length-1)
	if err != nil {
		return Frame{}, fr.cut(err)
	}
	payload, err = decompress(Compression(flags&flagCompression>>compressionShift), payload, FramePayloadMax)
	if errors.Is(err, errTooLarge) {
		return Frame{}, fr.bad("a frame of more than %d bytes when decompressed", FramePayloadMax)
	}
	if err != nil {
		return Frame{}, fr.bad("a frame that cannot be decompressed")
	}
	return Frame{
		Payload: payload, Terminal: flags&flagTerminal != 0, Conflict: flags&flagConflict != 0, Reconnect: flags&flagReconnect != 0,
	}, nil
}

// cut tells a body that ends within a frame, which is the sender's fault, from one that could not be read.
func (fr *FrameReader) cut(err error) error {
	if err == io.EOF {
		return fr.bad("the body ends within a frame")
	}
	return fmt.Errorf("read frame: %w", err)
}

// EncodeTerminal gives the payload of a terminal or conflict frame: the status in two bytes and the error's body.
func EncodeTerminal(err error) []byte {
	status, body := EncodeSessionError(err)
	return append(binary.BigEndian.AppendUint16(nil, uint16(status)), body...)
}

// DecodeTerminal gives the error in the payload of a terminal or conflict frame; never nil.
func DecodeTerminal(payload []byte) error {
	if len(payload) < 2 {
		return &Error{Code: CodeBadFrame, Message: "a terminal frame without a status", Applied: AppliedUnknown}
	}
	return DecodeError(int(binary.BigEndian.Uint16(payload)), payload[2:], http.Header{})
}

// ErrFrameTooLarge says that a message does not fit into a frame.
var ErrFrameTooLarge = errors.New("message is too large for a frame")

// FrameWriter writes frames, each in one Write. It keeps no buffer between frames, so an idle session costs none.
type FrameWriter struct {
	w           io.Writer
	compression Compression
	reconnect   bool
}

// NewFrameWriter writes to w and compresses payloads from CompressMin with c.
func NewFrameWriter(w io.Writer, c Compression) *FrameWriter {
	return &FrameWriter{w: w, compression: c}
}

// AdviseReconnect sets the bit that tells clients to reopen elsewhere on all regular frames from now on.
func (fw *FrameWriter) AdviseReconnect() { fw.reconnect = true }

// Input writes an AppendInput, for a client; ErrFrameTooLarge if it does not fit.
func (fw *FrameWriter) Input(in AppendInput) error {
	return fw.regular(func(dst []byte) []byte { return EncodeAppendInputProto(dst, in) })
}

// Ack writes an AppendAck.
func (fw *FrameWriter) Ack(ack AppendAck) error {
	return fw.regular(func(dst []byte) []byte { return EncodeAckProto(dst, ack) })
}

// Batch writes a ReadBatch; without records it is a heartbeat, which must have a tail. Small headers take twice their
// metered size, so a batch within S2's limits may need more frames than one; each gets the tail. A single record that
// leaves no room for the tail goes without it, and one that does not fit at all is ErrFrameTooLarge.
func (fw *FrameWriter) Batch(records []Record, tail *StreamPosition) error {
	for {
		n, size := 0, 0
		for n < len(records) {
			size += SizeRecordProto(&records[n])
			if n > 0 && size > FramePayloadMax-SizeTailProto {
				break
			}
			n++
		}
		part, partTail := records[:n], tail
		if n == 1 && size > FramePayloadMax-SizeTailProto {
			partTail = nil
		}
		if err := fw.regular(func(dst []byte) []byte { return EncodeReadBatchProto(dst, part, partTail) }); err != nil {
			return err
		}
		if records = records[n:]; len(records) == 0 {
			return nil
		}
	}
}

// Terminal writes the frame that ends a session with err. Nothing may follow.
func (fw *FrameWriter) Terminal(err error) error {
	return fw.write(flagTerminal, CompressionNone, func(dst []byte) []byte { return append(dst, EncodeTerminal(err)...) })
}

// Conflict writes the frame that refuses one batch with err, in a session that asked for it.
func (fw *FrameWriter) Conflict(err error) error {
	return fw.write(flagConflict, CompressionNone, func(dst []byte) []byte { return append(dst, EncodeTerminal(err)...) })
}

func (fw *FrameWriter) regular(encode func(dst []byte) []byte) error {
	var flags byte
	if fw.reconnect {
		flags = flagReconnect
	}
	return fw.write(flags, fw.compression, encode)
}

var frameBuffers = sync.Pool{New: func() any { return new([]byte) }}

func (fw *FrameWriter) write(flags byte, c Compression, encode func(dst []byte) []byte) error {
	buf := frameBuffers.Get().(*[]byte)
	defer frameBuffers.Put(buf)
	frame := encode(append((*buf)[:0], make([]byte, frameHeaderSize)...))
	*buf = frame
	if payload := frame[frameHeaderSize:]; c != CompressionNone && len(payload) >= CompressMin {
		// Behind the payload in the same buffer; what does not shrink is sent as it is.
		both := compress(c, append(frame, make([]byte, frameHeaderSize)...), payload)
		*buf = both
		if packed := both[len(frame):]; len(packed) < len(frame) {
			frame, flags = packed, flags|byte(c)<<compressionShift
		}
	}
	length := len(frame) - frameLengthSize
	if length > FrameSizeMax {
		return ErrFrameTooLarge
	}
	frame[0], frame[1], frame[2], frame[3] = byte(length>>16), byte(length>>8), byte(length), flags
	if _, err := fw.w.Write(frame); err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	return nil
}
