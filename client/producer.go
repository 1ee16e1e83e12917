package client

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/tailrace-streams/tailrace/wire"
)

// ProducerOptions configure a [Producer]. The zero ProducerOptions are fine.
type ProducerOptions struct {
	// Linger is how long a record waits for others to share its batch. Default 5 ms.
	Linger time.Duration
	// BatchRecords and BatchBytes (metered) are when a batch is full. Defaults and maxima [MaxBatchRecords] and
	// [MaxBatchBytes].
	BatchRecords, BatchBytes int
	// InflightBytes bounds the records that are submitted and not resolved, metered and with 64 bytes each for keeping
	// them; a Submit beyond waits. Default 8 MiB; less than the largest record means that.
	InflightBytes int
	// Match is the sequence number that the first record must get, nil for none. Every batch is then conditional on those
	// before it: nothing that another writer appends comes in between, and nothing is there twice.
	Match *uint64
}

const (
	lingerDefault  = 5 * time.Millisecond
	recordOverhead = 64
)

func (o ProducerOptions) withDefaults() ProducerOptions {
	if o.Linger <= 0 {
		o.Linger = lingerDefault
	}
	if o.BatchRecords <= 0 || o.BatchRecords > MaxBatchRecords {
		o.BatchRecords = MaxBatchRecords
	}
	if o.BatchBytes <= 0 || o.BatchBytes > MaxBatchBytes {
		o.BatchBytes = MaxBatchBytes
	}
	if o.InflightBytes <= 0 {
		o.InflightBytes = inflightBytesDefault
	}
	o.InflightBytes = max(o.InflightBytes, MaxBatchBytes+recordOverhead)
	return o
}

// Producer appends records, gathered into batches, many of which are under way at once in an [AppendSession]. Order is
// that of Submit. The first failure ends it, as it does the session: later records fail too, so that there is never a later
// one in the stream without an earlier one. To go on, make another; with Match, at [Producer.Expected].
//
// It is safe for use by many goroutines at once. Close it, or end its context.
type Producer struct {
	o       ProducerOptions
	session *AppendSession
	room    *semaphore.Weighted

	mu       sync.Mutex
	open     *group // what is gathered; nil if nothing is
	last     *group // the one cut last
	linger   *time.Timer
	waiting  int    // submits that wait for room, and so for what is gathered
	next     uint64 // with Match: what the next batch must get, if all before it do
	expected uint64 // with Match: what follows the last acknowledgement
	closed   bool
}

// group is the records of one batch, and its outcome.
type group struct {
	records []AppendRecord
	size    int // metered
	framed  int // as the records are on the wire
	weight  int64
	done    chan struct{}
	ack     Ack
	err     error
}

// Receipt is a record that was submitted.
type Receipt struct {
	g     *group
	index uint64
}

// Done is closed when the record is acknowledged or has failed.
func (r Receipt) Done() <-chan struct{} { return r.g.done }

// Wait waits for the record's sequence number. Its error is as that of [Pending.Wait].
func (r Receipt) Wait(ctx context.Context) (seqNum uint64, err error) {
	select {
	case <-r.g.done:
	default:
		select {
		case <-r.g.done:
		case <-ctx.Done():
			return 0, &Error{Op: "append", Message: "not acknowledged yet", Indefinite: true, cause: ctx.Err()}
		}
	}
	return r.g.ack.Start.SeqNum + r.index, r.g.err
}

// Produce opens a producer. The context is that of its whole life, as of [Stream.OpenSession].
func (s *Stream) Produce(ctx context.Context, o ProducerOptions) (*Producer, error) {
	session, err := s.OpenSession(ctx, SessionOptions{})
	if err != nil {
		return nil, err
	}
	p := &Producer{o: o.withDefaults(), session: session}
	p.room = semaphore.NewWeighted(int64(p.o.InflightBytes))
	if o.Match != nil {
		p.next, p.expected = *o.Match, *o.Match
	}
	go p.resolveAtEnd()
	return p, nil
}

// resolveAtEnd fails what is still being gathered when the session is over, instead of when its linger is.
func (p *Producer) resolveAtEnd() {
	<-p.session.done
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
}

