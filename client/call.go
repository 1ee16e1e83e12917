package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/tailrace-streams/tailrace/wire"
)

// answerSizeMax bounds what is read of an answer: 1,000 records of 1 MiB metered in all, in an encoding that can take a
// multiple of that for records of many small headers, or a page of 1,000 names.
const answerSizeMax = 16 << 20

// effect is what sending a request again would do.
type effect uint8

const (
	pure       effect = iota // it changes nothing
	idempotent               // twice is as once
	appending                // it appends twice, unless a condition stops it: the caller's policy says
	once                     // it must not be sent twice
)

// request is a call that is not a session.
type request struct {
	op           string
	method, url  string
	header       http.Header
	body         []byte
	effect       effect
	appends      AppendRetry   // for effect appending
	wait         time.Duration // what the server is asked to wait; it comes on top of the time-out of an attempt
	beforeResend func(*request)
}

// answer is a response of a status below 300, read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// call sends a request until there is an answer, a failure that is not to be tried again, or no attempt or time left.
func (c *Client) call(ctx context.Context, r request) (answer, error) {
	if r.header == nil {
		r.header = http.Header{}
	}
	doubt := false
	for n := 1; ; n++ {
		a, err := c.attempt(ctx, &r)
		if err == nil {
			return a, nil
		}
		indefinite := Indefinite(err)
		if doubt {
			err = doubted(err)
		}
		if n >= c.retry.Attempts || !r.mayRepeat(err, indefinite) || !pause(ctx, c.retry.delay(n, RetryAfterOf(err))) {
			return answer{}, given(ctx, err)
		}
		doubt = doubt || indefinite
		if r.beforeResend != nil {
			r.beforeResend(&r)
		}
	}
}

// mayRepeat reports whether the request may be sent again after err. indefinite is that of the last attempt.
func (r *request) mayRepeat(err error, indefinite bool) bool {
	if !retryable(err) {
		return false
	}
	switch r.effect {
	case once:
		return false
	case appending:
		return r.appends == RetryAll || r.appends == RetryNoSideEffects && !indefinite
	}
	return true
}

// attempt sends a request once. Its error is one of this package's.
func (c *Client) attempt(parent context.Context, r *request) (answer, error) {
	ctx, cancel := context.WithTimeout(parent, c.o.AttemptTimeout+r.wait)
	defer cancel()
	changes := r.effect != pure
	// A request can have reached the server only over a connection.
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { sent.Store(true) },
		WroteHeaders: func() { sent.Store(true) },
	})
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	h, err := http.NewRequestWithContext(ctx, r.method, r.url, body)
	if err != nil {
		return answer{}, refused(r.op, "%v", err)
	}
	if r.effect == once {
		h.GetBody = nil // without it a transport cannot send the body again, for whatever reason it might have
	}
	h.Header = r.header.Clone() // an attempt that was given up may still be reading its own
	c.identify(h.Header)
	response, err := c.unary.RoundTrip(h)
	if err == nil {
		defer response.Body.Close()
		a := answer{status: response.StatusCode, header: response.Header}
		a.body, err = readAnswer(response.Body)
		if err == nil {
			return a, a.failure(r.op, changes)
		}
		if a.status >= 400 { // the status alone says enough
			return a, a.failure(r.op, changes)
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause // what the transport makes of it is not always the reason
	}
	if !sent.Load() {
		return answer{}, unsent(r.op, err)
	}
	return answer{}, unanswered(r.op, err, changes)
}

// identify sets what every request has.
func (c *Client) identify(h http.Header) {
	h.Set("User-Agent", c.o.UserAgent)
	if c.token != nil {
		h.Set("Authorization", "Bearer "+unseal(c.token))
	}
}

func readAnswer(r io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, answerSizeMax+1))
	if err == nil && len(body) > answerSizeMax {
		err = fmt.Errorf("the answer has more than %d bytes", answerSizeMax)
	}
	return body, err
}

// failure is the error that an answer tells, or nil. A redirection is none of S2's answers.
func (a answer) failure(op string, changes bool) error {
	if a.status < 300 {
		return nil
	}
	return fromWire(op, wire.DecodeError(a.status, a.body, a.header), changes)
}

// decode reads the JSON of an answer. If it cannot, what was asked for may well have been done.
func (a answer) decode(op string, e effect, into any) error {
	if err := json.Unmarshal(a.body, into); err != nil {
		return undecodable(op, a.status, e, err)
	}
	return nil
}

func undecodable(op string, status int, e effect, cause error) *Error {
	return &Error{Op: op, Status: status, Message: "the answer cannot be decoded", Indefinite: e != pure, cause: cause}
}

// encodeJSON is for values of this package's own making.
func encodeJSON(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // no type that is given here can fail
	}
	return body
}
