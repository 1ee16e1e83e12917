package s3objects

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// bytesPerSecond is the slowest transfer that an attempt waits for, beyond its timeout.
	bytesPerSecond = 4 << 20
	// walkFactor stretches the timeouts of requests for which the store goes through up to a thousand keys.
	walkFactor = 3

	shortPause = 25 * time.Millisecond
	longPause  = 100 * time.Millisecond
	maxPause   = 2 * time.Second
)

// errTooLong is the cause of a context of ours that ended.
var errTooLong = errors.New("object store call took too long")

// Call says what one call of a store is.
type Call struct {
	// Op is the verb and object, for errors: "put object".
	Op string
	// Bytes is what it carries, in the direction that carries more; 0 if that is little or not known.
	Bytes int64
	// Walk: the store goes through up to a thousand keys for it.
	Walk bool
	// Once: it is sent once, whatever becomes of it. So for every conditional request: its repeat would be judged against
	// what the first one did.
	Once bool
}

// Do makes a call: it runs try, which sends one request with the context it gets, until it succeeds or it is no use, and no
// longer than the timeouts and the caller's context allow. Errors are of type *Error, which match that of a context that
// ended. A connection on which something went wrong is not used again. try must end when its context does.
func (c *Client) Do(ctx context.Context, call Call, try func(ctx context.Context) error) error {
	ctx, total := startDeadline(ctx, c.callTimeout(call))
	defer total.stop()
	stale, sent := false, false
	var before error // what the attempt before failed of
	for attempts := 1; ; attempts++ {
		failed, wait, err := c.attempt(ctx, call, total, try)
		if err == nil {
			return nil
		}
		sent = sent || failed.Sent
		failed.Attempts, failed.Sent, failed.RetryAfter = attempts, sent, wait
		if err := callerGone(ctx); err != nil {
			return &Error{Op: call.Op, Attempts: attempts, Sent: sent, cause: err, before: before}
		}
		before = &failed.Error
		if failed.stale {
			c.keys.forget()
			if stale {
				failed.Temporary = false // the new ones are no better
			}
			stale = true
		}
		if call.Once || !failed.Temporary || attempts >= c.options.MaxAttempts {
			return &failed.Error
		}
		c.log.Debug().Str("op", call.Op).Int("attempt", attempts).Int("status", failed.Status).Str("code", failed.Code).
			Dur("pause", wait).Msg("object store call is repeated")
		wait = max(wait, backoff(failed.again, attempts))
		if wait >= total.left() || !sleep(ctx, wait) {
			if err := callerGone(ctx); err != nil {
				return &Error{Op: call.Op, Attempts: attempts, Sent: sent, cause: err, before: before}
			}
			return &failed.Error
		}
		c.meter.repeated.Add(1)
	}
}

// attempt makes one try. Beside the failure it returns the pause that the store asked for.
func (c *Client) attempt(
	ctx context.Context, call Call, total *deadline, try func(ctx context.Context) error,
) (failure, time.Duration, error) {
	ctx, limit := startDeadline(ctx, c.attemptTimeout(call))
	defer limit.stop()
	a := &attempt{client: c, limit: limit, total: total}
	err := c.keys.ready(ctx)
	if err == nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { a.sent.Store(true) }})
		err = try(context.WithValue(ctx, attemptKey{}, a))
	}
	if err == nil {
		return failure{}, 0, nil
	}
	failed := read(call.Op, err)
	failed.Sent = a.sent.Load()
	if failed.cause != nil {
		// What broke this connection may have broken the idle ones beside it: after a thaw all of them are dead (BL-126).
		c.transport.CloseIdleConnections()
	}
	return failed, time.Duration(a.retryAfter.Load()), err
}

// attempt is what a request can reach of the attempt it is part of.
type attempt struct {
	client       *Client
	limit, total *deadline
	retryAfter   atomic.Int64 // nanoseconds
	sent         atomic.Bool  // there was a connection to send it on
	// body is what the request carries, if it may be sent anew on another connection where nothing of it has left; for attempts
	// of one request each.
	body []byte
	// tag is the ETag of the answer to a PUT, of which there is at most one.
	tag string
}

// expect gives the attempt time for a transfer whose size was not known when it began.
func (a *attempt) expect(bytes int64) {
	more := a.client.attemptTimeout(Call{Bytes: bytes})
	a.limit.atLeast(more)
	a.total.atLeast(more)
}

func (c *Client) attemptTimeout(call Call) time.Duration {
	t := c.options.AttemptTimeout + time.Duration(float64(call.Bytes)/bytesPerSecond*float64(time.Second))
	if call.Walk {
		t *= walkFactor
	}
	return t
}

func (c *Client) callTimeout(call Call) time.Duration {
	t := c.options.CallTimeout
	if call.Walk {
		t *= walkFactor
	}
	return max(t, c.attemptTimeout(call))
}

// callerGone returns the error of the caller's context if that is what ended ctx.
func callerGone(ctx context.Context) error {
	if err := ctx.Err(); err != nil && !errors.Is(context.Cause(ctx), errTooLong) {
		return err
	}
	return nil
}

// backoff is a random pause, so that those who failed together do not come back together.
func backoff(p pause, attempts int) time.Duration {
	base := shortPause
	switch p {
	case pauseNone:
		return 0
	case pauseLong:
		base = longPause
	}
	limit := min(maxPause, base<<min(attempts-1, 10))
	return limit/2 + rand.N(limit/2)
}

// sleep reports whether the time passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// deadline ends a context at a time that can be put off.
type deadline struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer

	mu    sync.Mutex
	until time.Time
}

func startDeadline(ctx context.Context, d time.Duration) (context.Context, *deadline) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &deadline{
		cancel: cancel,
		timer:  time.AfterFunc(d, func() { cancel(errTooLong) }),
		until:  time.Now().Add(d),
	}
}

func (d *deadline) stop() {
	d.timer.Stop()
	d.cancel(context.Canceled)
}

func (d *deadline) left() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Until(d.until)
}

// atLeast leaves at least so much time from now, unless it is over already.
func (d *deadline) atLeast(more time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Until(d.until) < more && d.timer.Stop() {
		d.until = time.Now().Add(more)
		d.timer.Reset(more)
	}
}
