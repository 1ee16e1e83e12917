package objectstest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"sync"
	"testing"

	"github.com/tailrace-streams/tailrace/segments"
)

// The operations as callbacks and holds name them.
const (
	OpPut    = "put"
	OpGet    = "get"
	OpList   = "list"
	OpDelete = "delete"
)

// Decide chooses what becomes of a call: whether it reaches the store, and what error the caller sees. For a list, key
// is the prefix; a delete asks once for each of its keys. The four outcomes:
//
//	true, nil    it is done
//	true, err    it is done, but the answer is lost
//	false, err   it is not done
//	false, nil   it is not done, but the caller is told so: a store that lies. A get then answers
//	             ErrObjectNotFound, and a list that there is nothing.
//
// Calls at once call it at once. It may block, and sees the call before the store does.
type Decide func(op, key string) (apply bool, err error)

// Counts is how many calls a store got, whatever became of them. DeletedKeys counts the keys of all deletes.
type Counts struct {
	Puts, Gets, Lists, Deletes, DeletedKeys int
	PutBytes, GotBytes                      int64
}

// Faulty wraps a store to make it fail. Whatever it is told to do, it fails the test when a caller breaks the rules of
// objects: other bytes under a key that was put before, or, with FinalDeletes, any use of a key once deleted. All
// methods may be called at once.
type Faulty struct {
	tb    testing.TB
	inner segments.Objects
	final bool

	mu      sync.Mutex
	decide  Decide
	counts  Counts
	sums    map[string][sha256.Size]byte // of every key any Put named
	deleted map[string]bool
	holds   []*Held
}

// FaultOption changes how a Faulty is made.
type FaultOption func(*Faulty)

// FinalDeletes makes it a failure of the test to get or put a key after a delete of it was applied.
func FinalDeletes() FaultOption { return func(f *Faulty) { f.final = true } }

// Fault wraps a store. Until Decide is called, every call is done.
func Fault(tb testing.TB, inner segments.Objects, opts ...FaultOption) *Faulty {
	f := &Faulty{tb: tb, inner: inner, sums: map[string][sha256.Size]byte{}, deleted: map[string]bool{}}
	f.Decide(nil)
	for _, opt := range opts {
		opt(f)
	}
	return f
}

// Decide sets what becomes of calls from now on; nil lets all of them through.
func (f *Faulty) Decide(d Decide) {
	if d == nil {
		d = func(string, string) (bool, error) { return true, nil }
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decide = d
}

// Counts returns the calls so far.
func (f *Faulty) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts
}

// Put implements segments.Objects.
func (f *Faulty) Put(ctx context.Context, key string, data []byte) error {
	f.count(func(c *Counts) { c.Puts++; c.PutBytes += int64(len(data)) })
	f.checkPut(key, data)
	data = bytes.Clone(data) // a held call may be applied after the caller has gone on
	return f.call(ctx, OpPut, key, func(ctx context.Context) error { return f.inner.Put(ctx, key, data) })
}

// Get implements segments.Objects.
func (f *Faulty) Get(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	f.count(func(c *Counts) { c.Gets++ })
	f.checkUse(OpGet, key)
	data, err := read(ctx, f, OpGet, key, segments.ErrObjectNotFound, func(ctx context.Context) ([]byte, error) {
		return f.inner.Get(ctx, key, offset, length)
	})
	f.count(func(c *Counts) { c.GotBytes += int64(len(data)) })
	return data, err
}

// List implements segments.Objects.
func (f *Faulty) List(ctx context.Context, prefix, startAfter string, limit int) ([]segments.ObjectInfo, error) {
	f.count(func(c *Counts) { c.Lists++ })
	return read(ctx, f, OpList, prefix, nil, func(ctx context.Context) ([]segments.ObjectInfo, error) {
		return f.inner.List(ctx, prefix, startAfter, limit)
	})
}

// Delete implements segments.Objects. The keys go to the store one by one, so that each has an outcome of its own.
func (f *Faulty) Delete(ctx context.Context, keys []string) map[string]error {
	f.count(func(c *Counts) { c.Deletes++; c.DeletedKeys += len(keys) })
	var failed map[string]error
	for _, key := range keys {
		err := f.call(ctx, OpDelete, key, func(ctx context.Context) error {
			f.mu.Lock()
			f.deleted[key] = true
			f.mu.Unlock()
			return f.inner.Delete(ctx, []string{key})[key]
		})
		if err != nil {
			if failed == nil {
				failed = map[string]error{}
			}
			failed[key] = err
		}
	}
	return failed
}

// read is call for operations that answer with a value, which only the caller that waited for it may see.
func read[T any](
	ctx context.Context, f *Faulty, op, key string, lie error, do func(context.Context) (T, error),
) (T, error) {
	var mu sync.Mutex
	var value, none T
	done := false
	err := f.call(ctx, op, key, func(ctx context.Context) error {
		v, err := do(ctx)
		mu.Lock()
		defer mu.Unlock()
		value, done = v, true
		return err
	})
	mu.Lock()
	defer mu.Unlock()
	switch {
	case err != nil:
		return none, err
	case !done:
		return none, lie
	}
	return value, nil
}

// call passes one call through the holds and the decision, in the order: held before, decided, done, held after.
func (f *Faulty) call(ctx context.Context, op, key string, do func(context.Context) error) error {
	f.mu.Lock()
	decide := f.decide
	f.mu.Unlock()
	work := func(ctx context.Context) error {
		apply, lost := decide(op, key)
		if apply {
			if err := do(ctx); err != nil {
				return err
			}
		}
		return lost
	}
	if h := f.held(op, key, before); h != nil {
		if err := h.before(ctx, work); err != nil {
			return err
		}
	} else if err := work(ctx); err != nil {
		return err
	}
	if h := f.held(op, key, after); h != nil {
		return h.after(ctx)
	}
	return nil
}

func (f *Faulty) count(add func(*Counts)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	add(&f.counts)
}

func (f *Faulty) checkPut(key string, data []byte) {
	f.tb.Helper()
	sum := sha256.Sum256(data)
	f.mu.Lock()
	old, ok := f.sums[key]
	f.sums[key] = sum
	f.mu.Unlock()
	if ok && old != sum {
		f.tb.Errorf("object %q is put with other bytes than before", key)
	}
	f.checkUse(OpPut, key)
}

func (f *Faulty) checkUse(op, key string) {
	f.tb.Helper()
	f.mu.Lock()
	gone := f.final && f.deleted[key]
	f.mu.Unlock()
	if gone {
		f.tb.Errorf("%s of object %q, which was deleted", op, key)
	}
}
