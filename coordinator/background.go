package coordinator

import (
	"context"
	"fmt"
	"sync"

	"github.com/tailrace-streams/tailrace/coordinator/internal/hooks"
)

// background is the set of goroutines of a coordinator. None starts once it is stopped, so the stores may be closed
// then.
type background struct {
	hooks   *hooks.Hooks
	mu      sync.Mutex
	stopped bool
	running int
	quiet   chan struct{} // closed when nothing runs; nil unless somebody waits for that
	wg      sync.WaitGroup
}

// start runs f in a goroutine, or returns false if the coordinator was closed.
func (b *background) start(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.stopped {
		b.running++
		b.wg.Go(b.hooks.Wrap(func() {
			defer b.ended()
			f()
		}))
	}
	return !b.stopped
}

func (b *background) ended() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running--; b.running == 0 && b.quiet != nil {
		close(b.quiet)
		b.quiet = nil
	}
}

// settle waits until nothing runs, or ctx ends.
func (b *background) settle(ctx context.Context) error {
	b.mu.Lock()
	if b.running == 0 {
		b.mu.Unlock()
		return nil
	}
	if b.quiet == nil {
		b.quiet = make(chan struct{})
	}
	quiet := b.quiet
	b.mu.Unlock()
	select {
	case <-quiet:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for work in the background: %w", ctx.Err())
	}
}

// stop waits for every goroutine to end. They are told to by the context that they work under.
func (b *background) stop() {
	b.mu.Lock()
	b.stopped = true
	b.mu.Unlock()
	b.wg.Wait()
}
