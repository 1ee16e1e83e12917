package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/functions/api"
	"github.com/tailrace-streams/tailrace/wire"
)

// cause brings about one row of the error table as a client would meet it.
type cause struct {
	code    wire.Code // empty for the answers that have a body of their own
	name    string
	change  change
	bring   func(r *rig) answer
	status  int
	applied wire.Applied
	body    string // a part of it, where there is no code
}

// causes reaches every row of the table that an endpoint built so far can raise, by its real cause.
//
// Not reachable yet, and what will bring them:
//
//	access_token_not_found, authn, permission_denied   access tokens and scopes
//	quota_exhausted, rate_limited                      quotas
//	decryption_failed                                  ciphers
//	upstream_timeout                                   nodes that forward to the holder of a lease
//	client_hangup                                      never: its client is gone. It is in the log (below)
var causes = []cause{
	{code: wire.CodeBadHeader, name: "no basin", status: 400, applied: "no", bring: func(r *rig) answer {
		return r.do("GET", "/v1/streams", nil, with{"S2-Basin", ""})
	}},
	{code: wire.CodeBadHeader, name: "bad basin", status: 400, applied: "no", bring: func(r *rig) answer {
		return r.append("s", one, with{"S2-Basin", "NO"})
	}},
	{code: wire.CodeBadHeader, name: "format", status: 400, applied: "no", bring: func(r *rig) answer {
		return r.append("s", one, with{"S2-Format", "hex"})
	}},
	{code: wire.CodeBadHeader, name: "long key", status: 400, applied: "no", bring: func(r *rig) answer {
		return r.append("s", one, with{"S2-Encryption-Key", strings.Repeat("x", 45)})
	}},
	{code: wire.CodeBadPath, name: "dots", status: 400, applied: "no", bring: func(r *rig) answer {
		return r.do("GET", "/v1/streams/%2e%2e", nil)
	}},
	{code: wire.CodeBadQuery, name: "count", status: 400, applied: "no", bring: func(r *rig) answer {
		return r.read("s", "count=-1")
	}},
	{code: wire.CodeBadQuery, name: "escape", status: 400, applied: "no", bring: func(r *rig) answer {
		return r.read("s", "count=%zz")
	}},
	{code: wire.CodeBadJSON, name: "syntax", status: 400, applied: "no", bring: func(r *rig) answer {
		return r.append("s", `{"records":[{"body":"x"}`)
	}},
	{code: wire.CodeBadJSON, name: "content type", status: 400, applied: "no", bring: func(r *rig) answer {
		return r.append("s", one, with{"Content-Type", "text/plain"})
	}},
	{code: wire.CodeBadProto, name: "garbage", status: 400, applied: "no", bring: func(r *rig) answer {
		return r.append("s", "\xff\xff", with{"Content-Type", wire.MediaProto})
	}},
	{code: wire.CodeInvalid, name: "empty batch", status: 422, applied: "no", bring: func(r *rig) answer {
		return r.append("s", `{"records":[]}`)
	}},
	{code: wire.CodeInvalid, name: "no timestamp", status: 422, applied: "no", bring: func(r *rig) answer {
		r.want(r.do("PUT", "/v1/streams/s", []byte(`{"timestamping":{"mode":"client-require"}}`)), 200, "")
		return r.append("s", `{"records":[{"timestamp":1},{}]}`)
	}},
	{code: wire.CodeInvalid, name: "cipher", status: 422, applied: "no", bring: func(r *rig) answer {
		return r.do("PATCH", "/v1/basins/"+basin, []byte(`{"stream_cipher":"aegis-256"}`))
	}},
	{code: wire.CodeBasinNotFound, name: "append", status: 404, applied: "no", bring: func(r *rig) answer {
		return r.append("s", one, with{"S2-Basin", "no-such-basin"})
	}},
	{code: wire.CodeBasinNotFound, name: "list", status: 404, applied: "no", bring: func(r *rig) answer {
		return r.do("GET", "/v1/streams", nil, with{"S2-Basin", "no-such-basin"})
	}},
	{code: wire.CodeBasinNotFound, name: "get", status: 404, applied: "no", bring: func(r *rig) answer {
		return r.do("GET", "/v1/basins/no-such-basin", nil)
	}},
	{code: wire.CodeBasinDeletionPending, name: "create stream", status: 409, applied: "no", bring: func(r *rig) answer {
		r.want(r.do("DELETE", "/v1/basins/"+basin, nil), 202, "")
		return r.do("PUT", "/v1/streams/t", nil)
	}},
	{code: wire.CodeStreamNotFound, name: "append", status: 404, applied: "no", bring: func(r *rig) answer {
		return r.append("absent", one)
	}},
	{code: wire.CodeStreamDeletionPending, name: "append", status: 409, applied: "no", bring: func(r *rig) answer {
		r.want(r.do("DELETE", "/v1/streams/s", nil), 202, "")
		return r.append("s", one)
	}},
	{code: wire.CodeResourceAlreadyExists, name: "stream", status: 409, applied: "no", bring: func(r *rig) answer {
		return r.do("POST", "/v1/streams", []byte(`{"stream":"s"}`))
	}},
	{code: wire.CodeResourceAlreadyExists, name: "basin", status: 409, applied: "no", bring: func(r *rig) answer {
		return r.do("POST", "/v1/basins", []byte(`{"basin":"`+basin+`"}`))
	}},
	{code: wire.CodeTransactionConflict, name: "lost races", status: 409, applied: "no", bring: func(r *rig) answer {
		// Somebody else changes the row before each of our writes.
		r.heads.Set(func(c storetest.Call) storetest.Outcome {
			if c.Op == "Put" {
				row, err := r.store.Get(r.t.Context(), c.Key)
				if err == nil {
					_, err = r.store.Put(r.t.Context(), row, row.Version)
				}
				if err != nil {
					r.t.Error(err)
				}
			}
			return storetest.Pass
		})
		return r.do("PATCH", "/v1/basins/"+basin, []byte(`{"create_stream_on_read":true}`))
	}},
	{code: wire.CodeNotImplemented, name: "tokens", status: 501, applied: "no", bring: func(r *rig) answer {
		return r.do("GET", "/v1/access-tokens", nil)
	}},
	{code: wire.CodeHotServer, name: "store out of reach, append", status: 502, applied: "no",
		change: fast, bring: func(r *rig) answer {
			r.heads.Set(func(c storetest.Call) storetest.Outcome { return storetest.Refuse })
			return r.append("s", one)
		}},
	{code: wire.CodeHotServer, name: "store out of reach, create", status: 502, applied: "no", bring: func(r *rig) answer {
		r.heads.Set(func(c storetest.Call) storetest.Outcome { return storetest.Refuse })
		return r.do("PUT", "/v1/streams/t", nil)
	}},
	{code: wire.CodeHotServer, name: "store out of reach, read", status: 502, applied: "no", bring: func(r *rig) answer {
		r.heads.Set(func(c storetest.Call) storetest.Outcome { return storetest.Refuse })
		return r.read("s", "seq_num=0")
	}},
	{code: wire.CodeHotServer, name: "too much in flight", status: 502, applied: "no",
		change: change{coordinator: func(o *coordinator.Options) { o.InflightBytes, o.AdmitWait = 4<<20, 10*time.Millisecond }},
		bring: func(r *rig) answer {
			r.heads.Set(func(c storetest.Call) storetest.Outcome {
				if c.Op == "Commit" {
					return storetest.Hold
				}
				return storetest.Pass
			})
			batch := `{"records":[{"body":"` + strings.Repeat("x", 600<<10) + `"}]}`
			var wg sync.WaitGroup
			wg.Go(func() { r.append("s", batch) })
			r.heads.WaitHeld(1)
			a := r.append("s", batch)
			r.heads.Set(nil)
			r.heads.Release(-1)
			wg.Wait()
			return a
		}},
	{code: wire.CodeServerDraining, name: "append", status: 503, applied: "no", bring: func(r *rig) answer {
		if err := r.streams.Drain(r.t.Context()); err != nil {
			r.t.Error(err)
		}
		return r.append("s", one)
	}},
	{code: wire.CodeUnavailable, name: "commit in doubt", status: 503, applied: "unknown", change: fast, bring: func(r *rig) answer {
		r.heads.Set(func(c storetest.Call) storetest.Outcome {
			if c.Reads() {
				return storetest.Pass
			}
			return storetest.Drop
		})
		return r.append("s", one)
	}},
	{code: wire.CodeUnavailable, name: "creation in doubt", status: 503, applied: "unknown",
		bring: func(r *rig) answer {
			r.heads.Set(func(c storetest.Call) storetest.Outcome {
				if c.Op == "Create" {
					return storetest.Drop
				}
				return storetest.Pass
			})
			return r.do("PUT", "/v1/streams/t", nil)
		}},
	{code: wire.CodeStorage, name: "a missing object", status: 500, applied: "no",
		change: change{coordinator: func(o *coordinator.Options) { o.CacheBytes = 1 }}, bring: func(r *rig) answer {
			r.want(r.append("s", `{"records":[{"body":"`+strings.Repeat("x", 200<<10)+`"}]}`), 200, "")
			r.objects.Decide(func(op, _ string) (bool, error) { return op != "get", nil })
			return r.read("s", "seq_num=0")
		}},
	{code: wire.CodeRequestTimeout, name: "a slow store", status: 408, applied: "no",
		change: change{api: func(o *api.Options) { o.RequestTimeout = 50 * time.Millisecond }}, bring: func(r *rig) answer {
			r.objects.Decide(func(op, _ string) (bool, error) {
				if op == "put" {
					time.Sleep(300 * time.Millisecond)
				}
				return true, nil
			})
			return r.append("s", `{"records":[{"body":"`+strings.Repeat("x", 200<<10)+`"}]}`)
		}},
	{code: wire.CodeOther, name: "a panic", status: 500, applied: "no",
		change: change{api: func(o *api.Options) { o.Streams = broken{o.Streams} }}, bring: func(r *rig) answer {
			return r.do("GET", "/v1/streams/s/records/tail", nil)
		}},
	{name: "fencing", status: 412, applied: "no", body: `{"fencing_token_mismatch":""}`, bring: func(r *rig) answer {
		return r.append("s", `{"records":[{}],"fencing_token":"x","match_seq_num":9}`)
	}},
	{name: "seq num", status: 412, applied: "no", body: `{"seq_num_mismatch":0}`, bring: func(r *rig) answer {
		return r.append("s", `{"records":[{}],"match_seq_num":9}`)
	}},
	{name: "beyond the tail", status: 416, applied: "no", body: `{"tail":{"seq_num":0,"timestamp":0}}`, bring: func(r *rig) answer {
		return r.read("s", "seq_num=1")
	}},
	{name: "encoding", status: 415, applied: "no", bring: func(r *rig) answer {
		return r.append("s", one, with{"Content-Encoding", "br"})
	}},
}

