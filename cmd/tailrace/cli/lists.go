package cli

import (
	"bufio"
	"cmp"
	"context"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tailrace-streams/tailrace/client"
	"github.com/tailrace-streams/tailrace/wire"
)

// listFlags choose what is listed.
type listFlags struct {
	o     client.ListOptions
	limit uint64
}

func (f *listFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVarP(&f.o.Prefix, "prefix", "p", "", "only names that begin with this")
	flags.StringVarP(&f.o.StartAfter, "start-after", "s", "", "only names behind this one, bytewise")
	flags.Uint64VarP(&f.limit, "limit", "n", 0, "the most names to print (default: all)")
}

func (f *listFlags) addDeletingTo(flags *pflag.FlagSet) {
	flags.BoolVar(&f.o.Deleting, "deleting", false, "list also what is being deleted")
}

func (f *listFlags) options() client.ListOptions {
	o := f.o
	if f.limit > 0 {
		o.PageSize = int(min(f.limit, 1000))
	}
	return o
}

// print prints what is listed, up to the limit.
func print[T any](s *session, f *listFlags, items iter.Seq2[T, error], line func(*T) string) error {
	out := bufio.NewWriter(s.w.Stdout)
	buffered := *s
	buffered.w.Stdout = out
	printed := uint64(0)
	for item, err := range items {
		if err == nil {
			err = buffered.show(item, line(&item))
		}
		if err != nil {
			_ = out.Flush()
			return err
		}
		if printed++; printed == f.limit {
			break
		}
	}
	return out.Flush()
}

func basinLine(b *client.BasinInfo) string {
	return scheme + b.Name + "\t" + timesLine(b.CreatedAt, b.DeletedAt)
}

func streamLine(basin string) func(*client.StreamInfo) string {
	return func(i *client.StreamInfo) string {
		return shown(address{basin, i.Name}.String()) + "\t" + timesLine(i.CreatedAt, i.DeletedAt)
	}
}

func timesLine(created wire.Time, deleted *wire.Time) string {
	line := created.UTC().Format(time.RFC3339)
	if deleted != nil {
		line += "\tdeleting since " + deleted.UTC().Format(time.RFC3339)
	}
	return line
}

func (c *commands) list() *cobra.Command {
	var flags listFlags
	var sight sightFlags
	cmd := &cobra.Command{
		Use:   "ls [BASIN | ADDRESS]",
		Short: "List basins, or the streams of one",
		Long:  "Without an argument lists basins. With a basin, or an address, lists the streams whose names begin as it says.",
		Example: "  tailrace ls\n" +
			"  tailrace ls my-first-basin\n" +
			"  tailrace ls tailrace://my-first-basin/rooms/ --json",
		ValidArgsFunction: c.completeStreams,
	}
	flags.addTo(cmd.Flags())
	flags.addDeletingTo(cmd.Flags())
	sight.addTo(cmd.Flags())
	cmd = c.verb(cmd, 1, func(s *session, args []string) error {
		if len(args) == 0 {
			return print(s, &flags, s.c.Basins(s.ctx, flags.options()), basinLine)
		}
		addr := address{basin: args[0]}
		if strings.Contains(args[0], "://") {
			var err error
			if addr, err = parseAddress(args[0]); err != nil {
				return err
			}
		}
		flags.o.Prefix = cmp.Or(flags.o.Prefix, addr.stream)
		return print(s, &flags, sight.basin(s.c.Basin(addr.basin)).Streams(s.ctx, flags.options()), streamLine(addr.basin))
	})
	exactly := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return exactly(cmd, args)
	}
	return cmd
}

func (c *commands) listBasins() *cobra.Command {
	var flags listFlags
	cmd := &cobra.Command{Use: "list-basins", Short: "List basins", Example: "  tailrace list-basins --prefix my- --limit 10"}
	flags.addTo(cmd.Flags())
	flags.addDeletingTo(cmd.Flags())
	return c.verb(cmd, 0, func(s *session, _ []string) error {
		return print(s, &flags, s.c.Basins(s.ctx, flags.options()), basinLine)
	})
}

func (c *commands) listStreams() *cobra.Command {
	var flags listFlags
	var sight sightFlags
	cmd := &cobra.Command{
		Use: "list-streams BASIN", Short: "List the streams of a basin",
		Example:           "  tailrace list-streams my-first-basin --prefix rooms/ --json",
		ValidArgsFunction: c.completeBasins,
	}
	flags.addTo(cmd.Flags())
	flags.addDeletingTo(cmd.Flags())
	sight.addTo(cmd.Flags())
	return c.verb(cmd, 1, func(s *session, args []string) error {
		basin, err := basinName(args[0])
		if err != nil {
			return err
		}
		return print(s, &flags, sight.basin(s.c.Basin(basin)).Streams(s.ctx, flags.options()), streamLine(basin))
	})
}

// completionMax bounds what a completion offers, and completionPatience how long the shell waits for it.
const (
	completionMax      = 100
	completionPatience = 2 * time.Second
)

// completeBasins offers the names of basins.
func (c *commands) completeBasins(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.complete(cmd, func(ctx context.Context, conn *client.Client) (names []string) {
		for b, err := range conn.Basins(ctx, client.ListOptions{Prefix: begun, PageSize: completionMax}) {
			if err != nil || len(names) == completionMax {
				break
			}
			names = append(names, b.Name)
		}
		return names
	})
}

// completeStreams offers addresses: of basins until one is named, then of its streams.
func (c *commands) completeStreams(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	used := scheme
	if strings.HasPrefix(begun, schemeS2) {
		used = schemeS2
	}
	basin, stream, named := strings.Cut(strings.TrimPrefix(begun, used), "/")
	if !strings.HasPrefix(begun, used) {
		basin, stream, named = "", "", false
	}
	return c.complete(cmd, func(ctx context.Context, conn *client.Client) (addresses []string) {
		if !named {
			for b, err := range conn.Basins(ctx, client.ListOptions{Prefix: basin, PageSize: completionMax}) {
				if err != nil || len(addresses) == completionMax {
					break
				}
				addresses = append(addresses, used+b.Name+"/")
			}
			return addresses
		}
		for i, err := range conn.Basin(basin).Streams(ctx, client.ListOptions{Prefix: stream, PageSize: completionMax}) {
			if err != nil || len(addresses) == completionMax {
				break
			}
			addresses = append(addresses, used+basin+"/"+i.Name)
		}
		return addresses
	})
}

// complete asks the server that the flags on the line name. What fails offers nothing: a shell has no place for errors.
func (c *commands) complete(cmd *cobra.Command, ask func(context.Context, *client.Client) []string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	set := settings{compression: "none"}
	set.endpoint, _ = cmd.Flags().GetString("endpoint")
	set.token, _ = cmd.Flags().GetString("token")
	set.tokenFile, _ = cmd.Flags().GetString("token-file")
	set.caFile, _ = cmd.Flags().GetString("ca-file")
	set.noVerify, _ = cmd.Flags().GetBool("insecure")
	conn, err := set.connect(c.w, client.Retry{Attempts: 1})
	if err != nil {
		return nil, directive
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), completionPatience)
	defer cancel()
	return ask(ctx, conn), directive
}
