package objectstest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/memobjects"
	"github.com/tailrace-streams/tailrace/segments/objectstest"
)

var errFault = errors.New("fault")

func TestFaultyPassesSuite(t *testing.T) {
	t.Parallel()
	objectstest.Run(t, func(t *testing.T) segments.Objects {
		return objectstest.Fault(t, memobjects.New())
	})
}

func TestFourOutcomes(t *testing.T) {
	t.Parallel()
	for _, apply := range []bool{true, false} {
		for _, fault := range []error{nil, errFault} {
			ctx, inner := t.Context(), memobjects.New()
			f := objectstest.Fault(t, inner)
			f.Decide(func(_, key string) (bool, error) { return apply, fault })
			if err := f.Put(ctx, "p/new", []byte("new")); err != fault {
				t.Errorf("%v, %v: Put = %v", apply, fault, err)
			}
			if stored := inner.Len() == 1; stored != apply {
				t.Errorf("%v, %v: stored is %v", apply, fault, stored)
			}
			if err := inner.Put(ctx, "p/new", []byte("new")); err != nil {
				t.Fatal(err)
			}
			wantReads(t, f, apply, fault)
			if failed := f.Delete(ctx, []string{"p/new"}); failed["p/new"] != fault {
				t.Errorf("%v, %v: Delete = %v", apply, fault, failed)
			}
			if deleted := inner.Len() == 0; deleted != apply {
				t.Errorf("%v, %v: deleted is %v", apply, fault, deleted)
			}
		}
	}
}

func wantReads(t *testing.T, f *objectstest.Faulty, apply bool, fault error) {
	t.Helper()
	wantErr, wantLen := fault, 0
	switch {
	case fault == nil && apply:
		wantLen = 1
	case fault == nil:
		wantErr = segments.ErrObjectNotFound
	}
	if data, err := f.Get(t.Context(), "p/new", 0, -1); !errors.Is(err, wantErr) || len(data) != 3*wantLen {
		t.Errorf("%v, %v: Get = %q, %v", apply, fault, data, err)
	}
	if infos, err := f.List(t.Context(), "p/", "", 9); err != fault || len(infos) != wantLen {
		t.Errorf("%v, %v: List = %v, %v", apply, fault, infos, err)
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	ctx, f := t.Context(), objectstest.Fault(t, memobjects.New())
	f.Put(ctx, "a", []byte("123"))
	f.Put(ctx, "b", []byte("4567"))
	f.Get(ctx, "a", 1, -1)
	f.List(ctx, "", "", 9)
	f.Delete(ctx, []string{"a", "b"})
	want := objectstest.Counts{Puts: 2, Gets: 1, Lists: 1, Deletes: 1, DeletedKeys: 2, PutBytes: 7, GotBytes: 2}
	if got := f.Counts(); got != want {
		t.Errorf("Counts = %+v, want %+v", got, want)
	}
}

func TestHold(t *testing.T) {
	t.Parallel()
	f := objectstest.Fault(t, memobjects.New())
	h := f.Hold(objectstest.OpPut, func(key string) bool { return key == "b" })
	answer := make(chan error, 1)
	go func() { answer <- f.Put(t.Context(), "b", []byte("x")) }()
	<-h.Arrived()
	if err := f.Put(t.Context(), "a", nil); err != nil {
		t.Errorf("Put of another key = %v", err)
	}
	if _, err := f.Get(t.Context(), "b", 0, -1); !errors.Is(err, segments.ErrObjectNotFound) {
		t.Errorf("Get while the put is held = %v", err)
	}
	h.Release()
	h.Drop() // too late to count
	if err := <-answer; err != nil {
		t.Errorf("released Put = %v", err)
	}
	if _, err := f.Get(t.Context(), "b", 0, -1); err != nil {
		t.Errorf("Get after the release = %v", err)
	}
}

func TestHoldAnswer(t *testing.T) {
	t.Parallel()
	inner := memobjects.New()
	f := objectstest.Fault(t, inner)
	h := f.HoldAnswer(objectstest.OpPut, nil)
	answer := make(chan error, 1)
	go func() { answer <- f.Put(t.Context(), "a", nil) }()
	<-h.Arrived()
	if inner.Len() != 1 {
		t.Error("an answer is held before the put was done")
	}
	h.Drop()
	if err := <-answer; !errors.Is(err, objectstest.ErrDropped) {
		t.Errorf("dropped Put = %v", err)
	}
}

// TestLatePut is the put of a caller that gave up, which reaches the store later.
func TestLatePut(t *testing.T) {
	t.Parallel()
	for _, release := range []bool{true, false} {
		inner := memobjects.New()
		f := objectstest.Fault(t, inner)
		h := f.Hold(objectstest.OpPut, nil)
		ctx, cancel := context.WithCancel(t.Context())
		data := []byte("as it was")
		answer := make(chan error, 1)
		go func() { answer <- f.Put(ctx, "a", data) }()
		<-h.Arrived()
		cancel()
		if err := <-answer; !errors.Is(err, context.Canceled) {
			t.Errorf("abandoned Put = %v", err)
		}
		clear(data)
		if inner.Len() != 0 {
			t.Error("stored before the release")
		}
		if !release {
			h.Drop()
			if inner.Len() != 0 {
				t.Error("stored although dropped")
			}
			continue
		}
		h.Release()
		if got, err := inner.Get(t.Context(), "a", 0, -1); err != nil || string(got) != "as it was" {
			t.Errorf("Get of the late object = %q, %v", got, err)
		}
	}
}

// recorder is a test that takes down its failures.
type recorder struct {
	testing.TB
	failures int
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failures++ }

func TestCatchesBrokenRules(t *testing.T) {
	t.Parallel()
	ctx, rec := t.Context(), &recorder{TB: t}
	f := objectstest.Fault(rec, memobjects.New(), objectstest.FinalDeletes())
	want := func(failures int, what string) {
		t.Helper()
		if rec.failures != failures {
			t.Errorf("%s: %d failures, want %d", what, rec.failures, failures)
		}
	}
	f.Decide(func(string, string) (bool, error) { return false, errFault })
	f.Put(ctx, "a", []byte("x"))
	f.Put(ctx, "a", []byte("x"))
	f.Delete(ctx, []string{"a"})
	f.Get(ctx, "a", 0, -1)
	want(0, "repeats and a delete that was not done")
	f.Put(ctx, "a", []byte("y"))
	want(1, "other bytes, though none were stored")
	f.Decide(nil)
	f.Delete(ctx, []string{"a", "b"})
	f.Delete(ctx, []string{"a"})
	want(1, "deletes repeated")
	f.Get(ctx, "b", 0, -1)
	want(2, "get after delete")
	f.Put(ctx, "b", nil)
	want(3, "put after delete")
}
