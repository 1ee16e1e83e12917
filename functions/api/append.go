package api

import (
	"encoding/base64"
	"net/http"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/segments"
	"github.com/tailrace-streams/tailrace/tenancy"
	"github.com/tailrace-streams/tailrace/wire"
)

// append serves POST of records: one batch, or a session. The order of checks is s2-api 2.4's: the basin, the path,
// the headers, the body, and only then the stream, so that a request which could never succeed creates nothing.
func (h *handler) append(x *exchange, r *http.Request) error {
	mode, protoAnswer := wire.NegotiateAppend(r.Header.Get("Content-Type"), r.Header.Get("Accept"))
	if mode == wire.AppendSession {
		return h.appendSession(x, r)
	}
	to, err := appendTarget(r)
	if err != nil {
		return err
	}
	in, err := h.readAppend(x, r, mode)
	if err != nil {
		return err
	}
	ack, err := h.appendBatch(x, r, &to, &in)
	if err != nil {
		return err
	}
	if protoAnswer {
		return x.body(r, http.StatusOK, wire.MediaProto, wire.EncodeAckProto(make([]byte, 0, ackSize), ack))
	}
	return x.body(r, http.StatusOK, wire.MediaJSON, wire.AppendAckJSON(make([]byte, 0, ackSize), ack))
}

// target is the stream of an append, with the headers that every append can have.
type target struct {
	basin, stream string
	key           []byte             // of an encrypted stream
	token         *string            // presented for batches that name none
	config        *wire.StreamConfig // for a stream that has to be made
}

func appendTarget(r *http.Request) (to target, err error) {
	if to.basin, to.stream, err = streamOf(r); err != nil {
		return to, err
	}
	if to.key, err = keyOf(r); err != nil {
		return to, err
	}
	if to.token, err = wire.FencingTokenOf(r.Header); err != nil {
		return to, err
	}
	to.config, err = wire.StreamConfigOf(r.Header)
	return to, err
}

// keyOf reads the key of an encrypted stream. What is not one in base64 is a key of no bytes, which only an encrypted
// stream refuses (s2-api 19).
func keyOf(r *http.Request) ([]byte, error) {
	text, err := wire.EncryptionKeyOf(r.Header)
	if err != nil || text == "" {
		return nil, err
	}
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return []byte{}, nil
	}
	return key, nil
}

// ackSize is about the size of an acknowledgement in JSON.
const ackSize = 192

// readAppend reads and decodes the body of a unary append.
func (h *handler) readAppend(x *exchange, r *http.Request, mode wire.AppendMode) (wire.AppendInput, error) {
	if mode == wire.AppendProto {
		body, err := h.readBody(x, r, wire.CodeBadProto)
		if err != nil {
			return wire.AppendInput{}, err
		}
		return wire.DecodeAppendInputProto(body, wire.CodeBadProto)
	}
	format, err := wire.FormatOf(r.Header)
	if err != nil {
		return wire.AppendInput{}, err
	}
	if err := wire.RequireJSON(r.Header.Get("Content-Type")); err != nil {
		return wire.AppendInput{}, err
	}
	body, err := h.readBody(x, r, wire.CodeBadJSON)
	if err != nil {
		return wire.AppendInput{}, err
	}
	return wire.DecodeAppendInputJSON(body, format)
}

// appendBatch validates a batch and appends it.
func (h *handler) appendBatch(x *exchange, r *http.Request, to *target, in *wire.AppendInput) (wire.AppendAck, error) {
	batch, size, err := checkBatch(in, to.token)
	if err != nil {
		return wire.AppendAck{}, err
	}
	if err := x.mayCommand(tenancy.Resource{Basin: to.basin, Stream: to.stream}, batch.Records); err != nil {
		return wire.AppendAck{}, err
	}
	batch.Key = to.key
	ctx, cancel := h.unary(r)
	defer cancel()
	begun := h.o.Now()
	var ack coordinator.Ack
	var on coordinator.StreamRef
	err = h.onStream(ctx, to.basin, to.stream, onAppend(to.config), func(ref coordinator.StreamRef) (err error) {
		on = ref
		ack, err = h.o.Streams.Append(ctx, ref, batch)
		return definite(err)
	})
	if err != nil {
		return wire.AppendAck{}, err
	}
	h.name(x, revisionOf(to.basin, to.stream, on, ack.V))
	h.appended(begun, len(batch.Records), size)
	return wireAck(ack), nil
}

// appended counts a batch that was acknowledged.
func (h *handler) appended(begun time.Time, records int, size uint64) {
	h.metrics.ack.Observe(h.o.Now().Sub(begun).Seconds())
	h.metrics.records.Observe(float64(records))
	h.metrics.batch.Observe(float64(size))
}

// definite says of the error of a coordinator's write what its types promise: all but Indefinite are definite.
func definite(err error) error {
	if err == nil || inDoubt(err) {
		return err
	}
	return unapplied{err}
}

// checkBatch turns a decoded body into a batch that presents token if it names none, refuses what no stream could take,
// and gives the metered size.
func checkBatch(in *wire.AppendInput, token *string) (coordinator.Batch, uint64, error) {
	batch, err := batchOf(in)
	if err == nil {
		err = present(&batch, token)
	}
	if err != nil {
		return coordinator.Batch{}, 0, err
	}
	size, err := segments.ValidateBatch(batch.Records)
	return batch, size, err
}

// batchOf turns a decoded body into a batch, which owns what the body has.
func batchOf(in *wire.AppendInput) (coordinator.Batch, error) {
	if in.FencingToken != nil {
		if err := wire.CheckFencingToken(*in.FencingToken, wire.CodeInvalid); err != nil {
			return coordinator.Batch{}, err
		}
	}
	records := make([]segments.Record, len(in.Records))
	n := 0
	for i := range in.Records {
		n += len(in.Records[i].Headers)
	}
	headers := make([]segments.Header, 0, n) // of all records
	for i := range in.Records {
		from := &in.Records[i]
		records[i] = segments.Record{Timestamp: from.Timestamp, HasTimestamp: from.HasTimestamp, Body: from.Body}
		start := len(headers)
		for _, header := range from.Headers {
			headers = append(headers, segments.Header(header))
		}
		records[i].Headers = headers[start:len(headers):len(headers)]
	}
	return coordinator.Batch{Records: records, Token: in.FencingToken, Match: in.MatchSeqNum}, nil
}

func wireAck(a coordinator.Ack) wire.AppendAck {
	return wire.AppendAck{Start: position(a.Start), End: position(a.End), Tail: position(a.Tail)}
}
