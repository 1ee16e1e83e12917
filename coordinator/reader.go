package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tailrace-streams/tailrace/segments"
)

// ReadOptions say where a read starts and when it ends (s2-api 15). At most one of the three starts is set; none
// means the tail.
type ReadOptions struct {
	SeqNum, Timestamp, TailOffset *uint64
	// Clamp moves a start beyond the tail to the tail.
	Clamp bool
	// Count, Bytes and Until end the read before the record that would exceed them.
	Count, Bytes, Until *uint64
	// Wait is how long to wait at the tail for the next record; nil is what the bounds imply.
	Wait *time.Duration
	// Unary reads give one event, of at most 1000 records and 1 MiB, and then io.EOF.
	Unary bool
	// Key opens the records of an encrypted stream; other streams ignore it.
	Key []byte
	// Fresh is what state the read may begin with; what a long one meets later is fresh in any case.
	Fresh Freshness
}

// ReadEvent is a batch of records or, without any, a heartbeat.
type ReadEvent struct {
	// Start is the sequence number of Records[0]; the others follow without a gap.
	Start uint64
	// Records carry effective timestamps. They are shared and must not be changed.
	Records []segments.Record
	// Bytes is their metered size.
	Bytes uint64
	// Tail is the durable tail, at least the end of the batch.
	Tail *Position
}

// Reader gives the records of a stream from a start on: what is stored, then, if the read may follow, what is
// appended. It is for one goroutine.
type Reader struct {
	c   *Coordinator
	ref StreamRef
	o   ReadOptions

	head   view
	loaded time.Time
	// opened is the v of the state that the read began with, which was loaded after asOf.
	opened uint64
	asOf   time.Time
	// pushed is the v of a state that has the last batch which was handed over, maybe newer than head.
	pushed uint64
	// next is the sequence number to deliver next; fold the effective timestamp before it, if known.
	next   uint64
	fold   uint64
	folded bool
	// buffer holds records from next on that were read and not delivered.
	buffer []segments.Record
	// told is the newest tail that an event has told.
	told Position

	count, bytes uint64 // what the bounds still allow
	follow       bool
	sealer       *segments.Sealer // nil unless the stream is encrypted
	sub          *subscription
	// deadline ends a read that waits; it is armed when the tail is first reached.
	deadline time.Time
	beat     time.Time // next heartbeat
	ended    bool
}

const unbounded = ^uint64(0)

// OpenReader resolves the start of a read on a head that is fresh enough. *OutOfRange if it lies beyond the tail, or at
// the tail of a read that may not follow; *KeyRequired; ErrStreamNotFound, ErrStreamDeleting, ErrUnavailable, ErrStorage;
// *Behind and ErrOverloaded if o.Fresh demands a state that does not come.
func (c *Coordinator) OpenReader(ctx context.Context, ref StreamRef, o ReadOptions) (*Reader, error) {
	r := &Reader{c: c, ref: ref, o: o, count: unbounded, bytes: unbounded}
	bounded := o.Count != nil || o.Bytes != nil || o.Until != nil || o.Unary
	if o.Unary {
		r.count, r.bytes = segments.MaxBatchRecords, segments.MaxBatchBytes
	}
	if o.Count != nil {
		r.count = min(r.count, *o.Count)
	}
	if o.Bytes != nil {
		r.bytes = min(r.bytes, *o.Bytes)
	}
	r.follow = !bounded
	if o.Wait != nil {
		r.follow = *o.Wait > 0 || !bounded
	}
	floor, err := r.begin(ctx)
	if errors.Is(err, segments.ErrObjectNotFound) {
		// The head may have grown old in memory, or while this process was stopped, and its pages replaced.
		r.o.Fresh.MaxAge = 0
		floor, err = r.begin(ctx)
	}
	if err != nil {
		return nil, err
	}
	r.next = max(r.next, floor)
	if !o.Unary {
		c.openReaders.Add(1)
	}
	return r, nil
}

