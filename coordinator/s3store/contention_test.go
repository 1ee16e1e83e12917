package s3store

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/memobjects"
	"github.com/tailrace-streams/tailrace/segments/s3objects"
	"github.com/tailrace-streams/tailrace/segments/s3objects/fakes3"
)

// contentionVariable is how long each figure of TestContention is measured, such as 10s. Without it each writer appends a few
// records, which shows that they all get on.
const contentionVariable = "TAILRACE_CONTENTION"

// member is a writer that knows nothing of the others: a store and a coordinator of its own.
type member struct {
	store *Store
	c     *coordinator.Coordinator
	took  []time.Duration
	acked int
}

// contest is members on one stream.
type contest struct {
	ref     coordinator.StreamRef
	members []*member
	took    time.Duration
}

func newContest(t *testing.T, o Options, size int) *contest {
	t.Helper()
	c := &contest{}
	h, objects := storetest.NewHead(), memobjects.New()
	c.ref = coordinator.StreamRef{Basin: h.Basin, Stream: h.Stream}
	if err := mustDial(t, o).Create(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	for range size {
		m := &member{store: mustDial(t, o)}
		var err error
		m.c, err = coordinator.New(coordinator.Options{
			Heads: m.store, Objects: objects, Room: Room, Log: zerolog.Nop(),
			// The machine may be busy; nothing here is about how long a call may take.
			StoreTimeout: 30 * time.Second, AppendTimeout: 2 * time.Minute, DoubtTimeout: time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.c.Close)
		c.members = append(c.members, m)
	}
	return c
}

// run has every member append records of 100 bytes, one after the other, until enough says so.
func (c *contest) run(t *testing.T, enough func(appends int, ran time.Duration) bool) {
	t.Helper()
	began := time.Now()
	var all sync.WaitGroup
	for i, m := range c.members {
		all.Go(func() {
			for n := 0; !enough(n, time.Since(began)); n++ {
				since := time.Now()
				body := fmt.Appendf(nil, "%03d/%06d %s", i, n, strings.Repeat(".", 89))
				_, err := m.c.Append(t.Context(), c.ref, coordinator.Batch{Records: []segments.Record{{Body: body}}})
				var indefinite *coordinator.Indefinite
				if errors.As(err, &indefinite) || err != nil {
					t.Errorf("an append: %v", err)
					return
				}
				m.took = append(m.took, time.Since(since))
				m.acked++
			}
		})
	}
	all.Wait()
	c.took = time.Since(began)
}

// figures sums up a run.
func (c *contest) figures() (appends, writes, lost int, took []time.Duration, least, most int) {
	least = c.members[0].acked
	for _, m := range c.members {
		s := m.store.Stats()
		writes, lost = writes+int(s.HeadWrites), lost+int(s.LostRaces)
		appends, took = appends+m.acked, append(took, m.took...)
		least, most = min(least, m.acked), max(most, m.acked)
	}
	slices.Sort(took)
	return appends, writes, lost, took, least, most
}

func at(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))].Round(10 * time.Microsecond)
}

// check reads the whole stream: as many records as were acknowledged, each of them once.
func (c *contest) check(t *testing.T, appends int) {
	t.Helper()
	m := c.members[0]
	if report, err := m.c.Check(t.Context(), c.ref); err != nil || report.Records != appends {
		t.Errorf("of %d appends %d records are there: %v", appends, report.Records, err)
	}
}

// BL-117: independent writers on one stream all get on, none fails, and nothing is lost or doubled.
func TestBL117IndependentWriters(t *testing.T) {
	t.Parallel()
	const writers, each = 24, 10
	fake := fakes3.Start(t)
	c := newContest(t, onFake(fake), writers)
	c.run(t, func(appends int, _ time.Duration) bool { return appends == each })
	appends, writes, lost, took, _, _ := c.figures()
	t.Logf("%d writers: %d appends, %d PUTs of the head, %d lost races, p50 %s, p99 %s", writers, appends, writes, lost, at(took, 0.5), at(took, 0.99))
	if appends != writers*each {
		t.Errorf("%d appends", appends)
	}
	if float64(writes) > 6*float64(appends) {
		t.Errorf("%d PUTs for %d appends", writes, appends)
	}
	c.check(t, appends)
}

// TestContention measures what independent writers on one stream cost each other, beside the rate of conditional PUTs by one
// client alone. It prints rows for docs/results.md.
func TestContention(t *testing.T) {
	each := time.Duration(0)
	if text := os.Getenv(contentionVariable); text != "" {
		var err error
		if each, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", contentionVariable, err)
		}
	}
	onServers(t, func(t *testing.T, bucket s3objects.Options) {
		_, server, _ := strings.Cut(t.Name(), "/")
		var rows strings.Builder
		for _, writers := range []int{1, 8, 32} {
			c := newContest(t, inBucket(bucket), writers)
			before := floor(t, c, each/2)
			c.run(t, func(appends int, ran time.Duration) bool {
				if each > 0 {
					return ran >= each
				}
				return appends == 4
			})
			after := floor(t, c, each/2)
			appends, writes, lost, took, least, most := c.figures()
			alone := (before + after) / 2
			rate := float64(appends) / c.took.Seconds()
			fmt.Fprintf(&rows, "| %s | %d | %.2f | %.0f | %s / %s | %d to %d | %.0f, %.0f | %.2f |\n", server, writers,
				float64(writes)/float64(appends), rate, at(took, 0.5), at(took, 0.99), least, most, before, after, rate/alone)
			if least == 0 || lost > writes {
				t.Errorf("%d writers: the least has %d appends, %d of %d PUTs lost", writers, least, lost, writes)
			}
			c.check(t, appends)
		}
		t.Logf("appends to one stream by independent writers\n%s", &rows)
	})
}

// floor is how many conditional PUTs a second one client gets done alone, of bodies as long as the head is half way to a move.
func floor(t *testing.T, c *contest, each time.Duration) float64 {
	t.Helper()
	objects, key := c.members[0].store.objects, fmt.Sprintf("%sfloor-%d", probeFolder, time.Now().UnixNano())
	body := make([]byte, Room.MoveEntries/2*160)
	var tag s3objects.Tag
	n, began := 0, time.Now()
	for ; n < 10 || time.Since(began) < each; n++ {
		copy(body, fmt.Sprint(n))
		var err error
		if tag, err = objects.PutIf(t.Context(), key, slices.Clone(body), tag); err != nil {
			t.Fatal(err)
		}
	}
	return float64(n) / time.Since(began).Seconds()
}
