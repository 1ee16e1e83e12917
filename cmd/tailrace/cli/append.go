package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tailrace-streams/tailrace/client"
)

// conditionFlags are the conditions of appends.
type conditionFlags struct {
	token string
	match uint64
	flags *pflag.FlagSet
}

func (f *conditionFlags) addTo(flags *pflag.FlagSet) {
	f.flags = flags
	flags.StringVarP(&f.token, "fencing-token", "f", "", "present this fencing token; an empty one is a token like any other")
	flags.Uint64VarP(&f.match, "match-seq-num", "m", 0, "append only if the first record gets this sequence number")
}

// stream gives the view that presents the token, if one was given.
func (f *conditionFlags) stream(s *client.Stream) *client.Stream {
	if f.flags.Changed("fencing-token") {
		s = s.Presenting(f.token)
	}
	return s
}

// matching is the sequence number demanded, nil for none.
func (f *conditionFlags) matching() *uint64 {
	if f.flags.Changed("match-seq-num") {
		return &f.match
	}
	return nil
}

// given reports whether there is any condition.
func (f *conditionFlags) given() bool {
	return f.flags.Changed("fencing-token") || f.flags.Changed("match-seq-num")
}

// appending is one run of the verb append.
type appending struct {
	conditions conditionFlags
	key        keyFlags
	format     format
	input      string
	linger     time.Duration
	retry      string
	acks       bool
	unary      bool
}

func (c *commands) append() *cobra.Command {
	var a appending
	retry := new(client.Retry)
	cmd := &cobra.Command{
		Use:   "append ADDRESS",
		Short: "Append records, one a line",
		Long: "Reads records from standard input or a file, one a line, and appends them in order, many under way at once. Each\n" +
			"batch is durable when it is acknowledged. The first failure ends it: what is said to be appended is, nothing after\n" +
			"it. With --match-seq-num nothing that others append comes in between.\n\n" +
			"The records and the rate are told on standard error, with --json as one value on standard output.",
		Example: "  echo hello | tailrace append tailrace://my-first-basin/orders\n" +
			"  tailrace append tailrace://my-first-basin/orders --input orders.txt\n" +
			"  printf '%s\\n' '{\"headers\":[[\"kind\",\"tea\"]],\"body\":\"one\"}' | tailrace append tailrace://my-first-basin/orders --format json\n" +
			"  echo first | tailrace append tailrace://my-first-basin/ledger --match-seq-num 0 --json",
		ValidArgsFunction: c.completeStreams,
		PreRunE: func(*cobra.Command, []string) error {
			return a.readRetry(retry)
		},
	}
	a.format = formatText
	a.conditions.addTo(cmd.Flags())
	a.key.addTo(cmd.Flags())
	cmd.Flags().StringVar((*string)(&a.format), "format", string(formatText), formatUsage)
	cmd.Flags().StringVarP(&a.input, "input", "i", "-", "the file to read; - is standard input")
	cmd.Flags().DurationVar(&a.linger, "linger", 5*time.Millisecond, "how long a record waits for others to share its batch")
	cmd.Flags().StringVar(&a.retry, "retry", "safe", "what is sent again: none; safe, what certainly was not applied; all, which "+
		"may append a record twice unless there is --match-seq-num")
	cmd.Flags().BoolVar(&a.acks, "acks", false, "print the sequence number of every record when it is acknowledged")
	cmd.Flags().BoolVar(&a.unary, "unary", false, "send a request for each batch, one after the other: for functions, which keep no sessions")
	return c.verbWith(cmd, 1, retry, a.run)
}

func (a *appending) readRetry(retry *client.Retry) error {
	switch a.retry {
	case "none":
		retry.Appends = client.RetryNone
	case "safe":
		retry.Appends = client.RetryNoSideEffects
	case "all":
		retry.Appends = client.RetryAll
	default:
		return usagef("--retry %q is none of none, safe and all", a.retry)
	}
	return a.format.check()
}

func (a *appending) run(s *session, args []string) error {
	addr, err := streamAddress(args[0])
	if err != nil {
		return err
	}
	stream, err := a.key.use(s.w, a.conditions.stream(addr.of(s.c)))
	if err != nil {
		return err
	}
	input, done, err := a.open(s.w)
	if err != nil {
		return err
	}
	defer done()
	f := &flow{s: s, acks: a.acks, progress: newProgress(s.w.Stderr, "appending", sizeOf(input))}
	records := &recordReader{lines: bufio.NewReaderSize(input, 1<<20), format: a.format}
	if a.unary {
		err = f.runUnary(stream, a.conditions.matching(), a.linger, records)
	} else {
		err = a.runSession(f, stream, records)
	}
	if e := f.report(err); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("append to %s: %w", shown(args[0]), err)
	}
	return nil
}

// runSession opens a producer for a flow. A signal ends the reading; what was read before it is still appended. Until there
// is a session it ends everything.
func (a *appending) runSession(f *flow, stream *client.Stream, records *recordReader) error {
	ctx := f.s.ctx
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	opening := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	p, err := stream.Produce(life, client.ProducerOptions{Linger: a.linger, Match: a.conditions.matching()})
	switch {
	case opening():
	case err == nil:
		err = context.Cause(ctx) // the session has gone with it, and nothing was submitted
	default:
		err = fmt.Errorf("%w: %v", context.Cause(ctx), err)
	}
	if err != nil {
		return err
	}
	return f.run(p, records)
}

func (a *appending) open(w World) (io.Reader, func(), error) {
	if a.input == "-" {
		return w.Stdin, func() {}, nil
	}
	file, err := os.Open(a.input)
	if err != nil {
		return nil, nil, usagef("--input: %v", err)
	}
	return file, func() { _ = file.Close() }, nil
}
