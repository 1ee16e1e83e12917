package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tailrace-streams/tailrace/client"
)

// startFlags say where a read starts.
type startFlags struct {
	seqNum, timestamp, offset uint64
	ago                       string
	flags                     *pflag.FlagSet
}

func (f *startFlags) addTo(flags *pflag.FlagSet) {
	f.flags = flags
	flags.Uint64VarP(&f.seqNum, "seq-num", "s", 0, "start at this sequence number")
	flags.Uint64Var(&f.timestamp, "timestamp", 0, "start at the first record of this time or later, in milliseconds since 1970")
	flags.StringVar(&f.ago, "ago", "", "start at the first record that is no older than this, such as 90s, 1h or 7d")
	flags.Uint64Var(&f.offset, "tail-offset", 0, "start so many records before the tail")
}

func (f *startFlags) start(now time.Time) (client.Start, error) {
	given := 0
	for _, name := range []string{"seq-num", "timestamp", "ago", "tail-offset"} {
		if f.flags.Changed(name) {
			given++
		}
	}
	switch {
	case given > 1:
		return client.Start{}, usagef("of --seq-num, --timestamp, --ago and --tail-offset only one can say where to start")
	case f.flags.Changed("timestamp"):
		return client.FromTimestamp(f.timestamp), nil
	case f.flags.Changed("tail-offset"):
		return client.FromTail(f.offset), nil
	case f.flags.Changed("ago"):
		age, err := durationOf("--ago", f.ago)
		return client.FromTimestamp(uint64(max(now.Add(-age).UnixMilli(), 0))), err
	}
	return client.FromSeqNum(f.seqNum), nil
}

// durationOf reads a duration with days, weeks and years.
func durationOf(flag, text string) (time.Duration, error) {
	d, err := model.ParseDuration(text)
	if err != nil {
		return 0, usagef("%s %q is no duration: write it as 30s, 5m, 12h, 7d, 2w or 1y", flag, text)
	}
	return time.Duration(d), nil
}

// reading is one run of the verbs read and tail.
type reading struct {
	key    keyFlags
	sight  sightFlags
	format format
	output string
	follow bool
	o      client.ReadOptions
	quiet  bool // no summary
}

func (r *reading) addTo(flags *pflag.FlagSet) {
	r.format = formatText
	r.key.addTo(flags)
	r.sight.addTo(flags)
	flags.StringVar((*string)(&r.format), "format", string(formatText), formatUsage)
	flags.StringVarP(&r.output, "output", "o", "-", "the file to write; - is standard output")
	flags.BoolVar(&r.o.SkipCommands, "skip-commands", false, "leave out command records, which fence and trim")
}

func (c *commands) read() *cobra.Command {
	var r reading
	var start startFlags
	cmd := &cobra.Command{
		Use:   "read ADDRESS",
		Short: "Print records, one a line",
		Long: "Prints records from the start of the stream, or from where the flags say, up to the tail as it is when it is\n" +
			"reached, or to a limit. With --follow it goes on with what is appended. What was trimmed is skipped. A lost\n" +
			"connection is made anew, and no record is missing or printed twice.\n\n" +
			"As text, command records are noted on standard error. --json is --format json. The rate is told on standard error.",
		Example: "  tailrace read tailrace://my-first-basin/orders\n" +
			"  tailrace read tailrace://my-first-basin/orders --seq-num 1 --count 1 --json\n" +
			"  tailrace read tailrace://my-first-basin/orders --ago 1h --output last-hour.txt",
		ValidArgsFunction: c.completeStreams,
	}
	start.addTo(cmd.Flags())
	r.addTo(cmd.Flags())
	cmd.Flags().BoolVar(&r.follow, "follow", false, "go on with what is appended")
	cmd.Flags().Uint64VarP(&r.o.Count, "count", "n", 0, "the most records to read, command records included (default: no limit)")
	cmd.Flags().Uint64VarP(&r.o.Bytes, "bytes", "b", 0, "the most metered bytes to read (default: no limit)")
	cmd.Flags().Uint64Var(&r.o.Until, "until", 0, "end before the first record of this time or later, in milliseconds since 1970")
	cmd.Flags().BoolVar(&r.o.Clamp, "clamp", false, "a start beyond the tail means the tail")
	cmd.Flags().DurationVar(&r.o.Wait, "wait", 0, "with --follow, end after so long without a new record (default: never)")
	return c.verb(cmd, 1, func(s *session, args []string) (err error) {
		for name, value := range map[string]uint64{"count": r.o.Count, "bytes": r.o.Bytes} {
			if cmd.Flags().Changed(name) && value == 0 {
				return usagef("--%s 0 reads nothing", name)
			}
		}
		if r.o.Start, err = start.start(time.Now()); err != nil {
			return err
		}
		return r.run(s, args)
	})
}

