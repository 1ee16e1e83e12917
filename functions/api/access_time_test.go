package api_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator/storetest"
	"github.com/tailrace-streams/tailrace/wire"
)

// revocationBound is what docs/tokens.md promises: the age of a verdict, the period of checks, and a little for the check.
const revocationBound = 4*time.Second + 100*time.Millisecond

const allStreams = `"basins":{"prefix":""},"streams":{"prefix":""}`

// Revoking or expiring a token ends what it opened, within the bound and in the words of the stream; what was
// acknowledged before stays.
func TestATokensEndEndsWhatItOpened(t *testing.T) {
	t.Parallel()
	const scope = `{"op_groups":{"stream":{"read":true,"write":true}},` + allStreams + `}`
	for name, end := range map[string]func(t *testing.T, r *sessionRig) (token string, end func()){
		"revoked": func(_ *testing.T, r *sessionRig) (string, func()) {
			return r.issue("t", scope, false), func() { r.revoke("t") }
		},
		"expired": func(t *testing.T, r *sessionRig) (string, func()) {
			at := time.Now().Add(10 * time.Second) // before heartbeats that nobody reads end it
			body := `{"id":"t","expires_at":"` + at.UTC().Format(time.RFC3339Nano) + `","scope":` + scope + `}`
			a := r.want(r.do("POST", "/v1/access-tokens", []byte(body)), 201, "")
			token := decode[struct {
				Token string `json:"access_token"`
			}](t, a.body).Token
			return token, func() { time.Sleep(time.Until(at)) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, open opener) {
				r := newBubbleRig(t, withTokens)
				r.create("s")
				token, end := end(t, r)
				as := bearer(token)
				appends := open(r, "POST", recordsOfS, as).mustOpen()
				appends.append(inputOf("a"))
				appends.wantAck(0, 1)
				reads := open(r, "GET", recordsOfS+"?seq_num=1", as).mustOpen()
				events := open(r, "GET", recordsOfS+"?seq_num=1", as, with{"Content-Type", ""}, with{"Accept", wire.MediaSSE}).mustOpen()
				polled := make(chan *duplex)
				go func() { polled <- open(r, "GET", recordsOfS+"?seq_num=1&wait=60", as, with{"Content-Type", ""}) }()
				synctest.Wait()
				end()
				ended := time.Now()

				appends.wantTerminal(wire.CodeAuthn)
				var err error
				for err == nil {
					_, err = reads.batch()
				}
				if e := new(wire.Error); !errors.As(err, &e) || e.Code != wire.CodeAuthn {
					t.Errorf("the read session ends with %v", err)
				}
				text, err := io.ReadAll(events.body)
				if err != nil || !strings.Contains(string(text), "event: error") || !strings.Contains(string(text), `"authn"`) || strings.Contains(string(text), "[DONE]") {
					t.Errorf("the event stream ends with %q, %v", text, err)
				}
				d := <-polled
				if d.status != http.StatusUnauthorized {
					t.Errorf("the long poll is answered %d", d.status)
				}
				if took := time.Since(ended); took > revocationBound {
					t.Errorf("took %s", took)
				}
				if d := open(r, "POST", recordsOfS, as); d.status != http.StatusUnauthorized {
					t.Errorf("another session is answered %d", d.status)
				}
				if n := r.tail("s"); n != 1 {
					t.Errorf("the tail is %d", n)
				}
			})
		})
	}
}

// Elsewhere, a revocation is known within the bound too, and not before it has to be.
func TestRevocationReachesOtherProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here := newBubbleRig(t, withTokens)
		there := newBubbleRig(t, withTokens, change{share: here.rig})
		here.create("s")
		as := bearer(here.issue("t", `{"ops":["append","read"],`+allStreams+`}`, false))
		there.want(there.append("s", one, as), 200, "")
		d := there.openHTTP2("POST", recordsOfS, as).mustOpen()
		here.revoke("t")
		revoked := time.Now()
		for there.append("s", one, as).status == 200 {
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(revoked); took > 2*time.Second+100*time.Millisecond {
			t.Errorf("a request was let in %s later", took)
		}
		d.wantTerminal(wire.CodeAuthn)
		if took := time.Since(revoked); took > revocationBound {
			t.Errorf("a session ended %s later", took)
		}
		// A new process knows tokens from the start.
		third := newBubbleRig(t, withTokens, change{share: here.rig})
		third.want(third.append("s", one, as), 401, "authn")
		good := bearer(here.issue("u", `{"ops":["append"],`+allStreams+`}`, false))
		third.want(third.append("s", one, good), 200, "")
	})
}

