package dynamostore

import (
	"sync"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// maxHints bounds the streams that are remembered, some 80 bytes each.
const maxHints = 4096

// hints remembers what was last seen of some heads, so that an update is mostly stated in the right case at once. The
// zero value is empty.
type hints struct {
	mu sync.Mutex
	of map[segments.StreamID]known
}

func (h *hints) get(id segments.StreamID) known {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k, ok := h.of[id]; ok {
		return k
	}
	return unknown
}

// put may come out of order and then leaves an old hint behind, which costs an attempt at most.
func (h *hints) put(head *coordinator.Head) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		h.of = make(map[segments.StreamID]known)
	}
	if _, there := h.of[head.Stream]; !there && len(h.of) >= maxHints {
		for any := range h.of {
			delete(h.of, any)
			break
		}
	}
	h.of[head.Stream] = knownOf(head)
}
