package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/tailrace-streams/tailrace/client"
)

const (
	// inFlightMax bounds the records that wait for their acknowledgement; their bytes the producer bounds.
	inFlightMax = 1 << 16
	// aheadMax bounds the records that are read and not submitted.
	aheadMax = 256
	// closePatience is how long an interrupted append waits for acknowledgements, and timeoutPatience one whose time is up.
	closePatience   = 30 * time.Second
	timeoutPatience = time.Second
)

// flow moves records from an input to a producer, and settles what became of each.
type flow struct {
	s        *session
	acks     bool
	progress *progress

	// What was acknowledged, in order, and what ended it. Written by settle alone, read once it is over.
	first, next uint64
	err         error
	unshown     error // why an acknowledgement could not be printed
}

// incoming is a record that was read, or why there are no more.
type incoming struct {
	record client.AppendRecord
	bytes  int
	err    error
}

// sent is a record that was submitted.
type sent struct {
	client.Receipt
	bytes int
}

// run appends everything that the input has. It returns when all that was submitted is resolved.
func (f *flow) run(p *client.Producer, input *recordReader) error {
	submitted, failed, settled := make(chan sent, inFlightMax), make(chan struct{}), make(chan struct{})
	go func() { defer close(settled); f.settle(submitted, failed) }()
	err := f.submit(p, f.read(input), submitted, failed)
	closing, release := f.patient()
	defer release()
	closed := p.Close(closing)
	close(submitted)
	<-settled
	f.progress.end()
	switch {
	case f.err != nil:
		return wrote(f.err)
	case err == nil:
		return wrote(closed)
	}
	return err
}

// patient gives a context that outlives a signal, or the time that was given, by as long as what is under way may take.
func (f *flow) patient() (context.Context, func()) {
	ctx, release := context.WithCancel(context.WithoutCancel(f.s.ctx))
	stop := context.AfterFunc(f.s.ctx, func() {
		patience := closePatience
		if context.Cause(f.s.ctx) == context.DeadlineExceeded {
			patience = timeoutPatience
		}
		time.AfterFunc(patience, release)
	})
	return ctx, func() { stop(); release() }
}

// read reads ahead. Where the input is silent for good it is left behind, for nothing can interrupt it.
func (f *flow) read(input *recordReader) <-chan incoming {
	ahead := make(chan incoming, aheadMax)
	go func() {
		for {
			record, n, err := input.next()
			select {
			case ahead <- incoming{record, n, err}:
			case <-f.s.ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return ahead
}

// submit hands records over until the input ends, something fails, or a signal comes.
func (f *flow) submit(p *client.Producer, ahead <-chan incoming, submitted chan<- sent, failed <-chan struct{}) error {
	for {
		select {
		case in := <-ahead:
			if in.err == io.EOF {
				return nil
			}
			if in.err != nil {
				return fmt.Errorf("read records: %w", in.err)
			}
			receipt, err := p.Submit(f.s.ctx, in.record)
			if err != nil {
				return err // definite: the record was not handed over
			}
			submitted <- sent{receipt, in.bytes}
		case <-failed:
			return nil // settle has the reason
		case <-f.s.ctx.Done():
			return fmt.Errorf("stopped reading: %w", context.Cause(f.s.ctx))
		}
	}
}

// settle waits for each record in order.
func (f *flow) settle(submitted <-chan sent, failed chan<- struct{}) {
	for r := range submitted {
		seqNum, err := r.Wait(context.WithoutCancel(f.s.ctx))
		switch {
		case f.err != nil: // what follows fails for the same reason
		case err != nil:
			f.err = err
			close(failed)
		default:
			f.acknowledged(seqNum, r.bytes)
		}
	}
}

func (f *flow) acknowledged(seqNum uint64, bytes int) {
	if f.progress.records == 0 {
		f.first = seqNum
	}
	f.next = seqNum + 1
	f.progress.add(bytes)
	if f.acks && f.unshown == nil {
		f.unshown = f.s.show(struct {
			SeqNum uint64 `json:"seq_num"`
		}{seqNum}, fmt.Sprint(seqNum))
	}
}

// report says what was appended, also when something failed then: where to go on. Its error is that something of it, or an
// acknowledgement, could not be printed.
func (f *flow) report(err error) error {
	p, unshown := f.progress, f.unshown
	switch {
	case f.s.json:
		e := f.s.showJSON(struct {
			Records uint64  `json:"records"`
			Bytes   uint64  `json:"bytes"`
			Start   *uint64 `json:"start,omitempty"`
			End     *uint64 `json:"end,omitempty"`
			Seconds float64 `json:"seconds"`
		}{p.records, p.bytes, optional(f.first, p.records > 0), optional(f.next, p.records > 0), time.Since(p.began).Seconds()})
		unshown = cmp.Or(unshown, e)
	case p.records > 0:
		fmt.Fprintf(f.s.w.Stderr, "appended at %d to %d: %s\n", f.first, f.next-1, p)
	case err == nil:
		fmt.Fprintln(f.s.w.Stderr, "appended nothing: there were no records")
	}
	if unshown != nil {
		return fmt.Errorf("print what was appended: %w", unshown)
	}
	return nil
}

func optional[T any](v T, there bool) *T {
	if !there {
		return nil
	}
	return &v
}
