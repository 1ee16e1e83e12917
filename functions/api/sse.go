package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/wire"
)

// readEvents serves a read as server-sent events. What is wrong before the first event is an ordinary answer, so that
// clients can tell a permanent error from a broken stream.
func (h *handler) readEvents(x *exchange, r *http.Request, q readRequest) error {
	release, err := h.openStream(x)
	if err != nil {
		return err
	}
	defer release()
	ctx, end := h.whileGood(r.Context(), x)
	defer end()
	reader, err := h.open(ctx, x, &q, q.options(false))
	if err != nil {
		return err
	}
	defer reader.Close()
	if err := x.beginStream(wire.MediaSSE); err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		return nil // nothing of a body would ever be sent, and the stream may have no end
	}
	return h.pump(ctx, x, reader, &events{x: x, format: q.format, now: h.o.Now})
}

// events writes server-sent events, and counts what ids tell: the records and bytes delivered on this connection.
type events struct {
	x      *exchange
	format wire.Format
	now    func() time.Time
	count  uint64
	bytes  uint64
}

func (s *events) event(e *coordinator.ReadEvent) error {
	if len(e.Records) == 0 {
		return s.write(eventBuffers, func(dst []byte) []byte {
			return wire.AppendSSEPing(dst, uint64(s.now().UnixMilli()), position(*e.Tail))
		})
	}
	pool := eventBuffers
	if e.Bytes > eventBufferMax/2 {
		pool = buffers
	}
	buf := pool.get()
	defer pool.put(buf)
	_, err := s.x.cut(e, wire.MediaSSE, func() []byte {
		n := uint64(len(e.Records))
		id := wire.EventID{SeqNum: e.Start + n - 1, Count: s.count + n, Bytes: s.bytes + e.Bytes}
		buf.b = wire.AppendSSEBatch(buf.b[:0], id, recordsOf(e), tailOf(e), s.format)
		return buf.b
	})
	if err != nil {
		return errors.Join(err, s.failed(err))
	}
	s.count += uint64(len(e.Records))
	s.bytes += e.Bytes
	*e = coordinator.ReadEvent{} // the write may take long, and needs the text alone
	_, err = s.x.Write(buf.b)
	return err
}

func (s *events) end() error { return s.write(eventBuffers, wire.AppendSSEDone) }

func (s *events) failed(err error) error {
	return s.write(eventBuffers, func(dst []byte) []byte { return wire.AppendSSEError(dst, err) })
}

func (s *events) write(pool *bufferPool, encode func(dst []byte) []byte) error {
	buf := pool.get()
	defer pool.put(buf)
	buf.b = encode(buf.b)
	_, err := s.x.Write(buf.b)
	return err
}
