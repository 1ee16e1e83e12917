package segments

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
)

// kind keeps apart what else could have one key.
type kind uint8

const (
	wholeChunk kind = iota + 1
	oneBlock
	blockRun // only ever in flight: its blocks are cached one by one
	footerOf
	wholePage
	plainBlock // its offset is the chunk's, its length the number of its first record
)

// cacheKey names bytes that never change. The basin is in it although object ids do not repeat: no mistake with an
// id can show one basin's data to another.
type cacheKey struct {
	basin  BasinID
	object ObjectID
	offset uint64
	length uint32
	kind   kind
}

// flight is the key as singleflight wants it.
func (k *cacheKey) flight() string {
	b := make([]byte, 0, 48)
	b = append(append(b, k.basin[:]...), k.object[:]...)
	b = binary.BigEndian.AppendUint64(b, k.offset)
	return string(append(binary.BigEndian.AppendUint32(b, k.length), byte(k.kind)))
}

// cached is one of three things, immutable and shared.
type cached struct {
	data   []byte
	footer *Footer
	page   *Page
	stream StreamID // of a decompressed block: what its checksum proved
}

// weight is about what v takes in memory.
func (v *cached) weight() uint32 {
	const overhead, perRow, perChunk, perBlock = 256, 256, 64, 12
	n := overhead + cap(v.data)
	if v.footer != nil {
		n += perChunk * cap(v.footer.Chunks)
		for i := range v.footer.Chunks {
			n += perBlock * len(v.footer.Chunks[i].Blocks)
		}
	}
	if v.page != nil {
		n += perRow * len(v.page.Rows)
	}
	return uint32(n)
}

// readCache is bounded by bytes: a quarter for what was fetched last, the rest for what is asked for most. Otter
// alone turns newcomers away once it is full of things asked for once, which is right for a scan and wrong for data
// fetched ahead, or read in parts: these must be there for their first or second reader.
//
// An eighth is for decompressed blocks of which a part was wanted: a reader who takes small parts comes again for the
// next one, and so do others beside it.
type readCache struct {
	recent recent
	plain  recent
	often  *otter.Cache[cacheKey, cached] // nil if there is no cache
}

func newReadCache(size int64) *readCache {
	c := &readCache{}
	if size <= 0 {
		return c
	}
	c.recent = recent{limit: size / 4, values: map[cacheKey]cached{}}
	c.plain = recent{limit: size / 8, values: map[cacheKey]cached{}}
	c.often = otter.Must(&otter.Options[cacheKey, cached]{
		MaximumWeight: uint64(size - size/4 - size/8),
		Weigher:       func(_ cacheKey, v cached) uint32 { return v.weight() },
		Executor:      func(task func()) { task() }, // no goroutine that outlives a call
	})
	return c
}

func (c *readCache) get(k cacheKey) (cached, bool) {
	if c.often == nil {
		return cached{}, false
	}
	v, ok := c.often.GetIfPresent(k) // always asked, so that it counts
	if !ok {
		v, ok = c.recent.get(k)
	}
	return v, ok
}

func (c *readCache) put(k cacheKey, v cached) {
	if c.often == nil {
		return
	}
	c.recent.put(k, v)
	c.often.Set(k, v)
}

func (c *readCache) forget(k cacheKey) {
	if c.often != nil {
		c.recent.forget(k)
		c.often.Invalidate(k)
	}
}

// recent holds the values put last, up to a number of bytes, first in, first out.
type recent struct {
	mu     sync.Mutex
	values map[cacheKey]cached
	order  []cacheKey // oldest first
	size   int64
	limit  int64
}

func (r *recent) get(k cacheKey) (cached, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.values[k]
	return v, ok
}

func (r *recent) put(k cacheKey, v cached) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.values[k]; ok || int64(v.weight()) > r.limit {
		return
	}
	r.values[k] = v
	r.order = append(r.order, k)
	r.size += int64(v.weight())
	for r.size > r.limit {
		r.drop(r.order[0])
		r.order = r.order[1:]
	}
}

func (r *recent) forget(k cacheKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(k)
	r.order = slices.DeleteFunc(r.order, func(o cacheKey) bool { return o == k })
}

