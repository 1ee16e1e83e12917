// Package recall remembers values for answers that need not be new: bounded in bytes, in all and for each group, so that
// one tenant's values neither show in another's nor push all of them out.
package recall

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"
)

// Cache holds the values that were used last. A key belongs to a group, and is never found in another. All methods may
// be called at once; the functions handed in run under the cache's lock and must not call it.
type Cache[G, K comparable, V any] struct {
	limit, share int64
	size         func(V) int64
	// count is the number of entries, so that a cache nobody uses costs its writers nothing.
	count atomic.Int64

	mu     sync.Mutex
	bytes  int64
	order  *list.List // of *entry, the one used last in front
	groups map[G]*group[K]
}

type group[K comparable] struct {
	bytes int64
	order *list.List // of *entry
	keys  map[K]*list.Element
}

// entry is in two lists; own is its place in that of all.
type entry[G, K comparable, V any] struct {
	group G
	key   K
	value V
	bytes int64
	own   *list.Element
}

// New makes a cache of at most limit bytes, as size counts them, of which a group may have at most share. A limit of 0
// or less remembers nothing.
func New[G, K comparable, V any](limit, share int64, size func(V) int64) *Cache[G, K, V] {
	limit = max(limit, 0)
	return &Cache[G, K, V]{limit: limit, share: min(share, limit), size: size, order: list.New(), groups: map[G]*group[K]{}}
}

// Age is how long ago a moment was, at least: by the clock that does not jump, or by the one that goes on while a machine
// is stopped, whichever says more. So neither a clock that is set back nor a thaw makes a value look newer than it is.
func Age(then time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

// overhead is about what an entry takes beside its value.
const overhead = 512

// Get returns a value, which counts as a use of it.
func (c *Cache[G, K, V]) Get(g G, k K) (v V, ok bool) {
	if c.count.Load() == 0 {
		return v, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	in, e := c.find(g, k)
	if e == nil {
		return v, false
	}
	c.order.MoveToFront(e.own)
	in.order.MoveToFront(in.keys[k])
	return e.value, true
}

// Change replaces a value by what f makes of it, or forgets it if f says so; ok tells f whether there is one. A value
// that is too large is forgotten.
func (c *Cache[G, K, V]) Change(g G, k K, f func(old V, ok bool) (v V, keep bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, e := c.find(g, k)
	var old V
	if e != nil {
		old = e.value
	}
	v, keep := f(old, e != nil)
	n := c.size(v) + overhead
	switch {
	case !keep || n > c.share:
		c.remove(e)
	case e == nil:
		c.insert(&entry[G, K, V]{group: g, key: k, value: v, bytes: n})
	default:
		c.bytes += n - e.bytes
		c.groups[g].bytes += n - e.bytes
		e.value, e.bytes = v, n
	}
	c.evict(g)
}

// Update is Change for a value that is there; where there is none it costs next to nothing.
func (c *Cache[G, K, V]) Update(g G, k K, f func(old V) (v V, keep bool)) {
	if c.count.Load() == 0 {
		return
	}
	c.Change(g, k, func(old V, ok bool) (V, bool) {
		if !ok {
			return old, false
		}
		return f(old)
	})
}

// Drop forgets a group.
func (c *Cache[G, K, V]) Drop(g G) {
	if c.count.Load() == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for in := c.groups[g]; in != nil && in.order.Len() > 0; {
		c.remove(in.order.Back().Value.(*entry[G, K, V]))
	}
}

// Bytes is what the cache holds.
func (c *Cache[G, K, V]) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

func (c *Cache[G, K, V]) find(g G, k K) (*group[K], *entry[G, K, V]) {
	in := c.groups[g]
	if in == nil || in.keys[k] == nil {
		return in, nil
	}
	return in, in.keys[k].Value.(*entry[G, K, V])
}

func (c *Cache[G, K, V]) insert(e *entry[G, K, V]) {
	in := c.groups[e.group]
	if in == nil {
		in = &group[K]{order: list.New(), keys: map[K]*list.Element{}}
		c.groups[e.group] = in
	}
	e.own = c.order.PushFront(e)
	in.keys[e.key] = in.order.PushFront(e)
	in.bytes += e.bytes
	c.bytes += e.bytes
	c.count.Add(1)
}

func (c *Cache[G, K, V]) remove(e *entry[G, K, V]) {
	if e == nil {
		return
	}
	in := c.groups[e.group]
	c.order.Remove(e.own)
	in.order.Remove(in.keys[e.key])
	delete(in.keys, e.key)
	in.bytes -= e.bytes
	c.bytes -= e.bytes
	c.count.Add(-1)
	if len(in.keys) == 0 {
		delete(c.groups, e.group)
	}
}

// evict forgets what was not used for longest: of a group that is over its share, and then of all.
func (c *Cache[G, K, V]) evict(g G) {
	for in := c.groups[g]; in != nil && in.bytes > c.share && in.order.Len() > 0; {
		c.remove(in.order.Back().Value.(*entry[G, K, V]))
	}
	for c.bytes > c.limit {
		c.remove(c.order.Back().Value.(*entry[G, K, V]))
	}
}
