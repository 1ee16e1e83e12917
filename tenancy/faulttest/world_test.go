package faulttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/segments/objectstest"
	"github.com/tailrace-streams/tailrace/tenancy"
)

const (
	basin  = "the-basin"
	stream = "the/stream"
)

// room makes moves, segments and folds of pages happen after a few appends; wide keeps them from happening, so that a log
// can be laid out that others then find too long.
var (
	room = coordinator.Room{MoveEntries: 4, MaxEntries: 64, InlineBatch: 256, MoveInline: 1 << 10, MaxInline: 16 << 10, MaxSplice: 128}
	wide = coordinator.Room{MoveEntries: 1 << 20, MaxEntries: 1 << 20, InlineBatch: 256, MoveInline: 1 << 30, MaxInline: 1 << 30, MaxSplice: 128}
)

// world is one pair of stores, the faults before it, and everything that was ever told to a caller.
type world struct {
	t      *testing.T
	bubble bool
	inner  stores // past the faults
	faults *storetest.Faults

	mu      sync.Mutex
	passed  time.Duration // by which the directory's clock is ahead
	streams map[coordinator.StreamRef]*ledger
}

// ledger is what the appenders to one incarnation of a stream were told.
type ledger struct {
	attempts []attempt
	trim     uint64 // records below it may be gone
	deleted  bool   // a deletion was acknowledged
	doomed   bool   // a deletion was tried: it may have taken place
}

// attempt is one batch.
type attempt struct {
	texts []string // of its records
	ack   coordinator.Ack
	err   error
}

// process is a server's own share: what it knows, it forgets when it ends.
type process struct {
	*coordinator.Coordinator
	dir *tenancy.Directory
}

func newWorld(t *testing.T, k *kind) *world {
	w := &world{
		t: t, bubble: k.bubble, inner: k.open(t), faults: storetest.NewFaults(nil),
		streams: map[coordinator.StreamRef]*ledger{},
	}
	w.inner.objects = objectstest.Fault(t, w.inner.objects) // sees to it that no key gets other bytes
	p := w.process(false, room)
	config := tenancy.BasinConfig{CreateOnAppend: true}
	config.DefaultStream.Retention = &tenancy.Retention{Infinite: true}
	if _, _, err := p.dir.CreateBasin(t.Context(), basin, "", config, ""); err != nil {
		t.Fatal(err)
	}
	return w
}

