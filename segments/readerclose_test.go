package segments

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// countedCalls counts the GETs under way in a store; each lasts until its context ends, and then a little longer.
type countedCalls struct {
	*mapObjects
	under atomic.Int64
}

func (c *countedCalls) Get(ctx context.Context, _ string, _, _ int64) ([]byte, error) {
	c.under.Add(1)
	defer c.under.Add(-1)
	<-ctx.Done()
	time.Sleep(time.Second)
	return nil, ctx.Err()
}

// TestCloseEndsFetches: what was fetched ahead, and what was fetched for a caller who gave up, is over once Close returns,
// as is what somebody still waits for; and nothing more is asked of the store.
func TestCloseEndsFetches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		objects, entries := stored(t, numbered(500, 4000), numbered(1, 10), numbered(500, 4000))
		store := &countedCalls{mapObjects: objects}
		r := NewReader(store, 64<<20)
		r.Prefetch(t.Context(), testBasin, entries[0])
		ctx, cancel := context.WithCancel(t.Context())
		read := func(ctx context.Context, told chan<- error) {
			_, err := r.Read(ctx, testBasin, testStream, entries[2], 0, 8<<20)
			told <- err
		}
		gone, waits := make(chan error, 1), make(chan error, 1)
		go read(ctx, gone)
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) || store.under.Load() != 2 {
			t.Fatalf("%v, and %d calls are under way", err, store.under.Load())
		}
		go read(t.Context(), waits)
		synctest.Wait()
		begun := time.Now()
		r.Close()
		if n := store.under.Load(); n != 0 {
			t.Errorf("%d calls are under way after Close", n)
		}
		if took := time.Since(begun); took != time.Second {
			t.Errorf("Close took %v; the store's calls end a second after they are told to", took)
		}
		if err := <-waits; !errors.Is(err, ErrReaderClosed) {
			t.Errorf("who waited is told %v", err)
		}
		before := r.Stats().Gets
		r.Prefetch(t.Context(), testBasin, entries[0])
		if read(t.Context(), waits); !errors.Is(<-waits, ErrReaderClosed) {
			t.Error("a closed reader reads")
		}
		synctest.Wait()
		if after := r.Stats().Gets; after != before {
			t.Errorf("%d GETs after Close", after-before)
		}
		r.Close()
	})
}
