package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tailrace-streams/tailrace/client"
)

func (c *commands) createStream() *cobra.Command {
	var flags streamFlags
	var ensure bool
	cmd := &cobra.Command{
		Use:   "create-stream ADDRESS",
		Short: "Make a stream",
		Example: "  tailrace create-stream tailrace://my-first-basin/rooms/7\n" +
			"  tailrace create-stream tailrace://my-first-basin/rooms/7 --ensure --fencing exclusive --retention-policy 7d",
		ValidArgsFunction: c.completeStreams,
	}
	flags.addTo(cmd.Flags())
	cmd.Flags().BoolVar(&ensure, "ensure", false, ensureUsage)
	return c.verb(cmd, 1, onStream(func(s *session, addr address, args []string) error {
		config, err := flags.config()
		if err != nil {
			return err
		}
		provision := addr.of(s.c).Create
		if ensure {
			provision = addr.of(s.c).Ensure
		}
		made, err := provision(s.ctx, config)
		if err != nil {
			return fmt.Errorf("create %s: %w", shown(args[0]), wrote(err))
		}
		return s.show(provisionedShown[client.StreamInfo]{made.Info, made.Result, made.Revision}, made.Result+" "+shown(addr.String()))
	}))
}

func (c *commands) streamConfig() *cobra.Command {
	return c.verb(&cobra.Command{
		Use:               "get-stream-config ADDRESS",
		Short:             "Print the config of a stream, with all that it takes from defaults",
		Example:           "  tailrace get-stream-config tailrace://my-first-basin/orders",
		ValidArgsFunction: c.completeStreams,
	}, 1, onStream(func(s *session, addr address, args []string) error {
		config, err := addr.of(s.c).Config(s.ctx)
		if err != nil {
			return fmt.Errorf("get the config of %s: %w", shown(args[0]), err)
		}
		return s.showConfig(config)
	}))
}

func (c *commands) reconfigureStream() *cobra.Command {
	var flags streamFlags
	cmd := &cobra.Command{
		Use:               "reconfigure-stream ADDRESS",
		Short:             "Change what the flags say in the config of a stream; the value default resets",
		Example:           "  tailrace reconfigure-stream tailrace://my-first-basin/orders --retention-policy 30d --fencing exclusive",
		ValidArgsFunction: c.completeStreams,
	}
	flags.addTo(cmd.Flags())
	return c.verb(cmd, 1, onStream(func(s *session, addr address, args []string) error {
		change, err := flags.change()
		if err != nil {
			return err
		}
		config, err := addr.of(s.c).Reconfigure(s.ctx, change)
		if err != nil {
			return fmt.Errorf("reconfigure %s: %w", shown(args[0]), wrote(err))
		}
		return s.showConfig(config)
	}))
}

func (c *commands) deleteStream() *cobra.Command {
	return c.verb(&cobra.Command{
		Use:               "delete-stream ADDRESS",
		Short:             "Delete a stream and its records",
		Example:           "  tailrace delete-stream tailrace://my-first-basin/orders",
		ValidArgsFunction: c.completeStreams,
	}, 1, onStream(func(s *session, addr address, args []string) error {
		revision, err := addr.of(s.c).Delete(s.ctx)
		if err != nil {
			return fmt.Errorf("delete %s: %w", shown(args[0]), wrote(err))
		}
		return s.show(deletedShown{addr.String(), revision}, "deleted "+shown(addr.String()))
	}))
}

// showConfig prints a config as JSON, which is how one is written everywhere: on several lines for people.
func (s *session) showConfig(config any) error {
	if s.json {
		return s.showJSON(config)
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return fmt.Errorf("encode config: %w", err)
	}
	_, err = fmt.Fprintf(s.w.Stdout, "%s\n", text)
	return err
}
