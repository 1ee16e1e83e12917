package client

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/tailrace-streams/tailrace/wire"
)

// The resources of the API, as they are on the wire.
type (
	BasinInfo             = wire.BasinInfo
	BasinConfig           = wire.BasinConfig
	BasinReconfiguration  = wire.BasinReconfiguration
	StreamInfo            = wire.StreamInfo
	StreamConfig          = wire.StreamConfig
	StreamReconfiguration = wire.StreamReconfiguration
	AccessTokenInfo       = wire.AccessTokenInfo
	LocationInfo          = wire.LocationInfo
	FencingMode           = wire.FencingMode
	RetentionPolicy       = wire.RetentionPolicy
	TimestampingMode      = wire.TimestampingMode
	Cipher                = wire.Cipher
	// Optional is a member of a reconfiguration: absent (the zero Optional), null, or a value.
	Optional[T any] = wire.Optional[T]
	// AccessTokenSpec says what an access token is to permit.
	AccessTokenSpec = wire.IssueAccessTokenRequest
)

// What appends a fencing token excludes; exclusive is Tailrace's own.
const (
	FencingCooperative = wire.FencingCooperative
	FencingExclusive   = wire.FencingExclusive
)

// Some is a member of a reconfiguration that sets a value.
func Some[T any](v T) Optional[T] { return wire.Some(v) }

// Null is one that resets to the default.
func Null[T any]() Optional[T] { return wire.Null[T]() }

// AccessTokens lists access tokens, without their secrets, in the order of their ids.
func (c *Client) AccessTokens(ctx context.Context, o ListOptions) iter.Seq2[AccessTokenInfo, error] {
	return pages(o, func(after string) ([]AccessTokenInfo, bool, error) {
		var page wire.ListAccessTokensResponse
		err := c.callJSON(ctx, request{op: "list access tokens", method: http.MethodGet, url: c.tokens() + o.query(after)}, &page)
		return page.AccessTokens, page.HasMore, err
	}, func(i *AccessTokenInfo) (string, bool) { return i.ID, false })
}

// IssueAccessToken makes an access token and gives its secret, which is shown this once. If the outcome is unknown the
// token may exist without anybody who knows its secret: revoke it by its id.
func (c *Client) IssueAccessToken(ctx context.Context, spec AccessTokenSpec) (Secret, error) {
	r := jsonRequest("issue access token", http.MethodPost, c.tokens(), nil, encodeJSON(spec))
	r.effect, r.appends = appending, RetryNoSideEffects // a repeat of what was done would not show the secret
	var issued wire.IssueAccessTokenResponse
	err := c.callJSON(ctx, r, &issued)
	return Secret(issued.AccessToken), err
}

// RevokeAccessToken ends an access token at once.
func (c *Client) RevokeAccessToken(ctx context.Context, id string) error {
	_, err := deleted(ctx, c, new(consistency), request{
		op: "revoke access token", method: http.MethodDelete, url: c.tokens() + "/" + url.PathEscape(id), effect: idempotent,
	})
	return err
}

func (c *Client) tokens() string { return c.account.base + "/access-tokens" }

// Locations are the places where basins can be.
func (c *Client) Locations(ctx context.Context) (locations []LocationInfo, err error) {
	err = c.callJSON(ctx, request{op: "list locations", method: http.MethodGet, url: c.account.base + "/locations"}, &locations)
	return locations, err
}

// DefaultLocation is where basins are made that do not say where.
func (c *Client) DefaultLocation(ctx context.Context) (location LocationInfo, err error) {
	err = c.callJSON(ctx, request{op: "get default location", method: http.MethodGet, url: c.account.base + "/locations/default"}, &location)
	return location, err
}

// SetDefaultLocation changes the default location.
func (c *Client) SetDefaultLocation(ctx context.Context, name string) (location LocationInfo, err error) {
	r := jsonRequest("set default location", http.MethodPut, c.account.base+"/locations/default", nil, encodeJSON(name))
	err = c.callJSON(ctx, r, &location)
	return location, err
}

// requestToken makes a token by which the server recognises a repeat of a creation.
func requestToken() string { return uuid.NewString() }

// jsonRequest is a request with a JSON body, to be sent again where it may help.
func jsonRequest(op, method, url string, h http.Header, body []byte) request {
	if h == nil {
		h = http.Header{}
	}
	h.Set("Content-Type", wire.MediaJSON)
	return request{op: op, method: method, url: url, header: h, body: body, effect: idempotent}
}

// callJSON sends a request and decodes its answer.
func (c *Client) callJSON(ctx context.Context, r request, into any) error {
	a, err := c.call(ctx, r)
	if err != nil {
		return err
	}
	return a.decode(r.op, r.effect, into)
}

// provision sends the creation or ensuring of something.
func provision[Info any](ctx context.Context, c *Client, see *consistency, r request) (p Provisioned[Info], err error) {
	a, err := c.call(ctx, r)
	if err != nil {
		return p, err
	}
	p.Revision = see.observe(a.header, "")
	if p.Result = a.header.Get(wire.HeaderProvisionResult); p.Result == "" {
		p.Result = Updated
		if a.status == http.StatusCreated {
			p.Result = Created
		}
	}
	err = a.decode(r.op, r.effect, &p.Info)
	return p, err
}

// deleted sends a deletion. That there is nothing of the name any more, after an attempt of unknown outcome, is what was
// asked for, if it is the service that says so: a page of something in between with the same status says nothing.
func deleted(ctx context.Context, c *Client, see *consistency, r request) (Revision, error) {
	a, err := c.call(ctx, r)
	if err != nil {
		var e *Error
		if errors.Is(err, ErrNotFound) && errors.As(err, &e) && e.resent && e.Code != "" {
			return "", nil
		}
		return "", err
	}
	return see.observe(a.header, ""), nil
}
