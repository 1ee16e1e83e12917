package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/tailrace-streams/tailrace/wire"
)

// waitForever is the wait of a bounded read that follows without an end: 68 years, in seconds.
const waitForever = 1<<31 - 1

var (
	errSilence  = errors.New("no frame for too long")
	errAdvised  = errors.New("the server advised to connect again")
	errEnded    = errors.New("the server ended the session")
	errStopped  = errors.New("the reader wants no more")
	errBackward = errors.New("the server sent a record again or out of order")
)

// reader is a read that outlives its connections. It belongs to the goroutine that ranges over it.
type reader struct {
	s      *Stream
	o      ReadOptions // what is left of it
	follow bool
	// next is the number to go on at, once it is known: by a record, or by the tail that a read by time or from the tail
	// reached before any.
	next  uint64
	known bool
	// clamped says that the start may have been moved to the tail, which the first frame tells.
	clamped bool
	// counted and sized say that there are limits, of which o has what is left.
	counted, sized bool
	// active is when the last record came, or the tail was reached first; the wait counts from it. Zero before.
	active time.Time
}

func (s *Stream) session(ctx context.Context, o ReadOptions, follow bool) iter.Seq2[ReadBatch, error] {
	return func(yield func(ReadBatch, error) bool) {
		r := &reader{s: s, o: o, follow: follow, clamped: o.Clamp, counted: o.Count > 0, sized: o.Bytes > 0}
		if o.Start.kind == startSeqNum {
			r.next, r.known = o.Start.value, true
		}
		if err := r.run(ctx, yield); err != nil && !errors.Is(err, errStopped) {
			yield(ReadBatch{}, err)
		}
	}
}

// run opens sessions until the read is over. Attempts in a row without a frame count as one call's attempts do. A wait that
// is over ends a read only while there is a connection: without one nobody knows what has come.
func (r *reader) run(ctx context.Context, yield func(ReadBatch, error) bool) error {
	for failures := 0; ; {
		if r.full() {
			return nil
		}
		progress, err := r.once(ctx, yield)
		if err == nil || errors.Is(err, errStopped) {
			return err
		}
		if progress {
			failures = 0
		}
		failures++
		retry := r.s.basin.c.retry
		switch {
		case !retryable(err), retry.Attempts == 1, failures >= retry.Attempts && !r.follow:
			return given(ctx, err)
		case !pause(ctx, retry.delay(failures, RetryAfterOf(err))):
			return given(ctx, err)
		}
	}
}

// full reports whether a limit is used up.
func (r *reader) full() bool { return r.counted && r.o.Count == 0 || r.sized && r.o.Bytes == 0 }

// done reports whether nothing is left to read, or to wait for.
func (r *reader) done() bool {
	if r.full() {
		return true
	}
	return r.follow && r.o.Wait > 0 && !r.active.IsZero() && time.Since(r.active) >= r.o.Wait
}

// once opens a session and reads it to its end. nil means that the read is over; progress, that a frame came.
func (r *reader) once(parent context.Context, yield func(ReadBatch, error) bool) (progress bool, err error) {
	const op = "read"
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	body, err := r.open(ctx, cancel)
	if err != nil {
		return false, r.atTail(err)
	}
	defer body.Close()
	silence := time.AfterFunc(r.s.basin.c.o.SilenceTimeout, func() { cancel(errSilence) })
	defer silence.Stop()
	frames := wire.NewAnswerReader(body)
	more := false // there is more than what came, as far as the last records told
	for {
		silence.Reset(r.s.basin.c.o.SilenceTimeout)
		f, err := frames.Next()
		silence.Stop() // the caller may take its time
		if err != nil {
			return progress, r.ended(ctx, err, more)
		}
		if f.Terminal {
			return progress, r.atTail(fromWire(op, f.Err(), false))
		}
		got, err := wire.DecodeReadBatchProto(f.Payload)
		if err == nil {
			err = r.take(&got)
		}
		if err != nil {
			return progress, &Error{Op: op, Message: "the session is not as it should be", retryable: true, cause: err}
		}
		progress = true
		more = len(got.Records) > 0 && got.Tail != nil && got.Tail.SeqNum > r.next
		b := r.o.batch(got)
		if len(got.Records) == 0 {
			b.Next = r.position()
		}
		if !yield(b, nil) {
			return progress, errStopped
		}
		switch {
		case r.done():
			return progress, nil
		case f.Reconnect:
			return progress, unanswered(op, errAdvised, false)
		}
	}
}

