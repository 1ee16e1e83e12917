package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tailrace-streams/tailrace/client"
	"github.com/tailrace-streams/tailrace/wire"
)

// A deletion has succeeded only if the service says so: that there is nothing of the name counts behind a doubt of our own,
// and a page of something in between never does.
func TestDeletionsBelieveTheServiceAlone(t *testing.T) {
	t.Parallel()
	page := func(w http.ResponseWriter, r *http.Request) { arrived(r); http.NotFound(w, r) }
	gone := refuse(wire.Errorf(wire.CodeStreamNotFound, "no such stream"))
	for name, test := range map[string]struct {
		steps []http.HandlerFunc
		fine  bool
	}{
		"a page":                 {[]http.HandlerFunc{page}, false},
		"a page behind a doubt":  {[]http.HandlerFunc{hangUp, page}, false},
		"not there":              {[]http.HandlerFunc{gone}, false},
		"gone behind a doubt":    {[]http.HandlerFunc{hangUp, gone}, true},
		"not there, but refused": {[]http.HandlerFunc{refuse(draining), gone}, false},
	} {
		if _, err := serve(t, test.steps...).stream(client.Options{}).Delete(bounded(t)); (err == nil) != test.fine {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A trim is sent again behind a doubt, unless nothing is to be.
func TestTrimKeepsThePolicy(t *testing.T) {
	t.Parallel()
	for policy, fine := range map[client.AppendRetry]bool{client.RetryNone: false, client.RetryNoSideEffects: true} {
		s := serve(t, hangUp, acknowledge(0, 1))
		if _, err := s.stream(client.Options{}).WithRetry(policy).Trim(bounded(t), 5); (err == nil) != fine || client.Indefinite(err) == fine {
			t.Errorf("policy %d: %v after %d requests", policy, err, len(s.requests()))
		}
	}
}

// A listing that would have no end, or of which a part cannot be had, fails.
func TestListingsEnd(t *testing.T) {
	t.Parallel()
	const item = `{"name":%q,"created_at":"2026-01-01T00:00:00Z","deleted_at":null,"cipher":null}`
	for name, page := range map[string]string{
		"the same page again": fmt.Sprintf(`{"streams":[`+item+`],"has_more":true}`, "a"),
		"out of order":        fmt.Sprintf(`{"streams":[`+item+`,`+item+`],"has_more":false}`, "b", "a"),
		"an empty page":       `{"streams":[],"has_more":true}`,
	} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, page) })
		var err error
		for _, err = range s.stream(client.Options{}).Basin().Streams(bounded(t), client.ListOptions{}) {
		}
		if err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// hosts remembers where requests go.
type hosts []string

func (h *hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	*h = append(*h, r.URL.Host)
	return nil, errors.New("not sent")
}

// A basin that is part of a host's name cannot make it another host, which would be given the token.
func TestBasinsAreNoOtherHosts(t *testing.T) {
	t.Parallel()
	for _, basin := range []string{"orders-basin", "evil.test/", "evil.test#", "evil.test?", "evil.test:80/", "x@evil.test/", `evil.test\`, "%2f"} {
		var seen hosts
		c, err := client.New("https://a.streams.test", client.Options{
			BasinEndpoint: "https://{basin}.b.streams.test", Token: "secret", Transport: &seen, SessionTransport: &seen, Retry: client.Retry{Attempts: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		s := c.Basin(basin).Stream("s")
		if _, err := s.CheckTail(bounded(t)); err == nil || client.Indefinite(err) {
			t.Errorf("%s: %v", basin, err)
		}
		if _, err := s.OpenSession(bounded(t), client.SessionOptions{}); err == nil || client.Indefinite(err) {
			t.Errorf("%s: %v", basin, err)
		}
		for _, host := range seen {
			if !strings.HasSuffix(host, ".b.streams.test") {
				t.Errorf("%s: a request goes to %s", basin, host)
			}
		}
	}
}
