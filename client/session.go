package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/tailrace-streams/tailrace/wire"
)

var (
	errAckOfOthers = errors.New("the acknowledgement is not of what was sent")
	errNoAck       = errors.New("no acknowledgement, or no end, for too long")
)

// SessionOptions configure an append session. The zero SessionOptions are fine.
type SessionOptions struct {
	// InflightBytes and InflightBatches bound what is submitted and not resolved; a Submit beyond waits. Defaults 8 MiB
	// (metered) and 1,024; a single batch is always admitted.
	InflightBytes, InflightBatches int
	// PerBatchConflicts lets the session live on when a batch misses its match_seq_num: that one fails with a
	// [SequenceError] and later ones are not touched. Other servers than Tailrace do not know it; there the first miss ends
	// the session, as it does without.
	PerBatchConflicts bool
}

const (
	inflightBytesDefault   = 8 << 20
	inflightBatchesDefault = 1024
)

func (o SessionOptions) withDefaults() SessionOptions {
	if o.InflightBytes <= 0 {
		o.InflightBytes = inflightBytesDefault
	}
	if o.InflightBatches <= 0 {
		o.InflightBatches = inflightBatchesDefault
	}
	return o
}

// AppendSession appends batches in order, many at once, each atomic and with its own conditions. They are acknowledged in
// the order they were submitted.
//
// The first batch that fails ends the session: it fails with the reason, and every later one with an error that matches
// [ErrSkipped] and has the same reason, not applied. A lost connection is made anew; what is then sent again is what
// certainly was not applied, and with [RetryAll] also what may have been. Each batch says by its error which it is.
//
// It is safe for use by many goroutines at once. Close it, or end its context.
type AppendSession struct {
	s      *Stream
	o      SessionOptions
	ctx    context.Context
	cancel context.CancelFunc
	bytes  *semaphore.Weighted
	count  *semaphore.Weighted
	wake   chan struct{} // of the sender: there may be something to send, or to end
	done   chan struct{} // closed when nothing runs any more and everything is resolved

	mu      sync.Mutex
	queue   []*Pending // not resolved, in order
	sent    int        // of the queue, on the connection there is
	last    uint64     // the end of the last acknowledgement
	acked   bool       // there was one
	closed  bool       // nothing is submitted any more
	failure error      // why; set once
}

// Pending is a batch that was submitted.
type Pending struct {
	batch Batch
	doubt bool // an earlier attempt may have been applied
	tried bool // it was sent, at least in part
	then  func(Ack, error)

	done chan struct{}
	ack  Ack
	err  error
}

// Done is closed when the batch is acknowledged or has failed.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Wait waits for the outcome. If the context ends before, the outcome is unknown, and can be waited for again.
func (p *Pending) Wait(ctx context.Context) (Ack, error) {
	select {
	case <-p.done:
		return p.ack, p.err
	default:
	}
	select {
	case <-p.done:
		return p.ack, p.err
	case <-ctx.Done():
		return Ack{}, &Error{Op: "append", Message: "not acknowledged yet", Indefinite: true, cause: ctx.Err()}
	}
}

func (p *Pending) resolve(ack Ack, err error) {
	p.ack, p.err = ack, err
	if p.then != nil {
		p.then(ack, err)
	}
	close(p.done)
}

