package api

import (
	"errors"
	"net/http"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/wire"
)

// readSession serves a read as frames (s2-api 12). What is wrong before the first frame is an ordinary answer.
func (h *handler) readSession(x *exchange, r *http.Request, q readRequest) error {
	release, err := h.openStream(x)
	if err != nil {
		return err
	}
	defer release()
	ctx, end := h.whileGood(r.Context(), x)
	defer end()
	reader, err := h.open(ctx, x, &q, q.options(false))
	if err != nil {
		return err
	}
	defer reader.Close()
	if err := x.beginStream(wire.MediaS2S); err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		return nil // nothing of a body would ever be sent, and the session may have no end
	}
	return h.pump(ctx, x, reader, frames{wire.NewFrameWriter(x, wire.NegotiateCompression(r.Header))})
}

// frames writes a read session.
type frames struct{ w *wire.FrameWriter }

// event writes a batch or a heartbeat. A record too large for a frame is refused when it is appended; should there be
// one all the same, the session must not end as if it were complete.
func (f frames) event(e *coordinator.ReadEvent) error {
	err := f.w.Batch(recordsOf(e), tailOf(e))
	if errors.Is(err, wire.ErrFrameTooLarge) {
		return errors.Join(err, f.failed(wire.Errorf(wire.CodeStorage, "a record is too large for a session")))
	}
	return err
}

// end tells nothing: the end of the body is the clean end of a session.
func (f frames) end() error { return nil }

func (f frames) failed(err error) error { return f.w.Terminal(err) }
