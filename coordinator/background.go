package coordinator

import (
	"sync"

	"github.com/tailrace-streams/tailrace/coordinator/internal/hooks"
)

// background is the set of goroutines of a coordinator. None starts once it is stopped, so the stores may be closed
// then.
type background struct {
	hooks   *hooks.Hooks
	mu      sync.Mutex
	stopped bool
	wg      sync.WaitGroup
}

// start runs f in a goroutine, or returns false if the coordinator was closed.
func (b *background) start(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.stopped {
		b.wg.Go(b.hooks.Wrap(f))
	}
	return !b.stopped
}

// stop waits for every goroutine to end. They are told to by the context that they work under.
func (b *background) stop() {
	b.mu.Lock()
	b.stopped = true
	b.mu.Unlock()
	b.wg.Wait()
}
