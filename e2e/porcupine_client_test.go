package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"

	"github.com/tailrace-streams/tailrace/wire"
)

// appender sends one batch at a time, once, and tells how it went. The error is definite if definiteError says so.
type appender interface {
	append(ctx context.Context, in wire.AppendInput) (end uint64, err error)
	close()
}

// unaryAppender appends by single requests, each of which is one attempt.
type unaryAppender struct {
	url, basin, stream string
	http               *http.Client
}

func newUnaryAppender(url, basin, stream string) *unaryAppender {
	transport := &http.Transport{DisableCompression: true}
	return &unaryAppender{url: url, basin: basin, stream: stream, http: &http.Client{Transport: transport}}
}

func (a *unaryAppender) append(ctx context.Context, in wire.AppendInput) (uint64, error) {
	answer, err := a.do(ctx, http.MethodPost, records(a.stream), wire.EncodeAppendInputProto(nil, in))
	if err != nil {
		return 0, err
	}
	ack, err := wire.DecodeAckProto(answer)
	return ack.End.SeqNum, err
}

// do sends a request and reads the answer. What fails before there is a connection was not sent.
func (a *unaryAppender) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	connected := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }})
	request, err := http.NewRequestWithContext(ctx, method, a.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, notOpened{err}
	}
	request.GetBody = nil // not to be sent a second time
	request.Header.Set("s2-basin", a.basin)
	if body != nil {
		request.Header.Set("content-type", wire.MediaProto)
		request.Header.Set("accept", wire.MediaProto)
	}
	response, err := a.http.Do(request)
	if err != nil && !connected {
		return nil, notOpened{err}
	}
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read answer: %w", err)
	case response.StatusCode != http.StatusOK:
		return nil, told{wire.DecodeError(response.StatusCode, text, response.Header)}
	}
	return text, nil
}

func (a *unaryAppender) close() { a.http.CloseIdleConnections() }

// checkTail asks for the tail.
func (a *unaryAppender) checkTail(ctx context.Context) (uint64, error) {
	text, err := a.do(ctx, http.MethodGet, records(a.stream)+"/tail", nil)
	if err != nil {
		return 0, err
	}
	var tail struct{ Tail position }
	err = unmarshal(text, &tail)
	return tail.Tail.SeqNum, err
}

// sessionAppender appends through an append session, opened when it is needed and there is none.
type sessionAppender struct {
	open func(ctx context.Context) (*session, error)

	current *session
	acks    chan ackOrError // of the current session, closed behind its end
}

type ackOrError struct {
	ack wire.AppendAck
	err error
}

func (a *sessionAppender) append(ctx context.Context, in wire.AppendInput) (uint64, error) {
	frame, err := encodeInput(in)
	if err != nil {
		return 0, notOpened{err}
	}
	if err := a.ready(ctx); err != nil {
		return 0, err
	}
	if err := a.current.send(frame); err != nil {
		a.close()
		return 0, err
	}
	select {
	case got := <-a.acks:
		if got.err == io.EOF {
			got.err = io.ErrUnexpectedEOF // an end without an acknowledgement
		}
		if got.err != nil {
			a.close()
		}
		return got.ack.End.SeqNum, got.err
	case <-ctx.Done():
		a.close()
		return 0, ctx.Err()
	}
}

// ready opens a session unless there is one of which no end is known.
func (a *sessionAppender) ready(ctx context.Context) error {
	if a.current != nil {
		select {
		case <-a.acks: // nothing was sent that it could answer
			a.close()
		default:
			return nil
		}
	}
	s, err := a.open(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	acks := make(chan ackOrError, 1)
	go func() {
		defer close(acks)
		for {
			ack, err := s.ack()
			acks <- ackOrError{ack, err}
			if err != nil {
				return
			}
		}
	}()
	a.current, a.acks = s, acks
	return nil
}

func (a *sessionAppender) close() {
	if a.current == nil {
		return
	}
	a.current.close()
	go func(acks chan ackOrError) {
		for range acks { // lets the reader end
		}
	}(a.acks)
	a.current = nil
}

// readFully reads a stream from its start to its tail through a read session, and hashes it. each gets the hashes of the
// records.
func readFully(ctx context.Context, url, basin, stream string, each func(hash uint64)) (opOutput, error) {
	s, err := openSession(ctx, url, basin, stream, "seq_num=0&wait=0")
	if err != nil {
		return opOutput{}, err
	}
	defer s.close()
	var out opOutput
	for {
		b, err := s.batch()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return opOutput{}, err
		}
		for _, r := range b.Records {
			if r.SeqNum != out.tail {
				return opOutput{}, fmt.Errorf("%w: record %d where %d belongs", errWrongAnswer, r.SeqNum, out.tail)
			}
			h := hashOf(r.Body)
			each(h)
			out.content = chain(out.content, h)
			out.tail++
		}
	}
}

// errWrongAnswer is what no fault of a connection explains.
var errWrongAnswer = errors.New("wrong answer")
