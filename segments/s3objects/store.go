package s3objects

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/minio/minio-go/v7"

	"github.com/tailrace-streams/tailrace/segments"
)

// Store implements segments.Objects in a bucket. All methods but Close may be called at once. Besides the errors of that
// interface they return *Error, in which ErrUnavailable tells what may be tried again later.
type Store struct {
	*Client

	latency quantile
	hedges  allowance
	// single: keys are deleted one by one, because the store cannot take many at once, or lied about it.
	single atomic.Bool
}

// New makes a store of a client.
func New(client *Client) *Store {
	return &Store{Client: client, latency: newQuantile(), hedges: newAllowance()}
}

// Put implements segments.Objects, as one PUT of known length whatever the size, and nothing that a repeat could make
// worse. It also returns segments.ErrBadKey.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	const op = "put object"
	if err := cmp.Or(s.checkKey(key), ctx.Err()); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if len(data) > segments.MaxObjectBytes {
		return fmt.Errorf("%s: %d bytes are more than an object may have", op, len(data))
	}
	sum := ""
	if s.signBody {
		digest := sha256.Sum256(data)
		sum = hex.EncodeToString(digest[:])
	}
	return s.Do(ctx, Call{Op: op, Bytes: int64(len(data))}, func(ctx context.Context) error {
		body := &lentBody{data: bytes.NewReader(data)}
		defer body.takeBack()
		_, err := s.core.PutObject(ctx, s.Bucket(), s.Key(key), body, int64(len(data)), "", sum,
			minio.PutObjectOptions{DisableContentSha256: true}) // the library's name for: do not sign in chunks
		if err == nil && attemptOf(ctx).tag == "" {
			err = s.confirm(ctx, key, int64(len(data)))
		}
		return err
	})
}

// confirm finds out whether an object of a size is there, after an answer to its PUT that has no ETag: that may be the word of
// something in between.
func (s *Store) confirm(ctx context.Context, key string, size int64) error {
	last, err := s.fetch(ctx, key, span{max(size-1, 0), 1})
	switch {
	case isNotFound(err), err == nil && int64(len(last)) != min(size, 1):
		return errors.New("the answer to the request was not the store's")
	case err != nil:
		return fmt.Errorf("confirm what was put: %w", err)
	}
	return nil
}

// checkKey returns segments.ErrBadKey for a key that breaks the rules, or with the prefix is longer than S3 allows.
func (s *Store) checkKey(key string) error {
	if err := segments.CheckKey(key); err != nil {
		return err
	}
	if len(s.Key(key)) > maxStoreKeyBytes {
		return fmt.Errorf("key with its prefix is longer than %d bytes: %w", maxStoreKeyBytes, segments.ErrBadKey)
	}
	return nil
}

// errTakenBack is what a transport gets that reads a body after its request has ended.
var errTakenBack = errors.New("request body was taken back")

// lentBody reads a caller's bytes until they are taken back. A transport may go on reading a body after the request has
// failed, and the bytes are the caller's again by then: he may be filling them with another object.
type lentBody struct {
	mu    sync.Mutex
	data  *bytes.Reader
	taken bool
}

// Read implements io.Reader.
func (b *lentBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taken {
		return 0, errTakenBack
	}
	return b.data.Read(p)
}

// Seek implements io.Seeker, by which the library goes to the start.
func (b *lentBody) Seek(offset int64, whence int) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Seek(offset, whence)
}

func (b *lentBody) takeBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken = true
}
