package coordinator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/memstore"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/memobjects"
	"github.com/tailrace-streams/tailrace/segments/objectstest"
)

var errInjected = errors.New("injected")

// attempt is one batch a workload tried, and what it was told.
type attempt struct {
	body []byte
	n    int
	ack  coordinator.Ack
	err  error
}

// workload appends small and large, conditional and unconditional batches from several writers and a session.
func (r *rig) workload(rounds int) []attempt {
	var mu sync.Mutex
	var all []attempt
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			session := r.reopen()
			for i := range rounds {
				body := fmt.Appendf(nil, "%d/%d ", w, i)
				if (w+i)%5 == 0 {
					body = append(body, bytes.Repeat([]byte("x"), 1500)...)
				}
				b := coordinator.Batch{Records: []segments.Record{{Body: body}, {Body: body}}}
				var tail coordinator.Position
				if w == 1 {
					tail, _ = r.CheckTail(context.Background(), r.ref)
					b.Match = &tail.SeqNum
				}
				a := attempt{body: body, n: 2}
				if w == 2 {
					var p *coordinator.Pending
					if p, a.err = session.Submit(context.Background(), b); a.err == nil {
						a.ack, a.err = p.Wait(context.Background())
					}
					if a.err != nil {
						session = r.reopen()
					}
				} else {
					a.ack, a.err = r.Append(context.Background(), r.ref, b)
				}
				mu.Lock()
				all = append(all, a)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return all
}

// reopen opens a session, as often as it takes.
func (r *rig) reopen() *coordinator.Session {
	for {
		s, err := r.OpenSession(context.Background(), r.ref, coordinator.SessionOptions{})
		if err == nil {
			return s
		}
		time.Sleep(time.Millisecond)
	}
}

// verify re-reads the whole stream and compares it with what the writers were told: acknowledged batches are where
// the ack says, definite failures are nowhere, nothing is there twice.
func (r *rig) verify(t *testing.T, all []attempt) (unknown int) {
	t.Helper()
	if _, err := coordinator.Check(context.Background(), r.heads, r.objects, r.ref.Stream); err != nil {
		t.Fatal(err)
	}
	records := r.readAll(t, 0)
	where := map[string][]int{}
	for i := range records {
		where[string(records[i].Body)] = append(where[string(records[i].Body)], i)
	}
	told := 0
	for _, a := range all {
		at := where[string(a.body)]
		var indefinite *coordinator.Indefinite
		switch {
		case a.err == nil && (len(at) != a.n || uint64(at[0]) != a.ack.Start.SeqNum || a.ack.End.SeqNum != a.ack.Start.SeqNum+uint64(a.n)):
			t.Fatalf("%.10s acknowledged at %d is at %v", a.body, a.ack.Start.SeqNum, at)
		case a.err == nil:
			told += a.n
		case errors.As(a.err, &indefinite):
			unknown++
			if len(at) != 0 && len(at) != a.n {
				t.Fatalf("%.10s in doubt is at %v", a.body, at)
			}
			told += len(at)
		case len(at) != 0:
			t.Fatalf("%.10s failed definitely (%v) and is at %v", a.body, a.err, at)
		}
	}
	if told != len(records) {
		t.Fatalf("%d records, writers account for %d", len(records), told)
	}
	return unknown
}

func quickFaults(o *coordinator.Options) {
	o.StoreTimeout, o.DoubtTimeout, o.AppendTimeout = 100*time.Millisecond, 2*time.Second, 5*time.Second
}

// TestFaultAtEveryHeadCall gives each of the first calls of every kind each outcome, one at a time: refused, lost on
// the way, reply lost, and late, that is answered as unknown and applied when everything else is over.
func TestFaultAtEveryHeadCall(t *testing.T) {
	t.Parallel()
	outcomes := map[string]storetest.Outcome{
		"refuse": storetest.Refuse, "drop": storetest.Drop, "lose": storetest.Lose, "late": storetest.Late,
	}
	for name, outcome := range outcomes {
		for _, op := range []string{"Load", "Commit", "Splice", "Change"} {
			t.Run(name+"/"+op, func(t *testing.T) {
				t.Parallel()
				for n := 1; n <= 12; n++ {
					inner := memstore.New()
					faults := storetest.NewFaults(nil)
					r := newRig(t, func(o *coordinator.Options) {
						quickFaults(o)
						o.Heads = faults.Heads(inner)
					})
					hit := storetest.Nth(op, n, outcome)
					if op == "Change" {
						// Changes are made only for doubts, so cause some.
						hit = also(storetest.Nth("Commit", 2, storetest.Lose), storetest.Nth("Commit", 5, storetest.Drop), storetest.Nth("Change", n, outcome))
					}
					faults.Set(hit)
					all := r.workload(12)
					faults.Set(nil)
					for _, err := range faults.Deliver() {
						if err == nil && op == "Commit" {
							t.Fatal("a cancelled commit was applied late")
						}
					}
					all = append(all, r.workload2(t)...)
					if unknown := r.verify(t, all); unknown > 0 {
						t.Fatalf("%d appends stayed in doubt although the store answered again", unknown)
					}
				}
			})
		}
	}
}

// workload2 proves that the next append on the same process goes through.
func (r *rig) workload2(t *testing.T) []attempt {
	t.Helper()
	a := attempt{body: []byte("after"), n: 1}
	if a.ack, a.err = r.Append(t.Context(), r.ref, bodies("after")); a.err != nil {
		t.Fatalf("append after the fault: %v", a.err)
	}
	return []attempt{a}
}

func also(all ...func(storetest.Call) storetest.Outcome) func(storetest.Call) storetest.Outcome {
	return func(c storetest.Call) storetest.Outcome {
		for _, f := range all {
			if o := f(c); o != storetest.Pass {
				return o
			}
		}
		return storetest.Pass
	}
}

// TestFaultAtEveryObjectCall breaks puts and gets: stored or not, each with an error.
func TestFaultAtEveryObjectCall(t *testing.T) {
	t.Parallel()
	for _, stored := range []bool{true, false} {
		for _, op := range []string{objectstest.OpPut, objectstest.OpGet} {
			for n := 1; n <= 10; n++ {
				objects := objectstest.Fault(t, memobjects.New())
				r := newRig(t, func(o *coordinator.Options) {
					quickFaults(o)
					o.Objects = objects
				})
				var mu sync.Mutex
				calls := 0
				objects.Decide(func(o, _ string) (bool, error) {
					mu.Lock()
					defer mu.Unlock()
					if o == op {
						calls++
					}
					if o == op && calls == n {
						return stored, errInjected
					}
					return true, nil
				})
				all := r.workload(12)
				for _, a := range all {
					var miss *coordinator.MatchMismatch
					if a.err != nil && !errors.As(a.err, &miss) {
						t.Fatalf("one failed %s made an append fail: %v", op, a.err)
					}
				}
				objects.Decide(nil)
				r.verify(t, append(all, r.workload2(t)...))
			}
		}
	}
}

// TestStoreGoneForLong: while a store answers nothing, appends fail or stay in doubt within their time, and say
// which; afterwards everything is consistent and works again.
func TestStoreGoneForLong(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]storetest.Outcome{
		"refuse": storetest.Refuse, "drop": storetest.Drop, "lose": storetest.Lose, "late": storetest.Late,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults := storetest.NewFaults(nil)
			r := newRig(t, func(o *coordinator.Options) {
				o.Heads = faults.Heads(memstore.New())
				o.StoreTimeout, o.DoubtTimeout, o.AppendTimeout = 50*time.Millisecond, 300*time.Millisecond, time.Second
			})
			all := r.workload(10)
			faults.Set(storetest.Always(outcome, "Load", "Commit", "Splice", "Change"))
			all = append(all, r.workloadNamed("gone ", 2)...)
			faults.Set(nil)
			faults.Deliver()
			all = append(all, r.workload2(t)...)
			r.verify(t, all)
		})
	}
}

