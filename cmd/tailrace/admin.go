package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/dynamostore"
	"github.com/tailrace-streams/tailrace/functions/config"
	"github.com/tailrace-streams/tailrace/functions/config/cloud"
	"github.com/tailrace-streams/tailrace/functions/stores"
	"github.com/tailrace-streams/tailrace/tenancy"
)

// adminCommand holds the operators' verbs. They work on the stores themselves, so a data folder must not be served
// meanwhile; a bucket and a table may be.
func (p *process) adminCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "admin", Short: "Look after the stores themselves", Args: noArgs, RunE: showHelp}
	cmd.AddCommand(p.createTableCommand(), p.probeCommand(), p.collectCommand(), p.checkCommand(),
		p.createAccountCommand(), p.listAccountsCommand(), p.suspendAccountCommand(), p.issueTokenCommand(), p.resetRootTokenCommand())
	return cmd
}

// onStores makes a command that reads the same settings as serve and works on the stores they name.
func (p *process) onStores(cmd *cobra.Command, work func(ctx context.Context, s *service, cfg config.Config) error) *cobra.Command {
	config.AddFlags(cmd.Flags())
	cmd.Args = noArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := config.Load(cmd.Flags(), p.environ)
		if err != nil {
			return fmt.Errorf("read configuration: %w", err)
		}
		if err := mustExist(cfg); err != nil {
			return err
		}
		logger, err := newLog(p.stderr, cfg)
		if err != nil {
			return err
		}
		held, err := openStores(cmd.Context(), cfg, logger, false)
		if err != nil {
			return err
		}
		var s *service
		if err = held.Await(cmd.Context(), adminPatience); err == nil {
			s, err = newService(cfg, held, logger)
		}
		if err == nil {
			err = work(cmd.Context(), s, cfg)
			s.Streams.Close()
		}
		return errors.Join(err, held.Close())
	}
	return cmd
}

func mustExist(cfg config.Config) error {
	switch {
	case cfg.Memory:
		return fmt.Errorf("memory is not kept: %w", stores.ErrNoStores)
	case cfg.Shared():
		return nil // judged where they are opened
	}
	if _, err := os.Stat(filepath.Join(cfg.Data, formatName)); err != nil {
		return fmt.Errorf("%w: %w", stores.ErrNoStores, err)
	}
	return nil
}

// adminPatience is how long an operator's verb waits for stores that are out of reach.
const adminPatience = 30 * time.Second

func (p *process) createTableCommand() *cobra.Command {
	var options dynamostore.TableOptions
	cmd := &cobra.Command{
		Use:   "create-table",
		Short: "Make the DynamoDB table that --heads names, and mark it as a store",
		Long: "Makes the table, billed by request, waits until it can be used, and marks it. A table that is there already is\n" +
			"taken if it is one of ours, or empty with the right keys (pk, a string; sk, binary). Doing it again changes nothing.",
		Example: "  tailrace admin create-table --heads dynamodb://tailrace --aws-region eu-central-1 --point-in-time-recovery",
		Args:    noArgs,
	}
	config.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&options.PointInTimeRecovery, "point-in-time-recovery", false, "turn on continuous backups")
	cmd.Flags().BoolVar(&options.DeletionProtection, "deletion-protection", false, "have AWS refuse to delete the table")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := config.LoadForTable(cmd.Flags(), p.environ)
		if err != nil {
			return fmt.Errorf("read configuration: %w", err)
		}
		logger, err := newLog(p.stderr, cfg)
		if err != nil {
			return err
		}
		c, err := cloud.Load(cmd.Context(), cfg, logger)
		if err != nil {
			return fmt.Errorf("create %s: %w", cfg.Heads, err)
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), creationPatience)
		defer cancel()
		if err := dynamostore.CreateTable(ctx, c.Table(), options); err != nil {
			return err
		}
		store, err := dynamostore.Open(ctx, c.Table())
		if err != nil {
			return err
		}
		defer store.Close()
		_, err = fmt.Fprintf(p.stdout, "%s is ready, with id %s\n", cfg.Heads, store.ID())
		return err
	}
	return cmd
}

// creationPatience bounds the making of a table, which takes AWS some seconds.
const creationPatience = 2 * time.Minute

func (p *process) collectCommand() *cobra.Command {
	var dryRun bool
	cmd := p.onStores(&cobra.Command{
		Use:   "collect",
		Short: "Retire what expired, and delete the objects that nothing refers to",
		Long: "Does one round of what serve does in the background: retires records that expired or were trimmed, deletes\n" +
			"streams that are to go when empty, and deletes the objects older than --collect-grace that no stream refers to.",
		Example: "  tailrace admin collect --data ./tailrace-data --collect-grace 0s\n" +
			"  tailrace admin collect --data ./tailrace-data --dry-run",
	}, func(ctx context.Context, s *service, cfg config.Config) error {
		if dryRun {
			return p.dryCollect(ctx, s, cfg.CollectGrace)
		}
		report, err := s.Upkeep.Round(ctx)
		fmt.Fprintf(p.stdout, "basins %d, streams %d, deleted when empty %d, forgotten %d\n",
			report.Basins, report.Streams, report.DeletedEmpty, report.Forgotten)
		p.printCollected(report.Collected)
		return err
	})
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "tell what would be deleted, and change nothing")
	return cmd
}

func (p *process) dryCollect(ctx context.Context, s *service, grace time.Duration) error {
	return s.Directory.Basins(ctx, func(b tenancy.Basin) error {
		report, err := s.Upkeep.Collect(ctx, b, grace, true)
		fmt.Fprintf(p.stdout, "basin %s: ", b.Name)
		p.printCollected(report)
		return err
	})
}

func (p *process) printCollected(r coordinator.CollectReport) {
	fmt.Fprintf(p.stdout, "objects %d, referred to %d, deleted %d (%d bytes), failed %d, quarantined %d\n",
		r.Candidates, r.Named, r.Deleted, r.Bytes, r.Failed, r.Quarantined)
}

// errDamaged ends a check that found something wrong.
var errDamaged = errors.New("some streams are damaged")

func (p *process) checkCommand() *cobra.Command {
	return p.onStores(&cobra.Command{
		Use:   "check",
		Short: "Read every record of every stream and verify it",
		Long: "Reads every head, page and record from the stores, past all caches, and verifies checksums, the order of\n" +
			"sequence numbers, and that every object is there. Changes nothing. Exit status 1 if anything is wrong.",
		Example: "  tailrace admin check --data ./tailrace-data",
	}, func(ctx context.Context, s *service, _ config.Config) error {
		var streams, records, bad int
		err := s.Directory.Walk(ctx, func(st tenancy.Stream) error {
			if st.State != tenancy.Active {
				return nil
			}
			streams++
			report, err := s.Streams.Check(ctx, st.Ref)
			records += report.Records
			if err != nil {
				bad++
				fmt.Fprintf(p.stdout, "basin %s, stream %q: %v\n", st.BasinName, st.Name, err)
			}
			return ctx.Err()
		})
		fmt.Fprintf(p.stdout, "streams %d, records %d, damaged streams %d\n", streams, records, bad)
		if err == nil && bad > 0 {
			err = errDamaged
		}
		return err
	})
}
