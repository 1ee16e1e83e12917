package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/tailrace-streams/tailrace/client"
	"github.com/tailrace-streams/tailrace/wire"
)

// However what holds a secret is printed or encoded, the secret does not show.
func TestSecretsDoNotShow(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-token"
	o := client.Options{Token: secret}
	c, err := client.New("http://127.0.0.1:1", o)
	if err != nil {
		t.Fatal(err)
	}
	stream := c.Basin("some-basin").Stream("s").WithEncryptionKey(secret)
	for _, v := range []any{o, &o, c, *c, stream, *stream, c.Basin("some-basin"), client.Secret(secret), []client.Secret{secret}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X"} {
			shown := fmt.Sprintf(verb, v)
			proper(t, fmt.Sprintf("%T with %s", v, verb), shown, secret)
			proper(t, fmt.Sprintf("%T with %s", v, verb), shown, fmt.Sprintf("%x", secret))
		}
	}
	encoded, err := json.Marshal(struct{ Token client.Secret }{secret})
	if err != nil {
		t.Fatal(err)
	}
	proper(t, "JSON", string(encoded), secret)
	_, err = stream.Append(bounded(t), text("x"))
	proper(t, "an error", fmt.Sprintf("%v %+v", err, err), secret)
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[string]string{
		"http://host:80": "client of http://host:80/v1", "https://host/": "client of https://host/v1",
		"http://host/v1": "client of http://host/v1", "http://host/v1/": "client of http://host/v1",
		"http://host/some/path": "client of http://host/some/path/v1",
		"":                      "", "host:80": "", "ftp://host": "", "http://": "", "http://user:pw@host": "", "http://host?x=1": "", "http://host#x": "",
		"http://ho st": "",
	} {
		c, err := client.New(endpoint, client.Options{})
		switch {
		case want == "":
			if err == nil {
				t.Errorf("%q is taken", endpoint)
			} else {
				proper(t, "the error", err.Error(), "pw")
			}
		case err != nil || c.String() != want:
			t.Errorf("%q: %v, %v", endpoint, c, err)
		}
	}
}

// Where basins are part of the host, no header names them.
func TestBasinInTheHost(t *testing.T) {
	t.Parallel()
	seen := make(chan *http.Request, 1)
	answer := roundTripper(func(r *http.Request) (*http.Response, error) {
		seen <- r
		return nil, errors.New("no network here")
	})
	c, err := client.New("https://a.example.com", client.Options{
		BasinEndpoint: "https://{basin}.b.example.com/v1", Transport: answer, Retry: client.Retry{Attempts: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.Basin("some-basin").Stream("a/b").CheckTail(bounded(t))
	r := <-seen
	if r.URL.String() != "https://some-basin.b.example.com/v1/streams/a%2Fb/records/tail" || r.Header.Get(wire.HeaderBasin) != "" {
		t.Errorf("asked %s with %v", r.URL, r.Header)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Each error of the API is what its type and sentinel say, and definite unless it says otherwise.
func TestErrorsAreTyped(t *testing.T) {
	t.Parallel()
	for code, is := range map[wire.Code]error{
		wire.CodeStreamNotFound: client.ErrNotFound, wire.CodeBasinNotFound: client.ErrNotFound,
		wire.CodeAccessTokenNotFound: client.ErrNotFound, wire.CodeResourceAlreadyExists: client.ErrAlreadyExists,
		wire.CodeStreamDeletionPending: client.ErrDeletionPending, wire.CodeBasinDeletionPending: client.ErrDeletionPending,
		wire.CodeAuthn: client.ErrPermission, wire.CodePermissionDenied: client.ErrPermission,
		wire.CodeRateLimited: client.ErrRateLimited, wire.CodeHotServer: client.ErrUnavailable,
		wire.CodeServerDraining: client.ErrUnavailable, wire.CodeUnavailable: client.ErrUnavailable,
		wire.CodeUpstreamTimeout: client.ErrUnavailable, wire.CodeRequestTimeout: client.ErrUnavailable,
		wire.CodeInvalid: nil, wire.CodeStorage: nil,
	} {
		s := serve(t, refuse(wire.Errorf(code, "why")))
		_, err := s.stream(client.Options{Retry: client.Retry{Attempts: 1}}).Append(bounded(t), text("x"))
		e := new(client.Error)
		if !errors.As(err, &e) || e.Code != code || e.Status != code.Status() || e.Message != "why" || is != nil && !errors.Is(err, is) {
			t.Errorf("%s: %v", code, err)
		}
		if client.Indefinite(err) == code.NoEffect() {
			t.Errorf("%s: indefinite is %v", code, client.Indefinite(err))
		}
		if _, err = s.stream(client.Options{Retry: client.Retry{Attempts: 1}}).CheckTail(bounded(t)); client.Indefinite(err) {
			t.Errorf("%s: a read that failed is in doubt", code)
		}
	}
	if client.Indefinite(nil) || !client.Indefinite(context.Canceled) {
		t.Error("nil is definite success, and an error of others is in doubt")
	}
}

// A creation sends the same token however often it is sent, and another call another.
func TestCreationsAreRecognised(t *testing.T) {
	t.Parallel()
	created := func(w http.ResponseWriter, r *http.Request) {
		arrived(r)
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"name":"scripted"}`))
	}
	s := serve(t, hangUp, created, created)
	stream := s.stream(client.Options{})
	for range 2 {
		if made, err := stream.Create(bounded(t), nil); err != nil || made.Result != client.Created {
			t.Fatal(made, err)
		}
	}
	var tokens []string
	for _, r := range s.requests() {
		tokens = append(tokens, r.Header.Get(wire.HeaderRequestToken))
	}
	if tokens[0] == "" || tokens[0] != tokens[1] || tokens[1] == tokens[2] {
		t.Errorf("the tokens are %q", tokens)
	}
}

// A deletion that may have been done, and is not to be done again, is done.
func TestDeletionAfterDoubt(t *testing.T) {
	t.Parallel()
	gone := refuse(wire.Errorf(wire.CodeStreamNotFound, "no"))
	if _, err := serve(t, hangUp, gone).stream(client.Options{}).Delete(bounded(t)); err != nil {
		t.Error(err)
	}
	if _, err := serve(t, gone).stream(client.Options{}).Delete(bounded(t)); !errors.Is(err, client.ErrNotFound) {
		t.Error(err)
	}
}