// fast lets go of a store that fails after a moment.
var fast = change{coordinator: func(o *coordinator.Options) {
	o.StoreTimeout, o.DoubtTimeout, o.AppendTimeout = 200*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond
}}

func TestEveryErrorByItsCause(t *testing.T) {
	t.Parallel()
	for _, c := range causes {
		t.Run(fmt.Sprint(c.code, " ", c.name), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, c.change)
			r.create("s")
			a := c.bring(r)
			if a.status != c.status || a.code() != string(c.code) || c.code == "" && a.body != c.body {
				t.Fatalf("got %d %s, want %d %s%s", a.status, a.body, c.status, c.code, c.body)
			}
			if got := a.header.Get(wire.HeaderApplied); got != string(c.applied) {
				t.Errorf("applied %q, want %q", got, c.applied)
			}
			if c.status != 415 && a.header.Get("Content-Type") != wire.MediaJSON {
				t.Errorf("headers %v", a.header)
			}
			if later := a.header.Get("Retry-After-Ms") != "" && a.header.Get("Retry-After") != ""; later != (c.status == 502 || c.status == 503) {
				t.Errorf("headers %v", a.header)
			}
			r.heads.Set(nil)
		})
	}
}

// Every code of the API is raised above or is in the list of those that cannot be yet.
func TestTheTableIsComplete(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("errors_test.go")
	if err != nil {
		t.Fatal(err)
	}
	comment, _, _ := strings.Cut(string(source), "var causes")
	_, comment, _ = strings.Cut(comment, "Not reachable yet")
	raised := map[wire.Code]bool{wire.CodeBadFrame: true} // raised by sessions, in their own tests
	for _, c := range causes {
		raised[c.code] = true
	}
	for _, code := range []wire.Code{
		wire.CodeAccessTokenNotFound, wire.CodeAuthn, wire.CodeBadFrame, wire.CodeBadHeader, wire.CodeBadJSON, wire.CodeBadPath,
		wire.CodeBadProto, wire.CodeBadQuery, wire.CodeBasinDeletionPending, wire.CodeBasinNotFound, wire.CodeClientHangup,
		wire.CodeDecryptionFailed, wire.CodeHotServer, wire.CodeInvalid, wire.CodeNotImplemented, wire.CodeOther,
		wire.CodePermissionDenied, wire.CodeQuotaExhausted, wire.CodeRateLimited, wire.CodeRequestTimeout,
		wire.CodeResourceAlreadyExists, wire.CodeServerDraining, wire.CodeStorage, wire.CodeStreamDeletionPending,
		wire.CodeStreamNotFound, wire.CodeTransactionConflict, wire.CodeUnavailable, wire.CodeUpstreamTimeout,
	} {
		if raised[code] == strings.Contains(comment, string(code)) {
			t.Errorf("%s: raised %v, and listed as not %v", code, raised[code], !raised[code])
		}
	}
}