// Submit hands a record over, which belongs to the producer until it is resolved, and waits while too much is in flight. An
// error means that it was not handed over, and is definite.
func (p *Producer) Submit(ctx context.Context, r AppendRecord) (Receipt, error) {
	size := MeteredSize(&r)
	if size > MaxBatchBytes {
		return Receipt{}, refused("append", "a record of %d metered bytes; it has at most %d", size, MaxBatchBytes)
	}
	framed := wire.SizeAppendRecordProto(&r)
	if framed > framedMax {
		return Receipt{}, refused("append", "a record that takes %d bytes on the wire; it has at most %d", framed, framedMax)
	}
	weight := int64(size + recordOverhead)
	if err := p.await(ctx, weight); err != nil {
		return Receipt{}, refusedBy(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.refusal(); err != nil {
		p.room.Release(weight)
		return Receipt{}, err
	}
	if p.open != nil && (p.open.size+size > p.o.BatchBytes || p.open.framed+framed > framedMax) {
		p.cut()
	}
	if p.open == nil {
		g := &group{done: make(chan struct{})}
		p.open = g
		p.linger = time.AfterFunc(p.o.Linger, func() { p.lingered(g) })
	}
	g := p.open
	g.records, g.size, g.framed, g.weight = append(g.records, r), g.size+size, g.framed+framed, g.weight+weight
	receipt := Receipt{g: g, index: uint64(len(g.records) - 1)}
	if len(g.records) >= p.o.BatchRecords || g.size >= p.o.BatchBytes || p.waiting > 0 {
		p.cut()
	}
	return receipt, nil
}

// await waits for room. What is being gathered is sent first, for it may be what takes the room.
func (p *Producer) await(ctx context.Context, weight int64) error {
	if p.room.TryAcquire(weight) {
		return nil
	}
	p.mu.Lock()
	p.waiting++
	p.cut()
	p.mu.Unlock()
	err := p.room.Acquire(ctx, weight)
	p.mu.Lock()
	p.waiting--
	p.mu.Unlock()
	return err
}

// refusal is why no record is taken any more.
func (p *Producer) refusal() error {
	if p.closed {
		return refusedBy(ErrClosed)
	}
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	if failure := p.session.failure; failure != nil {
		return new(Pending).skipped(failure)
	}
	return nil
}

func (p *Producer) lingered(g *group) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == g {
		p.cut()
	}
}

// cut hands what is gathered to the session. The lock is held, so batches come in the order of their records.
func (p *Producer) cut() {
	g := p.open
	if g == nil {
		return
	}
	p.open, p.last = nil, g
	p.linger.Stop()
	b := Batch{Records: g.records}
	if p.o.Match != nil {
		match := p.next
		b.MatchSeqNum = &match
		p.next += uint64(len(g.records))
	}
	g.records = nil // the session's now
	if _, err := p.session.enqueue(b, func(ack Ack, err error) { p.resolve(g, ack, err) }); err != nil {
		p.settle(g, Ack{}, err)
	}
}

// resolve is called by the session, in order.
func (p *Producer) resolve(g *group, ack Ack, err error) {
	if err == nil && p.o.Match != nil {
		p.mu.Lock()
		p.expected = ack.End.SeqNum
		p.mu.Unlock()
	}
	p.settle(g, ack, err)
}

func (p *Producer) settle(g *group, ack Ack, err error) {
	g.ack, g.err = ack, err
	p.room.Release(g.weight)
	close(g.done)
}

// Expected is, with Match, the number after the last record acknowledged: it moves by acknowledgements alone.
func (p *Producer) Expected() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.expected
}

// Flush sends what is gathered and waits until everything submitted before is resolved. It gives the failure, if any.
func (p *Producer) Flush(ctx context.Context) error {
	p.mu.Lock()
	p.cut()
	last := p.last
	p.mu.Unlock()
	if last == nil {
		return nil
	}
	_, err := Receipt{g: last}.Wait(ctx) // batches are resolved in order
	return err
}

// Close takes no more records, sends what is gathered, waits until all is resolved, and gives the failure that ended the
// producer, if one did. If ctx ends before, what is not resolved fails.
func (p *Producer) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.cut()
	p.mu.Unlock()
	return p.session.Close(ctx)
}
