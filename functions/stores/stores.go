// Package stores opens where everything is kept, for whatever composes the service: the program and the functions. It
// knows the stores that several processes share; a store of one process alone is opened by whoever links it, and put
// behind the same guard with Alone. See README.md.
package stores

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
)

// Stores is where everything is kept, and what the rest of a process needs to know of it.
type Stores struct {
	Heads   coordinator.Heads
	Table   coordinator.Table
	Objects segments.Objects
	Room    coordinator.Room
	// Shared says that other processes may use the same stores.
	Shared bool
	// Where says it to a person.
	Where string
	// Opened is closed once the stores answer; until then calls fail.
	Opened <-chan struct{}
	// Failed is closed when a store cannot go on, which only a new start mends; nil never is.
	Failed <-chan struct{}
	// Now is the clock that labels and ages of records are taken by; nil is the process's own.
	Now func() time.Time
	// Collectors are of the stores' own figures.
	Collectors []prometheus.Collector
	// Close is called once, when nobody uses the stores any more.
	Close func() error
}

// Opening is how stores are opened.
type Opening struct {
	// Claim lets a bucket and a table be used that are new to each other.
	Claim bool
	// Trust takes a bucket that the table names already as it is: it was probed when it was claimed. It saves a process
	// that starts while somebody waits a dozen requests.
	Trust bool
}

// Alone are stores of this process's own, which are open from the start. s has what else there is to know of them.
func Alone(b Backend, s Stores) *Stores {
	g := guarded(b)
	opened := make(chan struct{})
	close(opened)
	s.Heads, s.Table, s.Objects = guardedHeads{g}, guardedTable{g}, guardedObjects{g}
	s.Opened, s.Collectors = opened, g.collectors()
	return &s
}

// ErrNotReached says that stores stayed out of reach.
var ErrNotReached = errors.New("the stores cannot be reached; the log says why")

// Await returns once the stores are open. ErrNotReached if that does not happen within patience, or ever.
func (s *Stores) Await(ctx context.Context, patience time.Duration) error {
	select {
	case <-s.Opened:
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-s.Opened:
		return nil
	case <-s.Failed:
	case <-ctx.Done():
	}
	return ErrNotReached
}