func TestAHangupIsInTheLog(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create("s")
	q := r.request(t.Context(), "GET", "/v1/streams/s/records?wait=60", nil)
	client := &http.Client{Timeout: 100 * time.Millisecond}
	if _, err := client.Do(q); err == nil {
		t.Fatal("the poll was answered")
	}
	eventually(t, "the log says so", func() bool { return strings.Contains(r.logs.String(), `"code":"client_hangup"`) })
}

// A doubtful append that was applied after all is one record, and the next append goes on behind it.
func TestBL143_NothingBrokenIsKept(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"Load", "Commit", "Change", "Get", "put", "get"} {
		for _, outcome := range []storetest.Outcome{storetest.Refuse, storetest.Drop, storetest.Lose} {
			t.Run(fmt.Sprint(op, outcome), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.create("s")
				var once sync.Once
				r.heads.Set(func(c storetest.Call) (o storetest.Outcome) {
					if c.Op == op {
						once.Do(func() { o = outcome })
					}
					return o
				})
				r.objects.Decide(func(o, _ string) (apply bool, err error) {
					apply = true
					if o == op {
						once.Do(func() { apply, err = outcome == storetest.Lose, errors.New("injected") })
					}
					return apply, err
				})
				acked := uint64(0)
				for i := range 4 {
					size := 10 << (i * 5)
					a := r.append("s", `{"records":[{"body":"`+strings.Repeat("x", size)+`"}]}`)
					if a.status == 200 {
						acked++
					}
					r.read("s", "seq_num=0")
				}
				r.want(r.append("s", one), 200, "")
				if tail := r.tail("s"); tail < acked+1 || tail > 5 {
					t.Errorf("%d acknowledged, tail %d", acked+1, tail)
				}
				if got := r.records("s"); len(got) == 0 || got[0].SeqNum != 0 {
					t.Errorf("records %v", got)
				}
			})
		}
	}
}
