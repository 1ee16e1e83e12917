package api_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/tailrace-streams/tailrace/functions/api"
	"github.com/tailrace-streams/tailrace/tenancy"
)

const rootToken = "the-root-token-of-the-tests"

// withTokens turns authentication on, with the root token for what a rig itself asks.
var withTokens = change{token: rootToken, api: func(o *api.Options) { o.Access = accountsOf(o, tenancy.AccountsOptions{}) }}

func accountsOf(o *api.Options, a tenancy.AccountsOptions) *tenancy.Accounts {
	a.RootToken = rootToken
	accounts, err := tenancy.NewAccounts(o.Directory.(*tenancy.Directory), a)
	if err != nil {
		panic(err)
	}
	return accounts
}

// bearer is the header with a token; of nothing, none is sent.
func bearer(token string) with {
	if token == "" {
		return with{"Authorization", ""}
	}
	return with{"Authorization", "Bearer " + token}
}

// issue makes a token with a scope in JSON.
func (r *rig) issue(id, scope string, auto bool, headers ...with) string {
	r.t.Helper()
	body, err := json.Marshal(map[string]any{"id": id, "scope": json.RawMessage(scope), "auto_prefix_streams": auto})
	if err != nil {
		r.t.Fatal(err)
	}
	a := r.do("POST", "/v1/access-tokens", body, headers...)
	r.want(a, http.StatusCreated, "")
	return decode[struct {
		Token string `json:"access_token"`
	}](r.t, a.body).Token
}

func (r *rig) revoke(id string) {
	r.t.Helper()
	r.want(r.do("DELETE", "/v1/access-tokens/"+escape(id), nil), http.StatusNoContent, "")
}

// reads counts what was read from the stores so far.
func (r *rig) reads() int {
	counts := r.heads.Counts()
	return counts["Get"] + counts["List"] + counts["Load"]
}

// believed has tokens believed for long, in tests that count reads.
var believed = change{token: rootToken, api: func(o *api.Options) {
	o.Access = accountsOf(o, tenancy.AccountsOptions{MaxAge: time.Hour})
}}

// otherAccount makes an account with a token that may do everything in it.
func (r *rig) otherAccount(t *testing.T) string {
	t.Helper()
	accounts, err := tenancy.NewAccounts(r.names, tenancy.AccountsOptions{})
	if err != nil {
		t.Fatal(err)
	}
	account, err := accounts.CreateAccount(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	by := &tenancy.Principal{Account: account.ID, Scope: tenancy.Everything()}
	token, err := accounts.Issue(t.Context(), by, tenancy.TokenSpec{ID: "all", Scope: tenancy.Everything()})
	if err != nil {
		t.Fatal(err)
	}
	return token
}
