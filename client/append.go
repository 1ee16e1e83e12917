package client

import (
	"context"
	"net/http"

	"github.com/tailrace-streams/tailrace/wire"
)

// Append appends records, all or none. It is acknowledged once it is durable.
//
// It may be sent more than once, by the policy of the view ([Stream.WithRetry]) or the client: with [RetryAll] the records
// are in the stream at least once, with [RetryNoSideEffects] (the default) and [RetryNone] at most once, with an
// indefinite error where nobody knows.
func (s *Stream) Append(ctx context.Context, records ...AppendRecord) (Ack, error) {
	return s.AppendBatch(ctx, Batch{Records: records})
}

// AppendBatch appends a batch with its own conditions, and is sent again as [Stream.Append] is. With MatchSeqNum and
// [RetryAll] it is in the stream at most once: a repeat of what landed fails with a [SequenceError] that says Resent.
func (s *Stream) AppendBatch(ctx context.Context, b Batch) (Ack, error) {
	return s.append(ctx, b, appending)
}

// AppendMatch appends records if the first of them gets the sequence number next, and otherwise fails with a
// [SequenceError], which has the number to try then. It is sent exactly once, so a miss proves that nothing was appended;
// an error that is neither a miss nor otherwise definite is [Indefinite].
func (s *Stream) AppendMatch(ctx context.Context, next uint64, records ...AppendRecord) (Ack, error) {
	return s.append(ctx, Batch{Records: records, MatchSeqNum: &next}, once)
}

// Trim lets go of all records before seqNum, by a command record. Their numbers are not used again. Unless the policy is
// [RetryNone] it is sent again also if the outcome is unknown: a second command record changes nothing more.
func (s *Stream) Trim(ctx context.Context, seqNum uint64) (Ack, error) {
	e := idempotent
	if s.retry == RetryNone {
		e = appending
	}
	return s.append(ctx, Batch{Records: []AppendRecord{TrimCommand(seqNum)}}, e)
}

func (s *Stream) append(ctx context.Context, b Batch, e effect) (Ack, error) {
	const op = "append"
	if err := s.prepare(op, &b); err != nil {
		return Ack{}, err
	}
	url, h := s.records()
	h.Set("Content-Type", wire.MediaProto)
	h.Set("Accept", wire.MediaProto)
	a, err := s.basin.c.call(ctx, request{
		op: op, method: http.MethodPost, url: url, header: h, body: wire.EncodeAppendInputProto([]byte{}, b), effect: e, appends: s.retry,
	})
	if err != nil {
		return Ack{}, err
	}
	ack, err := wire.DecodeAckProto(a.body)
	if err == nil && ack.End.SeqNum-ack.Start.SeqNum != uint64(len(b.Records)) {
		err = errAckOfOthers
	}
	if err != nil {
		return Ack{}, undecodable(op, a.status, e, err)
	}
	return Ack{Start: ack.Start, End: ack.End, Tail: ack.Tail, Revision: s.see.observe(a.header, s.name)}, nil
}

// prepare lets a batch present the view's token, and refuses what no server takes.
func (s *Stream) prepare(op string, b *Batch) error {
	if b.FencingToken == nil {
		b.FencingToken = s.token
	}
	if b.FencingToken != nil {
		if err := checkToken(op, *b.FencingToken); err != nil {
			return err
		}
	}
	if len(b.Records) == 0 {
		return refused(op, "a batch has at least one record")
	}
	return nil
}

func checkToken(op, token string) error {
	if err := wire.CheckFencingToken(token, wire.CodeInvalid); err != nil {
		return fromWire(op, err, false)
	}
	return nil
}
