package coordinator

import (
	"sync"
	"time"

	"github.com/tailrace-streams/tailrace/segments"
)

// labels gives out labels: not below the clock, above the horizons that must be passed, and never falling within a
// basin and process (protocol 1). It does not step by one from label to label, as two objects with equal labels are
// harmless: a process that makes more than a thousand ids a second would leave the clock behind for good, and every
// horizon raised to its labels would be ahead of the other processes.
type labels struct {
	now func() time.Time

	mu   sync.Mutex
	last map[segments.BasinID]segments.Label
}

// maxLabelBasins bounds the basins remembered. Forgetting one only loses the protection against a clock that goes
// back, of which the horizons keep what safety needs.
const maxLabelBasins = 4096

func newLabels(now func() time.Time) *labels {
	return &labels{now: now, last: make(map[segments.BasinID]segments.Label)}
}

// newObjectID is the id of an object, or of an inline entry, that may be named in a stream with the given horizon.
func (c *Coordinator) newObjectID(basin segments.BasinID, horizon segments.Label) segments.ObjectID {
	id := segments.NewObjectID(c.labels.next(basin, horizon))
	if c.o.Hooks != nil {
		c.o.Hooks.Read(id[labelBytes:])
	}
	return id
}

// labelBytes is how much of an object id its label takes.
const labelBytes = 6

// next returns a label above horizon.
func (l *labels) next(basin segments.BasinID, horizon segments.Label) segments.Label {
	label := max(segments.Label(max(l.now().UnixMilli(), 1)), horizon+1)
	l.mu.Lock()
	defer l.mu.Unlock()
	label = max(label, l.last[basin])
	if len(l.last) >= maxLabelBasins {
		clear(l.last)
	}
	l.last[basin] = label
	return label
}
