package segments

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/singleflight"
)

const (
	// wholeChunkBytes is the size up to which a chunk is fetched whole whatever is wanted of it: below it, a GET costs
	// its round trip and little else.
	wholeChunkBytes = 1 << 20
	// maxPrefetches bounds the prefetches under way at once, of all streams.
	maxPrefetches = 8
)

// Reader reads chunks by their entries, and pages, through one cache. All methods may be called at once. Nothing it
// returns may be written to: cached bytes are shared.
type Reader struct {
	objects Objects
	cache   *readCache
	flights singleflight.Group
	slots   chan struct{} // one for each prefetch under way
	ahead   sync.Map      // cacheKey of chunks being prefetched
	loads   loads

	gets, getBytes, hits, misses, dropped atomic.Uint64
}

// ErrReaderClosed is the error of what a Reader would have to fetch after Close.
var ErrReaderClosed = errors.New("the reader of segments is closed")

// ReaderStats counts what a Reader did since it was made.
type ReaderStats struct {
	Gets, GetBytes    uint64 // reads of objects, and the bytes they gave
	Hits, Misses      uint64 // look-ups in the cache
	DroppedPrefetches uint64 // Prefetch did nothing because enough were under way
}

// NewReader makes a reader that caches about cacheBytes, or nothing if that is zero. Besides, it holds what is being
// fetched, which is bounded by its callers.
func NewReader(objects Objects, cacheBytes int64) *Reader {
	r := &Reader{cache: newReadCache(cacheBytes), slots: make(chan struct{}, maxPrefetches)}
	r.objects = countedGets{objects, r}
	r.loads.life, r.loads.end = context.WithCancel(context.Background())
	return r
}

// Close ends what is being fetched, of which some has lost its callers, and waits until it has ended: afterwards nothing
// uses the store, and reads that need it fail with ErrReaderClosed. It may be called twice.
func (r *Reader) Close() { r.loads.close() }

// Stats returns the counts so far.
func (r *Reader) Stats() ReaderStats {
	return ReaderStats{r.gets.Load(), r.getBytes.Load(), r.hits.Load(), r.misses.Load(), r.dropped.Load()}
}

// Read returns records of the entry, the from-th first. It returns at least one, and goes on block by block until
// they make up maxBytes encoded, or the entry ends; the caller reads on with from behind the last. Timestamps are
// raw: the effective ones are folded by who knows the list the entry stands in.
//
// Records that are read are good, and are returned even if damage follows. If the from-th itself cannot be read the
// error is a *CorruptError that names records of the entry; reading on at its End() gets what is behind. If the
// object is gone it is ErrObjectNotFound, which calls for a fresh head (design 8).
func (r *Reader) Read(ctx context.Context, basin BasinID, stream StreamID, e *Entry, from uint32, maxBytes int) ([]StoredRecord, error) {
	return r.ReadSome(ctx, basin, stream, e, from, e.N, maxBytes)
}

// ReadSome is Read for a caller who comes again soon for what follows: of what it fetches, up to maxBytes, it decodes
// at most n records. n is at least 1.
func (r *Reader) ReadSome(ctx context.Context, basin BasinID, stream StreamID, e *Entry, from, n uint32, maxBytes int) ([]StoredRecord, error) {
	if from >= e.N || n == 0 || e.Skip > math.MaxUint32-e.N {
		return nil, fmt.Errorf("read record %d of an entry of %d", from, e.N)
	}
	want := chunkRange{stream: stream, skip: uint64(e.Skip) + uint64(from), n: uint64(e.N - from), take: uint64(n), budget: maxBytes}
	if e.Inline() {
		records, err := want.decode(blockWalk{rest: e.Data}, nil)
		if len(records) > 0 {
			return records, nil
		}
		return nil, inEntry(err, e, "inline chunk of entry "+e.ID.String())
	}
	records, err := r.readSegment(ctx, basin, e, want)
	if len(records) > 0 {
		return records, nil
	}
	return nil, inEntry(err, e, "chunk in segment "+e.Object.String())
}

