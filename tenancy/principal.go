package tenancy

import (
	"context"
	"strings"
	"time"
)

// AccountID names an account for good. The zero AccountID owns nothing.
type AccountID string

// DefaultAccount owns every basin that was made before there were accounts, or without authentication.
const DefaultAccount AccountID = "default"

// Principal is who makes a request: the account, the access token, and what it permits. It is not changed once made.
type Principal struct {
	Account AccountID
	// Token is the id of the access token, unique in its account; RootToken for the operator's, empty without
	// authentication.
	Token string
	// Operator is set for the operator's root token, which belongs to the default account.
	Operator bool
	Scope    Scope
	// AutoPrefix is put before every stream name that comes from the client and taken off every one that goes to it;
	// empty for none. Scope is of full names.
	AutoPrefix string
	// ExpiresAt is when the token ends; zero for never.
	ExpiresAt time.Time
}

// RootToken is what the operator's token is called where tokens have ids. No access token can have this id.
const RootToken = "."

// Anyone is the principal of every request where there is no authentication: the default account, with everything.
func Anyone() *Principal { return &Principal{Account: DefaultAccount, Scope: Everything()} }

// May reports whether the principal may do something to a resource, as far as names tell. Whether a basin is the
// account's own is the Directory's to say, which reads its row anyway.
func (p *Principal) May(op Op, on Resource) bool { return p != nil && p.Scope.May(op, on) }

// Full is the name of a stream that the client calls name, or of a prefix of names.
func (p *Principal) Full(name string) string {
	if p == nil {
		return name
	}
	return p.AutoPrefix + name
}

// Shown is what the client calls the stream of a full name.
func (p *Principal) Shown(full string) string {
	if p == nil {
		return full
	}
	return strings.TrimPrefix(full, p.AutoPrefix)
}

type principalKey struct{}

// WithPrincipal is a context for work on behalf of a principal. Calls of a Directory with it see the basins of the
// principal's account and no others.
func WithPrincipal(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalOf is who a context is on behalf of; nil if nobody said. In the context of an API request there always is
// one, also without authentication.
func PrincipalOf(ctx context.Context) *Principal {
	p, _ := ctx.Value(principalKey{}).(*Principal)
	return p
}

// accountOf is the account whose basins a context may see: the principal's, or the default one where there is none, as
// in a program that uses a Directory by itself.
func accountOf(ctx context.Context) AccountID {
	if p := PrincipalOf(ctx); p != nil {
		return p.Account
	}
	return DefaultAccount
}
