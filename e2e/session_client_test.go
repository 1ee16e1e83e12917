package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tailrace-streams/tailrace/wire"
)

// session is an open append or read session. Its two halves are for one goroutine each.
type session struct {
	frames *wire.FrameReader
	send   func(frame []byte) error
	finish func() error
	close  func()
}

// notOpened says that a session was refused, or not reached, before anything of it was sent: nothing was applied.
type notOpened struct{ error }

func (e notOpened) Unwrap() error { return e.error }

// openSession opens a session over HTTP/1.1, as a client that writes to a socket: the headers of the answer come before
// anything of the body is sent. query is that of a read; without one it is an append session.
func openSession(ctx context.Context, url, basin, stream, query string) (*session, error) {
	return openSessionWith(ctx, url, basin, stream, query)
}

// openSessionWith is openSession with headers more: names and values in turns.
func openSessionWith(ctx context.Context, url, basin, stream, query string, header ...string) (*session, error) {
	address := strings.TrimPrefix(url, "http://")
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, notOpened{err}
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	s := &session{close: func() { stop(); conn.Close() }}
	head := fmt.Sprintf("GET %s?%s HTTP/1.1\r\n", records(stream), query)
	if query == "" {
		head = fmt.Sprintf("POST %s HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", records(stream))
	}
	for i := 0; i < len(header); i += 2 {
		head += header[i] + ": " + header[i+1] + "\r\n"
	}
	if _, err := fmt.Fprintf(conn, "%sHost: %s\r\ns2-basin: %s\r\nContent-Type: s2s/proto\r\n\r\n", head, address, basin); err != nil {
		s.close()
		return nil, notOpened{err}
	}
	answer, err := http.ReadResponse(bufio.NewReaderSize(conn, 64<<10), nil)
	if err != nil {
		s.close()
		return nil, notOpened{fmt.Errorf("read answer: %w", err)}
	}
	if answer.StatusCode != http.StatusOK {
		defer s.close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			return nil, notOpened{fmt.Errorf("read answer: %w", err)}
		}
		return nil, notOpened{wire.DecodeError(answer.StatusCode, body, answer.Header)}
	}
	s.frames = wire.NewAnswerReader(answer.Body)
	s.send = func(frame []byte) error {
		chunk := net.Buffers{fmt.Appendf(nil, "%x\r\n", len(frame)), frame, []byte("\r\n")}
		_, err := chunk.WriteTo(conn)
		return err
	}
	s.finish = func() error { _, err := io.WriteString(conn, "0\r\n\r\n"); return err }
	return s, nil
}

// openSessionHTTP2 is openSession over HTTP/2 with prior knowledge, on a connection of its own.
func openSessionHTTP2(ctx context.Context, url, basin, stream, query string) (*session, error) {
	return openSessionHTTP2With(ctx, url, basin, stream, query)
}

// openSessionHTTP2With is openSessionHTTP2 with headers more.
func openSessionHTTP2With(ctx context.Context, url, basin, stream, query string, header ...string) (*session, error) {
	transport := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	transport.Protocols.SetUnencryptedHTTP2(true)
	ctx, cancel := context.WithCancel(ctx)
	method, target := http.MethodGet, url+records(stream)+"?"+query
	var body io.Reader
	var sink *io.PipeWriter
	if query == "" {
		method = http.MethodPost
		body, sink = io.Pipe()
	}
	request, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("s2-basin", basin)
	request.Header.Set("content-type", wire.MediaS2S)
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		cancel()
		return nil, notOpened{err}
	}
	s := &session{frames: wire.NewAnswerReader(answer.Body)}
	if sink != nil {
		s.send = func(frame []byte) error { _, err := sink.Write(frame); return err }
		s.finish = sink.Close
	}
	s.close = func() {
		cancel()
		if sink != nil {
			_ = sink.CloseWithError(context.Canceled)
		}
		answer.Body.Close()
		transport.CloseIdleConnections()
	}
	if answer.StatusCode != http.StatusOK {
		defer s.close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			return nil, notOpened{fmt.Errorf("read answer: %w", err)}
		}
		return nil, notOpened{wire.DecodeError(answer.StatusCode, text, answer.Header)}
	}
	return s, nil
}

// openEventually opens a session on a server that may just be starting.
func openEventually(ctx context.Context, open func() (*session, error)) (*session, error) {
	for {
		s, err := open()
		if err == nil || ctx.Err() != nil {
			return s, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// encodeInput is an input as a frame.
func encodeInput(in wire.AppendInput) ([]byte, error) {
	var b bytes.Buffer
	err := wire.NewFrameWriter(&b, wire.CompressionNone).Input(in)
	return b.Bytes(), err
}

// ack reads an acknowledgement. A terminal frame is an error that told marks; io.EOF is the clean end.
func (s *session) ack() (wire.AppendAck, error) {
	f, err := s.frames.Next()
	if err != nil {
		return wire.AppendAck{}, err
	}
	if f.Terminal {
		return wire.AppendAck{}, told{f.Err()}
	}
	return wire.DecodeAckProto(f.Payload)
}

// batch reads a batch or a heartbeat, with errors as ack.
func (s *session) batch() (wire.ReadBatch, error) {
	f, err := s.frames.Next()
	if err != nil {
		return wire.ReadBatch{}, err
	}
	if f.Terminal {
		return wire.ReadBatch{}, told{f.Err()}
	}
	return wire.DecodeReadBatchProto(f.Payload)
}

// told marks an error that the server told.
type told struct{ error }

func (e told) Unwrap() error { return e.error }

// definiteError reports whether a failure says that nothing was applied: what the server told as that, or what failed
// before anything was sent.
func definiteError(err error) bool {
	var unsent notOpened
	var mismatch *wire.SeqNumMismatch
	var fenced *wire.FencingTokenMismatch
	var answer *wire.Error
	switch {
	case errors.As(err, &unsent), errors.As(err, &mismatch), errors.As(err, &fenced):
		return true
	}
	var said told
	return errors.As(err, &said) && errors.As(err, &answer) && answer.Applied == wire.AppliedNo
}
