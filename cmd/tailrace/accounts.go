package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tailrace-streams/tailrace/functions/audit"
	"github.com/tailrace-streams/tailrace/functions/config"
	"github.com/tailrace-streams/tailrace/tenancy"
)

// firstToken is the id of the access token that an account is made with.
const firstToken = "first"

func (p *process) createAccountCommand() *cobra.Command {
	var name string
	cmd := p.onStores(&cobra.Command{
		Use:   "create-account",
		Short: "Make an account, and an access token that may do everything in it",
		Long: "Makes an account, whose basins and tokens nobody else sees, and the token " + firstToken + " in it. The token's text is\n" +
			"printed this once.",
		Example: "  tailrace admin create-account --name 'Team A' --heads dynamodb://tailrace --objects s3://my-bucket/tailrace",
	}, func(ctx context.Context, s *service, _ config.Config) error {
		var account tenancy.Account
		err := s.audited(ctx, audit.Entry{Operation: "create-account"}, func() (made string, err error) {
			account, err = s.Accounts.CreateAccount(ctx, name)
			return string(account.ID), err
		})
		if err != nil {
			return fmt.Errorf("create account: %w", err)
		}
		fmt.Fprintf(p.stdout, "account %s\n", account.ID)
		return p.printToken(ctx, s, account.ID, firstToken)
	})
	cmd.Flags().StringVar(&name, "name", "", "what people call the account")
	_ = cmd.MarkFlagRequired("name")
	return cmd
}

// audited makes a change of the operator's on the stores themselves, with an entry in the audit log before and after it.
func (s *service) audited(ctx context.Context, e audit.Entry, change func() (outcome string, err error)) error {
	e.Account, e.Via = string(tenancy.DefaultAccount), "admin"
	end, err := s.Audit.Begin(ctx, e)
	if err != nil {
		return err
	}
	outcome, err := change()
	result := audit.Result{Outcome: outcome}
	if err != nil {
		result.Code, result.Applied = "failed", "unknown"
		if tenancy.Definite(err) {
			result.Applied = "no"
		}
	}
	end(result)
	return err
}

// printToken issues a token that may do everything in an account, and prints it.
func (p *process) printToken(ctx context.Context, s *service, account tenancy.AccountID, id string) error {
	by := &tenancy.Principal{Account: account, Scope: tenancy.Everything()}
	var text string
	e := audit.Entry{Operation: "issue-access-token", OnAccount: string(account), OnToken: id}
	err := s.audited(ctx, e, func() (_ string, err error) {
		text, err = s.Accounts.Issue(ctx, by, tenancy.TokenSpec{ID: id, Scope: tenancy.Everything()})
		return "", err
	})
	if err != nil {
		return fmt.Errorf("issue token: %w", err)
	}
	_, err = fmt.Fprintf(p.stdout, "token %s\n", text)
	return err
}

func (p *process) listAccountsCommand() *cobra.Command {
	return p.onStores(&cobra.Command{
		Use:     "list-accounts",
		Short:   "List the accounts: id, state, time, name",
		Example: "  tailrace admin list-accounts --data ./tailrace-data",
	}, func(ctx context.Context, s *service, _ config.Config) error {
		return s.Accounts.EachAccount(ctx, func(a tenancy.Account) error {
			state, made := "active", "-"
			if a.Suspended {
				state = "suspended"
			}
			if !a.CreatedAt.IsZero() {
				made = a.CreatedAt.Format(time.RFC3339)
			}
			_, err := fmt.Fprintf(p.stdout, "%s\t%s\t%s\t%q\n", a.ID, state, made, a.Name)
			return err
		})
	})
}