// chunkRange is what Read wants of a chunk: n records from the skip-th on, of which budget bytes are enough, and the
// first take of them at once.
type chunkRange struct {
	stream        StreamID
	skip, n, take uint64
	budget        int
}

func (w *chunkRange) decode(walk blockWalk, plain *plainBlocks) ([]StoredRecord, error) {
	d := chunkReader{seed: streamSeed(w.stream), walk: walk, plain: plain}
	return d.read(w.skip, min(w.n, w.take), w.budget)
}

// inEntry makes an error about records of a chunk one about records of the entry.
func inEntry(err error, e *Entry, what string) error {
	var damage *CorruptError
	if errors.As(err, &damage) {
		own := *damage
		if own.What = what; own.N > 0 {
			own.First -= e.Skip
		} else { // the segment itself is damaged where the chunk needs it
			own.First, own.N = 0, e.N
		}
		return &own
	}
	return fmt.Errorf("read %s: %w", what, err)
}

func (r *Reader) readSegment(ctx context.Context, basin BasinID, e *Entry, want chunkRange) ([]StoredRecord, error) {
	if e.Length > MaxObjectBytes || e.Offset > MaxObjectBytes {
		return nil, corrupt("chunk", "its entry gives impossible sizes")
	}
	key := chunkKey(basin, e)
	if !r.wantsWhole(key, e, want) {
		c, err := r.chunkInfo(ctx, basin, want.stream, e)
		if err == nil {
			return r.readBlocks(ctx, basin, e.Object, c, want)
		}
		var version *VersionError
		if !errors.Is(err, ErrCorrupt) && !errors.As(err, &version) {
			return nil, err
		}
		// A chunk does not need the footer to be sound: read all of it, and find the blocks by their headers.
	}
	v, err := r.fetch(ctx, key, r.loadRange(basin, e.Object, e.Offset, e.Length))
	if err != nil {
		return nil, err
	}
	records, err := want.decode(blockWalk{rest: v.data}, r.plainBlocks(basin, want.stream, e.Object, e.Offset))
	if len(records) == 0 && err != nil {
		// The bytes may have been damaged on their way here, and the next reader should not get the same ones.
		r.cache.forget(key)
		return r.readDamaged(ctx, basin, e, want, v.data, err)
	}
	return records, err
}

// wantsWhole decides between one GET of the chunk and one of some blocks, which needs the footer.
func (r *Reader) wantsWhole(key cacheKey, e *Entry, want chunkRange) bool {
	if e.Length <= wholeChunkBytes {
		return true
	}
	if _, ok := r.ahead.Load(key); ok {
		return true // it is being prefetched; join that
	}
	if _, ok := r.cache.get(key); ok {
		return true
	}
	return want.skip == 0 && want.budget >= int(e.Length) && e.Bytes >= uint64(e.Length/2)
}

// readDamaged decodes a chunk again with the segment's block table, which knows where blocks start even if a damaged
// header does not.
func (r *Reader) readDamaged(ctx context.Context, basin BasinID, e *Entry, want chunkRange, data []byte, cause error) ([]StoredRecord, error) {
	c, err := r.chunkInfo(ctx, basin, want.stream, e)
	if err != nil {
		return nil, cause
	}
	return want.decode(blockWalk{rest: data, table: c.Blocks, sure: true}, nil)
}

// chunkInfo finds the entry's chunk in the footer of its segment.
func (r *Reader) chunkInfo(ctx context.Context, basin BasinID, stream StreamID, e *Entry) (*ChunkInfo, error) {
	v, err := r.fetch(ctx, cacheKey{basin: basin, object: e.Object, kind: footerOf}, func(ctx context.Context) (cached, bool, error) {
		f, err := ReadFooter(ctx, r.objects, basin, e.Object, 0)
		return cached{footer: f}, true, err
	})
	if err != nil {
		return nil, err
	}
	c, ok := v.footer.Chunk(e.Offset, e.Length)
	if !ok || c.Stream != stream {
		return nil, corrupt("segment", "it has no such chunk")
	}
	return c, nil
}