func (r *rig) workloadNamed(prefix string, n int) []attempt {
	var all []attempt
	for i := range n {
		a := attempt{body: fmt.Appendf(nil, "%s%d", prefix, i), n: 1}
		a.ack, a.err = r.Append(context.Background(), r.ref, bodies(string(a.body)))
		all = append(all, a)
	}
	return all
}

// TestTwoProcesses: two coordinators over the same stores append to one stream at once. Nothing is lost or doubled,
// and followers on either get what both append.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	a := newRig(t, func(o *coordinator.Options) { o.Exclusive = false; o.PollInterval = 5 * time.Millisecond })
	b := newRig(t, func(o *coordinator.Options) {
		o.Exclusive, o.PollInterval = false, 5*time.Millisecond
		o.Heads, o.Objects = a.heads, a.objects
	})
	b.ref = a.ref
	var all []attempt
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, r := range []*rig{a, b} {
		for w := range 8 {
			wg.Go(func() {
				for n := range 60 {
					at := attempt{body: fmt.Appendf(nil, "%d.%d.%d %s", i, w, n, make([]byte, (n%3)*400)), n: 1}
					batch := bodies(string(at.body))
					if w == 0 {
						tail, _ := r.CheckTail(context.Background(), r.ref)
						batch.Match = &tail.SeqNum
					}
					at.ack, at.err = r.Append(context.Background(), r.ref, batch)
					mu.Lock()
					all = append(all, at)
					mu.Unlock()
				}
			})
		}
	}
	rd, err := b.OpenReader(t.Context(), a.ref, coordinator.ReadOptions{SeqNum: ptr(uint64(0)), Wait: ptr(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	wg.Wait()
	tail, err := a.CheckTail(t.Context(), a.ref)
	if err != nil {
		t.Fatal(err)
	}
	for next := uint64(0); next < tail.SeqNum; {
		e, err := rd.Next(t.Context())
		if err != nil || e.Start != next {
			t.Fatalf("follower at %d got %d, %v", next, e.Start, err)
		}
		next += uint64(len(e.Records))
	}
	for _, at := range all {
		var miss *coordinator.MatchMismatch
		if at.err != nil && !errors.As(at.err, &miss) {
			t.Fatal(at.err)
		}
	}
	a.verify(t, all)
}

// What made an append wait too long is said: an object store that refuses, or heads that do. Only where nothing failed is it
// load.
func TestTooLateSaysWhy(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]func(*coordinator.Options){
		"objects": func(o *coordinator.Options) {
			objects := objectstest.Fault(t, o.Objects)
			objects.Decide(func(op, _ string) (bool, error) { return false, errInjected })
			o.Objects = objects
		},
		"heads": func(o *coordinator.Options) {
			o.Heads = storetest.NewFaults(storetest.Always(storetest.Refuse, "Commit")).Heads(o.Heads)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(o *coordinator.Options) {
					broken(o)
					o.AppendTimeout = time.Second
				})
				defer r.Close()
				_, err := r.Append(t.Context(), r.ref, bodies(string(make([]byte, 1000))))
				if !errors.Is(err, coordinator.ErrUnavailable) || !strings.Contains(err.Error(), "injected") {
					t.Errorf("the append failed of %v", err)
				}
				if errors.Is(err, coordinator.ErrOverloaded) || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v is also something else", err)
				}
			})
		})
	}
}
