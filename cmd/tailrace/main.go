// Command tailrace serves durable streams over the S2 v1 API. It composes the packages and holds no logic of streams:
// what it is told (functions/config), where things are kept (stores.go), what answers (functions/api), how it stops.
//
// Exit status: 0 after a clean end, 1 when something failed, 2 when it was called wrongly or misconfigured. The verbs that use
// streams (cli) have more, which `tailrace help exit-status` lists.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tailrace-streams/tailrace/cmd/tailrace/cli"
	"github.com/tailrace-streams/tailrace/functions/config"
)

// process is what a command sees of the world around it, so that tests can stand in for it.
type process struct {
	environ        []string
	stdin          io.Reader
	stdout, stderr io.Writer
	// signals brings those that ask for an end. It has room for two: the second is not lost while the first is served.
	signals <-chan os.Signal
	// exit ends the process at once.
	exit func(code int)
}

// The exit statuses of this package's own commands; cli has those of the verbs.
const (
	exitOK     = cli.StatusOK
	exitFailed = cli.StatusFailed
	exitUsage  = cli.StatusUsage
)

// gcPercent makes the collector run twice as often as Go's default: most of the memory in use is records on their way,
// which are garbage soon, and the time it takes does not show beside a sync. GOGC overrides it.
const gcPercent = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	p := &process{environ: os.Environ(), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, signals: signals, exit: os.Exit}
	os.Exit(p.run(os.Args[1:]))
}

// errUsage marks an error of whoever called the program.
var errUsage = errors.New("see tailrace --help")

// run carries out a command line and returns the exit status.
func (p *process) run(args []string) int {
	root := p.rootCommand()
	root.SetArgs(args)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(p.stderr, "tailrace: %v\n", err)
	var faults config.Faults
	if errors.As(err, &faults) || errors.Is(err, errUsage) {
		return exitUsage
	}
	return cli.Status(err)
}

// noArgs refuses arguments, and with them commands that do not exist.
func noArgs(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return fmt.Errorf("%w; %w", err, errUsage)
	}
	return nil
}

// showHelp is what a command does that only holds others. Having something to do makes it check its arguments.
func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

func (p *process) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "tailrace",
		Short: "Durable streams over the S2 v1 API",
		Args:  noArgs,
		RunE:  showHelp,
		// An error of a command is printed once, by run.
		SilenceErrors: true, SilenceUsage: true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w; %w", err, errUsage) })
	root.AddCommand(p.serveCommand(), p.adminCommand(), p.versionCommand())
	root.AddCommand(cli.Commands(cli.World{
		Environ: p.environ, Stdin: p.stdin, Stdout: p.stdout, Stderr: p.stderr, Signals: p.signals, Exit: p.exit,
	})...)
	return root
}
