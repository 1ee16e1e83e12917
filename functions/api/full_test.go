package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/functions/api"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/objectstest"
)

// A full store is told at once and definitely, and by /ready until a batch would fit again.
func TestAFullStoreIsToldAtOnce(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64 // of the clock: readiness is remembered for a second
	r := newRig(t,
		change{coordinator: func(o *coordinator.Options) { o.AppendTimeout = time.Hour }}, // so that a retry would hang
		change{api: func(o *api.Options) { o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) } }})
	r.create("s")
	ready := func() answer {
		ahead.Add(int64(2 * time.Second))
		return r.do("GET", "/ready", nil)
	}
	var full atomic.Bool
	r.objects.Decide(func(op, key string) (bool, error) {
		if full.Load() && op == objectstest.OpPut {
			return false, fmt.Errorf("write: %w", segments.ErrNoRoom)
		}
		return true, nil
	})
	large := `{"records":[{"body":"` + strings.Repeat("x", 200<<10) + `"}]}`
	r.want(r.append("s", large), http.StatusOK, "")
	r.want(ready(), http.StatusOK, "")
	full.Store(true)
	r.want(ready(), http.StatusOK, "") // nobody has met it yet
	a := r.want(r.append("s", large), http.StatusBadGateway, "hot_server")
	if a.header.Get("Tailrace-Applied") != "no" || !strings.Contains(a.body, "no room") {
		t.Errorf("the answer is %s, applied: %s", a.body, a.header.Get("Tailrace-Applied"))
	}
	if a := r.want(ready(), http.StatusServiceUnavailable, "unavailable"); !strings.Contains(a.body, "no room") {
		t.Errorf("/ready says %s", a.body)
	}
	r.want(r.do("GET", "/health", nil), http.StatusOK, "")
	r.want(r.read("s", "seq_num=0&count=1"), http.StatusOK, "")
	full.Store(false)
	r.want(ready(), http.StatusOK, "")
	r.want(r.append("s", large), http.StatusOK, "")
	if got := r.tail("s"); got != 2 {
		t.Errorf("the tail is %d, want 2", got)
	}
	if left, err := r.objects.List(t.Context(), "ready/", "", 10); err != nil || len(left) > 0 {
		t.Errorf("the probe left %v, %v", left, err)
	}
}
