package api

import (
	"net/http"

	"github.com/tailrace-streams/tailrace/functions/audit"
	"github.com/tailrace-streams/tailrace/tenancy"
	"github.com/tailrace-streams/tailrace/wire"
)

// errNoTokens answers for access tokens where nobody asks for one. The request has been found to be well-formed, as it
// is for everything else that is not served.
func errNoTokens() error {
	return wire.Errorf(wire.CodeNotImplemented, "access tokens are not served without authentication, which is off")
}

func (h *handler) listTokens(x *exchange, r *http.Request) error {
	q, err := parseList(r, wire.TokenIDs)
	if err != nil {
		return err
	}
	if h.o.Access == nil {
		return errNoTokens()
	}
	ctx, cancel := h.unary(r)
	defer cancel()
	page, err := h.o.Access.List(ctx, x.principal, q.Prefix, q.StartAfter, q.Limit)
	if err != nil {
		return err
	}
	answer := wire.ListAccessTokensResponse{AccessTokens: make([]wire.AccessTokenInfo, len(page.Tokens)), HasMore: page.HasMore}
	for i := range page.Tokens {
		answer.AccessTokens[i] = wireToken(&page.Tokens[i])
	}
	return x.json(r, http.StatusOK, answer)
}

func (h *handler) issueToken(x *exchange, r *http.Request) error {
	body, err := h.readJSON(x, r)
	if err != nil {
		return err
	}
	request, err := wire.DecodeIssueAccessToken(body)
	if err != nil {
		return err
	}
	if h.o.Access == nil {
		return errNoTokens()
	}
	spec := tenancy.TokenSpec{ID: request.ID, AutoPrefix: request.AutoPrefixStreams, Scope: scopeOf(&request.Scope)}
	if request.ExpiresAt != nil {
		spec.ExpiresAt = request.ExpiresAt.Time
	}
	ctx, cancel := h.unary(r)
	defer cancel()
	if err := h.audit(ctx, x, "issue-access-token", audit.Entry{OnToken: request.ID}); err != nil {
		return err
	}
	bearer, err := h.o.Access.Issue(ctx, x.principal, spec)
	if err != nil {
		return err
	}
	x.Header().Set("Cache-Control", "no-store")
	return x.json(r, http.StatusCreated, wire.IssueAccessTokenResponse{AccessToken: bearer})
}

func (h *handler) revokeToken(x *exchange, r *http.Request) error {
	id := r.PathValue("id")
	if err := wire.CheckTokenID(id, wire.CodeBadPath); err != nil {
		return err
	}
	if h.o.Access == nil {
		return errNoTokens()
	}
	ctx, cancel := h.unary(r)
	defer cancel()
	if err := h.audit(ctx, x, "revoke-access-token", audit.Entry{OnToken: id}); err != nil {
		return err
	}
	if err := h.o.Access.Revoke(ctx, x.principal, id); err != nil {
		return err
	}
	x.empty(http.StatusNoContent)
	return nil
}

func scopeOf(w *wire.AccessTokenScope) tenancy.Scope {
	s := tenancy.Scope{Basins: nameSet(w.Basins), Streams: nameSet(w.Streams), Tokens: nameSet(w.AccessTokens)}
	for group, half := range map[tenancy.Group]wire.ReadWrite{
		tenancy.AccountGroup: w.OpGroups.Account, tenancy.BasinGroup: w.OpGroups.Basin, tenancy.StreamGroup: w.OpGroups.Stream,
	} {
		s.Groups[group] = tenancy.Permission(half)
	}
	for _, name := range w.Ops {
		if op, ok := tenancy.ParseOp(string(name)); ok { // the decoder refuses others
			s.Ops |= tenancy.OpsOf(op)
		}
	}
	return s
}

func nameSet(set *wire.ResourceSet) tenancy.NameSet {
	if set == nil {
		return tenancy.NameSet{}
	}
	return tenancy.NameSet{Name: set.Name, Prefix: set.IsPrefix}
}

func wireToken(t *tenancy.TokenInfo) wire.AccessTokenInfo {
	info := wire.AccessTokenInfo{ID: t.ID, AutoPrefixStreams: t.AutoPrefix, Scope: wire.AccessTokenScope{
		Basins: resourceSet(t.Scope.Basins), Streams: resourceSet(t.Scope.Streams), AccessTokens: resourceSet(t.Scope.Tokens),
		OpGroups: wire.OpGroups{
			Account: wire.ReadWrite(t.Scope.Groups[tenancy.AccountGroup]),
			Basin:   wire.ReadWrite(t.Scope.Groups[tenancy.BasinGroup]),
			Stream:  wire.ReadWrite(t.Scope.Groups[tenancy.StreamGroup]),
		},
	}}
	for _, op := range t.Scope.Ops.List() {
		info.Scope.Ops = append(info.Scope.Ops, wire.Operation(op.String()))
	}
	if !t.ExpiresAt.IsZero() {
		info.ExpiresAt = &wire.Time{Time: t.ExpiresAt}
	}
	return info
}

func resourceSet(s tenancy.NameSet) *wire.ResourceSet {
	if s.None() {
		return nil
	}
	return &wire.ResourceSet{Name: s.Name, IsPrefix: s.Prefix}
}
