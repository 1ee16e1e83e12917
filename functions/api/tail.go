package api

import (
	"net/http"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/wire"
)

// checkTail serves the durable tail of a stream. It needs no encryption key.
func (h *handler) checkTail(x *exchange, r *http.Request) error {
	basin, stream, err := streamOf(r)
	if err != nil {
		return err
	}
	t, err := h.termsOfPath(x, r)
	if err != nil {
		return err
	}
	if err := t.about(basin, stream); err != nil {
		return err
	}
	ctx, cancel := h.waiting(x, r, &t)
	defer cancel()
	if t.Asked {
		v, revision, err := h.view(ctx, x, basin, stream, onRead(nil), &t)
		if err != nil {
			return err
		}
		h.shows(x, &t, revision, v.AsOf)
		return x.body(r, http.StatusOK, wire.MediaJSON, wire.AppendTailJSON(nil, position(v.Head.TailPosition())))
	}
	var tail coordinator.Position
	err = h.onStream(ctx, basin, stream, onRead(nil), func(ref coordinator.StreamRef) (err error) {
		tail, err = h.o.Streams.CheckTail(ctx, ref)
		return err
	})
	if err != nil {
		return err
	}
	return x.body(r, http.StatusOK, wire.MediaJSON, wire.AppendTailJSON(nil, position(tail)))
}
