package client

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tailrace-streams/tailrace/wire"
)

// Revision names a state of a stream, or of the names in a basin, that a later read can demand to see: see
// [Stream.WithMinRevision]. It is text to pass on, to other processes too; what it says is the server's business. Servers
// other than Tailrace give none, and the empty Revision demands nothing.
type Revision string

// consistency is what a view says about revisions.
type consistency struct {
	min      Revision
	timeout  *time.Duration
	eventual bool
	tracked  *tracker
}

// demand sets the headers of a request that reads: of a stream, or of a basin's names where stream is empty. What it gives
// belongs to the answer.
func (v *consistency) demand(h http.Header, stream string) (at uint64) {
	revision, eventual := v.min, v.eventual
	if v.tracked != nil {
		known, strong, now := v.tracked.of(stream)
		at = now
		if revision == "" || known != "" && newer(revision, known) {
			revision = known
		}
		if strong && eventual {
			// From what is in the stores, and with the revision in the answer, so that the next may come from a cache.
			eventual = false
			h.Set(wire.HeaderConsistency, wire.ConsistencyStrong)
		}
	}
	if eventual {
		h.Set(wire.HeaderConsistency, wire.ConsistencyEventual)
	}
	if revision != "" {
		h.Set(wire.HeaderMinRevision, string(revision))
		if v.timeout != nil {
			h.Set(wire.HeaderRevisionTimeoutMs, strconv.FormatInt(v.timeout.Milliseconds(), 10))
		}
	}
	return at
}

// wait is how long the server may take to reach the revision that a request demands.
func (v *consistency) wait(h http.Header) time.Duration {
	switch {
	case h.Get(wire.HeaderMinRevision) == "":
		return 0
	case v.timeout != nil:
		return min(*v.timeout, wire.RevisionTimeoutMax)
	}
	return wire.RevisionTimeoutDefault
}

// observe takes the revision out of the answer to a write.
func (v *consistency) observe(h http.Header, stream string) Revision {
	revision := Revision(h.Get(wire.HeaderRevision))
	v.saw(stream, revision)
	return revision
}

// answered is observe for a read, with what demand gave.
func (v *consistency) answered(h http.Header, stream string, at uint64) Revision {
	revision := Revision(h.Get(wire.HeaderRevision))
	if v.tracked != nil && revision != "" {
		v.tracked.answered(stream, revision, at)
	}
	return revision
}

func (v *consistency) saw(stream string, revision Revision) {
	if v.tracked != nil && revision != "" {
		v.tracked.saw(stream, revision)
	}
}

// failed learns from an error: a revision that is of an earlier life of a name will never be reached, so it is told once
// and not demanded again.
func (v *consistency) failed(err error, stream string) {
	if e, ok := err.(*RevisionError); ok && v.tracked != nil {
		v.tracked.lost(stream, e.Current)
	}
}

// trackedMax bounds how many streams a session remembers. Beyond it one is forgotten, and what is forgotten is read
// strongly, which includes every write.
const trackedMax = 10_000

// tracker remembers the newest revision seen of each stream of a basin, and of its names under "".
//
// Revisions of two lives of a stream do not tell which is the newer, and neither do those of two streams that a basin's
// names have got. Then nothing is demanded, and what is read is read strongly, until the answer to a read that began
// later has a revision again.
type tracker struct {
	mu     sync.Mutex
	seen   map[string]tracked
	events uint64 // counts what made a revision uncertain
	forgot bool
}

// tracked is what is known of a stream: a revision, or since which event there is none to rely on.
type tracked struct {
	revision  Revision
	uncertain uint64
}

// of is the revision to demand, and whether a read must be strong. at is the event that the read is behind.
func (t *tracker) of(stream string) (revision Revision, strong bool, at uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, there := t.seen[stream]
	if known.uncertain > 0 {
		return "", true, t.events
	}
	return known.revision, !there && t.forgot, t.events
}

// saw takes note of a revision that an answer told, in whatever order answers come.
func (t *tracker) saw(stream string, revision Revision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, there := t.seen[stream]
	switch {
	case !there:
		t.set(stream, tracked{revision: revision})
	case old.uncertain > 0:
	case !sameLife(old.revision, revision):
		t.doubt(stream)
	case newer(old.revision, revision):
		t.set(stream, tracked{revision: revision})
	}
}

// answered is saw for the answer to a read: one that began behind the last doubt ends it.
func (t *tracker) answered(stream string, revision Revision, at uint64) {
	t.mu.Lock()
	if old := t.seen[stream]; old.uncertain > 0 && old.uncertain <= at {
		t.set(stream, tracked{revision: revision})
	}
	t.mu.Unlock()
	t.saw(stream, revision)
}

// lost gives up a revision that is of another life than the current one.
func (t *tracker) lost(stream string, current Revision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, there := t.seen[stream]; there && !sameLife(old.revision, current) {
		t.doubt(stream)
	}
}

// doubt and set hold the lock.
func (t *tracker) doubt(stream string) {
	t.events++
	t.set(stream, tracked{uncertain: t.events})
}

func (t *tracker) set(stream string, now tracked) {
	if _, there := t.seen[stream]; !there && len(t.seen) >= trackedMax {
		for other := range t.seen {
			if other != "" {
				delete(t.seen, other)
				t.forgot = true
				break
			}
		}
	}
	if t.seen == nil {
		t.seen = map[string]tracked{}
	}
	t.seen[stream] = now
}

// newer reports whether b is a later revision than a of the same life.
func newer(a, b Revision) bool {
	old, errOld := wire.ParseRevision(string(a), wire.CodeBadHeader)
	now, errNow := wire.ParseRevision(string(b), wire.CodeBadHeader)
	return errOld == nil && errNow == nil && old.Incarnation == now.Incarnation && now.Version > old.Version
}

// sameLife reports whether two revisions are of the same thing, so that their versions can be compared.
func sameLife(a, b Revision) bool {
	old, errOld := wire.ParseRevision(string(a), wire.CodeBadHeader)
	now, errNow := wire.ParseRevision(string(b), wire.CodeBadHeader)
	return errOld == nil && errNow == nil && old.Incarnation == now.Incarnation
}