// OpenSession opens an append session, presenting the view's fencing token if there is one. It is open when this returns:
// the stream exists and takes the token. Failures that may pass are tried again, as those of calls are. The context is that of the whole session: when it ends, what is not resolved fails.
func (s *Stream) OpenSession(ctx context.Context, o SessionOptions) (*AppendSession, error) {
	a := &AppendSession{
		s: s, o: o.withDefaults(), wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	a.bytes = semaphore.NewWeighted(int64(a.o.InflightBytes))
	a.count = semaphore.NewWeighted(int64(a.o.InflightBatches))
	a.ctx, a.cancel = context.WithCancel(ctx)
	l, err := a.open()
	if err != nil {
		a.cancel()
		return nil, err
	}
	go a.run(l)
	return a, nil
}

// open makes the first connection, with as many attempts as a call has: nothing was sent that could be there twice.
func (a *AppendSession) open() (*link, error) {
	retry := a.s.basin.c.retry
	for n := 1; ; n++ {
		l, err := a.dial()
		if err == nil {
			return l, nil
		}
		if !retryable(err) || n >= retry.Attempts || !pause(a.ctx, retry.delay(n, RetryAfterOf(err))) {
			return nil, given(a.ctx, err)
		}
	}
}

// Submit hands a batch over, and waits while too much is in flight. The batch and what it points to belong to the session
// until it is resolved. An error means that it was not handed over, and is definite.
func (a *AppendSession) Submit(ctx context.Context, b Batch) (*Pending, error) {
	size := min(meteredBatch(b.Records), a.o.InflightBytes)
	if err := a.bytes.Acquire(ctx, int64(size)); err != nil {
		return nil, refusedBy(err)
	}
	if err := a.count.Acquire(ctx, 1); err != nil {
		a.bytes.Release(int64(size))
		return nil, refusedBy(err)
	}
	p, err := a.enqueue(b, func(Ack, error) {
		a.bytes.Release(int64(size))
		a.count.Release(1)
	})
	if err != nil {
		a.bytes.Release(int64(size))
		a.count.Release(1)
	}
	return p, err
}

func refusedBy(cause error) error {
	return &Error{Op: "append", Message: "not handed over", cause: cause}
}

// enqueue is Submit without its bounds. then is called with the outcome, in order, and must not call the session.
func (a *AppendSession) enqueue(b Batch, then func(Ack, error)) (*Pending, error) {
	const op = "append"
	if err := a.s.prepare(op, &b); err != nil {
		return nil, err
	}
	if a.s.token != nil && *b.FencingToken != *a.s.token {
		return nil, refused(op, "the batch presents another fencing token than its session")
	}
	if n := framedBatch(b.Records); n > framedMax {
		return nil, refused(op, "the batch takes %d bytes on the wire; a frame has at most %d", n, framedMax)
	}
	p := &Pending{batch: b, then: then, done: make(chan struct{})}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failure != nil {
		return nil, p.skipped(a.failure)
	}
	if a.closed {
		return nil, refusedBy(ErrClosed)
	}
	a.queue = append(a.queue, p)
	a.nudge()
	return p, nil
}

func (a *AppendSession) nudge() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Close takes no more batches, waits until all are resolved, and gives the failure that ended the session, if one did. If
// ctx ends before, what is not resolved fails. Closing again waits again.
func (a *AppendSession) Close(ctx context.Context) error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.nudge()
	select {
	case <-a.done:
	case <-ctx.Done():
		a.cancel()
		<-a.done
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failure
}

// Done is closed when the session is over: closed, or failed.
func (a *AppendSession) Done() <-chan struct{} { return a.done }

// run serves connections until the session is over. It is the only goroutine that resolves what was submitted.
func (a *AppendSession) run(l *link) {
	defer close(a.done)
	defer a.cancel()
	var err error
	for failures := 0; ; {
		if l == nil && !a.awaitWork() {
			a.end(a.cutShort())
			return
		}
		progress := false
		if l == nil {
			l, err = a.dial()
		} else {
			progress, err = a.serve(l)
			l = nil
		}
		if progress {
			failures = 0
		}
		if err == nil {
			continue
		}
		if retryable(err) && a.finished() {
			a.end(nil)
			return
		}
		failures++
		retry := a.s.basin.c.retry
		if !a.mayGoOn(err) || failures >= retry.Attempts || !pause(a.ctx, retry.delay(failures, RetryAfterOf(err))) {
			a.end(given(a.ctx, err))
			return
		}
	}
}

// finished reports whether all that will ever be submitted is resolved.
func (a *AppendSession) finished() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed && len(a.queue) == 0
}

// cutShort is why the session ended with nothing to do: its context, or nothing at all.
func (a *AppendSession) cutShort() error {
	if a.finished() {
		return nil
	}
	return refusedBy(a.ctx.Err())
}

// awaitWork waits, without a connection, until there is something to send. False means that there never will be.
func (a *AppendSession) awaitWork() bool {
	for {
		a.mu.Lock()
		work, closed := len(a.queue) > 0, a.closed
		a.mu.Unlock()
		if work || closed {
			return work
		}
		select {
		case <-a.wake:
		case <-a.ctx.Done():
			return false
		}
	}
}

