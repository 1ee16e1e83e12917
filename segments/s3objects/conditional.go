package s3objects

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/tailrace-streams/tailrace/segments"
)

// Tag is the ETag of one state of an object, exactly as the store writes it, quotes included (BL-104). The zero value
// stands for no object.
type Tag string

// valid reports whether a tag is a strong one: text in quotes, by which a store tells two states apart.
func (t Tag) valid() bool {
	inner, ok := strings.CutPrefix(string(t), `"`)
	inner, ok2 := strings.CutSuffix(inner, `"`)
	return ok && ok2 && inner != "" && !strings.ContainsFunc(inner, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' })
}

// PutIf stores data under key if the object is still in the state that match names, or for the zero Tag if there is none. It
// makes one request, once, whatever becomes of it: Error.Sent and Error.Status tell what is known. A condition that does not
// hold is status 412, or 404 where the object is gone. The tag of the new state is zero if the store named none that can be
// relied on. data must not be changed for as long as the store may still be reading it, which outlasts the call.
func (s *Store) PutIf(ctx context.Context, key string, data []byte, match Tag) (Tag, error) {
	const op = "put object conditionally"
	if err := cmp.Or(s.checkKey(key), ctx.Err()); err != nil {
		return "", fmt.Errorf("%s: %w", op, err)
	}
	options := minio.PutObjectOptions{DisableContentSha256: true} // the library's name for: do not sign in chunks
	switch {
	case match == "":
		options.SetMatchETagExcept("*")
	case match.valid():
		options.SetMatchETag(strings.Trim(string(match), `"`)) // the library puts them back
	default:
		return "", fmt.Errorf("%s: tag %q names no state", op, match)
	}
	digest := sha256.Sum256(data)
	var tag Tag
	err := s.Do(ctx, Call{Op: op, Bytes: int64(len(data)), Once: true}, func(ctx context.Context) error {
		a := attemptOf(ctx)
		a.body = data
		_, err := s.core.PutObject(ctx, s.Bucket(), s.Key(key), bytes.NewReader(data), int64(len(data)), "",
			hex.EncodeToString(digest[:]), options)
		tag = Tag(a.tag)
		return err
	})
	if err != nil || !tag.valid() {
		return "", err
	}
	return tag, nil
}

// GetTagged reads a whole object and the tag of the state that was read. ErrObjectNotFound is an answer, as for Get; an
// answer without a tag that can be relied on is ErrMisbehaves. The caller owns the result.
func (s *Store) GetTagged(ctx context.Context, key string) ([]byte, Tag, error) {
	const op = "get object with its tag"
	if err := cmp.Or(s.checkKey(key), ctx.Err()); err != nil {
		return nil, "", fmt.Errorf("%s: %w", op, err)
	}
	var data []byte
	var tag Tag
	missing := false
	err := s.Do(ctx, Call{Op: op}, func(ctx context.Context) (err error) {
		data, tag, err = s.fetchTagged(ctx, key)
		missing = isNotFound(err)
		return err
	})
	if missing {
		err = fmt.Errorf("%s: %w", op, segments.ErrObjectNotFound)
	}
	if err != nil {
		return nil, "", err
	}
	return data, tag, nil
}

func (s *Store) fetchTagged(ctx context.Context, key string) ([]byte, Tag, error) {
	body, _, header, err := s.core.GetObject(ctx, s.Bucket(), s.Key(key), minio.GetObjectOptions{})
	if err != nil {
		return nil, "", err
	}
	defer body.Close()
	length, err := readAnswer(header, span{0, -1})
	if err != nil {
		return nil, "", err
	}
	tag := Tag(header.Get("ETag"))
	if !tag.valid() {
		return nil, "", fmt.Errorf("answer has no strong ETag: %w", ErrMisbehaves)
	}
	attemptOf(ctx).expect(length)
	data := make([]byte, length)
	if _, err := io.ReadFull(body, data); err != nil {
		return nil, "", fmt.Errorf("read body: %w", err)
	}
	return data, tag, nil
}
