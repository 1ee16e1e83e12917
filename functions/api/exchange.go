package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/tailrace-streams/tailrace/functions/audit"
	"github.com/tailrace-streams/tailrace/tenancy"
	"github.com/tailrace-streams/tailrace/wire"
)

// exchange is one request being answered: the response writer, what the log and the metrics say of it, and the
// deadlines of its connection. It belongs to the goroutine that serves the request.
type exchange struct {
	http.ResponseWriter
	control *http.ResponseController
	bounded Bounded // the writer, if it is one; else nil

	id      string
	route   string    // a method and a pattern of the table of routes; empty for a path that is not there
	status  int       // 0 until the answer begins
	in, out int64     // bytes of bodies
	failure error     // why it failed, for the log
	audited audit.End // of the change that it makes; nil for none
	// principal is who asks; nil if nobody was asked, as for the public paths. bearer is their token, never to be logged.
	principal *tenancy.Principal
	bearer    string
	judged    time.Time       // when the token was last known to be good
	good      context.Context // ends when the token does, if the answer may take long; else nil

	stream bool // an event stream or a session: how long it lasts says nothing

	writeTimeout time.Duration
	held         int64     // bytes of the handler's budget for bodies
	unread       io.Reader // a body that a refusal takes in before it is sent; nil for none
}

// unreadMax bounds the body that is taken in for the sake of a refusal: twice what any request may have.
const unreadMax = 2 * wire.BodySizeMax

// unreadBody is the body that must have been read before a request can be refused, if any. Over HTTP/2 an answer given
// sooner is followed by a reset of the stream, as RFC 9113 8.1 has it, and clients are about that lose the answer with
// it. Over HTTP/1 net/http sees to it. What does not tell its size may be a session, whose client waits for the answer
// before it sends.
func unreadBody(r *http.Request) io.Reader {
	if r.ProtoMajor < 2 || r.ContentLength <= 0 || r.ContentLength > unreadMax {
		return nil
	}
	return r.Body
}

// Unwrap lets a ResponseController through.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// WriteHeader begins the answer. From here on the client has writeTimeout to accept what is written.
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 {
		x.status = status
		if status >= http.StatusBadRequest && x.unread != nil {
			_, _ = io.Copy(io.Discard, x.unread)
		}
		x.armWrite()
	}
	x.ResponseWriter.WriteHeader(status)
}

func (x *exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	total := 0
	for {
		piece := b
		if x.stream && len(b) > pieceBytes {
			piece = b[:pieceBytes]
			x.armWrite()
		}
		n, err := x.ResponseWriter.Write(piece)
		x.out += int64(n)
		if total += n; err != nil || len(piece) == len(b) {
			return total, err
		}
		b = b[len(piece):]
	}
}

// pieceBytes is the part of a large event that a client has writeTimeout for: one that is slow and reads all the time is
// not cut.
const pieceBytes = 256 << 10

// armWrite gives the client writeTimeout from now. net/http has no deadline per write: it arms one per response, which
// would cut a long stream.
func (x *exchange) armWrite() {
	// A writer without deadlines is a test's, or that of a platform that has its own.
	_ = x.control.SetWriteDeadline(time.Now().Add(x.writeTimeout))
}

// disarmWrite takes the deadline away while there is nothing to accept: HTTP/2 ends a stream at its deadline even if
// nothing is being written.
func (x *exchange) disarmWrite() { _ = x.control.SetWriteDeadline(time.Time{}) }

// flush sends what was written. An error means that the client is gone, or too slow.
func (x *exchange) flush() error {
	if err := x.control.Flush(); err != nil {
		return fmt.Errorf("flush answer: %w: %w", errHangup, err)
	}
	return nil
}

// empty answers without a body.
func (x *exchange) empty(status int) {
	x.Header().Set("Content-Length", "0")
	x.WriteHeader(status)
}

// json answers with a resource.
func (x *exchange) json(r *http.Request, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return x.body(r, status, wire.MediaJSON, body)
}

// body answers with a whole body, compressed if that helps and the client takes it. It never fails: a client that is
// gone has no use for an error. The result is for callers to return.
func (x *exchange) body(r *http.Request, status int, media string, body []byte) error {
	x.Header().Set("Content-Type", media)
	if len(body) >= wire.CompressMin {
		compressed(x, r, status, body)
		return nil
	}
	x.Header().Set("Content-Length", strconv.Itoa(len(body)))
	x.WriteHeader(status)
	_, _ = x.Write(body)
	return nil
}
