package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tailrace-streams/tailrace/wire"
)

// Start is where a read starts. The zero Start is record 0, or the first one there is.
type Start struct {
	kind  startKind
	value uint64
}

type startKind uint8

const (
	startSeqNum startKind = iota
	startTimestamp
	startTailOffset
)

// FromSeqNum starts at a sequence number, or at the first record after it if it was trimmed.
func FromSeqNum(n uint64) Start { return Start{startSeqNum, n} }

// FromTimestamp starts at the first record of this time or later, in milliseconds since the Unix epoch.
func FromTimestamp(ms uint64) Start { return Start{startTimestamp, ms} }

// FromTail starts n records before the tail; 0 means with what is appended from now on.
func FromTail(n uint64) Start { return Start{startTailOffset, n} }

// ReadOptions say what to read. The zero ReadOptions are everything.
type ReadOptions struct {
	Start Start
	// Clamp moves a start beyond the tail to the tail, instead of failing with a [RangeError].
	Clamp bool
	// Count and Bytes (metered) are the most to read, command records included; 0 is no limit.
	Count, Bytes uint64
	// Until ends the read before the first record of this time or later, in milliseconds since the Unix epoch; 0 is never.
	Until uint64
	// Wait is, for Follow, after how long without a new record it ends; 0 is never. For ReadBatch, how long to wait for a
	// first one, at most 60 s; 0 does not wait. Whole seconds, rounded up.
	Wait time.Duration
	// SkipCommands leaves command records out of what is given. They count for the limits all the same.
	SkipCommands bool
}

// ReadBatch is records as one answer or frame had them, perhaps none.
type ReadBatch struct {
	Records []Record
	// Tail is the durable tail meanwhile, nil if the server did not say.
	Tail *Position
	// CaughtUp says that these records end at the tail. A follower gets it first when all that was there has come.
	CaughtUp bool
	// Next is where to go on: behind the last record that came, also if it was left out, or where the read was if none did.
	Next Start
}

// Read gives records in order up to the tail, as it is when it is reached, or to a limit. A lost connection is made anew
// and the read goes on behind the last record, without one missing or twice. Records that were trimmed are skipped. An error
// ends it: [RangeError] if the start is beyond the tail.
//
// A record's bytes belong to the caller.
func (s *Stream) Read(ctx context.Context, o ReadOptions) iter.Seq2[Record, error] {
	return flatten(s.ReadBatches(ctx, o))
}

// ReadBatches is Read, as the batches come.
func (s *Stream) ReadBatches(ctx context.Context, o ReadOptions) iter.Seq2[ReadBatch, error] {
	o.Wait = 0
	return s.session(ctx, o, false)
}

// Follow gives records in order, and goes on with what is appended, until a limit is reached, Wait is over, or the context
// ends; whose error is then the last thing it gives. While the server cannot be reached it tries again, as long as the
// context lasts; what will not pass, such as that the stream was deleted, ends it with an error.
func (s *Stream) Follow(ctx context.Context, o ReadOptions) iter.Seq2[Record, error] {
	return flatten(s.FollowBatches(ctx, o))
}

// FollowBatches is Follow, as the batches come. A batch without records is a heartbeat: at once when the tail is reached,
// and every few seconds while nothing is appended.
func (s *Stream) FollowBatches(ctx context.Context, o ReadOptions) iter.Seq2[ReadBatch, error] {
	return s.session(ctx, o, true)
}

func flatten(batches iter.Seq2[ReadBatch, error]) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for b, err := range batches {
			if err != nil {
				yield(Record{}, err)
				return
			}
			for _, r := range b.Records {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

// ReadBatch reads once: at most 1,000 records and 1 MiB, from the start to the tail. At the tail it waits as the options
// say, and then gives no records; without Wait it is a [RangeError] there, as on the wire. Repeats use what is left of Wait.
func (s *Stream) ReadBatch(ctx context.Context, o ReadOptions) (ReadBatch, error) {
	const op = "read"
	begun := time.Now()
	o.Wait = min(o.Wait, wire.WaitMax)
	base, h := s.records()
	h.Set("Accept", wire.MediaProto)
	q := o.query()
	r := request{op: op, method: http.MethodGet, header: h}
	ask := func(r *request) {
		left := time.Duration(0)
		if o.Wait > 0 {
			left = max(o.Wait-time.Since(begun), time.Millisecond) // 0 would be another question, with another answer
			q.Set("wait", seconds(left))
		}
		r.url, r.wait = base+"?"+q.Encode(), left+s.see.wait(h)
	}
	r.beforeResend = ask
	at := s.see.demand(h, s.name)
	ask(&r)
	a, err := s.basin.c.call(ctx, r)
	if err != nil {
		s.see.failed(err, s.name)
		return ReadBatch{}, err
	}
	s.see.answered(a.header, s.name, at)
	got, err := wire.DecodeReadBatchProto(a.body)
	if err != nil {
		return ReadBatch{}, undecodable(op, a.status, pure, err)
	}
	b := o.batch(got)
	if len(got.Records) == 0 && !o.atTail(b) {
		b.CaughtUp, b.Next = false, o.Start
	}
	return b, nil
}

// atTail reports whether an answer without records was one at the tail: a limit of bytes or time can keep all records out.
func (o *ReadOptions) atTail(b ReadBatch) bool {
	limited := o.Bytes > 0 || o.Until > 0
	return b.Tail != nil && (!limited || o.Start.kind == startSeqNum && o.Start.value >= b.Tail.SeqNum)
}

// query is what a read says on the wire, but for the wait.
func (o *ReadOptions) query() url.Values {
	q := url.Values{}
	set := func(name string, v uint64) { q.Set(name, strconv.FormatUint(v, 10)) }
	switch o.Start.kind {
	case startSeqNum:
		set("seq_num", o.Start.value)
	case startTimestamp:
		set("timestamp", o.Start.value)
	case startTailOffset:
		set("tail_offset", o.Start.value)
	}
	for name, v := range map[string]uint64{"count": o.Count, "bytes": o.Bytes, "until": o.Until} {
		if v > 0 {
			set(name, v)
		}
	}
	if o.Clamp {
		q.Set("clamp", "true")
	}
	return q
}

// bounded reports whether a limit ends the read, so that on the wire it does not follow without a wait.
func (o *ReadOptions) bounded() bool { return o.Count > 0 || o.Bytes > 0 || o.Until > 0 }

// batch is what the caller gets of what came.
func (o *ReadOptions) batch(got wire.ReadBatch) ReadBatch {
	b := ReadBatch{Records: got.Records, Tail: got.Tail, CaughtUp: len(got.Records) == 0 && got.Tail != nil}
	switch n := len(got.Records); {
	case n > 0:
		next := got.Records[n-1].SeqNum + 1
		b.CaughtUp, b.Next = got.Tail != nil && got.Tail.SeqNum == next, FromSeqNum(next)
	case got.Tail != nil:
		b.Next = FromSeqNum(got.Tail.SeqNum)
	}
	if o.SkipCommands {
		b.Records = withoutCommands(got.Records)
	}
	return b
}

func withoutCommands(records []Record) []Record {
	kept := records[:0]
	for i := range records {
		if !IsCommand(&records[i]) {
			kept = append(kept, records[i])
		}
	}
	return kept
}

// seconds rounds up: a wait that is a little too long is cut by the client's own clock, one too short is not made good.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
