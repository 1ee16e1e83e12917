package fileobjects

import (
	"context"
	"fmt"
	"sync"
)

// syncGroup lets calls that need the same folder synced share one sync. What a call has changed before sync is covered,
// because it shares only a sync that has not begun: a round takes joiners until it is removed from next, which happens
// before its sync begins. While a round runs, the calls that arrive gather in the following one, so under load each
// call waits for two syncs at most, however many calls there are.
//
// A sync that fails may leave the system believing that all is written, so that the next one succeeds and means
// nothing for what was changed before it. So a change counts as synced only if no sync failed since before it was made.
type syncGroup struct {
	mu       sync.Mutex
	next     *round // not begun; nil if nobody waits for one
	latest   *round // the last that was started, if any: the next one waits for it
	failures int    // rounds that failed
	failure  error  // why the last of them did
}

type round struct {
	done chan struct{} // closed when err is set
	err  error
}

// mark is taken before a change and handed to sync after it. The mark of a change made before this process is zero.
type mark int

func (g *syncGroup) mark() mark {
	g.mu.Lock()
	defer g.mu.Unlock()
	return mark(g.failures)
}

// sync returns nil once do has succeeded in a run that began after the call, if none has failed since the mark. A call
// that waits for another's run gives up when ctx ends; one that runs do itself sees it through, for others wait for it.
func (g *syncGroup) sync(ctx context.Context, since mark, do func() error) error {
	if err := g.join(ctx, do); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if mark(g.failures) != since {
		return fmt.Errorf("an earlier sync failed: %w", g.failure)
	}
	return nil
}

func (g *syncGroup) join(ctx context.Context, do func() error) error {
	g.mu.Lock()
	if r := g.next; r != nil {
		g.mu.Unlock()
		select {
		case <-r.done:
			return r.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r, before := &round{done: make(chan struct{})}, g.latest
	g.next, g.latest = r, r
	g.mu.Unlock()

	if before != nil {
		<-before.done
	}
	g.mu.Lock()
	g.next = nil
	g.mu.Unlock()
	r.err = do()
	if r.err != nil {
		g.mu.Lock()
		g.failures++
		g.failure = r.err
		g.mu.Unlock()
	}
	close(r.done)
	return r.err
}
