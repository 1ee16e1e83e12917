package s3objects

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/tailrace-streams/tailrace/segments"
)

// probeLeft is how old what an interrupted probe has left must be to be removed by a later one.
const probeLeft = time.Hour

// Probe checks, with about ten requests, that the bucket is there and may be used, and that the store does what the methods
// of Objects rely on. It writes below probe/ and removes what it wrote. A store that forgets to delete many keys at once,
// though it says otherwise, is asked for one at a time from then on. An error that matches ErrUnavailable says that the
// probe should be repeated later; any other, that the store should not be used like this.
func (s *Store) Probe(ctx context.Context) error {
	folder := "probe/" + rand.Text() + "/"
	// In bytewise order the second precedes the third; by the names of folders it would follow.
	p := probe{s, folder, []string{folder + "a", folder + "b-c", folder + "b/c"}}
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"write", p.write}, {"read", p.read}, {"read what is missing", p.readMissing}, {"list", p.list}, {"delete", p.remove},
	} {
		if err := step.run(ctx); err != nil {
			_ = s.Delete(context.WithoutCancel(ctx), p.keys) // what is left, a later probe removes
			return fmt.Errorf("probe bucket %s: %s: %w", s.Bucket(), step.name, err)
		}
	}
	p.sweep(ctx)
	return nil
}

type probe struct {
	*Store
	folder string
	keys   []string
}

func (p probe) content() []byte { return []byte("tailrace " + p.folder) }

func (p probe) write(ctx context.Context) error {
	for _, key := range p.keys {
		if err := p.Put(ctx, key, p.content()); err != nil {
			return err
		}
	}
	return nil
}

func (p probe) read(ctx context.Context) error {
	want := p.content()
	for _, c := range []struct{ offset, length, end int64 }{{0, -1, int64(len(want))}, {3, 5, 8}} {
		got, err := p.Get(ctx, p.keys[0], c.offset, c.length)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, want[c.offset:c.end]) {
			return fmt.Errorf("other bytes than were written: %w", ErrMisbehaves)
		}
	}
	return nil
}

// readMissing sees whether absence can be told from refusal: a policy without the right to list makes S3 answer 403 for
// what is not there, and then a stale reference could not be told from a lost object.
func (p probe) readMissing(ctx context.Context) error {
	_, err := p.Get(ctx, p.folder+"missing", 0, -1)
	switch {
	case errors.Is(err, segments.ErrObjectNotFound):
		return nil
	case err == nil:
		return fmt.Errorf("an object that was never written: %w", ErrMisbehaves)
	}
	return fmt.Errorf("a missing object must be answered by 404 NoSuchKey (on AWS that needs s3:ListBucket): %w", err)
}

func (p probe) list(ctx context.Context) error { return p.expect(ctx, p.keys[0], p.keys[1:]) }

// expect checks what is listed after a key.
func (p probe) expect(ctx context.Context, after string, want []string) error {
	infos, err := p.List(ctx, p.folder, after, len(p.keys)+1)
	if err != nil {
		return err
	}
	if len(infos) != len(want) {
		return fmt.Errorf("%d of %d objects are listed: %w", len(infos), len(want), ErrMisbehaves)
	}
	for i, info := range infos {
		if info.Key != want[i] || info.Size != int64(len(p.content())) {
			return fmt.Errorf("an object is listed that was not written: %w", ErrMisbehaves)
		}
	}
	return nil
}

func (p probe) remove(ctx context.Context) error {
	err := p.removeAll(ctx)
	if err == nil || p.single.Load() || errors.Is(err, ErrUnavailable) {
		return err
	}
	p.single.Store(true)
	if err := p.removeAll(ctx); err != nil {
		return err
	}
	p.log.Warn().AnErr("fault", err).Msg("object store does not delete many objects at once; they are deleted one by one")
	return nil
}

func (p probe) removeAll(ctx context.Context) error {
	for _, err := range p.Delete(ctx, p.keys) {
		return err
	}
	return p.expect(ctx, "", nil)
}

// sweep removes what probes that were cut short have left.
func (p probe) sweep(ctx context.Context) {
	infos, _ := p.List(ctx, "probe/", "", pageKeys)
	now := time.Now().Add(p.Clock().Offset)
	var old []string
	for _, info := range infos {
		if now.Sub(info.Modified) > probeLeft {
			old = append(old, info.Key)
		}
	}
	if len(old) > 0 {
		_ = p.Delete(ctx, old) // the next probe tries again
	}
}