func (p *process) issueTokenCommand() *cobra.Command {
	var account, id string
	cmd := p.onStores(&cobra.Command{
		Use:   "issue-token",
		Short: "Issue an access token that may do everything in an account",
		Long: "Issues an access token that may do everything in an account and prints its text, this once: for an account whose\n" +
			"tokens were lost. Narrower ones are issued with it, over the API.",
		Example: "  tailrace admin issue-token --account default --id operations --data ./tailrace-data",
	}, func(ctx context.Context, s *service, _ config.Config) error {
		a, err := s.Accounts.Account(ctx, tenancy.AccountID(account))
		if err != nil {
			return fmt.Errorf("find account: %w", err)
		}
		return p.printToken(ctx, s, a.ID, id)
	})
	cmd.Flags().StringVar(&account, "account", "", "the account's id")
	cmd.Flags().StringVar(&id, "id", "", "what the token is to be called")
	_ = cmd.MarkFlagRequired("account")
	_ = cmd.MarkFlagRequired("id")
	return cmd
}

func (p *process) suspendAccountCommand() *cobra.Command {
	var account string
	var undo bool
	cmd := p.onStores(&cobra.Command{
		Use:     "suspend-account",
		Short:   "Have the tokens of an account refused, or no longer",
		Example: "  tailrace admin suspend-account --account a-xyz --heads dynamodb://tailrace --objects s3://my-bucket/tailrace",
	}, func(ctx context.Context, s *service, _ config.Config) error {
		e := audit.Entry{Operation: "suspend-account", OnAccount: account}
		if undo {
			e.Operation = "resume-account"
		}
		return s.audited(ctx, e, func() (string, error) {
			return "", s.Accounts.Suspend(ctx, tenancy.AccountID(account), !undo)
		})
	})
	cmd.Flags().StringVar(&account, "account", "", "the account's id")
	cmd.Flags().BoolVar(&undo, "undo", false, "accept the tokens again")
	_ = cmd.MarkFlagRequired("account")
	return cmd
}

func (p *process) resetRootTokenCommand() *cobra.Command {
	return p.onStores(&cobra.Command{
		Use:     "reset-root-token",
		Short:   "Replace the root token that the first start made, and print the new one",
		Example: "  tailrace admin reset-root-token --data ./tailrace-data",
	}, func(ctx context.Context, s *service, _ config.Config) error {
		var text string
		err := s.audited(ctx, audit.Entry{Operation: "reset-root-token"}, func() (_ string, err error) {
			text, err = s.Accounts.ResetRoot(ctx)
			return "", err
		})
		if err != nil {
			return fmt.Errorf("reset root token: %w", err)
		}
		_, err = fmt.Fprintf(p.stdout, "root token %s\n", text)
		return err
	})
}

// rootPatience bounds the making of the root token when a server starts.
const rootPatience = 10 * time.Second

// ensureRoot makes the root token at the first start and shows it. Stores that are not open yet are waited for in the
// background: until there is a token, nobody has one to send.
func (p *process) ensureRoot(ctx context.Context, s *service) error {
	select {
	case <-s.Stores.Opened:
		return p.showRoot(ctx, s)
	default:
	}
	s.whenOpen(func(ctx context.Context) {
		for {
			err := p.showRoot(ctx, s)
			if err == nil || ctx.Err() != nil {
				return
			}
			s.log.Error().Err(err).Msg("there may be no root token; trying again")
			select {
			case <-time.After(rootPatience):
			case <-ctx.Done():
			}
		}
	})
	return nil
}

func (p *process) showRoot(ctx context.Context, s *service) error {
	ctx, cancel := context.WithTimeout(ctx, rootPatience)
	defer cancel()
	text, err := s.Accounts.EnsureRoot(ctx)
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case err != nil:
		return fmt.Errorf("make root token: %w", err)
	case text == "":
		return nil
	}
	if _, err = fmt.Fprintf(p.stdout, "root token: %s\n            (shown this once, and stored nowhere: keep it)\n", text); err != nil {
		return fmt.Errorf("show root token: %w; replace it with tailrace admin reset-root-token", err)
	}
	return nil
}
