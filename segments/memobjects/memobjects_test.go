package memobjects_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/memobjects"
	"github.com/tailrace-streams/tailrace/segments/objectstest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	objectstest.Run(t, func(*testing.T) segments.Objects { return memobjects.New() })
}

func TestClock(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	s := memobjects.New(memobjects.WithClock(func() time.Time { return now }))
	for range 2 {
		if err := s.Put(t.Context(), "a", []byte("x")); err != nil {
			t.Fatal(err)
		}
		infos, err := s.List(t.Context(), "", "", 1)
		if err != nil || len(infos) != 1 || !infos[0].Modified.Equal(now) {
			t.Fatalf("List = %v, %v; want modified %v", infos, err, now)
		}
		now = now.Add(time.Hour)
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	s, ctx := memobjects.New(), t.Context()
	if err := s.Put(ctx, "a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(ctx, "a", []byte("y")); !errors.Is(err, memobjects.ErrChanged) {
		t.Errorf("Put of other bytes = %v, want ErrChanged", err)
	}
	_, getErr := s.Get(ctx, "../a", 0, -1)
	_, listErr := s.List(ctx, "no-slash", "", 1)
	failed := s.Delete(ctx, []string{"a", "b/../a"})
	for _, err := range []error{s.Put(ctx, "a/", nil), getErr, listErr, failed["b/../a"]} {
		if !errors.Is(err, segments.ErrBadKey) {
			t.Errorf("bad key gave %v, want ErrBadKey", err)
		}
	}
	if len(failed) != 1 || s.Len() != 0 {
		t.Errorf("Delete = %v with %d objects left, want the good key gone", failed, s.Len())
	}
	if _, err := s.Get(ctx, "a", -1, 1); err == nil || errors.Is(err, segments.ErrObjectNotFound) {
		t.Errorf("Get from a negative offset = %v", err)
	}
}
