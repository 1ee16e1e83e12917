package client

import (
	"context"
	"net/http"
	"strings"
	"unicode"

	"github.com/tailrace-streams/tailrace/wire"
)

// Fenced tells what [Stream.Fence] has done.
type Fenced struct {
	// Tail is the boundary: everything before it was admitted under the previous token.
	Tail Position `json:"tail"`
	// Token is the one installed, empty for none.
	Token string `json:"fencing_token"`
	// Previous is the one before.
	Previous string `json:"previous"`
	// Revision names the state with it.
	Revision Revision `json:"-"`
}

// fenceInput is the body of a PUT of a fencing token.
type fenceInput struct {
	Token string `json:"fencing_token"`
}

// Fence installs a fencing token, of at most 36 bytes of UTF-8; the empty one clears. When it returns, no append that
// presents another can succeed, on any server; on a stream whose fencing is exclusive, none that presents no token either.
// An equal token changes nothing.
//
// To take a stream over, choose a token that nobody else uses, Fence it, and write by [Stream.Presenting]: the token in
// force need not be known. A token is compared, it is no lock: who presents the same is not kept out.
//
// Only Tailrace has this; on other servers append a [FenceCommand]. It is sent again after failures that may pass. After an
// indefinite one the token may be installed, then or later; call it again.
func (s *Stream) Fence(ctx context.Context, token string) (Fenced, error) {
	const op = "fence"
	if err := checkToken(op, token); err != nil {
		return Fenced{}, err
	}
	path, h := s.path()
	r := jsonRequest(op, http.MethodPut, path+"/fence", h, encodeJSON(fenceInput{Token: token}))
	a, err := s.basin.c.call(ctx, r)
	if err != nil {
		return Fenced{}, err
	}
	f := Fenced{Revision: s.see.observe(a.header, s.name)}
	err = a.decode(op, idempotent, &f)
	return f, err
}

// FencingToken asks for the token installed; empty for none.
func (s *Stream) FencingToken(ctx context.Context) (token string, err error) {
	const op = "get fencing token"
	a, _, err := s.read(ctx, s.request(op, http.MethodGet, "/fence", pure))
	if err != nil {
		return "", err
	}
	var installed struct {
		Token string `json:"fencing_token"`
	}
	err = a.decode(op, pure, &installed)
	return installed.Token, err
}

// present says a session's fencing token where it is opened, so that the server can refuse or end it as a whole. Every batch
// has it too, which is all that other servers know, and where a token goes that no header can carry.
func (s *Stream) present(h http.Header) {
	if s.token != nil && strings.TrimSpace(*s.token) == *s.token && !strings.ContainsFunc(*s.token, unicode.IsControl) {
		h.Set(wire.HeaderFencingToken, *s.token)
	}
}
