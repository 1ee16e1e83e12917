package api

import (
	"context"
	"net/http"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/wire"
)

// Bounded is a ResponseWriter that delivers an answer in one piece once it is whole, and none above some size, as
// platforms of functions do. Reads then end early: a unary one where the answer is full, an event stream or a session
// behind the first records, since its client sees nothing before the end; in either case the client goes on behind what
// it has got.
//
// How long an answer may take, such a platform says by the deadline of the request's context: a wait ends before it, and
// an event stream or a session as when the server shuts down.
type Bounded interface {
	http.ResponseWriter
	// Fits reports whether a body of that media type can be delivered.
	Fits(media string, body []byte) bool
}

// Limited is a ResponseWriter that sends an answer while it is made, up to some size. An event stream or a session ends when
// it is nearly full, so that its client goes on in another one.
type Limited interface {
	http.ResponseWriter
	// Full reports whether there may be no room for another event.
	Full() bool
}

// ends reports whether an answer has to end behind an event of so many records that was just written.
func (x *exchange) ends(records int) bool {
	limited, ok := x.ResponseWriter.(Limited)
	return x.bounded != nil && records > 0 || ok && limited.Full()
}

// cut shortens an event until what encode makes of it fits. An event of one record that does not fit is refused.
func (x *exchange) cut(e *coordinator.ReadEvent, media string, encode func() []byte) ([]byte, error) {
	for {
		body := encode()
		if x.bounded == nil || x.bounded.Fits(media, body) {
			return body, nil
		}
		if len(e.Records) <= 1 {
			return nil, wire.Errorf(wire.CodeInvalid, "record %d does not fit into an answer of this endpoint in this format: "+
				"ask for s2-format base64, or for protobuf, or read from an endpoint that streams", e.Start)
		}
		e.Records, e.Bytes = e.Records[:len(e.Records)/2], 0
		for i := range e.Records {
			e.Bytes += e.Records[i].MeteredSize()
		}
	}
}

// answerShare is the part of the time left that is kept for the answer when a wait is shortened, answerMost its bound.
const (
	answerShare = 10
	answerMost  = time.Second
)

// within shortens a wait so that its end can be told before ctx ends.
func within(ctx context.Context, wait time.Duration) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		wait = min(wait, left-min(left/answerShare, answerMost))
	}
	return max(wait, 0)
}

// errTimeIsUp ends a stream whose platform lets it go on no longer, with the words of a shutdown: clients connect again.
var errTimeIsUp = coordinator.ErrDraining
