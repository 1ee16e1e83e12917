package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/tailrace-streams/tailrace/client"
)

// runUnary appends everything that the input has by one request a batch, one after the other, for servers that keep no
// sessions: functions, and what stands behind a gateway that holds requests back until they are whole.
func (f *flow) runUnary(stream *client.Stream, match *uint64, linger time.Duration, input *recordReader) error {
	defer f.progress.end()
	life, release := f.patient()
	defer release()
	g := &gatherer{ahead: f.read(input), linger: linger}
	for {
		batch, ended := g.next(f.s.ctx)
		if len(batch) > 0 {
			ack, err := stream.AppendBatch(life, client.Batch{Records: recordsOf(batch), MatchSeqNum: match})
			if err != nil {
				return wrote(err)
			}
			for i, r := range batch {
				f.acknowledged(ack.Start.SeqNum+uint64(i), r.bytes)
			}
			if match != nil {
				match = &ack.End.SeqNum
			}
		}
		switch {
		case ended == io.EOF:
			return nil
		case ended != nil:
			return ended
		}
	}
}

func recordsOf(batch []incoming) []client.AppendRecord {
	records := make([]client.AppendRecord, len(batch))
	for i := range batch {
		records[i] = batch[i].record
	}
	return records
}

// gatherer makes batches of records as they come.
type gatherer struct {
	ahead  <-chan incoming
	linger time.Duration
	held   *incoming // did not fit into the batch before
}

// next gives the records that come within the linger of the first, as many as a batch takes, and why there are no more
// after them: io.EOF at the input's end.
func (g *gatherer) next(ctx context.Context) (batch []incoming, ended error) {
	var full <-chan time.Time
	size := 0
	for {
		in, ended := g.one(ctx, full)
		if in == nil {
			return batch, ended
		}
		metered := client.MeteredSize(&in.record)
		if len(batch) == client.MaxBatchRecords || size+metered > client.MaxBatchBytes {
			g.held = in
			return batch, nil
		}
		batch, size = append(batch, *in), size+metered
		if full == nil {
			full = time.After(g.linger)
		}
	}
}

// one gives the next record; nil when the linger is over, or with the reason that there is none.
func (g *gatherer) one(ctx context.Context, full <-chan time.Time) (*incoming, error) {
	if in := g.held; in != nil {
		g.held = nil
		return in, nil
	}
	select {
	case in := <-g.ahead:
		switch {
		case in.err == io.EOF:
			return nil, io.EOF
		case in.err != nil:
			return nil, fmt.Errorf("read records: %w", in.err)
		}
		return &in, nil
	case <-full:
		return nil, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("stopped reading: %w", context.Cause(ctx))
	}
}
