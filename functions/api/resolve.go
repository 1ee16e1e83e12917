package api

import (
	"context"
	"errors"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/tenancy"
	"github.com/tailrace-streams/tailrace/wire"
)

// onAppend and onRead are what a stream is resolved for, which decides whether it is created when absent, and as what.
func onAppend(config *wire.StreamConfig) tenancy.Use { return tenancy.Append.Making(settings(config)) }

func onRead(config *wire.StreamConfig) tenancy.Use { return tenancy.Read.Making(settings(config)) }

// onStream does something on the stream that has a name. A remembered incarnation may be gone: if the head says so,
// the name is resolved again, strongly, and whatever has it now gets one more try; else the directory says why not.
func (h *handler) onStream(ctx context.Context, basin, stream string, use tenancy.Use, do func(coordinator.StreamRef) error) error {
	use = making(ctx, basin, stream, use)
	ref, err := h.o.Directory.Resolve(ctx, basin, stream, use)
	if err != nil {
		return err
	}
	if err = do(ref); !streamGone(err) {
		return err
	}
	fresh, freshErr := h.o.Directory.ResolveFresh(ctx, basin, stream, use)
	switch {
	case freshErr != nil:
		return freshErr
	case fresh == ref:
		return err
	}
	return do(fresh)
}

// streamGone reports whether a head said that its stream is not to be had.
func streamGone(err error) bool {
	return errors.Is(err, coordinator.ErrStreamNotFound) || errors.Is(err, coordinator.ErrStreamDeleting)
}
