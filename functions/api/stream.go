package api

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/wire"
)

// framing writes the events of a long read to an answer: as server-sent events or as frames.
type framing interface {
	event(e *coordinator.ReadEvent) error
	// end tells the clean end.
	end() error
	// failed tells an error, after which nothing comes.
	failed(err error) error
}

// openStream counts a stream in, or refuses it. The function returned counts it out.
func (h *handler) openStream(x *exchange) (release func(), err error) {
	if h.streaming.Add(1) > int64(h.o.MaxStreaming) {
		h.streaming.Add(-1)
		return nil, wire.Errorf(wire.CodeHotServer, "too many open streams; try again shortly or elsewhere")
	}
	x.stream = true
	h.metrics.streaming.Inc()
	return func() {
		h.metrics.streaming.Dec()
		h.streaming.Add(-1)
	}, nil
}

// beginStream sends the headers of a stream at once: clients wait for them, and proxies are told not to hold back what
// follows.
func (x *exchange) beginStream(media string) error {
	h := x.Header()
	h.Set("Content-Type", media)
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	x.WriteHeader(http.StatusOK)
	if err := x.flush(); err != nil {
		return err
	}
	x.disarmWrite()
	return nil
}

// pump sends what a reader gives until one of the two ends. The answer has begun, so failures are told in it; the error
// returned is for the log.
//
// The client has the write timeout for each event. One that stopped reading is given up, and the reader with it, so that
// it holds no memory beyond one event and what the kernel buffers.
func (h *handler) pump(ctx context.Context, x *exchange, reader *coordinator.Reader, f framing) error {
	for {
		e, err := reader.Next(ctx)
		switch ctx.Err() {
		case nil:
		case context.DeadlineExceeded:
			err = errTimeIsUp
		default:
			if err = authenticationEnded(ctx); err == nil {
				return ctx.Err() // the client is gone
			}
		}
		records := len(e.Records)
		x.armWrite()
		var sent error
		switch {
		case err == nil:
			if sent = f.event(&e); sent == nil && x.ends(records) {
				err = errTimeIsUp
				sent = f.failed(streamError(err))
			}
		case err == io.EOF:
			sent = f.end()
		default:
			sent = f.failed(streamError(err))
		}
		if sent != nil {
			return fmt.Errorf("send event: %w: %w", errHangup, sent)
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := x.flush(); err != nil {
			return err
		}
		x.disarmWrite()
	}
}

// streamError is what a reader's error means once a stream is open. That the stream went away is told as a reason to
// connect again: the answer to that says which of the several reasons it was. A read changes nothing.
func streamError(err error) error {
	if streamGone(err) {
		err = coordinator.ErrStreamGone
	}
	return wireError(unapplied{err})
}
