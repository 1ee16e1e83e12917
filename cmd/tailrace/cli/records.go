package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/tailrace-streams/tailrace/client"
	"github.com/tailrace-streams/tailrace/wire"
)

// format is how records are written in files, one a line.
type format string

const (
	// formatText has a record's body as it is, byte for byte. It has no place for headers and times.
	formatText format = "text"
	// formatJSON is the JSON of the API, one record a line, with text in it.
	formatJSON format = "json"
	// formatBase64 is formatJSON with names, values and bodies in base64, for any bytes.
	formatBase64 format = "base64"
)

const formatUsage = "how records are written, one a line: text (the body's bytes), json, or base64 (json whose names, values " +
	"and bodies are in base64)"

// formatBase64S2 is what S2's own command line calls formatBase64.
const formatBase64S2 = "json-base64"

func (f *format) check() error {
	switch *f {
	case formatText, formatJSON, formatBase64:
		return nil
	case formatBase64S2:
		*f = formatBase64
		return nil
	}
	return usagef("--format %q is none of %s, %s and %s", *f, formatText, formatJSON, formatBase64)
}

func (f format) wire() wire.Format {
	if f == formatBase64 {
		return wire.FormatBase64
	}
	return wire.FormatRaw
}

// lineMax bounds a line of input: a record of the greatest size, escaped as badly as JSON can.
const lineMax = 8 << 20

// recordReader reads records from lines.
type recordReader struct {
	lines  *bufio.Reader
	format format
	line   int
}

// next gives the next record and the bytes that its line has; io.EOF at the end.
func (r *recordReader) next() (client.AppendRecord, int, error) {
	line, err := r.readLine()
	if err != nil {
		return client.AppendRecord{}, 0, err
	}
	r.line++
	size := len(line)
	if line[size-1] == '\n' {
		line = line[:size-1]
	}
	record, err := r.decode(line)
	if err != nil {
		return record, size, usagef("line %d: %v", r.line, err)
	}
	if metered := client.MeteredSize(&record); metered > client.MaxBatchBytes {
		return record, size, usagef("line %d: the record has %d bytes and the most is %d", r.line, metered, client.MaxBatchBytes)
	}
	return record, size, nil
}

// readLine reads a line with its end, which the last one may lack. It belongs to the caller.
func (r *recordReader) readLine() ([]byte, error) {
	var line []byte
	for {
		part, err := r.lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > lineMax:
			return nil, usagef("line %d has more than %d bytes", r.line+1, lineMax)
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && len(line) > 0, err == nil:
			return line, nil
		default:
			return nil, err
		}
	}
}

func (r *recordReader) decode(line []byte) (client.AppendRecord, error) {
	if r.format == formatText {
		return client.Bytes(line), nil
	}
	if !json.Valid(line) {
		return client.AppendRecord{}, errors.New("this is not a JSON value")
	}
	batch := append(append([]byte(`{"records":[`), line...), "]}"...)
	in, err := wire.DecodeAppendInputJSON(batch, r.format.wire())
	if err != nil {
		return client.AppendRecord{}, err
	}
	return in.Records[0], nil
}

// recordWriter writes records as lines.
type recordWriter struct {
	out    *bufio.Writer
	format format
	// commands gets a note of each command record that the format has no place for.
	commands io.Writer
	line     []byte
}

// write writes one record and reports the bytes it took.
func (w *recordWriter) write(r *client.Record) (int, error) {
	switch {
	case w.format != formatText:
		w.line = wire.AppendRecordJSON(w.line[:0], r, w.format.wire())
	case client.IsCommand(r):
		_, err := fmt.Fprintf(w.commands, "%d: command %q %q\n", r.SeqNum, r.Headers[0].Value, r.Body)
		return 0, err
	default:
		w.line = append(w.line[:0], r.Body...)
	}
	w.line = append(w.line, '\n')
	return w.out.Write(w.line)
}
