package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/wire"
)

// instances are rigs over the same stores, as nodes and functions are. None of them is alone.
func instances(t testing.TB, n int) []*rig {
	t.Helper()
	shared := change{coordinator: func(o *coordinator.Options) { o.Exclusive, o.PollInterval = false, 10*time.Millisecond }}
	rigs := []*rig{newRig(t, shared)}
	for len(rigs) < n {
		rigs = append(rigs, newRig(t, shared, change{share: rigs[0]}))
	}
	return rigs
}

// Unconditional writers on several instances: every range is its own, and everything acknowledged is there once.
func TestBL004_RangesAreDisjoint(t *testing.T) {
	t.Parallel()
	rigs := instances(t, 2)
	rigs[0].create("s")
	const writers, each = 16, 6
	var mu sync.Mutex
	where := map[uint64]string{}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			r := rigs[w%len(rigs)]
			for i := range each {
				a := r.append("s", fmt.Sprintf(`{"records":[{"body":"%d/%d"},{"body":"+"}]}`, w, i))
				if a.status != 200 {
					t.Errorf("%d %s", a.status, a.body)
					return
				}
				var ack struct{ Start, End, Tail struct{ Seq_num uint64 } }
				if err := json.Unmarshal([]byte(a.body), &ack); err != nil || ack.End.Seq_num != ack.Start.Seq_num+2 || ack.Tail.Seq_num < ack.End.Seq_num {
					t.Errorf("ack %s", a.body)
				}
				mu.Lock()
				where[ack.Start.Seq_num] = fmt.Sprintf("%d/%d", w, i)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	got := rigs[1].records("s")
	if len(got) != 2*writers*each || len(where) != writers*each {
		t.Fatalf("%d records, %d acknowledgements", len(got), len(where))
	}
	for seq, body := range where {
		if got[seq].Body != body || got[seq+1].Body != "+" {
			t.Errorf("record %d is %q, acknowledged was %q", seq, got[seq].Body, body)
		}
	}
}

// From the acknowledgement of a fence on, no append with the old token is acknowledged, on any instance.
func TestBL021_AFenceExcludesEverywhere(t *testing.T) {
	t.Parallel()
	rigs := instances(t, 2)
	rigs[0].create("s")
	rigs[0].want(rigs[0].append("s", fence("a")), 200, "")
	var last atomic.Uint64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, r := range rigs {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				a := r.append("s", `{"records":[{"body":"old"}],"fencing_token":"a"}`)
				if a.status == 412 {
					if a.body != `{"fencing_token_mismatch":"b"}` {
						t.Errorf("refused with %s", a.body)
					}
					return
				}
				var ack struct{ Start struct{ Seq_num uint64 } }
				_ = json.Unmarshal([]byte(r.want(a, 200, "").body), &ack)
				for seen := last.Load(); seen < ack.Start.Seq_num && !last.CompareAndSwap(seen, ack.Start.Seq_num); seen = last.Load() {
				}
			}
		})
	}
	eventually(t, "the writers write", func() bool { return last.Load() > 10 })
	var ack struct{ Start struct{ Seq_num uint64 } }
	a := rigs[1].want(rigs[1].append("s", strings.Replace(fence("b"), "}]}", `}],"fencing_token":"a"}`, 1)), 200, "")
	_ = json.Unmarshal([]byte(a.body), &ack)
	time.AfterFunc(5*time.Second, func() { close(stop) })
	wg.Wait()
	if last.Load() > ack.Start.Seq_num {
		t.Errorf("the old token appended record %d; the fence is record %d", last.Load(), ack.Start.Seq_num)
	}
}

// A tail is never behind what anybody has seen.
func TestBL043_TailsNeverGoBack(t *testing.T) {
	t.Parallel()
	rigs := instances(t, 2)
	rigs[0].create("s")
	var seen atomic.Uint64 // the end of what was shown to anyone
	show := func(end uint64) {
		for was := seen.Load(); was < end && !seen.CompareAndSwap(was, end); was = seen.Load() {
		}
	}
	var wg sync.WaitGroup
	for i := range 8 {
		r := rigs[i%2]
		wg.Go(func() {
			for range 10 {
				a := r.append("s", one)
				show(decode[struct{ Tail wire.StreamPosition }](t, a.body).Tail.SeqNum)
			}
		})
		wg.Go(func() {
			for range 10 {
				before := seen.Load()
				if tail := r.tail("s"); tail < before {
					t.Errorf("tail %d, shown before %d", tail, before)
				}
			}
		})
		wg.Go(func() {
			for range 10 {
				before := seen.Load()
				a := r.read("s", "seq_num=0&wait=5")
				b := decode[batch](t, r.want(a, 200, "").body)
				if b.Tail == nil || b.Tail.SeqNum < before || b.Tail.SeqNum < uint64(len(b.Records)) {
					t.Errorf("tail %+v of %d records, shown before %d", b.Tail, len(b.Records), before)
				}
				show(uint64(len(b.Records)))
			}
		})
	}
	wg.Wait()
}

