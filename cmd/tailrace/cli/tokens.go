package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tailrace-streams/tailrace/client"
	"github.com/tailrace-streams/tailrace/wire"
)

func (c *commands) listTokens() *cobra.Command {
	var flags listFlags
	cmd := &cobra.Command{Use: "list-access-tokens", Short: "List access tokens, without their secrets", Example: "  tailrace list-access-tokens"}
	flags.addTo(cmd.Flags())
	return c.verb(cmd, 0, func(s *session, _ []string) error {
		return print(s, &flags, s.c.AccessTokens(s.ctx, flags.options()), func(i *client.AccessTokenInfo) string {
			if i.ExpiresAt == nil {
				return shown(i.ID)
			}
			return shown(i.ID) + "\texpires " + i.ExpiresAt.UTC().Format(time.RFC3339)
		})
	})
}

// issuing is one run of the verb issue-access-token.
type issuing struct {
	basins, streams, tokens string
	groups, ops             []string
	expiresIn               string
	autoPrefix              bool
}

func (c *commands) issueToken() *cobra.Command {
	var i issuing
	cmd := &cobra.Command{
		Use:   "issue-access-token ID",
		Short: "Make an access token and print its secret, which is shown this once",
		Long: "Makes an access token for what the flags permit; what they do not name is not permitted. Resources are named as\n" +
			"exact:NAME or prefix:PREFIX, where an empty prefix is all of them.",
		Example: "  tailrace issue-access-token reader --basins exact:my-first-basin --streams prefix:rooms/ --op-groups stream:read\n" +
			"  tailrace issue-access-token writer --basins exact:my-first-basin --streams exact:orders --ops append,check-tail --expires-in 12h",
	}
	f := cmd.Flags()
	f.StringVar(&i.basins, "basins", "", "the basins it is for")
	f.StringVar(&i.streams, "streams", "", "the streams it is for")
	f.StringVar(&i.tokens, "access-tokens", "", "the access tokens, by their ids, that it may issue, list and revoke")
	f.StringSliceVar(&i.groups, "op-groups", nil, "groups of operations, as account:read, basin:write, stream:rw")
	f.StringSliceVar(&i.ops, "ops", nil, "single operations, such as append and check-tail")
	f.StringVar(&i.expiresIn, "expires-in", "", "how long it lasts, such as 12h or 90d (default: until it is revoked)")
	f.BoolVar(&i.autoPrefix, "auto-prefix-streams", false, "put the prefix of --streams before all stream names, unseen by who uses it")
	return c.verb(cmd, 1, func(s *session, args []string) error {
		spec, err := i.spec(args[0], time.Now())
		if err != nil {
			return err
		}
		secret, err := s.c.IssueAccessToken(s.ctx, spec)
		if err != nil {
			return fmt.Errorf("issue access token %s: %w", shown(args[0]), wrote(err))
		}
		return s.show(wire.IssueAccessTokenResponse{AccessToken: string(secret)}, string(secret))
	})
}

func (i *issuing) spec(id string, now time.Time) (spec client.AccessTokenSpec, err error) {
	spec.ID, spec.AutoPrefixStreams = id, i.autoPrefix
	for _, set := range []struct {
		flag, text string
		to         **wire.ResourceSet
	}{
		{"--basins", i.basins, &spec.Scope.Basins}, {"--streams", i.streams, &spec.Scope.Streams},
		{"--access-tokens", i.tokens, &spec.Scope.AccessTokens},
	} {
		if *set.to, err = resourcesOf(set.flag, set.text); err != nil {
			return spec, err
		}
	}
	for _, op := range i.ops {
		spec.Scope.Ops = append(spec.Scope.Ops, wire.Operation(op))
	}
	for _, group := range i.groups {
		if err := addGroup(&spec.Scope.OpGroups, group); err != nil {
			return spec, err
		}
	}
	if i.expiresIn != "" {
		lasts, err := durationOf("--expires-in", i.expiresIn)
		if err != nil {
			return spec, err
		}
		spec.ExpiresAt = &wire.Time{Time: now.Add(lasts).UTC().Truncate(time.Second)}
	}
	return spec, nil
}

func resourcesOf(flag, text string) (*wire.ResourceSet, error) {
	if text == "" {
		return nil, nil
	}
	kind, name, _ := strings.Cut(text, ":")
	if kind != "exact" && kind != "prefix" {
		return nil, usagef("%s %q: write exact:NAME or prefix:PREFIX", flag, text)
	}
	return &wire.ResourceSet{Name: name, IsPrefix: kind == "prefix"}, nil
}

func addGroup(groups *wire.OpGroups, text string) error {
	level, access, _ := strings.Cut(text, ":")
	to := map[string]*wire.ReadWrite{"account": &groups.Account, "basin": &groups.Basin, "stream": &groups.Stream}[level]
	reads, writes := access == "read" || access == "rw", access == "write" || access == "rw"
	if to == nil || !reads && !writes {
		return usagef("--op-groups %q: write account, basin or stream, and :read, :write or :rw", text)
	}
	to.Read = to.Read || reads
	to.Write = to.Write || writes
	return nil
}

func (c *commands) revokeToken() *cobra.Command {
	return c.verb(&cobra.Command{
		Use: "revoke-access-token ID", Short: "End an access token",
		Example: "  tailrace revoke-access-token reader",
	}, 1, func(s *session, args []string) error {
		if err := s.c.RevokeAccessToken(s.ctx, args[0]); err != nil {
			return fmt.Errorf("revoke access token %s: %w", shown(args[0]), wrote(err))
		}
		return s.show(struct {
			Revoked string `json:"revoked"`
		}{args[0]}, "revoked "+shown(args[0]))
	})
}

func locationLine(l client.LocationInfo) string { return shown(l.Name) }

func (c *commands) listLocations() *cobra.Command {
	return c.verb(&cobra.Command{
		Use: "list-locations", Short: "List the places where basins can be",
		Example: "  tailrace list-locations",
	}, 0, func(s *session, _ []string) error {
		locations, err := s.c.Locations(s.ctx)
		for _, l := range locations {
			if err == nil {
				err = s.show(l, locationLine(l))
			}
		}
		return err
	})
}

func (c *commands) defaultLocation() *cobra.Command {
	return c.verb(&cobra.Command{
		Use: "get-default-location", Short: "Print where basins are made that do not say where",
		Example: "  tailrace get-default-location --json",
	}, 0, func(s *session, _ []string) error {
		l, err := s.c.DefaultLocation(s.ctx)
		if err != nil {
			return err
		}
		return s.show(l, locationLine(l))
	})
}

func (c *commands) setDefaultLocation() *cobra.Command {
	return c.verb(&cobra.Command{
		Use: "set-default-location LOCATION", Short: "Change where basins are made that do not say where",
		Example: "  tailrace set-default-location \"$(tailrace get-default-location)\"",
	}, 1, func(s *session, args []string) error {
		l, err := s.c.SetDefaultLocation(s.ctx, args[0])
		if err != nil {
			return fmt.Errorf("set the default location: %w", wrote(err))
		}
		return s.show(l, locationLine(l))
	})
}