// readBlocks reads part of a large chunk. If the first block wanted is cached, so much of what follows as is cached
// is enough; else the missing blocks are fetched with one GET.
func (r *Reader) readBlocks(ctx context.Context, basin BasinID, object ObjectID, c *ChunkInfo, want chunkRange) ([]StoredRecord, error) {
	run := selectBlocks(c, want)
	if len(run.blocks) == 0 {
		return nil, damaged(want.skip, want.skip+want.n, fmt.Errorf("it ends with record %d", c.Records))
	}
	data := r.cachedBlocks(basin, object, run)
	if len(data) == 0 {
		var err error
		if data, err = r.fetchBlocks(ctx, basin, object, run); err != nil {
			return nil, err
		}
	}
	d := chunkReader{seed: streamSeed(want.stream), plain: r.plainBlocks(basin, want.stream, object, c.Offset)}
	first, offset, next := run.first, run.offset, want.skip
	wanted := want.skip + min(want.n, want.take)
	for i, block := range data {
		if next >= wanted {
			break
		}
		info := run.blocks[i]
		end := uint64(first) + uint64(info.Records)
		d.walk = blockWalk{rest: block, table: run.blocks[i : i+1], sure: true, first: first}
		if _, err := d.read(next, min(end, wanted)-next, math.MaxInt); err != nil {
			r.cache.forget(cacheKey{basin, object, offset, info.Length, oneBlock})
			return d.out, err
		}
		first, offset, next = uint32(end), offset+uint64(info.Length), end
	}
	return d.out, nil
}

// run is neighbouring blocks of one chunk.
type run struct {
	blocks []BlockInfo
	first  uint32 // number of its first record in the chunk
	offset uint64 // where it starts in the segment
}

func (u *run) length() (n uint32) {
	for _, b := range u.blocks {
		n += b.Length
	}
	return n
}

// selectBlocks picks the blocks that hold what is wanted.
func selectBlocks(c *ChunkInfo, want chunkRange) run {
	u := run{offset: c.Offset}
	i := 0
	for ; i < len(c.Blocks) && uint64(u.first)+uint64(c.Blocks[i].Records) <= want.skip; i++ {
		u.first += c.Blocks[i].Records
		u.offset += uint64(c.Blocks[i].Length)
	}
	j, next, budget := i, uint64(u.first), want.budget
	for j < len(c.Blocks) && next < want.skip+want.n && (budget > 0 || j == i) {
		next += uint64(c.Blocks[j].Records)
		budget -= int(c.Blocks[j].Raw)
		j++
	}
	u.blocks = c.Blocks[i:j]
	return u
}

// cachedBlocks returns the blocks at the start of the run that are cached.
func (r *Reader) cachedBlocks(basin BasinID, object ObjectID, u run) [][]byte {
	var out [][]byte
	offset := u.offset
	for _, b := range u.blocks {
		v, ok := r.cached(cacheKey{basin, object, offset, b.Length, oneBlock})
		if !ok {
			break
		}
		out = append(out, v.data)
		offset += uint64(b.Length)
	}
	return out
}

func (r *Reader) fetchBlocks(ctx context.Context, basin BasinID, object ObjectID, u run) ([][]byte, error) {
	length := u.length()
	v, err := r.fetch(ctx, cacheKey{basin, object, u.offset, length, blockRun}, r.loadBlocks(basin, object, u, length))
	if err != nil {
		return nil, err
	}
	out, data := make([][]byte, 0, len(u.blocks)), v.data
	for _, b := range u.blocks {
		n := min(int(b.Length), len(data)) // cut short: decoding says so
		out = append(out, data[:n:n])
		data = data[n:]
	}
	return out, nil
}

