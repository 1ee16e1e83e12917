package storetest

import (
	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// NewHead is the head of a new stream with ids of its own: active and empty, with the default config.
func NewHead() coordinator.Head {
	return coordinator.Head{
		V: 1, Basin: segments.NewBasinID(), Stream: segments.NewStreamID(),
		State: coordinator.Active, StateID: coordinator.NewOpID(),
		Config:    coordinator.DefaultStreamConfig(),
		CreatedAt: 1,
	}
}
