package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
)

// plainCommit adds one inline record.
func plainCommit(label segments.Label) *coordinator.Commit {
	return &coordinator.Commit{
		Entries: []segments.Entry{{
			ID: segments.EntryID{Object: segments.NewObjectID(label)}, N: 1, MaxTime: uint64(label), Bytes: 9, Data: []byte("x"),
		}},
		MaxEntries: 1 << 20, MaxInline: 1 << 20, Now: 7,
	}
}

// behind is a commit that needs a tail where the tail is not.
func behind() *coordinator.Commit {
	c := plainCommit(segments.MaxLabel)
	c.Match = new(uint64)
	*c.Match = 1 << 40
	return c
}

// Every method is one request, also when it is refused, on a service that returns the old item.
func TestRequestCounts(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	p.completes = true
	table := newTable(t)
	s := open(t, options(p.URL, table))
	if ops := p.ops(); ops != "GetItem" {
		t.Errorf("Open: %s", ops)
	}
	ctx, h := t.Context(), storetest.NewHead()
	var refusal *coordinator.Refusal
	refused := func(_ any, err error) bool { return errors.As(err, &refusal) }
	applied := func(_ any, err error) bool { return err == nil }
	row := coordinator.Row{Key: coordinator.Key{Part: "p", Sort: "s"}, Value: []byte("v")}
	change := func(c coordinator.Change) func() (any, error) {
		return func() (any, error) { return s.Change(ctx, h.Stream, &c) }
	}
	trimming := plainCommit(3)
	trimming.Trims = []coordinator.CommitTrim{{To: 1}}
	for _, step := range []struct {
		name string
		call func() (any, error)
		is   func(any, error) bool
		ops  string
	}{
		{"Create", func() (any, error) { return nil, s.Create(ctx, h) }, applied, "PutItem"},
		{"Create again", func() (any, error) { return nil, s.Create(ctx, h) },
			func(_ any, err error) bool { return errors.Is(err, coordinator.ErrExists) }, "PutItem"},
		{"Load", func() (any, error) { return s.Load(ctx, h.Stream) }, applied, "GetItem"},
		{"Commit", func() (any, error) { return s.Commit(ctx, h.Stream, plainCommit(2)) }, applied, "UpdateItem"},
		{"Commit with a trim", func() (any, error) { return s.Commit(ctx, h.Stream, trimming) }, applied, "UpdateItem"},
		{"Commit refused", func() (any, error) { return s.Commit(ctx, h.Stream, behind()) }, refused, "UpdateItem"},
		{"Move", func() (any, error) {
			head, err := s.Load(ctx, h.Stream)
			if err != nil {
				return nil, err
			}
			return s.Splice(ctx, h.Stream, &coordinator.Splice{Move: &coordinator.Move{
				Base: head.Base, Old: head.Log, NewBase: head.Tail, NewTime: 3, MinLabel: segments.MaxLabel,
				Pages: []coordinator.Root{{Page: segments.Row{N: 2, Child: segments.NewObjectID(9)}}},
			}})
		}, applied, "GetItem UpdateItem"},
		{"fence", change(coordinator.Change{ID: coordinator.NewOpID(), Fence: &coordinator.FenceChange{Token: "t"}}), applied, "UpdateItem"},
		{"fence refused", change(coordinator.Change{Fence: &coordinator.FenceChange{Token: "t"}}), refused, "UpdateItem"},
		{"horizon", change(coordinator.Change{RaiseHorizon: 9}), applied, "UpdateItem"},
		{"horizon behind", change(coordinator.Change{RaiseHorizon: 1}), applied, "UpdateItem"},
		{"floor", change(coordinator.Change{RaiseFloor: 1}), applied, "UpdateItem"},
		{"floor above the tail", change(coordinator.Change{RaiseFloor: 99}), applied, "UpdateItem"},
		{"trim", change(coordinator.Change{Trim: &coordinator.TrimChange{To: 99}}), applied, "UpdateItem"},
		{"cancel", change(coordinator.Change{Cancel: []segments.EntryID{{}}}), applied, "UpdateItem"},
		{"delete", change(coordinator.Change{State: coordinator.Deleted}), applied, "UpdateItem"},
		{"delete again", change(coordinator.Change{State: coordinator.Deleted}), applied, "UpdateItem"},
		{"Put", func() (any, error) { return s.Put(ctx, row, 0) }, applied, "PutItem"},
		{"Put in conflict", func() (any, error) { return s.Put(ctx, row, 0) },
			func(_ any, err error) bool { return !applied(nil, err) && coordinator.Definite(err) }, "PutItem"},
		{"Get", func() (any, error) { return s.Get(ctx, row.Key) }, applied, "GetItem"},
		{"List", func() (any, error) { return s.List(ctx, "p", "", "", 10) }, applied, "Query"},
		{"Delete in conflict", func() (any, error) { return nil, s.Delete(ctx, row.Key, 7) },
			func(_ any, err error) bool { return !applied(nil, err) && coordinator.Definite(err) }, "DeleteItem"},
		{"Delete", func() (any, error) { return nil, s.Delete(ctx, row.Key, 1) }, applied, "DeleteItem"},
	} {
		v, err := step.call()
		if ops := p.ops(); ops != step.ops || !step.is(v, err) {
			t.Errorf("%s: %v after %s, want %s", step.name, err, ops, step.ops)
		}
	}
}