// begin takes a head that is fresh enough and resolves the start on it.
func (r *Reader) begin(ctx context.Context) (floor uint64, err error) {
	r.loaded = r.c.o.Now()
	v, err := r.c.View(ctx, r.ref, r.o.Fresh)
	if err != nil {
		return 0, err
	}
	r.head, r.opened, r.asOf = view{Head: v.Head}, v.Head.V, v.AsOf
	if floor, err = r.c.readableFrom(ctx, &r.head); err != nil {
		return 0, r.storage(err)
	}
	if r.sealer, err = sealer(&r.head.Head, r.o.Key); err != nil {
		return 0, err
	}
	return floor, r.start(ctx)
}

// start sets next to where the read starts (s2-api 15.1 to 15.3).
func (r *Reader) start(ctx context.Context) error {
	tail := r.head.TailPosition()
	seq := tail.SeqNum
	switch {
	case r.o.SeqNum != nil:
		seq = *r.o.SeqNum
	case r.o.TailOffset != nil:
		seq -= min(seq, *r.o.TailOffset)
	case r.o.Timestamp != nil && *r.o.Timestamp <= tail.Timestamp:
		// Resolves always, if need be to the tail, and is then not out of range.
		seq, err := r.c.seqAtTime(ctx, &r.head, *r.o.Timestamp)
		r.next = seq
		return r.storage(err)
	case r.o.Timestamp != nil:
		seq = unbounded
	}
	if seq > tail.SeqNum {
		if !r.o.Clamp {
			return &OutOfRange{tail, r.head.V, r.asOf}
		}
		seq = tail.SeqNum
	}
	if seq == tail.SeqNum && !r.follow {
		return &OutOfRange{tail, r.head.V, r.asOf}
	}
	r.next = seq
	return nil
}

// reload takes a fresh head and returns its floor: the first sequence number that may be read. What is expired by
// age counts as trimmed.
func (r *Reader) reload(ctx context.Context) (floor uint64, err error) {
	r.loaded = r.c.o.Now()
	h, err := r.c.loads.active(ctx, r.ref.Stream)
	if err != nil {
		return 0, err
	}
	r.head = view{Head: h}
	floor, err = r.c.readableFrom(ctx, &r.head)
	return floor, r.storage(err)
}

// readableFrom is the first sequence number that may be read now: behind what was retired, trimmed long enough ago,
// or is too old.
func (c *Coordinator) readableFrom(ctx context.Context, h *view) (uint64, error) {
	now := c.nowMillis()
	floor := max(h.First(), h.ReadFloor(now, uint64(c.o.TrimDelay.Milliseconds())))
	if age := h.Config.RetentionAge * 1000; age > 0 && now > age && h.CreatedAt < now-age {
		expired, err := c.seqAtArrival(ctx, h, now-age)
		if err != nil {
			return 0, err
		}
		floor = max(floor, expired)
	}
	return min(floor, h.Tail), nil
}