// process starts a process, behind the faults or past them.
func (w *world) process(faulty bool, r coordinator.Room) *process {
	w.t.Helper()
	s := w.inner
	if faulty {
		s = stores{w.faults.Heads(s.heads), w.faults.Table(s.table), w.faults.Objects(s.objects)}
	}
	o := coordinator.Options{Heads: s.heads, Objects: s.objects, Room: r, Log: zerolog.Nop(), TrimDelay: -1}
	if !w.bubble {
		// A call may be slow because the machine is; nothing may take long because a store is broken.
		o.StoreTimeout, o.DoubtTimeout, o.AppendTimeout = 2*time.Second, 4*time.Second, 8*time.Second
	}
	c, err := coordinator.New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	d, err := tenancy.New(tenancy.Options{
		Table: s.table, Heads: s.heads, Clock: w.now, SettleTimeout: 4 * time.Second,
		OnDeleted: func(ref coordinator.StreamRef) { c.Poke(ref) },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return &process{c, d}
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.passed)
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.passed += d
}

func (w *world) ledger(ref coordinator.StreamRef) *ledger {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.streams[ref]
	if l == nil {
		l = &ledger{}
		w.streams[ref] = l
	}
	return l
}

// ref resolves the stream past the faults.
func (w *world) ref() coordinator.StreamRef {
	w.t.Helper()
	ref, err := w.process(false, room).dir.Resolve(w.t.Context(), basin, stream, tenancy.Append)
	if err != nil {
		w.t.Fatal(err)
	}
	w.ledger(ref)
	return ref
}

// records makes a batch; texts tell its records apart. A text that begins with "fence:" or "trim:" is that command.
func records(texts ...string) coordinator.Batch {
	var b coordinator.Batch
	for _, text := range texts {
		b.Records = append(b.Records, record(text))
	}
	return b
}

func record(text string) segments.Record {
	if token, found := bytes.CutPrefix([]byte(text), []byte("fence:")); found {
		return segments.Record{Headers: []segments.Header{{Value: []byte("fence")}}, Body: token}
	}
	var to uint64
	if _, err := fmt.Sscanf(text, "trim:%d", &to); err == nil {
		body := []byte{0, 0, 0, 0, 0, 0, byte(to >> 8), byte(to)}
		return segments.Record{Headers: []segments.Header{{Value: []byte("trim")}}, Body: body}
	}
	return segments.Record{Body: []byte(text)}
}

// textOf is the text that record was made of.
func textOf(r *segments.Record) string {
	if len(r.Headers) == 0 {
		return string(r.Body)
	}
	if string(r.Headers[0].Value) == "trim" {
		return fmt.Sprintf("trim:%d", uint64(r.Body[6])<<8|uint64(r.Body[7]))
	}
	return "fence:" + string(r.Body)
}

// note enters what an appender was told.
func (w *world) note(ref coordinator.StreamRef, b coordinator.Batch, ack coordinator.Ack, err error) {
	l := w.ledger(ref)
	a := attempt{ack: ack, err: err}
	for i := range b.Records {
		text := textOf(&b.Records[i])
		a.texts = append(a.texts, text)
		var to uint64
		if n, _ := fmt.Sscanf(text, "trim:%d", &to); n == 1 {
			l.trim = max(l.trim, to)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	l.attempts = append(l.attempts, a)
}

// append appends, and remembers what came of it.
func (w *world) append(ctx context.Context, p *process, ref coordinator.StreamRef, b coordinator.Batch) error {
	kept := b
	kept.Records = slices.Clone(b.Records)
	ack, err := p.Append(ctx, ref, b)
	w.note(ref, kept, ack, err)
	return err
}

// fill appends n batches of a record each past the faults, on a process that leaves the log as long as it gets if it is
// wide.
func (w *world) fill(ref coordinator.StreamRef, n int, r coordinator.Room) {
	w.t.Helper()
	p := w.process(false, r)
	defer p.Close()
	for i := range n {
		text := fmt.Sprintf("fill %d/%d", len(w.ledger(ref).attempts), i)
		if i%3 == 2 {
			text += string(make([]byte, 300)) // into a segment
		}
		if err := w.append(w.t.Context(), p, ref, records(text)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// verify re-reads every stream past every cache and holds it against what callers were told: every acknowledged batch is
// where its acknowledgement says, every definite failure nowhere, nothing there twice or in part.
func (w *world) verify(when string) {
	w.t.Helper()
	for ref, l := range w.streams {
		if err := w.verifyStream(ref, l); err != nil {
			w.t.Errorf("%s: %v", when, err)
		}
	}
}

func (w *world) verifyStream(ref coordinator.StreamRef, l *ledger) error {
	ctx := w.t.Context()
	h, err := w.inner.heads.Load(ctx, ref.Stream)
	switch {
	case errors.Is(err, coordinator.ErrNotFound) && len(l.attempts) == 0:
		return nil
	case err != nil:
		return fmt.Errorf("load head: %w", err)
	case l.deleted && h.State != coordinator.Deleted && h.State != coordinator.Deleting:
		return fmt.Errorf("the deletion was acknowledged, the head is %s", h.State)
	case h.State != coordinator.Active && !l.doomed:
		return fmt.Errorf("the head is %s, and nobody deleted it", h.State)
	case h.State != coordinator.Active:
		return nil // its data may be gone
	}
	if _, err := coordinator.Check(ctx, w.inner.heads, &once{Objects: w.inner.objects}, ref.Stream); err != nil {
		return err
	}
	where, first, err := w.read(ctx, ref)
	if err != nil {
		return err
	}
	if first > l.trim {
		return fmt.Errorf("the stream starts at %d, it was trimmed to %d", first, l.trim)
	}
	told := 0
	for i := range l.attempts {
		n, err := l.attempts[i].verify(where, first)
		if err != nil {
			return err
		}
		told += n
	}
	if told+int(first) < int(h.Tail) {
		return fmt.Errorf("%d records from %d to %d, the writers know of %d", int(h.Tail-first), first, h.Tail, told)
	}
	return nil
}

// once fetches every object once and whole, where a check would ask a server a thousand times for parts of the same one.
type once struct {
	segments.Objects
	fetched map[string][]byte
}

func (o *once) Get(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	data, ok := o.fetched[key]
	if !ok {
		var err error
		if data, err = o.Objects.Get(ctx, key, 0, -1); err != nil {
			return nil, err
		}
		if o.fetched == nil {
			o.fetched = map[string][]byte{}
		}
		o.fetched[key] = data
	}
	data = data[min(offset, int64(len(data))):]
	if length >= 0 {
		data = data[:min(length, int64(len(data)))]
	}
	return bytes.Clone(data), nil
}

// read returns where each text is, and where the stream starts.
func (w *world) read(ctx context.Context, ref coordinator.StreamRef) (map[string][]uint64, uint64, error) {
	p := w.process(false, room)
	defer p.Close()
	return p.readAll(ctx, ref)
}

func (p *process) readAll(ctx context.Context, ref coordinator.StreamRef) (map[string][]uint64, uint64, error) {
	from, wait := uint64(0), time.Duration(0)
	r, err := p.OpenReader(ctx, ref, coordinator.ReadOptions{SeqNum: &from, Clamp: true, Wait: &wait})
	if err != nil {
		return nil, 0, fmt.Errorf("open reader: %w", err)
	}
	defer r.Close()
	where, first, next := map[string][]uint64{}, uint64(0), uint64(0)
	for begun := false; ; {
		e, err := r.Next(ctx)
		if err == io.EOF {
			return where, first, nil
		}
		if err != nil {
			return nil, 0, fmt.Errorf("read at %d: %w", next, err)
		}
		if !begun && len(e.Records) > 0 {
			begun, first, next = true, e.Start, e.Start
		}
		if len(e.Records) > 0 && e.Start != next {
			return nil, 0, fmt.Errorf("read: a batch starts at %d, not at %d", e.Start, next)
		}
		for i := range e.Records {
			text := textOf(&e.Records[i])
			where[text] = append(where[text], next)
			next++
		}
	}
}

// verify holds one batch against where its records are, and returns how many are there.
func (a *attempt) verify(where map[string][]uint64, first uint64) (int, error) {
	var indefinite *coordinator.Indefinite
	n := 0
	for i, text := range a.texts {
		at := where[text]
		switch {
		case len(at) > 1:
			return 0, fmt.Errorf("%.20q is at %v", text, at)
		case a.err == nil && a.ack.Start.SeqNum+uint64(i) < first:
			// trimmed away
		case a.err == nil && (len(at) == 0 || at[0] != a.ack.Start.SeqNum+uint64(i)):
			return 0, fmt.Errorf("%.20q was acknowledged at %d and is at %v", text, a.ack.Start.SeqNum+uint64(i), at)
		case a.err != nil && !errors.As(a.err, &indefinite) && len(at) > 0:
			return 0, fmt.Errorf("%.20q failed definitely (%v) and is at %v", text, a.err, at)
		}
		n += len(at)
	}
	if n != 0 && n != len(a.texts) && first == 0 {
		return 0, fmt.Errorf("of a batch of %d records %d are there", len(a.texts), n)
	}
	return n, nil
}