// A process that has not seen the head may state an update in the wrong case. The answer tells it the right one.
func TestWrongCaseCostsOneMore(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	p.completes = true
	table := newTable(t)
	writer := open(t, options(p.URL, table))
	ctx, h := t.Context(), storetest.NewHead()
	mustCreate(t, ctx, writer, h)
	if _, err := writer.Commit(ctx, h.Stream, plainCommit(9)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]coordinator.Change{
		"floor":   {RaiseFloor: 5},
		"trim":    {Trim: &coordinator.TrimChange{To: 5}},
		"horizon": {RaiseHorizon: 3},
	} {
		if name == "horizon" {
			if _, err := writer.Change(ctx, h.Stream, &coordinator.Change{RaiseHorizon: 4}); err != nil {
				t.Fatal(err)
			}
		}
		cold := open(t, options(p.URL, table))
		p.take()
		if _, err := cold.Change(ctx, h.Stream, &c); err != nil || p.ops() != "UpdateItem UpdateItem" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Writes fail after one attempt, whatever the configuration asks for; reads are tried three times.
func TestAttempts(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	s := newStoreAt(t, p.URL)
	ctx, h := t.Context(), storetest.NewHead()
	mustCreate(t, ctx, s, h)
	p.take()
	for name, f := range map[string]fault{
		"500": refuses(http.StatusInternalServerError, "InternalServerError"), "503": html(http.StatusServiceUnavailable),
		"throttled":       refuses(http.StatusBadRequest, "ProvisionedThroughputExceededException"),
		"dropped request": dropsRequest, "dropped answer": dropsAnyAnswer, "cut answer": cutsAnswer,
	} {
		p.failing(always(f))
		for call, err := range writes(s, ctx, h) {
			if ops := p.take(); err == nil || len(ops) != 1 {
				t.Errorf("%s: %s: %v after %d attempts", name, call, err, len(ops))
			}
		}
		for call, err := range reads(s, ctx, h) {
			if ops := p.take(); err == nil || len(ops) != 3 {
				t.Errorf("%s: %s: %v after %d attempts", name, call, err, len(ops))
			}
			if errors.Is(err, coordinator.ErrNotFound) {
				t.Errorf("%s: %s: a failed read is absent", name, call)
			}
		}
	}
}

// Nor is a write repeated whose answer does not come.
func TestAttemptsOfASilentWrite(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	s := newStoreAt(t, p.URL)
	ctx, h := t.Context(), storetest.NewHead()
	mustCreate(t, ctx, s, h)
	p.take()
	p.failing(always(hangs))
	s.http.timeout = time.Second
	_, err := s.Commit(ctx, h.Stream, plainCommit(2))
	// A machine that is too busy to send it in time has not sent it.
	if n := len(p.take()); err == nil || n > 1 {
		t.Errorf("%v after %d attempts", err, n)
	}
}

// dropsAnyAnswer passes the request on, whatever comes of it, and closes the connection instead of answering.
func dropsAnyAnswer(p *proxy, w http.ResponseWriter, r *http.Request, body []byte) {
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if _, _, _, err := p.forward(r, op, body); err != nil {
		p.t.Logf("forward: %v", err)
	}
	drop(w)
}

// writes makes every kind of write, one after the other.
func writes(s *Store, ctx context.Context, h coordinator.Head) func(func(string, error) bool) {
	key := coordinator.Key{Part: "p", Sort: "s"}
	return func(yield func(string, error) bool) {
		_ = yield("Create", s.Create(ctx, storetest.NewHead())) &&
			yield("Commit", second(s.Commit(ctx, h.Stream, plainCommit(2)))) &&
			yield("Splice", second(s.Splice(ctx, h.Stream, &coordinator.Splice{Retire: &coordinator.Retire{MinLabel: segments.MaxLabel}}))) &&
			yield("Change", second(s.Change(ctx, h.Stream, &coordinator.Change{RaiseHorizon: 1}))) &&
			yield("Put", second(s.Put(ctx, coordinator.Row{Key: key}, 0))) &&
			yield("Delete", s.Delete(ctx, key, 1))
	}
}

func reads(s *Store, ctx context.Context, h coordinator.Head) func(func(string, error) bool) {
	return func(yield func(string, error) bool) {
		_ = yield("Load", second(s.Load(ctx, h.Stream))) &&
			yield("Get", second(s.Get(ctx, coordinator.Key{Part: "p", Sort: "s"}))) &&
			yield("List", second(s.List(ctx, "p", "", "", 10)))
	}
}

func second[T any](_ T, err error) error { return err }

// A listing longer than one answer of the service takes as many requests as there are answers.
func TestListInPages(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	s := newStoreAt(t, p.URL)
	const rows = 40 // of 64 KiB, so two and a half megabytes
	var want []string
	for i := range rows {
		key := coordinator.Key{Part: "p", Sort: fmt.Sprintf("%03d", i)}
		want = append(want, key.Sort)
		if _, err := s.Put(t.Context(), coordinator.Row{Key: key, Value: make([]byte, coordinator.MaxValueBytes)}, 0); err != nil {
			t.Fatal(err)
		}
	}
	p.take()
	listed, err := s.List(t.Context(), "p", "", "", rows+1)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range listed {
		got = append(got, r.Key.Sort)
	}
	if ops := p.ops(); !slices.Equal(got, want) || ops != "Query Query Query" {
		t.Errorf("%s answered %q", ops, got)
	}
}