// mayGoOn reports whether a new connection may follow a failure: it may pass, and what would be sent again may be.
func (a *AppendSession) mayGoOn(err error) bool {
	if !retryable(err) {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.queue {
		if p.doubt && a.s.retry != RetryAll || p.tried && a.s.retry == RetryNone {
			return false
		}
	}
	return true
}

// end resolves everything that is left. The first that was sent gets the failure itself, the rest that nothing became of
// them because of it; each with the doubt of its own attempts. A nil failure is a clean end.
func (a *AppendSession) end(failure error) {
	a.mu.Lock()
	a.closed = true
	a.failure = failure
	left := a.queue
	a.queue, a.sent = nil, 0
	a.mu.Unlock()
	for i, p := range left {
		if i == 0 && p.tried {
			p.resolve(Ack{}, p.failed(failure))
			continue
		}
		p.resolve(Ack{}, p.skipped(failure))
	}
}

// failed is the failure of the batch that it is about, which has said its own effect; doubt of earlier attempts adds to it.
func (p *Pending) failed(failure error) error {
	if p.doubt {
		return doubted(failure)
	}
	return failure
}

// skipped is the error of a batch that an earlier one's failure took along.
func (p *Pending) skipped(failure error) error {
	return &Error{Op: "append", Message: "not applied", Indefinite: p.doubt, cause: fmt.Errorf("%w: %w", ErrSkipped, failure)}
}

// next gives the sender the next batch to send. nil means that none follows on this connection.
func (a *AppendSession) next(l *link) *Pending {
	for {
		a.mu.Lock()
		if a.sent < len(a.queue) && !l.advised {
			p := a.queue[a.sent]
			a.sent++
			p.tried = true
			if a.sent == 1 {
				l.expectAnswer()
			}
			a.mu.Unlock()
			return p
		}
		over := a.closed || l.advised
		if over {
			l.ending = true
			if a.sent == 0 {
				l.expectAnswer()
			}
		}
		a.mu.Unlock()
		if over {
			return nil
		}
		select {
		case <-a.wake:
		case <-l.ctx.Done():
			return nil
		}
	}
}

// take removes the first batch of the queue, which an answer is about.
func (a *AppendSession) take(l *link) (*Pending, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sent == 0 {
		return nil, errAckOfOthers
	}
	p := a.queue[0]
	a.queue[0] = nil
	a.queue = a.queue[1:]
	a.sent--
	l.silence.Stop()
	if a.sent > 0 || l.ending {
		l.expectAnswer()
	}
	return p, nil
}

// answered handles a frame that is not the last.
func (a *AppendSession) answered(l *link, f wire.Frame) error {
	if f.Conflict && a.o.PerBatchConflicts { // elsewhere the bit is S2's, and reserved
		p, err := a.take(l)
		if err == nil {
			p.resolve(Ack{}, p.failed(fromWire("append", f.Err(), true)))
		}
		return err
	}
	ack, err := wire.DecodeAckProto(f.Payload)
	if err != nil {
		return err
	}
	a.mu.Lock()
	wrong := a.sent == 0 || ack.End.SeqNum-ack.Start.SeqNum != uint64(len(a.queue[0].batch.Records)) || a.acked && ack.Start.SeqNum < a.last
	if !wrong {
		a.last, a.acked = ack.End.SeqNum, true
	}
	l.advised = l.advised || f.Reconnect
	a.mu.Unlock()
	if wrong {
		return errAckOfOthers
	}
	p, err := a.take(l)
	if err == nil {
		p.resolve(Ack{Start: ack.Start, End: ack.End, Tail: ack.Tail, Revision: a.revision(l, ack.Version)}, nil)
	}
	if f.Reconnect {
		a.nudge() // the sender ends its half
	}
	return err
}

// revision is that of a batch, of which an acknowledgement has the version and the opening of the session the rest.
func (a *AppendSession) revision(l *link, version uint64) Revision {
	if version == 0 || l.opened == nil {
		return ""
	}
	made := *l.opened
	made.Version = version
	a.s.see.saw(a.s.name, Revision(made.String()))
	return Revision(made.String())
}

// lost takes note of the end of a connection: nothing is sent on it any more, and what was and is not answered is in doubt
// as far as the failure says.
func (a *AppendSession) lost(err error) (outstanding, idle bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var told *toldError
	byServer := errors.As(err, &told)
	for i, p := range a.queue[:a.sent] {
		// Behind a batch that a session refuses nothing is applied, so only that one can be in doubt.
		if !byServer || i == 0 && Indefinite(told.err) {
			p.doubt = true
		}
	}
	outstanding, idle = a.sent > 0, len(a.queue) == 0
	a.sent = 0
	return outstanding, idle
}

// toldError is a failure that the server told in the last frame of a session.
type toldError struct{ err error }

func (e *toldError) Error() string { return e.err.Error() }
func (e *toldError) Unwrap() error { return e.err }

// serve sends and receives on a connection until it is over. nil means that it ended well.
// Without progress, an end that the client did not ask for is a failure: a server that ends each session as soon as it is
// open is not to be asked again and again without a pause.
func (a *AppendSession) serve(l *link) (progress bool, err error) {
	var sender sync.WaitGroup
	sender.Go(func() { a.send(l) })
	progress, err = a.receive(l)
	l.close()
	sender.Wait()
	outstanding, idle := a.lost(err)
	progress = progress || idle // a connection that nobody needed may be lost as often as it likes
	var told *toldError
	switch {
	case errors.As(err, &told):
		return progress, told.err
	case err == io.EOF && !outstanding && (progress || l.ending):
		return progress, nil
	case err == io.EOF:
		err = errEnded
	case errors.Is(err, errAckOfOthers):
		return progress, &Error{Op: "append", Message: "the session is not as it should be", Indefinite: true, cause: err}
	}
	return progress, unanswered("append", err, outstanding)
}

func (a *AppendSession) send(l *link) {
	for {
		p := a.next(l)
		if p == nil {
			_ = l.body.Close() // of a pipe, it cannot fail
			return
		}
		if err := l.out.Input(p.batch); err != nil {
			l.fail(err)
			return
		}
	}
}

// receive reads answers. Its error is never nil: io.EOF is a clean end, a *toldError the server's.
func (a *AppendSession) receive(l *link) (progress bool, err error) {
	for {
		f, err := l.in.Next()
		switch {
		case err == io.EOF:
			return progress, err
		case err != nil:
			if cause := context.Cause(l.ctx); cause != nil {
				err = cause
			}
			return progress, err
		case f.Terminal:
			return progress, &toldError{fromWire("append", f.Err(), true)}
		}
		if err := a.answered(l, f); err != nil {
			return progress, err
		}
		progress = true
	}
}
