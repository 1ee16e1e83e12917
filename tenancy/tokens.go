package tenancy

import (
	"context"
	"errors"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// TokenSpec is an access token to be issued, as its issuer asks for it.
type TokenSpec struct {
	ID string
	// ExpiresAt is zero for as long as the issuer's own token.
	ExpiresAt time.Time
	// AutoPrefix has the prefix of Scope.Streams put before every stream name of the client.
	AutoPrefix bool
	// Scope has stream names as the issuer sees them: without the prefix that is added for it.
	Scope Scope
}

// TokenInfo describes an access token, with stream names as the asker sees them.
type TokenInfo TokenSpec

// TokenPage is one page of a listing of access tokens, in bytewise order of their ids. HasMore is exact.
type TokenPage struct {
	Tokens  []TokenInfo
	HasMore bool
}

// Issue makes an access token in the issuer's account and returns its text, which is nowhere else. The issuer must be
// permitted to, and grants nothing that it may not do itself: ErrDenied. ErrTokenExists; *InvalidError. If the error is
// in doubt there may be a token by that id whose text nobody has: revoke it.
func (a *Accounts) Issue(ctx context.Context, by *Principal, spec TokenSpec) (string, error) {
	expires, err := a.judge(by, &spec)
	if err != nil {
		return "", err
	}
	bearer := newBearer(claim{accessBearer, by.Account, spec.ID})
	scope := scopeRow(spec.Scope)
	row := tokenRow{
		State: Active, Hash: hexOf(digestOf(bearer)), CreatedAt: a.d.now(), ExpiresAt: expires,
		Issuer: by.Token, Auto: spec.AutoPrefix, Scope: &scope,
	}
	key := tokenKey(by.Account, spec.ID)
	for n := 0; n < attempts && pause(ctx, n); n++ {
		var found tokenRow
		v, err := a.d.get(ctx, key, &found)
		switch {
		case err != nil:
			return "", untouched(err)
		case v != 0 && a.lives(&found):
			return "", ErrTokenExists
		}
		_, err = a.d.put(ctx, key, &row, v)
		var m *moved
		if !errors.As(err, &m) {
			if err != nil {
				return "", untouched(err)
			}
			return bearer, nil
		}
		found = tokenRow{}
		if m.found.Version != 0 && decode(m.found.Value, &found) == nil && found.Hash == row.Hash {
			return bearer, nil // the secret is this call's own, so this is what it wrote
		}
		if m.doubt {
			return "", inDoubt(err) // it was there for a moment, or it was not
		}
	}
	return "", exhausted(ctx)
}

// judge refuses a token that makes no sense, or that its issuer may not issue, and gives its expiry. The spec's stream
// names are full names afterwards.
func (a *Accounts) judge(by *Principal, spec *TokenSpec) (expires uint64, err error) {
	if !by.May(IssueAccessToken, Resource{Token: spec.ID}) {
		return 0, ErrDenied
	}
	if err := checkName("token", spec.ID); err != nil || len(spec.ID) > tokenIDMax {
		return 0, invalid("id: must be valid UTF-8 of 1 to %d bytes", tokenIDMax)
	}
	if spec.ID == RootToken || spec.ID == ".." {
		return 0, invalid("id: must not be %q, which is no segment of a path", spec.ID)
	}
	// The two texts are compared, to the letter, by tests of public clients.
	if spec.Scope.Permitted() == 0 {
		return 0, invalid("Access token permissions cannot be empty")
	}
	if spec.AutoPrefix && !spec.Scope.Streams.Prefix {
		return 0, invalid("Auto prefixing is only allowed for streams with prefix matching")
	}
	spec.Scope.Streams = spec.Scope.Streams.prepended(by.AutoPrefix)
	// Who does not see a prefix cannot hand it out either: its holders would see it in full.
	leaks := by.AutoPrefix != "" && !spec.AutoPrefix && !spec.Scope.Streams.None()
	if leaks || !spec.Scope.Within(&by.Scope) {
		return 0, ErrDenied
	}
	most := toMillis(by.ExpiresAt)
	if by.ExpiresAt.IsZero() {
		most = 0
	}
	switch expires = toMillis(spec.ExpiresAt); {
	case spec.ExpiresAt.IsZero():
		return most, nil
	case expires <= a.d.now():
		return 0, invalid("expires_at: must be in the future")
	case most != 0 && expires > most:
		return 0, ErrDenied
	}
	return expires, nil
}

// lives reports whether a token is neither revoked nor expired.
func (a *Accounts) lives(r *tokenRow) bool {
	return r.State == Active && (r.ExpiresAt == 0 || a.d.now() < r.ExpiresAt)
}

// Revoke ends an access token of the principal's account; within MaxAge it is refused everywhere. ErrDenied;
// ErrTokenNotFound for what is not there, or revoked or expired.
func (a *Accounts) Revoke(ctx context.Context, by *Principal, id string) error {
	if !by.May(RevokeAccessToken, Resource{Token: id}) {
		return ErrDenied
	}
	key, hash := tokenKey(by.Account, id), ""
	for n := 0; n < attempts && pause(ctx, n); n++ {
		var row tokenRow
		v, err := a.d.get(ctx, key, &row)
		switch {
		case err != nil:
			return untouched(err)
		case v == 0 || !a.lives(&row):
			return ErrTokenNotFound
		case hash != "" && row.Hash != hash:
			return nil // the one that was meant is gone, and this is another
		}
		hash = row.Hash
		_, err = a.d.put(ctx, key, &tokenRow{
			State: Deleted, CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt, RevokedAt: a.d.now(), Issuer: row.Issuer,
		}, v)
		var m *moved
		if !errors.As(err, &m) {
			a.forget(hash)
			return untouched(err)
		}
		if m.doubt {
			// A token's row goes on from active in one way only while it has this hash, and it has gone on.
			a.forget(hash)
			return nil
		}
	}
	return exhausted(ctx)
}

// List shows the access tokens of the principal's account that are in its scope. A limit outside 1 to ListMax is
// ListMax. ErrDenied.
func (a *Accounts) List(ctx context.Context, by *Principal, prefix, after string, limit int) (TokenPage, error) {
	if !by.May(ListAccessTokens, Resource{}) {
		return TokenPage{}, ErrDenied
	}
	prefix, exact, ok := by.Scope.Tokens.Narrow(prefix)
	if !ok {
		return TokenPage{}, nil
	}
	items, more, err := page(ctx, a.d, tokensPart(by.Account), prefix, after, limit, func(r coordinator.Row) (TokenInfo, bool, error) {
		var row tokenRow
		if err := decode(r.Value, &row); err != nil {
			return TokenInfo{}, false, err
		}
		if !a.lives(&row) || exact && r.Key.Sort != prefix {
			return TokenInfo{}, false, nil
		}
		return row.shownTo(by, r.Key.Sort), true, nil
	})
	return TokenPage{items, more}, untouched(err)
}

// shownTo describes a token as a principal may see it: of its streams, what the principal's own prefix leaves.
func (r *tokenRow) shownTo(by *Principal, id string) TokenInfo {
	scope := Scope(*r.Scope)
	scope.Streams = scope.Streams.below(by.AutoPrefix)
	return TokenInfo{ID: id, ExpiresAt: toTime(r.ExpiresAt), AutoPrefix: r.Auto, Scope: scope}
}

// below is the part of a set whose names start with a text, without that text.
func (s NameSet) below(text string) NameSet {
	by, exact, ok := s.Narrow(text)
	if !ok || len(by) < len(text) || by == text && exact {
		return NameSet{}
	}
	return NameSet{by[len(text):], !exact}
}

// Sweep removes the rows of tokens that expired more than a tombstone's age ago, revoked or not. Those that would never
// have expired stay, revoked, for good: they are small, and nothing late can bring them back.
func (a *Accounts) Sweep(ctx context.Context) error {
	return a.EachAccount(ctx, func(account Account) error {
		return a.d.each(ctx, tokensPart(account.ID), "", func(r coordinator.Row) error {
			var row tokenRow
			if err := decode(r.Value, &row); err != nil {
				a.d.Log.Warn().Err(err).Msg("a row of an access token is left as it is")
				return nil
			}
			if row.ExpiresAt == 0 || !a.d.aged(row.ExpiresAt) {
				return nil
			}
			grave := tokenRow{
				State: Deleted, CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt, RevokedAt: max(row.RevokedAt, row.ExpiresAt),
			}
			return a.d.purge(ctx, r.Key, &grave, r.Version, func() error { return nil })
		})
	})
}

// Run sweeps once a walk's period until ctx ends.
func (a *Accounts) Run(ctx context.Context) {
	a.d.every(ctx, a.d.WalkPeriod/48, a.d.WalkPeriod, func() {
		if err := a.Sweep(ctx); err != nil && ctx.Err() == nil {
			a.d.Log.Warn().Err(err).Msg("sweep of access tokens is not complete")
		}
	})
}