func (c *commands) tail() *cobra.Command {
	r := reading{quiet: true}
	var lines uint64
	cmd := &cobra.Command{
		Use:   "tail ADDRESS",
		Short: "Print the last records, and with --follow those that come",
		Example: "  tailrace tail tailrace://my-first-basin/orders\n" +
			"  tailrace tail -n 1 --follow tailrace://my-first-basin/orders",
		ValidArgsFunction: c.completeStreams,
	}
	r.addTo(cmd.Flags())
	cmd.Flags().BoolVarP(&r.follow, "follow", "f", false, "go on with what is appended")
	cmd.Flags().Uint64VarP(&lines, "lines", "n", 10, "how many records before the tail to start")
	return c.verb(cmd, 1, func(s *session, args []string) error {
		r.o.Start, r.o.Clamp = client.FromTail(lines), true
		return r.run(s, args)
	})
}

func (r *reading) run(s *session, args []string) error {
	if s.json && r.format == formatText {
		r.format = formatJSON
	}
	if err := r.format.check(); err != nil {
		return err
	}
	addr, err := streamAddress(args[0])
	if err != nil {
		return err
	}
	stream, err := r.key.use(s.w, r.sight.stream(addr.of(s.c)))
	if err != nil {
		return err
	}
	output, file, err := r.open(s.w)
	if err != nil {
		return err
	}
	w := &recordWriter{out: bufio.NewWriterSize(output, 256<<10), format: r.format, commands: s.w.Stderr}
	var bar io.Writer = s.w.Stderr
	if isTerminal(output) {
		bar = nil // the records are what somebody is looking at
	}
	p := newProgress(bar, "reading", -1)
	err = r.copy(s.ctx, w, p, stream)
	p.end()
	if e := errors.Join(w.out.Flush(), closed(file)); err == nil && e != nil {
		err = fmt.Errorf("write records: %w", e)
	}
	if !r.quiet && (err == nil || p.records > 0) {
		fmt.Fprintf(s.w.Stderr, "read: %s\n", p)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", shown(args[0]), err)
	}
	return nil
}

func closed(file *os.File) error {
	if file == nil {
		return nil
	}
	return file.Close()
}

func (r *reading) open(w World) (io.Writer, *os.File, error) {
	if r.output == "-" {
		return w.Stdout, nil, nil
	}
	file, err := os.Create(r.output)
	if err != nil {
		return nil, nil, usagef("--output: %v", err)
	}
	return file, file, nil
}

// copy writes records, and puts out what it has whenever the next ones are not there yet.
func (r *reading) copy(ctx context.Context, w *recordWriter, p *progress, stream *client.Stream) error {
	var batches iter.Seq2[client.ReadBatch, error]
	if r.follow {
		batches = stream.FollowBatches(ctx, r.o)
	} else {
		batches = stream.ReadBatches(ctx, r.o)
	}
	for batch, err := range batches {
		if err != nil {
			return err
		}
		for i := range batch.Records {
			n, err := w.write(&batch.Records[i])
			if err != nil {
				return fmt.Errorf("write records: %w", err)
			}
			p.add(n)
		}
		if r.follow && w.out.Buffered() > 0 {
			if err := w.out.Flush(); err != nil {
				return fmt.Errorf("write records: %w", err)
			}
		}
	}
	return nil
}
