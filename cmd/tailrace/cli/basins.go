package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tailrace-streams/tailrace/client"
)

// provisionedShown is what became of the creation of something.
type provisionedShown[Info any] struct {
	Info     Info            `json:"info"`
	Result   string          `json:"result"`
	Revision client.Revision `json:"revision,omitempty"`
}

// deletedShown is the deletion of something.
type deletedShown struct {
	Deleted  string          `json:"deleted"`
	Revision client.Revision `json:"revision,omitempty"`
}

const ensureUsage = "if it is there already, give it this config instead of failing"

func (c *commands) createBasin() *cobra.Command {
	var flags basinFlags
	var location string
	var ensure bool
	cmd := &cobra.Command{
		Use:   "create-basin BASIN",
		Short: "Make a basin",
		Example: "  tailrace create-basin my-second-basin\n" +
			"  tailrace create-basin my-second-basin --ensure --create-stream-on-append --retention-policy 30d",
	}
	flags.addTo(cmd.Flags())
	cmd.Flags().StringVar(&location, "location", "", "where the basin is to be")
	cmd.Flags().BoolVar(&ensure, "ensure", false, ensureUsage)
	return c.verb(cmd, 1, func(s *session, args []string) error {
		name, err := basinName(args[0])
		if err != nil {
			return err
		}
		config, err := flags.config()
		if err != nil {
			return err
		}
		provision := s.c.Basin(name).Create
		if ensure {
			provision = s.c.Basin(name).Ensure
		}
		made, err := provision(s.ctx, client.BasinSpec{Config: config, Location: location})
		if err != nil {
			return fmt.Errorf("create basin %s: %w", shown(name), wrote(err))
		}
		return s.show(provisionedShown[client.BasinInfo]{made.Info, made.Result, made.Revision}, fmt.Sprintf("%s %s%s", made.Result, scheme, name))
	})
}

func (c *commands) basinConfig() *cobra.Command {
	return c.verb(&cobra.Command{
		Use:               "get-basin-config BASIN",
		Short:             "Print the config of a basin",
		Example:           "  tailrace get-basin-config my-first-basin",
		ValidArgsFunction: c.completeBasins,
	}, 1, func(s *session, args []string) error {
		name, err := basinName(args[0])
		if err != nil {
			return err
		}
		config, err := s.c.Basin(name).Config(s.ctx)
		if err != nil {
			return fmt.Errorf("get the config of basin %s: %w", shown(name), err)
		}
		return s.showConfig(config)
	})
}

func (c *commands) reconfigureBasin() *cobra.Command {
	var flags basinFlags
	cmd := &cobra.Command{
		Use:               "reconfigure-basin BASIN",
		Short:             "Change what the flags say in the config of a basin; the value default resets",
		Example:           "  tailrace reconfigure-basin my-first-basin --create-stream-on-append=true --retention-policy default",
		ValidArgsFunction: c.completeBasins,
	}
	flags.addTo(cmd.Flags())
	return c.verb(cmd, 1, func(s *session, args []string) error {
		name, err := basinName(args[0])
		if err != nil {
			return err
		}
		change, err := flags.change()
		if err != nil {
			return err
		}
		config, err := s.c.Basin(name).Reconfigure(s.ctx, change)
		if err != nil {
			return fmt.Errorf("reconfigure basin %s: %w", shown(name), wrote(err))
		}
		return s.showConfig(config)
	})
}

func (c *commands) deleteBasin() *cobra.Command {
	return c.verb(&cobra.Command{
		Use:               "delete-basin BASIN",
		Short:             "Delete a basin and everything in it",
		Example:           "  tailrace delete-basin my-first-basin",
		ValidArgsFunction: c.completeBasins,
	}, 1, func(s *session, args []string) error {
		name, err := basinName(args[0])
		if err != nil {
			return err
		}
		revision, err := s.c.Basin(name).Delete(s.ctx)
		if err != nil {
			return fmt.Errorf("delete basin %s: %w", shown(name), wrote(err))
		}
		return s.show(deletedShown{scheme + name, revision}, "deleted "+scheme+name)
	})
}
