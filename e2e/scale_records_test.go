package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/e2e/harness"
)

const (
	// spaceShare is how much of the disk a data folder may take, by the metered size of the records in it.
	spaceShare = 1.5
	// logRoom is what the database's log takes whatever is stored. It counts where the records are few.
	logRoom    = 32 << 20
	logCounts  = 100 << 20
	heapGrowth = 1.25 // of a server that goes on doing the same
)

// longStream is one stream of single-record appends, and what the test knows of each record.
type longStream struct {
	c       *client
	n       int
	writers int
	seed    maphash.Seed
	hashes  []uint64 // by sequence number
	metered atomic.Int64
	next    atomic.Int64
	first   time.Time
}

const longName = "long/stream"

// A stream of 40,000 single-record appends, and of a million with TAILRACE_SCALE=full: the rate and the server's live
// memory are the same all along (BL-139), any record is read by its number and by its time, and after a collection the
// data folder takes little more of the disk than the records. TAILRACE_SCALE_WRITERS is the number of connections; with
// 1 no two records share an entry.
func TestLongStreamStaysSmall(t *testing.T) {
	t.Parallel()
	data := dataFolder(t)
	server := start(t, data, "--upkeep-interval=1s", "--collect-grace=1s")
	l := &longStream{
		c: newClient(server.URL, "long-stream"), n: size(t, "RECORDS", 40_000, 1_000_000),
		writers: size(t, "WRITERS", 32, 32), seed: maphash.MakeSeed(), first: time.Now(),
	}
	l.hashes = make([]uint64, l.n)
	l.c.create(t, longName)
	rates, heaps := l.fill(t, server)
	t.Logf("%d appends by %d writers at %.0f/s (tenths %.0f); live heap by tenths %.1f MiB", l.n, l.writers, mean(rates), rates, heaps)
	checkSteady(t, rates)
	if half, end := heaps[len(heaps)/2-1], heaps[len(heaps)-1]; end > heapGrowth*half+4 {
		t.Errorf("the live heap grew from %.1f to %.1f MiB during the second half", half, end)
	}
	l.readAtRandom(t, 200)
	l.awaitSmall(t, data)
	l.readAtRandom(t, 200)
	stop(t, server)
	t.Logf("the data folder of a stopped server: %s", l.space(t, data))
	server = start(t, data)
	l.c = l.c.at(server.URL)
	l.readAtRandom(t, 200)
	if tail := l.c.tail(t, longName); tail != uint64(l.n) {
		t.Errorf("the tail is %d after %d appends", tail, l.n)
	}
}

// fill appends everything, and returns the rate and the server's live heap, in MiB, of each tenth.
func (l *longStream) fill(t *testing.T, server *harness.Server) (rates, heaps []float64) {
	t.Helper()
	for tenth := range 10 {
		end := int64(l.n * (tenth + 1) / 10)
		begin, since := l.next.Load(), time.Now()
		errs := make(chan error, l.writers)
		var all sync.WaitGroup
		for w := range l.writers {
			all.Go(func() {
				random := rand.New(rand.NewPCG(uint64(tenth), uint64(w)))
				for l.next.Add(1) <= end {
					if err := l.appendOne(t, random); err != nil {
						errs <- err
						return
					}
				}
				l.next.Add(-1)
			})
		}
		all.Wait()
		select {
		case err := <-errs:
			t.Fatal(err)
		default:
		}
		rates = append(rates, float64(end-begin)/time.Since(since).Seconds())
		// The next collection is due at twice what the last one found alive.
		heaps = append(heaps, scrape(t, server)["go_memstats_next_gc_bytes"]/2/(1<<20))
	}
	return rates, heaps
}

// appendOne appends a record of 100 to 200 bytes that no compression gets below its information.
func (l *longStream) appendOne(t *testing.T, random *rand.Rand) error {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-"
	body := make([]byte, 100+random.IntN(101))
	for i := range body {
		body[i] = letters[random.IntN(len(letters))]
	}
	a, err := l.c.append(t.Context(), longName, appendInput{Records: bodies(string(body))})
	if err != nil {
		return err
	}
	var got ack
	if a.status != 200 || json.Unmarshal([]byte(a.body), &got) != nil || got.Start.SeqNum >= uint64(l.n) {
		return errors.New(a.String())
	}
	l.hashes[got.Start.SeqNum] = maphash.Bytes(l.seed, body)
	l.metered.Add(int64(8 + len(body)))
	return nil
}

