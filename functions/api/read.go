package api

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/wire"
)

// readRequest is a read as it was asked for.
type readRequest struct {
	basin, stream string
	mode          wire.ReadMode
	query         wire.ReadQuery
	format        wire.Format
	key           []byte             // of an encrypted stream
	config        *wire.StreamConfig // for a stream that has to be made
	terms         terms
}

// read serves GET of records: one answer, an event stream, or a session, by the headers.
func (h *handler) read(x *exchange, r *http.Request) error {
	q, err := h.parseRead(x, r)
	if err != nil {
		return err
	}
	switch q.mode {
	case wire.ReadSession:
		return h.readSession(x, r, q)
	case wire.ReadSSE:
		return h.readEvents(x, r, q)
	default:
		return h.readOnce(x, r, q)
	}
}

// parseRead checks a read in the order of s2-api 2.4. What it refuses creates no stream.
func (h *handler) parseRead(x *exchange, r *http.Request) (q readRequest, err error) {
	if q.basin, q.stream, err = streamOf(r); err != nil {
		return q, err
	}
	values, err := wire.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, err
	}
	if q.query, err = wire.ParseReadQuery(values); err != nil {
		return q, err
	}
	q.mode = wire.NegotiateRead(r.Header.Get("Content-Type"), r.Header.Get("Accept"))
	if q.mode == wire.ReadJSON || q.mode == wire.ReadSSE {
		if q.format, err = wire.FormatOf(r.Header); err != nil {
			return q, err
		}
	}
	if q.key, err = keyOf(r); err != nil {
		return q, err
	}
	if q.config, err = wire.StreamConfigOf(r.Header); err != nil {
		return q, err
	}
	if q.terms, err = h.termsOf(x, r, q.query.MinRevision); err != nil {
		return q, err
	}
	if err := q.terms.about(q.basin, q.stream); err != nil {
		return q, err
	}
	var after *wire.EventID
	// A header that is there and empty is malformed, not absent: an event without an id must not restart a reader.
	if given := r.Header.Values(wire.HeaderLastEventID); q.mode == wire.ReadSSE && len(given) > 0 {
		id, err := wire.ParseEventID(given[0])
		if err != nil {
			return q, err
		}
		after = &id
	}
	if err := q.query.Validate(); err != nil {
		return q, err
	}
	if after != nil {
		q.query = after.Resume(q.query)
	}
	return q, nil
}

// options are the terms of the read for the coordinator.
func (q *readRequest) options(unary bool) coordinator.ReadOptions {
	o := coordinator.ReadOptions{
		SeqNum: q.query.SeqNum, Timestamp: q.query.Timestamp, TailOffset: q.query.TailOffset, Clamp: q.query.Clamp,
		Count: q.query.Count, Bytes: q.query.Bytes, Until: q.query.Until, Unary: unary, Key: q.key,
		Fresh: q.terms.freshness(),
	}
	if q.query.Wait != nil {
		wait := time.Duration(*q.query.Wait) * time.Second
		if unary {
			wait = min(wait, wire.WaitMax)
		}
		o.Wait = &wait
	}
	return o
}

// open resolves the stream and opens a reader on it. The state that it is opened on, or refused by, is named.
func (h *handler) open(ctx context.Context, x *exchange, q *readRequest, o coordinator.ReadOptions) (reader *coordinator.Reader, err error) {
	err = h.onRevision(ctx, x, q.basin, q.stream, onRead(q.config), &q.terms, func(ref coordinator.StreamRef) (err error) {
		reader, err = h.o.Streams.OpenReader(ctx, ref, o)
		var beyond *coordinator.OutOfRange
		switch {
		case err == nil:
			v, asOf := reader.Opened()
			h.shows(x, &q.terms, revisionOf(q.basin, q.stream, ref, v), asOf)
		case errors.As(err, &beyond):
			h.shows(x, &q.terms, revisionOf(q.basin, q.stream, ref, beyond.V), beyond.AsOf)
		}
		return err
	})
	return reader, err
}

// readOnce answers with what there is, or with the first that comes within `wait`.
func (h *handler) readOnce(x *exchange, r *http.Request, q readRequest) error {
	o := q.options(true)
	limit := h.o.RequestTimeout
	if o.Wait != nil {
		*o.Wait = within(r.Context(), *o.Wait)
		limit += *o.Wait
	}
	if q.terms.Min != nil {
		limit += q.terms.Timeout
	}
	good, end := h.whileGood(r.Context(), x)
	defer end()
	ctx, cancel := context.WithTimeout(good, limit)
	defer cancel()
	reader, err := h.open(ctx, x, &q, o)
	if err != nil {
		return err
	}
	defer reader.Close()
	event, err := reader.Next(ctx)
	if err != nil {
		return err
	}
	if q.terms.Asked {
		// What came while it waited is of a newer state than it was opened on, which whoever was shown that must be able
		// to demand.
		ref, v := reader.Shown()
		h.name(x, revisionOf(q.basin, q.stream, ref, v))
	}
	buf := buffers.get()
	defer buffers.put(buf)
	media := wire.MediaJSON
	if q.mode == wire.ReadProto {
		media = wire.MediaProto
	}
	body, err := x.cut(&event, media, func() []byte {
		if q.mode == wire.ReadProto {
			buf.b = wire.EncodeReadBatchProto(buf.b[:0], recordsOf(&event), tailOf(&event))
		} else {
			buf.b = wire.AppendReadBatchJSON(buf.b[:0], recordsOf(&event), tailOf(&event), q.format)
		}
		return buf.b
	})
	if err != nil {
		return err
	}
	return x.body(r, http.StatusOK, media, body)
}

// recordsOf gives the records of an event with the numbers that are theirs.
func recordsOf(e *coordinator.ReadEvent) []wire.Record {
	records := make([]wire.Record, len(e.Records))
	n := 0
	for i := range e.Records {
		n += len(e.Records[i].Headers)
	}
	headers := make([]wire.Header, 0, n)
	for i := range e.Records {
		from := &e.Records[i]
		start := len(headers)
		headers = appendHeaders(headers, from.Headers)
		records[i] = wire.Record{
			SeqNum: e.Start + uint64(i), Timestamp: from.Timestamp, Headers: headers[start:], Body: from.Body,
		}
	}
	return records
}

func appendHeaders(dst []wire.Header, src []segments.Header) []wire.Header {
	for _, h := range src {
		dst = append(dst, wire.Header(h))
	}
	return dst
}

func tailOf(e *coordinator.ReadEvent) *wire.StreamPosition {
	if e.Tail == nil {
		return nil
	}
	p := position(*e.Tail)
	return &p
}

// buffer is memory to encode an answer in.
type buffer struct{ b []byte }

// bufferMax is the size from which a buffer is not kept: most answers are small, and one of 1 MiB of control
// characters takes 6 MiB. Those of events are few and small, since a client that stops reading keeps one.
const (
	bufferMax      = 2 << 20
	eventBufferMax = 256 << 10
)

type bufferPool struct {
	pool sync.Pool
	max  int
}

func newBufferPool(most int) *bufferPool {
	return &bufferPool{sync.Pool{New: func() any { return new(buffer) }}, most}
}

var buffers, eventBuffers = newBufferPool(bufferMax), newBufferPool(eventBufferMax)

func (p *bufferPool) get() *buffer {
	b := p.pool.Get().(*buffer)
	b.b = b.b[:0]
	return b
}

func (p *bufferPool) put(b *buffer) {
	if cap(b.b) <= p.max {
		p.pool.Put(b)
	}
}