// storage classifies an error of reading objects.
func (r *Reader) storage(err error) error {
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrStorage):
		return err
	case errors.Is(err, segments.ErrObjectNotFound), errors.Is(err, segments.ErrCorrupt):
		return fmt.Errorf("%w: %w", ErrStorage, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// Opened tells the state that the read began with, by its v and a moment before it was loaded. What follows is as new or
// newer.
func (r *Reader) Opened() (v uint64, asOf time.Time) { return r.opened, r.asOf }

// Shown tells the newest state that the read has shown something of, and of which stream: one that includes every record
// so far, and what Opened tells.
func (r *Reader) Shown() (ref StreamRef, v uint64) { return r.ref, max(r.head.V, r.pushed) }

// Close releases what the reader holds. It may be called twice.
func (r *Reader) Close() {
	if !r.ended && !r.o.Unary {
		r.c.openReaders.Add(-1)
	}
	r.ended = true
	if r.sub != nil {
		r.sub.close()
		r.sub = nil
	}
}

// Next waits for the next event. io.EOF is the clean end: a bound was reached, or the wait was over. Other errors
// end the reader too: ErrStreamDeleting and ErrStreamNotFound if the stream goes away, ErrDraining if the process
// does, ErrStorage, ErrUnavailable, and those of ctx.
func (r *Reader) Next(ctx context.Context) (ReadEvent, error) {
	if r.ended {
		return ReadEvent{}, io.EOF
	}
	e, err := r.advance(ctx)
	if err != nil || r.o.Unary {
		r.Close()
	}
	if err == io.EOF && r.o.Unary {
		tail := r.head.TailPosition()
		return ReadEvent{Start: r.next, Tail: &tail}, nil
	}
	return e, err
}

func (r *Reader) advance(ctx context.Context) (ReadEvent, error) {
	for {
		if r.count == 0 || r.bytes == 0 {
			return ReadEvent{}, io.EOF
		}
		if !r.o.Unary && r.c.isDraining() {
			return ReadEvent{}, ErrDraining
		}
		if len(r.buffer) == 0 && r.next < r.head.Tail {
			if err := r.catchUp(ctx); err != nil {
				return ReadEvent{}, err
			}
		}
		if len(r.buffer) > 0 {
			return r.deliver(r.head.TailPosition())
		}
		if r.next < r.head.Tail {
			continue // the floor moved past what was to be read
		}
		if e, err := r.atTail(ctx); err != nil || e.Tail != nil {
			return e, err
		}
	}
}

// deliver cuts a batch from the buffer, within the bounds. io.EOF if the first record is beyond one.
func (r *Reader) deliver(tail Position) (ReadEvent, error) {
	e := ReadEvent{Start: r.next}
	n := 0
	for n < len(r.buffer) && n < segments.MaxBatchRecords {
		rec := &r.buffer[n]
		size := rec.MeteredSize()
		if uint64(n) >= r.count || e.Bytes+size > r.bytes || (r.o.Until != nil && rec.Timestamp >= *r.o.Until) {
			r.count = 0 // the end, behind this batch
			break
		}
		if n > 0 && e.Bytes+size > r.eventLimit() {
			break
		}
		e.Bytes += size
		n++
	}
	if n == 0 {
		return ReadEvent{}, io.EOF
	}
	e.Records, r.buffer = r.buffer[:n:n], r.buffer[n:]
	if err := r.unseal(&e); err != nil {
		return ReadEvent{}, err
	}
	r.fold, r.folded = e.Records[n-1].Timestamp, true
	r.next += uint64(n)
	r.count -= min(r.count, orUnbounded(r.count, uint64(n)))
	r.bytes -= min(r.bytes, orUnbounded(r.bytes, e.Bytes))
	if tail.SeqNum < r.next {
		tail = Position{r.next, r.fold}
	}
	e.Tail = r.tell(tail)
	if !r.deadline.IsZero() {
		r.arm()
	}
	return e, nil
}

// tell returns the newest tail that the reader knows of, since what it says must not go back: the rest of a batch that
// was published is delivered behind a head that is older than it.
func (r *Reader) tell(tail Position) *Position {
	if r.told.SeqNum < tail.SeqNum {
		r.told = tail
	}
	told := r.told
	return &told
}

// A client that stops reading makes the server hold one event, encoded, and there may be thousands of them: together
// they have eventsBytes, each at least leastEventBytes.
const (
	eventsBytes     = 16 << 20
	leastEventBytes = 32 << 10
)

// eventLimit is how many metered bytes an event has at most, unless it is one record.
func (r *Reader) eventLimit() uint64 {
	if r.o.Unary {
		return segments.MaxBatchBytes
	}
	share := uint64(eventsBytes / max(r.c.openReaders.Load(), 1))
	return min(max(share, leastEventBytes), segments.MaxBatchBytes)
}

// unseal opens the records of an event, in a slice of its own: those of the buffer are shared with other readers,
// who may have other keys.
func (r *Reader) unseal(e *ReadEvent) error {
	if r.sealer == nil {
		return nil
	}
	opened := make([]segments.Record, len(e.Records))
	for i := range e.Records {
		rec, err := r.sealer.Open(e.Records[i])
		if err != nil {
			return fmt.Errorf("record %d: %w", e.Start+uint64(i), err)
		}
		opened[i] = rec
	}
	e.Records = opened
	return nil
}

// orUnbounded is what to take off a bound: nothing if there is none.
func orUnbounded(bound, used uint64) uint64 {
	if bound == unbounded {
		return 0
	}
	return used
}

func (r *Reader) arm() {
	if r.o.Wait != nil {
		r.deadline = r.c.o.Now().Add(*r.o.Wait)
	}
}

// catchUp fills the buffer with a batch's worth of stored records, as far as there are.
func (r *Reader) catchUp(ctx context.Context) error {
	if r.c.o.Now().Sub(r.loaded) > time.Second {
		if err := r.refresh(ctx); err != nil {
			return err
		}
	}
	err := r.fill(ctx)
	if errors.Is(err, segments.ErrObjectNotFound) {
		// The head may be old, and its objects replaced or retired. If a fresh one names it too, it is lost.
		if err := r.refresh(ctx); err != nil {
			return err
		}
		r.buffer, r.folded = nil, false
		err = r.fill(ctx)
	}
	if len(r.buffer) > 0 {
		return nil // what is good is delivered; the next call meets the error again
	}
	return r.storage(err)
}

// refresh reloads the head and skips what it no longer lets be read.
func (r *Reader) refresh(ctx context.Context) error {
	floor, err := r.reload(ctx)
	if errors.Is(err, segments.ErrObjectNotFound) {
		floor, err = r.reload(ctx)
	}
	if err == nil && r.next < floor {
		r.next, r.folded, r.buffer = floor, false, nil
	}
	return err
}

// fill reads into the buffer, which is empty, what the next event has room for.
func (r *Reader) fill(ctx context.Context) error {
	var size uint64
	r.buffer = nil // of a published batch, what is behind its end may be shared
	// No more than the next event delivers: a read of one record costs one chunk, wherever it is.
	event := r.eventLimit()
	most, limit := int(min(segments.MaxBatchRecords, r.count)), min(event, r.bytes)
	for pos := r.next; pos < r.head.Tail && len(r.buffer) < most && size < limit; {
		run, err := r.c.runAt(ctx, &r.head, pos)
		if err != nil {
			return err
		}
		from := uint32(pos - run.start)
		r.fetchAhead(ctx, &run, uint64(len(r.buffer))+uint64(run.entry.N-from))
		if !r.folded {
			if err := r.foldTo(ctx, &run, from); err != nil {
				return err
			}
		}
		for from < run.entry.N && len(r.buffer) < most && size < limit {
			// About as many as the event has room for, by their mean size.
			n := min(uint64(most-len(r.buffer)), (limit-size)*uint64(run.entry.N)/max(run.entry.Bytes, 1)+1)
			records, err := r.c.reader.ReadSome(ctx, r.head.Basin, r.ref.Stream, &run.entry, from, uint32(n), segments.MaxBatchBytes)
			if err != nil {
				return err
			}
			for i := range records {
				rec := records[i].Record
				r.fold = max(r.fold, rec.Timestamp)
				rec.Timestamp = r.fold
				size += rec.MeteredSize()
				r.buffer = append(r.buffer, rec)
			}
			from += uint32(len(records))
		}
		pos = run.start + uint64(from)
	}
	if event < segments.MaxBatchBytes {
		r.buffer = own(r.buffer, limit)
	}
	return nil
}

// own returns the first records, at most limit metered bytes unless it is one, in memory of their own: what was read
// lies in blocks, which may be larger than an event, and one of many readers that wait for their clients should keep
// nothing else alive. What follows is read again; it is cached.
func own(records []segments.Record, limit uint64) []segments.Record {
	n, metered, raw, headers := 0, uint64(0), 0, 0
	for ; n < len(records); n++ {
		r := &records[n]
		if metered += r.MeteredSize(); n > 0 && metered > limit {
			break
		}
		raw += len(r.Body)
		headers += len(r.Headers)
		for _, h := range r.Headers {
			raw += len(h.Name) + len(h.Value)
		}
	}
	slab, list := make([]byte, 0, raw), make([]segments.Header, 0, headers)
	copied := func(b []byte) []byte {
		at := len(slab)
		slab = append(slab, b...)
		return slab[at:len(slab):len(slab)]
	}
	owned := slices.Clone(records[:n])
	for i := range owned {
		r, at := &owned[i], len(list)
		r.Body = copied(r.Body)
		for _, h := range r.Headers {
			list = append(list, segments.Header{Name: copied(h.Name), Value: copied(h.Value)})
		}
		r.Headers = list[at:len(list):len(list)]
	}
	return owned
}

// readAhead is how many of the chunks behind the one being read are fetched meanwhile.
const readAhead = 3

// fetchAhead begins to fetch what the read will want behind a run, with which it has read so many records.
func (r *Reader) fetchAhead(ctx context.Context, run *run, read uint64) {
	var last *segments.Entry
	for i, n := 0, 0; i < len(run.after) && n < readAhead && read < r.count; i++ {
		e := run.after[i].Entry
		if last == nil || e.Object != last.Object || e.Offset != last.Offset {
			r.c.reader.Prefetch(ctx, r.head.Basin, e)
			n++
		}
		last, read = e, read+uint64(e.N)
	}
}

// foldTo sets the effective timestamp before the record from of a run, which takes reading those before it.
func (r *Reader) foldTo(ctx context.Context, run *run, from uint32) error {
	r.fold, r.folded = run.timeBefore, true
	for i := uint32(0); i < from; {
		records, err := r.c.reader.Read(ctx, r.head.Basin, r.ref.Stream, &run.entry, i, segments.MaxBatchBytes)
		if err != nil {
			r.folded = false
			return err
		}
		for k := range records[:min(len(records), int(from-i))] {
			r.fold = max(r.fold, records[k].Timestamp)
		}
		i += uint32(len(records))
	}
	return nil
}

// atTail waits for what comes next: a batch, a heartbeat, or the end. An event without a tail means that there is
// something to read.
func (r *Reader) atTail(ctx context.Context) (ReadEvent, error) {
	if !r.follow || (r.o.Wait != nil && *r.o.Wait == 0) {
		return ReadEvent{}, io.EOF
	}
	if r.sub == nil {
		// Subscribed before the head is loaded again, so that nothing falls in between.
		r.sub = r.c.hubs.subscribe(r.ref)
		return ReadEvent{}, r.refresh(ctx)
	}
	if r.beat.IsZero() {
		if r.deadline.IsZero() {
			r.arm()
		}
		return r.heartbeat()
	}
	for {
		e, ok, behind := r.sub.take()
		switch {
		case behind:
			r.beat = time.Time{} // and one heartbeat more, when the tail is reached again
			return ReadEvent{}, r.refresh(ctx)
		case ok && e.start > r.next:
			return ReadEvent{}, r.refresh(ctx)
		case ok && e.start+uint64(len(e.records)) > r.next:
			r.pushed = e.v
			r.buffer = e.records[r.next-e.start:]
			return r.deliver(e.tail)
		case ok:
			continue
		}
		wake, err := r.wait(ctx)
		if err != nil || wake {
			return r.idle(ctx, err)
		}
	}
}

// wait blocks until there may be an event. wake is true if a heartbeat is due.
func (r *Reader) wait(ctx context.Context) (wake bool, err error) {
	until := r.beat
	if !r.deadline.IsZero() && r.deadline.Before(until) {
		until = r.deadline
	}
	t := time.NewTimer(until.Sub(r.c.o.Now()))
	defer t.Stop()
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	select {
	case <-r.sub.signal:
		return false, nil
	default: // what is there goes before a heartbeat that is due as well
	}
	select {
	case <-r.sub.signal:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	case <-r.c.draining:
		return false, ErrDraining
	case <-t.C:
	}
	if !r.deadline.IsZero() && !r.c.o.Now().Before(r.deadline) {
		return false, io.EOF
	}
	return true, nil
}

// idle sends a heartbeat, from a fresh head: it tells the durable tail, and that the stream is still there.
func (r *Reader) idle(ctx context.Context, err error) (ReadEvent, error) {
	if err != nil {
		return ReadEvent{}, err
	}
	if err := r.refresh(ctx); err != nil || r.next < r.head.Tail {
		return ReadEvent{}, err
	}
	return r.heartbeat()
}

// heartbeat is an event without records. Unary reads have none: they go on waiting.
func (r *Reader) heartbeat() (ReadEvent, error) {
	gap := r.c.o.HeartbeatMax - r.c.o.HeartbeatMin
	r.beat = r.c.o.Now().Add(r.c.o.HeartbeatMin + r.c.o.Hooks.Duration(gap+1))
	if r.o.Unary {
		return ReadEvent{}, nil
	}
	return ReadEvent{Start: r.next, Tail: r.tell(r.head.TailPosition())}, nil
}
