package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailrace-streams/tailrace/segments"
)

// flusher gathers batches of many streams of one basin into segments and PUTs them (design 5). It flushes at once
// while few PUTs are in flight; when all workers are busy, batches gather until one is free. There is one per basin
// with a PUT in flight or pending, and none for an idle one.
type flusher struct {
	c     *Coordinator
	basin segments.BasinID

	mu      sync.Mutex
	pending []*flushJob
	workers int
}

// flushJob is one batch on its way into a segment.
type flushJob struct {
	stream  segments.StreamID
	batch   segments.StoredBatch
	size    uint64
	horizon segments.Label // the stream's, as known
	trouble func(error)    // hears of each PUT that failed and is tried again
	done    func(location, error)
}

// location is where a batch lies in a segment. attempts counts the entry ids made from the object.
type location struct {
	object   segments.ObjectID
	attempts *atomic.Uint32
	offset   uint64
	length   uint32
	skip     uint32
}

// place hands a batch to its basin's flusher. done is called once, from another goroutine; a failed place is
// definite for the batch, since nothing names what may have been stored.
func (c *Coordinator) place(basin segments.BasinID, job *flushJob) {
	c.mu.Lock()
	f := c.flushers[basin]
	if f == nil {
		f = &flusher{c: c, basin: basin}
		c.flushers[basin] = f
	}
	f.mu.Lock()
	c.mu.Unlock()
	defer f.mu.Unlock()
	if f.workers < c.o.FlushWorkers {
		if !c.background.start(f.work) {
			go f.c.o.Hooks.Wrap(func() { job.done(location{}, ErrDraining) })()
			return
		}
		f.workers++
	}
	f.pending = append(f.pending, job)
}

func (f *flusher) work() {
	for {
		jobs := f.take()
		if jobs == nil {
			return
		}
		f.flush(jobs)
	}
}

// take removes at most a segment's worth of jobs, or ends the worker.
func (f *flusher) take() []*flushJob {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	var size uint64
	n := 0
	for n < len(f.pending) && (n == 0 || size+f.pending[n].size <= segments.SegmentBytes) {
		size += f.pending[n].size
		n++
	}
	if n == 0 {
		if f.workers--; f.workers == 0 {
			delete(f.c.flushers, f.basin)
		}
		return nil
	}
	jobs := slices.Clone(f.pending[:n])
	f.pending = slices.Delete(f.pending, 0, n)
	return jobs
}

// flush writes one segment and tells each job where its batch is.
func (f *flusher) flush(jobs []*flushJob) {
	var horizon segments.Label
	for _, j := range jobs {
		horizon = max(horizon, j.horizon)
	}
	id := f.c.newObjectID(f.basin, horizon)
	attempts := new(atomic.Uint32)
	w := segments.NewSegmentWriter(f.basin)
	locations := make(map[*flushJob]location, len(jobs))
	for _, chunk := range chunksOf(jobs) {
		batches := make([]segments.StoredBatch, len(chunk))
		for i, j := range chunk {
			batches[i] = j.batch
		}
		offset, length := w.AddBatches(chunk[0].stream, batches...)
		var skip uint32
		for _, j := range chunk {
			locations[j] = location{id, attempts, offset, length, skip}
			skip += uint32(len(j.batch.Records))
		}
	}
	err := f.c.putObject(segments.SegmentKey(f.basin, id), w.Finish(id), func(err error) {
		for _, j := range jobs {
			j.trouble(err)
		}
	})
	for _, j := range jobs {
		j.done(locations[j], err)
	}
}

// chunksOf groups jobs by stream, in order, each group at most a chunk's worth.
func chunksOf(jobs []*flushJob) (chunks [][]*flushJob) {
	open := make(map[segments.StreamID]int)
	sizes := make(map[segments.StreamID]uint64)
	for _, j := range jobs {
		i, ok := open[j.stream]
		if !ok || sizes[j.stream]+j.size > segments.ChunkBytes {
			i = len(chunks)
			chunks = append(chunks, nil)
			open[j.stream], sizes[j.stream] = i, 0
		}
		chunks[i] = append(chunks[i], j)
		sizes[j.stream] += j.size
	}
	return chunks
}

// putObject stores an object, trying again until AppendTimeout: PUTs of fresh keys may be repeated freely. A store without
// room is not tried again, and remembered for Ready. trouble hears of each attempt that failed.
func (c *Coordinator) putObject(key string, data []byte, trouble func(error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.o.AppendTimeout)
	defer cancel()
	var errs []error
	for attempt := 0; ; attempt++ {
		call, stop := context.WithTimeout(ctx, c.o.StoreTimeout)
		err := c.o.Objects.Put(call, key, data)
		stop()
		if err == nil {
			return nil
		}
		trouble(err)
		errs = append(errs[:min(len(errs), 2)], err)
		if errors.Is(err, segments.ErrNoRoom) {
			c.full.Store(true)
			return fmt.Errorf("put object: %w: %w", ErrUnavailable, err)
		}
		if !pause(ctx, c.backoff(attempt)) {
			return fmt.Errorf("put object: %w: %w", ErrUnavailable, errors.Join(errs...))
		}
	}
}

// backoff is how long to wait before the next attempt: 10 ms doubling to 1 s, with full jitter above a half.
func (c *Coordinator) backoff(attempt int) time.Duration {
	d := min(10*time.Millisecond<<min(attempt, 10), time.Second)
	return d/2 + c.o.Hooks.Duration(d/2)
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
