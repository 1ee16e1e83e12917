package client

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/tailrace-streams/tailrace/wire"
)

// link is one connection of an append session.
type link struct {
	ctx     context.Context
	fail    context.CancelCauseFunc
	in      *wire.FrameReader
	out     *wire.FrameWriter
	body    *io.PipeWriter // what out writes to; closing it ends the client's half
	answer  io.Closer
	silence *time.Timer // fails the link when an acknowledgement, or the end, does not come
	timeout time.Duration
	opened  *wire.Revision // of the stream when the session was opened; nil from servers without revisions
	// Both under the session's lock: the server wants the session elsewhere; the client's half was ended.
	advised, ending bool
}

// dial opens a connection for the session. Its errors are definite for everything that was not sent before.
func (a *AppendSession) dial() (*link, error) {
	const op = "append"
	c := a.s.basin.c
	url, h := a.s.records()
	h.Set("Content-Type", wire.MediaS2S)
	h.Set("Accept", wire.MediaProto)
	c.askCompressed(h)
	a.s.present(h)
	h.Set(wire.HeaderRevision, wire.RevisionInAcks)
	if a.o.PerBatchConflicts {
		h.Set(wire.HeaderConflicts, wire.ConflictsPerBatch)
	}
	ctx, cancel := context.WithCancelCause(a.ctx)
	limit := time.AfterFunc(c.o.AttemptTimeout, func() { cancel(context.DeadlineExceeded) })
	defer limit.Stop()
	r, w := io.Pipe()
	response, err := c.openSession(ctx, op, http.MethodPost, url, h, r)
	if err != nil {
		cancel(err)
		_ = w.CloseWithError(err)
		return nil, err
	}
	l := &link{
		ctx: ctx, fail: cancel, body: w, answer: response.Body, timeout: c.o.AttemptTimeout,
		in: wire.NewAnswerReader(response.Body), out: wire.NewFrameWriter(w, c.o.Compression),
	}
	opened, err := wire.ParseRevision(response.Header.Get(wire.HeaderRevision), wire.CodeBadHeader)
	if err == nil {
		l.opened = &opened
	}
	l.silence = time.AfterFunc(l.timeout, func() { cancel(errNoAck) })
	l.silence.Stop()
	return l, nil
}

// expectAnswer starts the time in which the next acknowledgement must come, or the end behind the client's.
func (l *link) expectAnswer() { l.silence.Reset(l.timeout) }

// close ends the connection and lets go of a sender that waits on it.
func (l *link) close() {
	l.silence.Stop()
	l.fail(context.Canceled)
	_ = l.body.CloseWithError(context.Canceled)
	_ = l.answer.Close()
}