func (r *recent) drop(k cacheKey) {
	if v, ok := r.values[k]; ok {
		r.size -= int64(v.weight())
		delete(r.values, k)
	}
}

// plainBlocks finds the decompressed blocks of one chunk in a cache. A nil one has none.
type plainBlocks struct {
	cache  *recent
	stream StreamID
	key    cacheKey // of the block with the chunk's record 0
}

func (r *Reader) plainBlocks(basin BasinID, stream StreamID, object ObjectID, chunk uint64) *plainBlocks {
	return &plainBlocks{&r.cache.plain, stream, cacheKey{basin: basin, object: object, offset: chunk, kind: plainBlock}}
}

// open is openBlock, through the cache. end, a number in the chunk, is where the caller stops reading: a block that is
// read to its own end is not kept. What is kept was verified when it was decompressed.
func (p *plainBlocks) open(seed uint32, b placedBlock, end uint64) (blockHeader, []byte, error) {
	if p == nil || p.cache.limit == 0 {
		return openBlock(seed, b.first, b.data)
	}
	key := p.key
	key.length = b.first
	if v, ok := p.cache.get(key); ok && v.stream == p.stream {
		if h, err := parseBlockHeader(b.data); err == nil && int(h.raw) == len(v.data) {
			return h, v.data, nil
		}
	}
	h, raw, err := openBlock(seed, b.first, b.data)
	if err == nil && h.codec == codecZstd && end < uint64(b.first)+uint64(h.records) {
		p.cache.put(key, cached{data: raw, stream: p.stream})
	}
	return h, raw, err
}

// fetchTimeout bounds a fetch that may have lost its callers.
const fetchTimeout = time.Minute

// loads are the calls to the store that are under way on behalf of nobody in particular.
type loads struct {
	life context.Context // ends with close
	end  context.CancelFunc

	mu     sync.Mutex // so that none begins once close waits
	closed bool
	wg     sync.WaitGroup
}

// begin gives a load its context, with the values of its first caller's and none of its ends. The function returned is
// called when the load has ended.
func (l *loads) begin(caller context.Context) (ctx context.Context, done func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, nil, ErrReaderClosed
	}
	l.wg.Add(1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(caller), fetchTimeout)
	stop := context.AfterFunc(l.life, cancel)
	return ctx, func() {
		stop()
		cancel()
		l.wg.Done()
	}, nil
}

func (l *loads) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.end()
	l.wg.Wait()
}

// fetch returns what is cached under k, or loads it. Everybody who wants k meanwhile waits for the same load, which
// goes on if the caller that started it gives up: for the others, and because its result is worth keeping. Only a
// load that says keep is cached.
func (r *Reader) fetch(ctx context.Context, k cacheKey, load func(context.Context) (v cached, keep bool, err error)) (cached, error) {
	if v, ok := r.cached(k); ok {
		return v, nil
	}
	done := r.flights.DoChan(k.flight(), func() (any, error) {
		if v, ok := r.cache.get(k); ok { // loaded since we looked
			return v, nil
		}
		ctx, done, err := r.loads.begin(ctx)
		if err != nil {
			return cached{}, err
		}
		defer done()
		v, keep, err := load(ctx)
		switch {
		case err == nil && keep:
			r.cache.put(k, v)
		case err != nil && r.loads.life.Err() != nil:
			err = fmt.Errorf("%w: %w", ErrReaderClosed, err)
		}
		return v, err
	})
	select {
	case <-ctx.Done():
		return cached{}, fmt.Errorf("wait for a fetch: %w", ctx.Err())
	case result := <-done:
		return result.Val.(cached), result.Err
	}
}

func (r *Reader) cached(k cacheKey) (cached, bool) {
	v, ok := r.cache.get(k)
	if ok {
		r.hits.Add(1)
	} else {
		r.misses.Add(1)
	}
	return v, ok
}

// countedGets counts the reads that go through it.
type countedGets struct {
	Objects
	r *Reader
}

func (c countedGets) Get(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	c.r.gets.Add(1)
	data, err := c.Objects.Get(ctx, key, offset, length)
	c.r.getBytes.Add(uint64(len(data)))
	return data, err
}
