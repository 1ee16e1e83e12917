package api

import (
	"net/http"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/wire"
)

// putFence installs a fencing token. It appends no record. It makes a stream where an append would: taking a stream over
// is to fence it and then to append, also if it is not there yet.
func (h *handler) putFence(x *exchange, r *http.Request) error {
	basin, stream, err := streamOf(r)
	if err != nil {
		return err
	}
	config, err := wire.StreamConfigOf(r.Header)
	if err != nil {
		return err
	}
	body, err := h.readJSON(x, r)
	if err != nil {
		return err
	}
	in, err := wire.DecodeFenceInput(body)
	if err != nil {
		return err
	}
	ctx, cancel := h.unary(r)
	defer cancel()
	var on coordinator.StreamRef
	var fenced coordinator.Fenced
	err = h.onStream(ctx, basin, stream, onAppend(config), func(ref coordinator.StreamRef) (err error) {
		on = ref
		fenced, err = h.o.Streams.Fence(ctx, ref, in.FencingToken)
		return definite(err)
	})
	if err != nil {
		return err
	}
	h.name(x, revisionOf(basin, stream, on, fenced.V))
	return x.json(r, http.StatusOK, wire.FenceAck{
		Tail: position(fenced.Tail), FencingToken: fenced.Token, Previous: fenced.Previous,
	})
}

// getFence tells which token is installed: a strong read, as of a moment after the request arrived.
func (h *handler) getFence(x *exchange, r *http.Request) error {
	basin, stream, err := streamOf(r)
	if err != nil {
		return err
	}
	ctx, cancel := h.unary(r)
	defer cancel()
	var token string
	err = h.onStream(ctx, basin, stream, onRead(nil), func(ref coordinator.StreamRef) (err error) {
		token, err = h.o.Streams.Token(ctx, ref)
		return err
	})
	if err != nil {
		return err
	}
	return x.json(r, http.StatusOK, wire.FenceResponse{FencingToken: token})
}

// present gives a batch the token that its request presents, if it names none itself. Two that differ are two answers to
// the question who writes.
func present(batch *coordinator.Batch, token *string) error {
	switch {
	case token == nil:
	case batch.Token == nil:
		batch.Token = token
	case *batch.Token != *token:
		return wire.Errorf(wire.CodeInvalid, "fencing_token: the batch names another token than the header %s", wire.HeaderFencingToken)
	}
	return nil
}
