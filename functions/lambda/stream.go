package lambda

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/aws/aws-lambda-go/events"

	"github.com/tailrace-streams/tailrace/wire"
)

// streamer is the http.ResponseWriter of an answer that goes out while it is made.
type streamer struct {
	header http.Header
	body   *io.PipeWriter
	begun  chan struct{} // closed when status and sent are there
	once   sync.Once
	status int
	sent   http.Header
	bytes  int64 // of the body so far
}

// The size that the platform takes for an answer that streams, unless its quota was raised, and what of it is kept for the
// last event, which may be a MiB of control characters.
const (
	streamMax   = 20 << 20
	streamSpare = wire.SSEEventSizeMax
)

// Full implements api.Limited.
func (w *streamer) Full() bool { return w.bytes > streamMax-streamSpare }

// Header implements http.ResponseWriter, as do WriteHeader and Write.
func (w *streamer) Header() http.Header { return w.header }

func (w *streamer) WriteHeader(status int) {
	if status < http.StatusOK {
		return
	}
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	})
}

// Write returns when the runtime has taken the bytes, or the answer was given up.
func (w *streamer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if len(b) == 0 {
		return 0, nil
	}
	w.bytes += int64(len(b))
	return w.body.Write(b)
}

// FlushError implements what http.ResponseController flushes: every write is on its way already.
func (w *streamer) FlushError() error {
	w.WriteHeader(http.StatusOK)
	return nil
}

// errCut ends an answer that could not be finished. The runtime reports it behind what was sent, so that the answer does
// not look whole.
var errCut = errors.New("the answer was cut short")

// stream has a request answered while its answer is sent. When cut ends, a write that nobody has taken fails. done is called
// between the last byte and the end of the answer.
func stream(cut context.Context, h http.Handler, r *http.Request, done func()) *events.LambdaFunctionURLStreamingResponse {
	body, pipe := io.Pipe()
	w := &streamer{header: http.Header{}, body: pipe, begun: make(chan struct{})}
	stop := context.AfterFunc(cut, func() { _ = pipe.CloseWithError(errCut) })
	go func() {
		err := serve(h, w, r)
		w.WriteHeader(http.StatusOK)
		stop() // before cut may be ended by done, which is no reason to cut
		done()
		_ = pipe.CloseWithError(err) // never fails
	}()
	<-w.begun
	headers, cookies := joinHeaders(w.sent)
	return &events.LambdaFunctionURLStreamingResponse{StatusCode: w.status, Headers: headers, Cookies: cookies, Body: body}
}

// serve has a handler answer. errCut if it gave up in the middle of its answer, which it does by a panic.
func serve(h http.Handler, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		if recover() != nil {
			err = errCut
		}
	}()
	h.ServeHTTP(w, r)
	return nil
}