// readAtRandom reads records by number and by time, and compares them with what was appended.
func (l *longStream) readAtRandom(t *testing.T, reads int) {
	t.Helper()
	var byNumber, byTime []time.Duration
	for range reads {
		seq := rand.Uint64N(uint64(l.n))
		since := time.Now()
		r := l.readOne(t, fmt.Sprintf("seq_num=%d", seq))
		byNumber = append(byNumber, time.Since(since))
		if r.SeqNum != seq {
			t.Fatalf("record %d came for %d", r.SeqNum, seq)
		}
		since = time.Now()
		at := l.readOne(t, fmt.Sprintf("timestamp=%d", r.Timestamp))
		byTime = append(byTime, time.Since(since))
		// The first of that millisecond.
		if at.Timestamp != r.Timestamp || at.SeqNum > seq {
			t.Fatalf("for the time %d came record %d of %d", r.Timestamp, at.SeqNum, at.Timestamp)
		}
		if at.SeqNum > 0 {
			if before := l.readOne(t, fmt.Sprintf("seq_num=%d", at.SeqNum-1)); before.Timestamp >= at.Timestamp {
				t.Fatalf("record %d has the time %d too, but was not the first found", before.SeqNum, before.Timestamp)
			}
		}
	}
	t.Logf("a read of one record by number takes %s, p99 %s; by time %s, p99 %s",
		median(byNumber), quantile(byNumber, .99), median(byTime), quantile(byTime, .99))
}

func (l *longStream) readOne(t *testing.T, query string) record {
	t.Helper()
	var batch struct{ Records []record }
	must(t, 200, &batch)(l.c.do(t.Context(), http.MethodGet, records(longName)+"?count=1&"+query, nil))
	if len(batch.Records) != 1 {
		t.Fatalf("a read of one record by %s brought %d", query, len(batch.Records))
	}
	r := batch.Records[0]
	if maphash.String(l.seed, r.Body) != l.hashes[r.SeqNum] {
		t.Fatalf("record %d is not what was appended: %q", r.SeqNum, r.Body)
	}
	return r
}

// awaitSmall waits for the collection to bring the data folder down to the size it should have.
func (l *longStream) awaitSmall(t *testing.T, data string) {
	t.Helper()
	limit := int64(spaceShare * float64(l.metered.Load()))
	if l.metered.Load() < logCounts {
		limit += logRoom
	}
	t.Logf("before a collection: %s", l.space(t, data))
	var last string
	for deadline := time.Now().Add(2 * time.Minute); onDisk(t, data) > limit; time.Sleep(time.Second) {
		if last = l.space(t, data); time.Now().After(deadline) {
			t.Fatalf("the data folder still takes %s, wanted %d MiB", last, limit>>20)
		}
	}
	t.Logf("after a collection: %s", l.space(t, data))
}

// space says what takes how much of the disk.
func (l *longStream) space(t *testing.T, data string) string {
	t.Helper()
	parts := map[string]int64{}
	files := map[string]int{}
	err := filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) || (err == nil && entry.IsDir()) {
			return nil
		}
		if err != nil {
			return err
		}
		what := filepath.Base(filepath.Dir(path))
		if what == "db" {
			what += filepath.Ext(path)
		}
		parts[what] += fileOnDisk(entry)
		files[what]++
		return nil
	})
	if err != nil {
		t.Fatalf("measure %s: %v", data, err)
	}
	total := onDisk(t, data)
	text := fmt.Sprintf("%.1f MiB, %.2f times the metered %.1f;", mib(total), float64(total)/float64(l.metered.Load()), mib(l.metered.Load()))
	for _, what := range []string{"segments", "pages", "db.log", "db.sst"} {
		text += fmt.Sprintf(" %s %.1f in %d files", what, mib(parts[what]), files[what])
	}
	return text
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
