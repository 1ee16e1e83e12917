package lambda

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tailrace-streams/tailrace/functions/stores"
	"github.com/tailrace-streams/tailrace/segments"
)

// listing notes which basins are looked through for objects, and has a run's time end after some.
type listing struct {
	segments.Objects
	mu    sync.Mutex
	seen  []string
	after int
	stop  context.CancelFunc
}

func (l *listing) List(ctx context.Context, prefix, startAfter string, limit int) ([]segments.ObjectInfo, error) {
	l.mu.Lock()
	if parts := strings.Split(prefix, "/"); len(parts) > 1 && !slices.Contains(l.seen, parts[1]) {
		l.seen = append(l.seen, parts[1])
	}
	if l.stop != nil && len(l.seen) >= l.after {
		l.stop()
	}
	l.mu.Unlock()
	return l.Objects.List(ctx, prefix, startAfter, limit)
}

// Runs that have too little time get round all the same, each from where the last one ended, in whichever process.
func TestMaintenanceGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	l := &listing{after: 2}
	r := newRig(t, func(b *stores.Backend, _ *Options) {
		if b.Objects != nil {
			l.Objects, b.Objects = b.Objects, l
		}
	})
	for i := range 4 {
		r.direct(Control, fmt.Sprintf(`{"operation":"request","method":"PUT","path":"/v1/basins/another-basin-%d"}`, i))
	}
	all := map[string]bool{}
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		l.mu.Lock()
		l.seen, l.stop = nil, cancel
		l.mu.Unlock()
		text, err := newMaintenance(r.made).run(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		var got report
		if err := json.Unmarshal(text, &got); err != nil || got.Completed || got.Basins != 2 {
			t.Fatalf("a run that is cut short reports %s, %v", text, err)
		}
		for _, id := range l.seen {
			all[id] = true
		}
	}
	if len(all) != 5 {
		t.Errorf("three runs of two basins each have looked at %d of 5", len(all))
	}
}
