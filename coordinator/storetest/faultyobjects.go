package storetest

import (
	"bytes"
	"context"
	"slices"

	"github.com/tailrace-streams/tailrace/segments"
)

// The operations of an object store as Call.Op names them.
const (
	OpPutObject     = "PutObject"
	OpGetObject     = "GetObject"
	OpListObjects   = "ListObjects"
	OpDeleteObjects = "DeleteObjects"
)

// Objects puts the faults before an object store, so that one Faults counts and decides over all the calls of an
// operation, whichever store they go to. A delete of several keys is one call.
func (f *Faults) Objects(inner segments.Objects) segments.Objects { return &faultyObjects{f, inner} }

type faultyObjects struct {
	f     *Faults
	inner segments.Objects
}

func (s *faultyObjects) Put(ctx context.Context, key string, data []byte) error {
	data = bytes.Clone(data) // the caller may reuse its own before a late one is delivered
	_, err := through(ctx, s.f, Call{Op: OpPutObject, Object: key}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.inner.Put(ctx, key, data)
	})
	return err
}

func (s *faultyObjects) Get(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	return through(ctx, s.f, Call{Op: OpGetObject, Object: key}, func(ctx context.Context) ([]byte, error) {
		return s.inner.Get(ctx, key, offset, length)
	})
}

func (s *faultyObjects) List(ctx context.Context, prefix, startAfter string, limit int) ([]segments.ObjectInfo, error) {
	call := Call{Op: OpListObjects, Object: prefix}
	return through(ctx, s.f, call, func(ctx context.Context) ([]segments.ObjectInfo, error) {
		return s.inner.List(ctx, prefix, startAfter, limit)
	})
}

func (s *faultyObjects) Delete(ctx context.Context, keys []string) map[string]error {
	keys = slices.Clone(keys)
	failed, err := through(ctx, s.f, Call{Op: OpDeleteObjects}, func(ctx context.Context) (map[string]error, error) {
		return s.inner.Delete(ctx, keys), nil
	})
	if err == nil {
		return failed
	}
	failed = make(map[string]error, len(keys))
	for _, key := range keys {
		failed[key] = err
	}
	return failed
}
