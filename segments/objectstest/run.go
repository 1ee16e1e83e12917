// Package objectstest holds what tests of object stores share: Run, the conformance suite every implementation of
// segments.Objects passes, and Faulty, a wrapper that makes any of them fail in chosen ways.
package objectstest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/segments"
)

// clockSlack is how far a store's clock may be from the test's: a hosted store has its own.
const clockSlack = 5 * time.Minute

// Run checks that a store keeps the contract of segments.Objects. open returns a store that holds no objects; it is
// called once for every subtest, and the subtests run in parallel.
func Run(t *testing.T, open func(t *testing.T) segments.Objects) {
	for name, test := range map[string]func(suite){
		"ranges": suite.ranges, "missing": suite.missing, "put again": suite.putAgain, "data not kept": suite.dataNotKept,
		"result not shared": suite.resultNotShared, "large": suite.large, "long keys": suite.longKeys,
		"order": suite.order, "pages": suite.pages, "many": suite.many, "delete": suite.deletes,
		"modified": suite.modified, "cancelled": suite.cancelled, "at once": suite.atOnce, "same key at once": suite.sameKey,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(suite{t, open(t)})
		})
	}
}

type suite struct {
	*testing.T
	objects segments.Objects
}

func (s suite) put(key string, data []byte) {
	s.Helper()
	if err := s.objects.Put(s.Context(), key, data); err != nil {
		s.Fatalf("Put(%q) = %v", key, err)
	}
}

func (s suite) wantRange(key string, offset, length int64, want []byte) {
	s.Helper()
	got, err := s.objects.Get(s.Context(), key, offset, length)
	if err != nil {
		s.Errorf("Get(%q, %d, %d) = %v", key, offset, length, err)
	} else if !bytes.Equal(got, want) {
		s.Errorf("Get(%q, %d, %d) = %d bytes, want %d, or they differ", key, offset, length, len(got), len(want))
	}
}

func (s suite) want(key string, want []byte) {
	s.Helper()
	s.wantRange(key, 0, -1, want)
}

func (s suite) wantNone(key string) {
	s.Helper()
	for _, length := range []int64{-1, 0, 1} {
		if _, err := s.objects.Get(s.Context(), key, 0, length); !errors.Is(err, segments.ErrObjectNotFound) {
			s.Errorf("Get(%q, 0, %d) = %v, want ErrObjectNotFound", key, length, err)
		}
	}
}

func (s suite) ranges() {
	data := []byte("0123456789")
	s.put("r/ten", data)
	s.put("r/empty", nil)
	const most = 1<<63 - 1
	for _, c := range []struct {
		offset, length int64
		want           string
	}{
		{0, -1, "0123456789"}, {3, -1, "3456789"}, {9, -1, "9"}, {10, -1, ""}, {11, -1, ""}, {most, -1, ""},
		{0, 10, "0123456789"}, {0, 11, "0123456789"}, {0, most, "0123456789"}, {0, 1, "0"}, {0, 0, ""},
		{4, 3, "456"}, {9, 1, "9"}, {9, 2, "9"}, {9, most, "9"}, {5, 0, ""},
		{10, 0, ""}, {10, 1, ""}, {11, 1, ""}, {1 << 40, 5, ""}, {most, most, ""},
	} {
		s.wantRange("r/ten", c.offset, c.length, []byte(c.want))
	}
	for _, offset := range []int64{0, 1} {
		for _, length := range []int64{-1, 0, 1} {
			s.wantRange("r/empty", offset, length, nil)
		}
	}
}

func (s suite) missing() {
	s.wantNone("nothing")
	s.wantNone("no/such/folder")
	s.put("folder/there", []byte("x"))
	s.wantNone("folder/other")
	s.wantNone("folder/ther")
	s.wantNone("folder/there2")
}

func (s suite) putAgain() {
	data := []byte("the same bytes")
	for range 3 {
		s.put("again/k", data)
		s.want("again/k", data)
	}
	s.put("again/empty", nil)
	s.put("again/empty", []byte{})
	s.want("again/empty", nil)
	s.wantKeys("", "again/empty", "again/k")
}

func (s suite) dataNotKept() {
	data := []byte("as it was")
	s.put("kept/k", data)
	clear(data)
	s.want("kept/k", []byte("as it was"))
}

func (s suite) resultNotShared() {
	s.put("shared/k", []byte("as it was"))
	got, err := s.objects.Get(s.Context(), "shared/k", 0, -1)
	if err != nil {
		s.Fatalf("Get = %v", err)
	}
	clear(got)
	s.want("shared/k", []byte("as it was"))
}

func (s suite) large() {
	data := make([]byte, segments.SegmentBytes)
	rand.NewChaCha8([32]byte{1}).Read(data)
	s.put("large/k", data)
	s.want("large/k", data)
	s.wantRange("large/k", 5<<20-1, 1<<20+2, data[5<<20-1:6<<20+1])
	s.wantRange("large/k", int64(len(data))-3, 100, data[len(data)-3:])
	infos := s.list("large/", "", 10)
	if len(infos) != 1 || infos[0].Size != int64(len(data)) {
		s.Errorf("List = %v, want one object of %d bytes", infos, len(data))
	}
}

// longKeys puts the longest keys there are, and keys that start alike for as long as they can.
func (s suite) longKeys() {
	part := strings.Repeat("x", segments.MaxKeyPartBytes)
	stem := strings.Repeat(part+"/", 4)
	last := part[:segments.MaxKeyBytes-len(stem)-1]
	keys := []string{stem + last + "a", stem + last + "b", "single/" + part}
	for _, key := range keys {
		s.put(key, []byte(key))
	}
	for _, key := range keys {
		s.want(key, []byte(key))
	}
	s.wantKeys("", keys[2], keys[0], keys[1])
	s.wantKeys(stem, keys[0], keys[1])
	if failed := s.objects.Delete(s.Context(), keys[:1]); failed != nil {
		s.Errorf("Delete = %v", failed)
	}
	s.wantKeys(stem, keys[1])
}

func (s suite) modified() {
	before := time.Now()
	s.put("time/k", []byte("x"))
	after := time.Now()
	infos := s.list("time/", "", 1)
	if len(infos) != 1 {
		s.Fatalf("List = %v, want one object", infos)
	}
	if m := infos[0].Modified; m.Before(before.Add(-clockSlack)) || m.After(after.Add(clockSlack)) {
		s.Errorf("Modified = %v, but it was put between %v and %v", m, before, after)
	}
}

// cancelled: a call with a dead context does nothing anyone may take for an answer.
func (s suite) cancelled() {
	s.put("gone/k", []byte("x"))
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	putErr := s.objects.Put(ctx, "gone/new", []byte("y"))
	_, getErr := s.objects.Get(ctx, "gone/k", 0, -1)
	_, noneErr := s.objects.Get(ctx, "gone/none", 0, -1)
	_, listErr := s.objects.List(ctx, "gone/", "", 10)
	failed := s.objects.Delete(ctx, []string{"gone/k", "gone/none"})
	for name, err := range map[string]error{
		"Put": putErr, "Get": getErr, "Get of nothing": noneErr, "List": listErr,
		"Delete": failed["gone/k"], "Delete of nothing": failed["gone/none"],
	} {
		if !errors.Is(err, context.Canceled) {
			s.Errorf("%s with a cancelled context = %v", name, err)
		}
	}
}
