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

// demand sets the headers of a request that reads: of a stream, or of a basin's names where stream is empty.
func (v *consistency) demand(h http.Header, stream string) {
	revision, eventual := v.min, v.eventual
	if v.tracked != nil && revision == "" {
		var all bool
		revision, all = v.tracked.of(stream)
		eventual = eventual && (all || revision != "")
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

// observe takes the revision out of an answer.
func (v *consistency) observe(h http.Header, stream string) Revision {
	revision := Revision(h.Get(wire.HeaderRevision))
	v.saw(stream, revision)
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
type tracker struct {
	mu     sync.Mutex
	seen   map[string]Revision
	forgot bool
}

// of is the revision to demand; all reports whether none was forgotten.
func (t *tracker) of(stream string) (revision Revision, all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen[stream], !t.forgot
}

func (t *tracker) saw(stream string, revision Revision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, known := t.seen[stream]
	if known && !newer(old, revision) {
		return
	}
	if !known && len(t.seen) >= trackedMax {
		for other := range t.seen {
			if other != "" {
				delete(t.seen, other)
				t.forgot = true
				break
			}
		}
	}
	if t.seen == nil {
		t.seen = map[string]Revision{}
	}
	t.seen[stream] = revision
}

// newer reports whether b should replace a: answers of calls that run at once come in any order. Of two lives of a name
// the one heard of last counts.
func newer(a, b Revision) bool {
	old, errOld := wire.ParseRevision(string(a), wire.CodeBadHeader)
	now, errNow := wire.ParseRevision(string(b), wire.CodeBadHeader)
	if errOld != nil || errNow != nil || old.Incarnation != now.Incarnation {
		return true
	}
	return now.Version > old.Version
}

func (t *tracker) lost(stream string, current Revision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine, errMine := wire.ParseRevision(string(t.seen[stream]), wire.CodeBadHeader)
	now, errNow := wire.ParseRevision(string(current), wire.CodeBadHeader)
	if errMine == nil && errNow == nil && mine.Incarnation == now.Incarnation {
		return // it will be reached
	}
	delete(t.seen, stream)
}