// open opens a session; its body is there when the error is nil. The time to do so is bounded, that of reading is not.
func (r *reader) open(ctx context.Context, cancel context.CancelCauseFunc) (io.ReadCloser, error) {
	const op = "read"
	c := r.s.basin.c
	base, h := r.s.records()
	h.Set("Content-Type", wire.MediaS2S)
	h.Set("Accept", wire.MediaProto)
	c.askCompressed(h)
	at := r.s.see.demand(h, r.s.name)
	limit := time.AfterFunc(c.o.AttemptTimeout+r.s.see.wait(h), func() { cancel(context.DeadlineExceeded) })
	defer limit.Stop()
	response, err := c.openSession(ctx, op, http.MethodGet, base+"?"+r.query(), h, nil)
	if err != nil {
		r.s.see.failed(err, r.s.name)
		return nil, err
	}
	r.s.see.answered(response.Header, r.s.name, at)
	return response.Body, nil
}

// position is where the next session starts.
func (r *reader) position() Start {
	if r.known {
		return FromSeqNum(r.next)
	}
	return r.o.Start
}

func (r *reader) query() string {
	o := r.o
	o.Start = r.position()
	// Behind what was read a tail is another stream's: that is an error to tell, and no place to go on at.
	o.Clamp = r.clamped
	q := o.query()
	switch {
	case !r.follow:
		q.Set("wait", "0")
	case o.Wait > 0:
		left := o.Wait
		if !r.active.IsZero() {
			left = max(o.Wait-time.Since(r.active), time.Millisecond)
		}
		q.Set("wait", seconds(left))
	case o.bounded():
		q.Set("wait", strconv.Itoa(waitForever))
	}
	return q.Encode()
}

// take moves the position behind what came, and takes it off the limits.
func (r *reader) take(got *wire.ReadBatch) error {
	r.unclamp(got)
	if len(got.Records) == 0 {
		if got.Tail == nil {
			return nil
		}
		if !r.known {
			// Nothing between the start and this tail is left to come, so a new session must not look for the start again.
			r.next, r.known = got.Tail.SeqNum, true
		}
		if r.active.IsZero() {
			r.active = time.Now()
		}
		return nil
	}
	for i := range got.Records {
		n := got.Records[i].SeqNum
		if r.known && n < r.next {
			return fmt.Errorf("%w: %d where %d was next", errBackward, n, r.next)
		}
		r.next, r.known = n+1, true
		if r.sized {
			r.o.Bytes = less(r.o.Bytes, uint64(metered(got.Records[i].Headers, got.Records[i].Body)))
		}
	}
	if r.counted {
		r.o.Count = less(r.o.Count, uint64(len(got.Records)))
	}
	r.active = time.Now()
	return nil
}

// unclamp finds out by the first frame where a start was moved to that was beyond the tail.
func (r *reader) unclamp(got *wire.ReadBatch) {
	if !r.clamped {
		return
	}
	switch {
	case len(got.Records) > 0:
		r.next = min(r.next, got.Records[0].SeqNum)
	case got.Tail != nil:
		r.next = min(r.next, got.Tail.SeqNum)
	default:
		return
	}
	r.clamped = false
}

// less is what n leaves of a limit.
func less(limit, n uint64) uint64 { return limit - min(n, limit) }

// ended is the meaning of a session's end: nil if that is the end of the read. more says that the server told of more than
// it sent. What ends a session too early need not be the server, and does not always break it off.
func (r *reader) ended(ctx context.Context, err error, more bool) error {
	const op = "read"
	if err == io.EOF {
		cut := r.sized || r.o.Until > 0 // behind what came may be a record that a limit keeps out
		if cut || !r.follow && !more || r.follow && r.o.Wait > 0 {
			return nil
		}
		return unanswered(op, errEnded, false) // a count that is not reached is none either
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return unanswered(op, err, false)
}

// atTail makes an empty read of a refusal to read at the very tail, which is none of the caller's mistakes.
func (r *reader) atTail(err error) error {
	var beyond *RangeError
	if !r.follow && errors.As(err, &beyond) {
		if r.known && (beyond.Tail.SeqNum == r.next || r.clamped) || !r.known && (r.clamped || r.o.Start.kind == startTailOffset) {
			return nil
		}
	}
	return err
}
