package pebblestore_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/pebblestore"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/fileobjects"
	"github.com/tailrace-streams/tailrace/segments/fileobjects/crashfs"
)

// powerCut is the embedded store on a disk that forgets what was not synced: heads in Pebble, objects in files.
type powerCut struct {
	t     *testing.T
	ref   coordinator.StreamRef
	disk  *vfs.MemFS
	files *crashfs.FS
}

// open starts a process on the disk. Small room makes segments, moves and page folds of a few appends.
func (p *powerCut) open() (*coordinator.Coordinator, *pebblestore.Store, *fileobjects.Store) {
	p.t.Helper()
	heads, err := pebblestore.Open("db", pebblestore.Options{FS: p.disk, Log: zerolog.Nop()})
	if err != nil {
		p.t.Fatal(err)
	}
	objects, err := fileobjects.OpenFS(p.files)
	if err != nil {
		p.t.Fatal(err)
	}
	c, err := coordinator.New(coordinator.Options{
		Heads: heads, Objects: objects, Exclusive: true, Log: zerolog.Nop(),
		Room:         coordinator.Room{MoveEntries: 4, MaxEntries: 12, InlineBatch: 64, MoveInline: 256, MaxInline: 1 << 10},
		StoreTimeout: 50 * time.Millisecond, AppendTimeout: 100 * time.Millisecond, DoubtTimeout: 100 * time.Millisecond,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return c, heads, objects
}

// TestPowerCutAtEveryFileCall cuts the power at each call to the file system below the objects while writers append,
// then starts anew from what the disk kept: every acknowledged batch is there once and whole, numbers are dense, and
// appends go on.
func TestPowerCutAtEveryFileCall(t *testing.T) {
	t.Parallel()
	stride := 3
	for first := range stride {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			t.Parallel()
			for n := 1 + first; ; n += stride {
				if !cutPower(t, n) {
					return
				}
			}
		})
	}
}

// cutPower reports whether the workload got as far as call n.
func cutPower(t *testing.T, n int) bool {
	p := &powerCut{t: t, disk: vfs.NewCrashableMem(), files: crashfs.New()}
	p.ref = coordinator.StreamRef{Basin: segments.NewBasinID(), Stream: segments.NewStreamID()}
	c, heads, _ := p.open()
	err := heads.Create(t.Context(), coordinator.Head{
		V: 1, Basin: p.ref.Basin, Stream: p.ref.Stream, State: coordinator.Active, Config: coordinator.DefaultStreamConfig(), ConfigV: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	before := p.files.Calls()
	p.files.StopAt(before + n)
	acked := p.append(c)
	reached := p.files.Calls() >= before+n
	// The disk as it is at this moment; what the old process does from here on it does to another.
	rng := rand.New(rand.NewPCG(uint64(n), 7))
	p.disk = p.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
	p.files = p.files.Crash(crashfs.LoseSome(uint64(n)))
	c.Close()
	if err := heads.Close(); err != nil {
		t.Fatal(err)
	}
	p.verify(n, acked)
	return reached
}

// append runs writers until each has appended its share or met an error, and returns what was acknowledged, by the
// first record's number.
func (p *powerCut) append(c *coordinator.Coordinator) map[uint64][]byte {
	acked := make(map[uint64][]byte)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := range 9 {
				body := fmt.Appendf(nil, "%d.%d.", w, i)
				if (w+i)%2 == 0 {
					body = append(body, bytes.Repeat([]byte("x"), 90)...)
				}
				ack, err := c.Append(context.Background(), p.ref, coordinator.Batch{Records: []segments.Record{{Body: body}, {Body: body}}})
				if err != nil {
					return
				}
				mu.Lock()
				acked[ack.Start.SeqNum] = body
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return acked
}

func (p *powerCut) verify(n int, acked map[uint64][]byte) {
	t := p.t
	t.Helper()
	c, heads, objects := p.open()
	defer func() {
		c.Close()
		if err := heads.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := coordinator.Check(t.Context(), heads, objects, p.ref.Stream); err != nil {
		t.Fatalf("power cut at call %d: %v", n, err)
	}
	if _, err := c.Append(t.Context(), p.ref, coordinator.Batch{Records: []segments.Record{{Body: []byte("after")}}}); err != nil {
		t.Fatalf("power cut at call %d: append afterwards: %v", n, err)
	}
	zero, none := uint64(0), time.Duration(0)
	r, err := c.OpenReader(t.Context(), p.ref, coordinator.ReadOptions{SeqNum: &zero, Wait: &none})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var bodies [][]byte
	for {
		e, err := r.Next(t.Context())
		if err == io.EOF {
			break
		}
		if err != nil || e.Start != uint64(len(bodies)) {
			t.Fatalf("power cut at call %d: read at %d: %v", n, len(bodies), err)
		}
		for i := range e.Records {
			bodies = append(bodies, e.Records[i].Body)
		}
	}
	for start, body := range acked {
		if start+1 >= uint64(len(bodies)) || !bytes.Equal(bodies[start], body) || !bytes.Equal(bodies[start+1], body) {
			t.Fatalf("power cut at call %d: the batch acknowledged at %d is not there", n, start)
		}
	}
	for i := 0; i+1 < len(bodies)-1; i += 2 {
		if !bytes.Equal(bodies[i], bodies[i+1]) {
			t.Fatalf("power cut at call %d: half a batch at %d", n, i)
		}
	}
}