func TestFollowersSeeWhatOtherInstancesCommit(t *testing.T) {
	t.Parallel()
	rigs := instances(t, 2)
	rigs[0].create("s")
	f := rigs[0].follow("s", "seq_num=0")
	rigs[1].fill("s", 0, 5)
	got, _ := f.take(t, 5)
	checkDense(t, got, 0)
	rigs[1].want(rigs[1].do("DELETE", "/v1/streams/s", nil), 202, "")
	eventually(t, "the follower ends", func() bool {
		_, err := f.Next()
		return err != nil
	})
}

// Retention goes by arrival, whatever a client's stamps say.
func TestBL028_AStampInTheFutureKeepsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHandler(t)
		r.want(r.do("PUT", "/v1/basins/"+basin, nil), 201, "")
		r.want(r.do("POST", "/v1/streams", []byte(`{"stream":"s","config":{"retention_policy":{"age":5},"timestamping":{"uncapped":true}}}`)), 201, "")
		far := time.Now().AddDate(10, 0, 0).UnixMilli()
		r.want(r.append("s", fmt.Sprintf(`{"records":[{"timestamp":%d}]}`, far)), 200, "")
		r.want(r.append("s", one), 200, "")
		if got := r.records("s"); len(got) != 2 {
			t.Errorf("records %v", got)
		}
		time.Sleep(10 * time.Second)
		a := r.want(r.read("s", "seq_num=0"), 200, "")
		if got := decode[batch](t, a.body); len(got.Records) != 0 {
			t.Errorf("got %s", a.body)
		}
		r.want(r.append("s", one), 200, "")
		if got := r.records("s"); len(got) != 1 || got[0].SeqNum != 2 {
			t.Errorf("records %v", got)
		}
		r.streams.Close()
	})
}

func TestBL040_CommandsCountLikeRecords(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	for range 50 {
		r.want(r.append("s", fence("")), 200, "")
	}
	r.want(r.append("s", one), 200, "")
	a := r.want(r.read("s", "seq_num=0&count=1"), 200, "")
	if got := decode[batch](t, a.body).Records; len(got) != 1 || fmt.Sprint(got[0].Headers) != "[[ fence]]" {
		t.Errorf("got %s", a.body)
	}
	if got := r.records("s"); len(got) != 51 || got[50].Body != "a" {
		t.Errorf("%d records", len(got))
	}
}

// Whoever waits behind a store that hangs, for room in flight too, is answered in time.
func TestBL141_NobodyWaitsForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHandler(t, change{coordinator: func(o *coordinator.Options) { o.InflightBytes = 4 << 20 }})
		r.want(r.do("PUT", "/v1/basins/"+basin, nil), 201, "")
		r.create("s")
		r.heads.Set(func(c storetest.Call) storetest.Outcome {
			if c.Reads() {
				return storetest.Pass
			}
			return storetest.Hold
		})
		begun := time.Now()
		var wg sync.WaitGroup
		var mu sync.Mutex
		codes := map[string]int{}
		for range 30 {
			wg.Go(func() {
				a := r.append("s", `{"records":[{"body":"`+strings.Repeat("x", 100<<10)+`"}]}`)
				mu.Lock()
				defer mu.Unlock()
				codes[fmt.Sprint(a.status, a.code(), a.header.Get(wire.HeaderApplied))]++
			})
		}
		wg.Wait()
		if took := time.Since(begun); took > 35*time.Second {
			t.Errorf("the last was answered after %s", took)
		}
		if codes["502hot_serverno"] == 0 || codes["503unavailableunknown"] == 0 || len(codes) != 2 {
			t.Errorf("answers %v", codes)
		}
		r.heads.Set(nil)
		r.heads.Release(-1)
		r.heads.Deliver()
		r.want(r.append("s", one), 200, "")
		r.streams.Close()
	})
}