// A store that does not answer lets nobody in, and ends streams only when it has not answered for long.
func TestTokensThatCannotBeJudged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newBubbleRig(t, withTokens)
		r.create("s")
		as := bearer(r.issue("t", `{"ops":["append","read"],`+allStreams+`}`, false))
		d := r.openHTTP2("GET", recordsOfS, as).mustOpen()
		r.heads.Set(func(c storetest.Call) storetest.Outcome {
			if c.Op == "Get" && strings.HasPrefix(c.Key.Part, "tokens/") {
				return storetest.Refuse
			}
			return storetest.Pass
		})
		begun := time.Now()
		time.Sleep(2 * time.Second)
		a := r.want(r.append("s", one, as), 502, "hot_server")
		if a.header.Get("Tailrace-Applied") != "no" {
			t.Errorf("%v", a.header)
		}
		r.want(r.append("s", one), 200, "") // the root token needs no store
		var err error
		for err == nil {
			_, err = d.batch()
		}
		if e := new(wire.Error); !errors.As(err, &e) || e.Code != wire.CodeHotServer {
			t.Errorf("the session ends with %v", err)
		}
		if took := time.Since(begun); took < 30*time.Second || took > 40*time.Second {
			t.Errorf("ended after %s", took)
		}
	})
}

// lateBody is a body that comes after something else has happened.
type lateBody struct {
	first func()
	io.Reader
}

func (b *lateBody) Read(p []byte) (int, error) {
	if b.first != nil {
		b.first()
		b.first = nil
	}
	return b.Reader.Read(p)
}

// A request whose body is held back does nothing that its token no longer permits, and goes on if the token is good.
func TestAHeldBackBodyDoesNotOutliveItsToken(t *testing.T) {
	t.Parallel()
	const scope = `{"ops":["append","issue-access-token","create-stream"],"access_tokens":{"prefix":""},` + allStreams + `}`
	silent := func(c storetest.Call) storetest.Outcome {
		if c.Op == "Get" && strings.HasPrefix(c.Key.Part, "tokens/") {
			return storetest.Refuse
		}
		return storetest.Pass
	}
	for name, c := range map[string]struct {
		meanwhile func(r *rig)
		status    int
		applied   string
	}{
		"revoked": {func(r *rig) { r.revoke("t") }, 401, "no"}, "good": {func(*rig) {}, 0, ""},
		"cannot be judged": {func(r *rig) { r.heads.Set(silent) }, 502, "no"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newBubbleRig(t, withTokens).rig
				r.create("s")
				as := bearer(r.issue("t", scope, false))
				for i, q := range [][3]string{
					{"/v1/streams/s/records", one}, {"/v1/streams", `{"stream":"new"}`}, {"/v1/access-tokens", `{"id":"heir","scope":{"ops":["append"]}}`},
				} {
					late := &lateBody{func() {
						if i == 0 {
							c.meanwhile(r)
						}
						time.Sleep(4 * time.Second)
					}, strings.NewReader(q[1])}
					request := r.request(t.Context(), "POST", q[0], late, as, jsonBody)
					request.ContentLength = -1
					a := r.send(request)
					if i > 0 && c.status == 401 {
						continue // refused before the body
					}
					if c.status != 0 && a.status != c.status || c.status == 0 && a.status/100 != 2 || a.header.Get("Tailrace-Applied") != c.applied {
						t.Errorf("%s: %d %s %v", q[0], a.status, a.body, a.header)
					}
					if i == 0 && c.status != 0 && r.tail("s") != 0 {
						t.Error("the append was made")
					}
				}
			})
		})
	}
}

// What waits to be opened, for a revision that does not come, ends with the token as well.
func TestOpeningEndsWithTheToken(t *testing.T) {
	t.Parallel()
	for _, h := range []with{{"Accept", wire.MediaSSE}, {"Content-Type", wire.MediaS2S}} {
		synctest.Test(t, func(t *testing.T) {
			r := newBubbleRig(t, withTokens).rig
			r.create("s")
			as := bearer(r.issue("t", `{"ops":["append","read"],`+allStreams+`}`, false))
			revision, err := wire.ParseRevision(r.want(r.append("s", one, as), 200, "").header.Get(wire.HeaderRevision), wire.CodeInvalid)
			if err != nil {
				t.Fatal(err)
			}
			revision.Version += 10
			answered := make(chan answer)
			go func() {
				answered <- r.do("GET", recordsOfS, nil, as, h, with{wire.HeaderMinRevision, revision.String()}, with{wire.HeaderRevisionTimeoutMs, fmt.Sprint(20_000)})
			}()
			synctest.Wait()
			r.revoke("t")
			revoked := time.Now()
			a := <-answered
			r.want(a, http.StatusUnauthorized, "authn")
			if took := time.Since(revoked); took > revocationBound {
				t.Errorf("refused after %s", took)
			}
		})
	}
}