// loadBlocks gets a run and caches copies of its blocks, so that keeping one of them does not keep all.
func (r *Reader) loadBlocks(basin BasinID, object ObjectID, u run, length uint32) func(context.Context) (cached, bool, error) {
	load := r.loadRange(basin, object, u.offset, length)
	return func(ctx context.Context) (cached, bool, error) {
		v, complete, err := load(ctx)
		if err != nil || !complete {
			return v, false, err
		}
		at := uint64(0)
		for _, b := range u.blocks {
			block := cached{data: bytes.Clone(v.data[at : at+uint64(b.Length)])}
			r.cache.put(cacheKey{basin, object, u.offset + at, b.Length, oneBlock}, block)
			at += uint64(b.Length)
		}
		return v, false, nil
	}
}

// loadRange gets part of a segment. What is cut short is not kept.
func (r *Reader) loadRange(basin BasinID, object ObjectID, offset uint64, length uint32) func(context.Context) (cached, bool, error) {
	return func(ctx context.Context) (cached, bool, error) {
		data, err := r.objects.Get(ctx, SegmentKey(basin, object), int64(offset), int64(length))
		return cached{data: data}, len(data) == int(length), err
	}
}

func chunkKey(basin BasinID, e *Entry) cacheKey {
	return cacheKey{basin, e.Object, e.Offset, e.Length, wholeChunk}
}

// Prefetch starts to fetch the entry's chunk into the cache, and returns at once. It does nothing if the chunk is
// there, on its way, too large for the cache to be sure to keep, or if enough prefetches are under way. The fetch
// goes on when ctx ends, until Close; whether it succeeds shows when the entry is read.
func (r *Reader) Prefetch(ctx context.Context, basin BasinID, e *Entry) {
	if e.Inline() || ctx.Err() != nil || int64(e.Length)+1024 > r.cache.recent.limit {
		return
	}
	key := chunkKey(basin, e)
	if _, ok := r.cache.get(key); ok {
		return
	}
	if _, ok := r.ahead.LoadOrStore(key, true); ok {
		return
	}
	select {
	case r.slots <- struct{}{}:
	default:
		r.ahead.Delete(key)
		r.dropped.Add(1)
		return
	}
	object, offset, length := e.Object, e.Offset, e.Length
	go func() {
		defer func() {
			r.ahead.Delete(key)
			<-r.slots
		}()
		_, _ = r.fetch(context.WithoutCancel(ctx), key, r.loadRange(basin, object, offset, length))
	}()
}

// Page returns a page of the stream. Errors are as those of Read, a *VersionError for a page of a newer release.
func (r *Reader) Page(ctx context.Context, basin BasinID, stream StreamID, id ObjectID) (*Page, error) {
	v, err := r.fetch(ctx, cacheKey{basin: basin, object: id, kind: wholePage}, func(ctx context.Context) (cached, bool, error) {
		data, err := r.objects.Get(ctx, PageKey(basin, id), 0, maxPageBytes+1)
		if err != nil {
			return cached{}, false, err
		}
		p, err := DecodePage(data)
		if err == nil && (p.ID != id || p.Basin != basin) {
			err = corrupt("page", "another object lies under its key")
		}
		return cached{page: p}, true, err
	})
	if err == nil && v.page.Stream != stream {
		err = corrupt("page", "it is another stream's")
	}
	if err != nil {
		return nil, fmt.Errorf("read page %s: %w", id, err)
	}
	return v.page, nil
}

// AddPage caches a page that was just stored, so that its writer need not fetch it. Nobody may change it any more.
func (r *Reader) AddPage(p *Page) {
	r.cache.put(cacheKey{basin: p.Basin, object: p.ID, kind: wholePage}, cached{page: p})
}
