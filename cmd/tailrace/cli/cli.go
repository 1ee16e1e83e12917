package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tailrace-streams/tailrace/client"
)

// World is what the verbs see of the world around the process, so that tests can stand in for it.
type World struct {
	Environ        []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Signals asks for an end. The first lets a verb finish what it has begun; the second ends the process by Exit.
	Signals <-chan os.Signal
	Exit    func(code int)
}

// Commands are the verbs, and the topic on exit statuses, to be added to the program's root command.
func Commands(w World) []*cobra.Command {
	c := &commands{w: w}
	return []*cobra.Command{
		c.append(), c.read(), c.tail(), c.checkTail(), c.fence(), c.fencingToken(), c.trim(),
		c.list(), c.listBasins(), c.createBasin(), c.basinConfig(), c.reconfigureBasin(), c.deleteBasin(),
		c.listStreams(), c.createStream(), c.streamConfig(), c.reconfigureStream(), c.deleteStream(),
		c.listTokens(), c.issueToken(), c.revokeToken(),
		c.listLocations(), c.defaultLocation(), c.setDefaultLocation(),
		{Use: "exit-status", Short: "What the exit statuses of these verbs mean", Long: statusHelp},
	}
}

type commands struct {
	w World
}

// session is one run of a verb.
type session struct {
	w    World
	c    *client.Client
	json bool
	ctx  context.Context // ends with the first signal, or at --timeout
}

// verb completes a command by the flags that all have, and by what it does. Flags are read when it runs.
func (c *commands) verb(cmd *cobra.Command, arguments int, do func(s *session, args []string) error) *cobra.Command {
	return c.verbWith(cmd, arguments, new(client.Retry), do)
}

func (c *commands) verbWith(cmd *cobra.Command, arguments int, retry *client.Retry, do func(s *session, args []string) error) *cobra.Command {
	var set settings
	set.addTo(cmd.Flags())
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) != arguments {
			return usagef("%s takes %s, and has %d", cmd.Name(), countOf(arguments, "argument"), len(args))
		}
		return nil
	}
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		conn, err := set.connect(c.w, *retry)
		if err != nil {
			return err
		}
		defer conn.Close()
		ctx, stop := c.untilSignal(cmd.Context(), set.timeout)
		defer stop()
		return interruptedBy(ctx, do(&session{w: c.w, c: conn, json: set.json, ctx: ctx}, args))
	}
	return cmd
}

// onStream is what a verb does whose first argument is the address of a stream.
func onStream(do func(s *session, addr address, args []string) error) func(*session, []string) error {
	return func(s *session, args []string) error {
		addr, err := streamAddress(args[0])
		if err != nil {
			return err
		}
		return do(s, addr, args)
	}
}

// untilSignal gives a context that the first signal ends; the second ends the process.
func (c *commands) untilSignal(ctx context.Context, timeout time.Duration) (context.Context, func()) {
	if ctx == nil {
		ctx = context.Background()
	}
	release := func() {}
	if timeout > 0 {
		ctx, release = context.WithTimeout(ctx, timeout)
	}
	ctx, interrupt := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		for first := true; ; first = false {
			select {
			case <-c.w.Signals:
			case <-done:
				return
			}
			if !first {
				c.w.Exit(StatusInterrupted)
				return
			}
			interrupt(errInterrupted)
		}
	}()
	return ctx, func() { close(done); interrupt(nil); release() }
}

// interruptedBy says of an error that comes of a signal just that, unless the verb knows more: what became of a write.
func interruptedBy(ctx context.Context, err error) error {
	var write writeError
	if err == nil || context.Cause(ctx) != errInterrupted || errors.As(err, &write) {
		return err
	}
	return errInterrupted
}

// show prints a result: as one line of JSON where that was asked for, else as text for people.
func (s *session) show(value any, text string) error {
	if !s.json {
		_, err := fmt.Fprintln(s.w.Stdout, text)
		return err
	}
	return s.showJSON(value)
}

func (s *session) showJSON(value any) error {
	line, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	_, err = fmt.Fprintf(s.w.Stdout, "%s\n", line)
	return err
}

// countOf says how many there are of a thing.
func countOf[N int | uint64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
