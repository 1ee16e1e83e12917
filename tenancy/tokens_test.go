package tenancy

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/tailrace-streams/tailrace/coordinator"
	"github.com/tailrace-streams/tailrace/coordinator/storetest"
)

// accounts is a process of its own over the world's store.
func (w *world) accounts(options ...AccountsOptions) *Accounts {
	w.t.Helper()
	o := AccountsOptions{RootToken: testRoot}
	if len(options) > 0 {
		o = options[0]
	}
	a, err := NewAccounts(w.directory(), o)
	must(w.t, err)
	return a
}

const testRoot = "the-root-token-of-the-tests"

func root(t *testing.T, a *Accounts) *Principal {
	t.Helper()
	p, err := a.Authenticate(t.Context(), testRoot)
	must(t, err)
	return p
}

// reader is a scope that reads the streams of a prefix.
func reader(prefix string) Scope {
	return Scope{Basins: AllNames, Streams: NameSet{prefix, true}, Groups: Groups{StreamGroup: {Read: true}}}
}

func TestTokenLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, ctx := w.accounts(), t.Context()
	spec := TokenSpec{ID: "tok/1", Scope: reader("x/"), AutoPrefix: true, ExpiresAt: start.Add(time.Hour)}
	bearer, err := a.Issue(ctx, root(t, a), spec)
	must(t, err)
	p, err := a.Authenticate(ctx, bearer)
	must(t, err)
	if p.Account != DefaultAccount || p.Token != "tok/1" || p.AutoPrefix != "x/" || p.Operator {
		t.Errorf("authenticated as %+v", p)
	}
	if !p.May(ReadRecords, Resource{"b", "x/s", ""}) || p.May(AppendRecords, Resource{"b", "x/s", ""}) || p.May(ReadRecords, Resource{"b", "y", ""}) {
		t.Errorf("%+v may the wrong things", p)
	}
	_, err = a.Issue(ctx, root(t, a), spec)
	wantErr(t, err, ErrTokenExists)
	page, err := a.List(ctx, root(t, a), "", "", 0)
	must(t, err)
	if len(page.Tokens) != 1 || page.Tokens[0] != TokenInfo(spec) {
		t.Errorf("listed %+v, issued %+v", page.Tokens, spec)
	}
	for _, other := range []string{"", "x", bearer + "A", bearer[:len(bearer)-4], strings.ToUpper(bearer), bearer + "\n", testRoot + " "} {
		_, err := a.Authenticate(ctx, other)
		wantErr(t, err, ErrUnauthenticated)
	}
	// Another process, over the same rows.
	if _, err := w.accounts().Authenticate(ctx, bearer); err != nil {
		t.Errorf("elsewhere: %v", err)
	}
	must(t, a.Revoke(ctx, root(t, a), "tok/1"))
	_, err = a.Authenticate(ctx, bearer)
	wantErr(t, err, ErrUnauthenticated)
	wantErr(t, a.Revoke(ctx, root(t, a), "tok/1"), ErrTokenNotFound)
	wantErr(t, a.Revoke(ctx, root(t, a), "tok/2"), ErrTokenNotFound)
	// The id is free, and the old text stays refused.
	again, err := a.Issue(ctx, root(t, a), spec)
	must(t, err)
	_, err = a.Authenticate(ctx, bearer)
	wantErr(t, err, ErrUnauthenticated)
	_, err = a.Authenticate(ctx, again)
	must(t, err)
	w.pass(time.Hour)
	_, err = a.Authenticate(ctx, again)
	wantErr(t, err, ErrUnauthenticated)
	wantErr(t, a.Revoke(ctx, root(t, a), "tok/1"), ErrTokenNotFound)
	if page, err = a.List(ctx, root(t, a), "", "", 0); err != nil || len(page.Tokens) != 0 {
		t.Errorf("an expired token is listed: %+v, %v", page, err)
	}
}

// TestIssueRefuses: nobody grants what he has not, in operations, names, time or prefix.
func TestIssueRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, ctx := w.accounts(), t.Context()
	scope := Scope{
		Basins: NameSet{"basin-a", true}, Streams: NameSet{"t/", true}, Tokens: NameSet{"mine-", true},
		Groups: Groups{StreamGroup: {Read: true, Write: true}}, Ops: OpsOf(IssueAccessToken, ListAccessTokens),
	}
	bearer, err := a.Issue(ctx, root(t, a), TokenSpec{ID: "issuer", Scope: scope, AutoPrefix: true, ExpiresAt: start.Add(time.Hour)})
	must(t, err)
	by, err := a.Authenticate(ctx, bearer)
	must(t, err)
	read := Scope{Ops: OpsOf(ReadRecords)}
	named := func(basins, streams, tokens NameSet) Scope {
		return Scope{basins, streams, tokens, Groups{}, OpsOf(ReadRecords)}
	}
	var invalid *InvalidError
	for name, c := range map[string]struct {
		spec TokenSpec
		want any // an error, or nil; &invalid for one of those
	}{
		"an operation":            {TokenSpec{ID: "mine-1", Scope: read}, nil},
		"no operation":            {TokenSpec{ID: "mine-2"}, &invalid},
		"another operation":       {TokenSpec{ID: "mine-2", Scope: Scope{Ops: OpsOf(CreateStream)}}, ErrDenied},
		"a group":                 {TokenSpec{ID: "mine-2", Scope: Scope{Groups: Groups{BasinGroup: {Read: true}}}}, ErrDenied},
		"an id":                   {TokenSpec{ID: "yours-1", Scope: read}, ErrDenied},
		"a basin":                 {TokenSpec{ID: "mine-2", Scope: named(NameSet{"basin-b", false}, NameSet{}, NameSet{})}, ErrDenied},
		"all basins":              {TokenSpec{ID: "mine-2", Scope: named(AllNames, NameSet{}, NameSet{})}, ErrDenied},
		"its basins":              {TokenSpec{ID: "mine-3", Scope: named(NameSet{"basin-a", true}, NameSet{}, NameSet{})}, nil},
		"all tokens":              {TokenSpec{ID: "mine-2", Scope: named(NameSet{}, NameSet{}, AllNames)}, ErrDenied},
		"all streams, prefixed":   {TokenSpec{ID: "mine-4", Scope: named(NameSet{}, AllNames, NameSet{}), AutoPrefix: true}, nil},
		"all streams, unprefixed": {TokenSpec{ID: "mine-2", Scope: named(NameSet{}, AllNames, NameSet{})}, ErrDenied},
		"a prefix of none":        {TokenSpec{ID: "mine-2", Scope: read, AutoPrefix: true}, &invalid},
		"a prefix of one name":    {TokenSpec{ID: "mine-2", Scope: named(NameSet{}, NameSet{"s", false}, NameSet{}), AutoPrefix: true}, &invalid},
		"time":                    {TokenSpec{ID: "mine-5", Scope: read, ExpiresAt: start.Add(time.Hour)}, nil},
		"more time":               {TokenSpec{ID: "mine-2", Scope: read, ExpiresAt: start.Add(time.Hour + time.Millisecond)}, ErrDenied},
		"the past":                {TokenSpec{ID: "mine-2", Scope: read, ExpiresAt: start}, &invalid},
		"the root's id":           {TokenSpec{ID: RootToken, Scope: read}, ErrDenied},
		"a long id":               {TokenSpec{ID: "mine-" + strings.Repeat("x", 92), Scope: read}, &invalid},
	} {
		_, err := a.Issue(ctx, by, c.spec)
		switch want := c.want.(type) {
		case nil:
			must(t, err)
		case error:
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		default:
			if !errors.As(err, &invalid) {
				t.Errorf("%s: %v, want it to be invalid", name, err)
			}
		}
	}
	// Streams are named as the issuer sees them, and its holders end with it.
	page, err := a.List(ctx, root(t, a), "mine-4", "", 0)
	must(t, err)
	if got := page.Tokens[0]; got.Scope.Streams != (NameSet{"t/", true}) || !got.ExpiresAt.Equal(start.Add(time.Hour)) {
		t.Errorf("the root token is shown %+v", got)
	}
	if page, err = a.List(ctx, by, "", "", 2); err != nil || len(page.Tokens) != 2 || !page.HasMore {
		t.Errorf("listed %+v, %v", page, err)
	}
	if page, err = a.List(ctx, by, "mine-4", "", 0); err != nil || page.Tokens[0].Scope.Streams != AllNames {
		t.Errorf("the issuer is shown %+v, %v", page.Tokens, err)
	}
	wantErr(t, a.Revoke(ctx, by, "mine-1"), ErrDenied)
	// Nobody at all issues a token that the audit log would take for the root token, or that no path can revoke.
	for _, id := range []string{RootToken, ".."} {
		if _, err := a.Issue(ctx, root(t, a), TokenSpec{ID: id, Scope: read}); !errors.As(err, &invalid) {
			t.Errorf("issue %q: %v", id, err)
		}
	}
}

// TestAccountsApart: tokens with the same id, and basins, of two accounts know nothing of each other.
func TestAccountsApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, d, ctx := w.accounts(), w.directory(), t.Context()
	other, err := a.CreateAccount(ctx, "The other")
	must(t, err)
	theirs := &Principal{Account: other.ID, Scope: Everything()}
	mine := root(t, a)
	for _, p := range []*Principal{mine, theirs} {
		_, err := a.Issue(ctx, p, TokenSpec{ID: "same", Scope: Everything()})
		must(t, err)
	}
	must(t, a.Revoke(ctx, theirs, "same"))
	if page, err := a.List(ctx, mine, "", "", 0); err != nil || len(page.Tokens) != 1 {
		t.Errorf("the other account's revocation left %+v, %v", page, err)
	}
	my, their := WithPrincipal(ctx, mine), WithPrincipal(ctx, theirs)
	_, _, err = d.CreateBasin(my, theBasin, "", BasinConfig{CreateOnAppend: true}, "token")
	must(t, err)
	_, err = d.Resolve(my, theBasin, "one", Append)
	must(t, err)
	_, _, err = d.CreateBasin(their, theBasin, "", BasinConfig{CreateOnAppend: true}, "token")
	wantErr(t, err, ErrBasinExists)
	_, _, err = d.EnsureBasin(their, theBasin, "", BasinConfig{})
	wantErr(t, err, ErrBasinExists)
	for _, name := range []string{theBasin, "absent-basin"} {
		before := w.reads()
		_, _, err := d.GetBasin(their, name)
		wantErr(t, err, ErrBasinNotFound)
		_, _, err = d.ReconfigureBasin(their, name, BasinPatch{})
		wantErr(t, err, ErrBasinNotFound)
		_, err = d.DeleteBasin(their, name)
		wantErr(t, err, ErrBasinNotFound)
		_, err = d.ListStreams(their, name, "", "", 0)
		wantErr(t, err, ErrBasinNotFound)
		_, err = d.Resolve(their, name, "one", Append)
		wantErr(t, err, ErrBasinNotFound)
		_, _, err = d.GetStream(their, name, "one")
		wantErr(t, err, ErrBasinNotFound)
		_, err = d.DeleteStream(their, name, "one")
		wantErr(t, err, ErrBasinNotFound)
		_, _, err = d.CreateStream(their, name, "two", Settings{}, "")
		wantErr(t, err, ErrBasinNotFound)
		if n := w.reads() - before; n != 8 {
			t.Errorf("%s cost %d reads for 8 answers", name, n)
		}
	}
	if page, err := d.ListBasins(their, "", "", 0); err != nil || len(page.Basins) != 0 || page.HasMore {
		t.Errorf("listed %+v, %v", page, err)
	}
	_, _, err = d.CreateBasin(their, "their-basin", "", BasinConfig{}, "")
	must(t, err)
	if page, err := d.ListBasins(my, "", "", 1); err != nil || len(page.Basins) != 1 || page.HasMore {
		t.Errorf("has_more counts the other account's: %+v, %v", page, err)
	}
	// A name that one account has let go of, another can have.
	_, err = d.DeleteBasin(my, theBasin)
	must(t, err)
	_, _, err = d.CreateBasin(their, theBasin, "", BasinConfig{}, "")
	wantErr(t, err, ErrBasinExists)
	w.settle()
	_, _, err = d.CreateBasin(their, theBasin, "", BasinConfig{}, "")
	must(t, err)
	_, _, err = d.GetBasin(my, theBasin)
	wantErr(t, err, ErrBasinNotFound)
}

// reads counts what was read so far.
func (w *world) reads() int {
	counts := w.faults.Counts()
	return counts["Get"] + counts["List"] + counts["Load"]
}

func TestSuspend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, ctx := w.accounts(), t.Context()
	account, err := a.CreateAccount(ctx, "Some one")
	must(t, err)
	bearer, err := a.Issue(ctx, &Principal{Account: account.ID, Scope: Everything()}, TokenSpec{ID: "t", Scope: Everything()})
	must(t, err)
	_, err = a.Authenticate(ctx, bearer)
	must(t, err)
	must(t, a.Suspend(ctx, account.ID, true))
	must(t, a.Suspend(ctx, account.ID, true))
	_, err = w.accounts().Authenticate(ctx, bearer)
	wantErr(t, err, ErrUnauthenticated)
	must(t, a.Suspend(ctx, account.ID, false))
	_, err = w.accounts().Authenticate(ctx, bearer)
	must(t, err)
	wantErr(t, a.Suspend(ctx, "a-nobody", true), ErrAccountNotFound)
	var names []string
	must(t, a.EachAccount(ctx, func(a Account) error { names = append(names, a.Name); return nil }))
	if strings.Join(names, " ") != "default Some one" {
		t.Errorf("accounts %q", names)
	}
	if _, err := a.CreateAccount(ctx, ""); err == nil {
		t.Error("an account without a name")
	}
}

func TestRootToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	none := AccountsOptions{}
	a := w.accounts(none)
	made, err := a.EnsureRoot(ctx)
	must(t, err)
	if again, err := w.accounts(none).EnsureRoot(ctx); again != "" || err != nil || made == "" {
		t.Fatalf("made %q, then %q, %v", made, again, err)
	}
	p, err := w.accounts(none).Authenticate(ctx, made)
	must(t, err)
	if !p.Operator || p.Account != DefaultAccount {
		t.Errorf("the root token is %+v", p)
	}
	// One that is configured takes the place of the other.
	configured := w.accounts()
	_, err = configured.Authenticate(ctx, made)
	wantErr(t, err, ErrUnauthenticated)
	_, err = a.Authenticate(ctx, testRoot)
	wantErr(t, err, ErrUnauthenticated)
	if text, err := configured.EnsureRoot(ctx); text != "" || err != nil {
		t.Errorf("made %q, %v beside the configured one", text, err)
	}
	reset, err := a.ResetRoot(ctx)
	must(t, err)
	_, err = w.accounts(none).Authenticate(ctx, made)
	wantErr(t, err, ErrUnauthenticated)
	_, err = w.accounts(none).Authenticate(ctx, reset)
	must(t, err)
	rows, err := w.store.List(ctx, "root", "", "", 10)
	must(t, err)
	if len(rows) != 1 || strings.Contains(string(rows[0].Value), reset[len(bearerPrefix):]) {
		t.Error("the text of the root token is stored")
	}
}

// TestRevocationElsewhere: within MaxAge, and not before the store is asked again; a store that does not answer lets
// nobody in whom it has not let in within MaxAge.
func TestRevocationElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		here, there, ctx := w.accounts(), w.accounts(), t.Context()
		bearer, err := here.Issue(ctx, root(t, here), TokenSpec{ID: "t", Scope: Everything()})
		must(t, err)
		_, err = there.Authenticate(ctx, bearer)
		must(t, err)
		must(t, here.Revoke(ctx, root(t, here), "t"))
		before := w.reads()
		time.Sleep(1999 * time.Millisecond)
		_, err = there.Authenticate(ctx, bearer)
		must(t, err)
		if w.reads() != before {
			t.Error("a fresh verdict was read again")
		}
		time.Sleep(time.Millisecond)
		_, err = there.Authenticate(ctx, bearer)
		wantErr(t, err, ErrUnauthenticated)
		before = w.reads()
		_, err = there.Authenticate(ctx, bearer)
		wantErr(t, err, ErrUnauthenticated)
		if w.reads() != before {
			t.Error("a bad token was read again at once")
		}
		other, err := here.Issue(ctx, root(t, here), TokenSpec{ID: "u", Scope: Everything()})
		must(t, err)
		w.faults.Set(func(c storetest.Call) storetest.Outcome { return storetest.Hold })
		_, err = there.Authenticate(ctx, other)
		if err == nil || errors.Is(err, ErrUnauthenticated) || !Definite(err) || !errors.Is(err, coordinator.ErrUnavailable) {
			t.Errorf("a silent store: %v", err)
		}
		w.faults.Set(nil)
	})
}

// TestIssueThroughFaults: each call to the store may be refused, lost, or have its answer lost. Whatever Issue and
// Revoke then say is so.
func TestIssueThroughFaults(t *testing.T) {
	t.Parallel()
	for _, outcome := range []storetest.Outcome{storetest.Refuse, storetest.Drop, storetest.Lose} {
		for at := range 4 {
			w := newWorld(t)
			a, ctx := w.accounts(), t.Context()
			n := 0
			w.faults.Set(func(storetest.Call) storetest.Outcome {
				if n++; n == at+1 {
					return outcome
				}
				return storetest.Pass
			})
			bearer, err := a.Issue(ctx, root(t, a), TokenSpec{ID: "t", Scope: Everything()})
			revoked := err == nil
			if revoked {
				if err := a.Revoke(ctx, root(t, a), "t"); err != nil {
					revoked = false
					if !Definite(err) {
						t.Errorf("%v at %d: revocation in doubt: %v", outcome, at, err)
					}
				}
			} else if !Definite(err) {
				t.Errorf("%v at %d: in doubt: %v", outcome, at, err)
			}
			w.faults.Set(nil)
			_, auth := w.accounts().Authenticate(ctx, bearer)
			if good := err == nil && !revoked; (auth == nil) != good {
				t.Errorf("%v at %d: issue %v, revoked %v, then %v", outcome, at, err, revoked, auth)
			}
		}
	}
}

func TestSweepTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, ctx := w.accounts(), t.Context()
	for id, expiry := range map[string]time.Time{"short": start.Add(time.Hour), "short-revoked": start.Add(time.Hour), "ever": {}, "ever-revoked": {}} {
		_, err := a.Issue(ctx, root(t, a), TokenSpec{ID: id, Scope: Everything(), ExpiresAt: expiry})
		must(t, err)
	}
	must(t, a.Revoke(ctx, root(t, a), "short-revoked"))
	must(t, a.Revoke(ctx, root(t, a), "ever-revoked"))
	count := func() int {
		must(t, a.Sweep(ctx))
		rows, err := w.store.List(ctx, tokensPart(DefaultAccount), "", "", 100)
		must(t, err)
		return len(rows)
	}
	w.pass(24 * time.Hour)
	if n := count(); n != 4 {
		t.Errorf("%d rows before a tombstone's age", n)
	}
	w.pass(time.Hour)
	if n := count(); n != 2 {
		t.Errorf("%d rows after it", n)
	}
}

func FuzzParseBearer(f *testing.F) {
	f.Add(newBearer(claim{accessBearer, DefaultAccount, "tok"}))
	f.Add(newBearer(claim{kind: rootBearer}))
	f.Add(bearerPrefix + base64.RawURLEncoding.EncodeToString([]byte{1, 200}))
	f.Add("tr_AQ\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := parseBearer(text)
		if !ok {
			return
		}
		raw, err := base64.RawURLEncoding.DecodeString(text[len(bearerPrefix):])
		if err != nil || bearerOf(c, raw[len(raw)-secretBytes:]) != text {
			t.Fatalf("%q is %+v, which is written otherwise", text, c)
		}
	})
}

// TestAStopOfTheProcessCounts: what was read before a process, or its machine, was stopped is not believed after it, though
// the clock that measures time-outs may stand still meanwhile.
func TestAStopOfTheProcessCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here, there, ctx := w.accounts(AccountsOptions{RootToken: testRoot, MaxAge: time.Minute}), w.accounts(), t.Context()
	bearer, err := here.Issue(ctx, root(t, here), TokenSpec{ID: "t", Scope: Everything()})
	must(t, err)
	_, err = here.Authenticate(ctx, bearer)
	must(t, err)
	must(t, there.Revoke(ctx, root(t, there), "t"))
	_, err = here.Authenticate(ctx, bearer)
	must(t, err) // the minute is not over
	v, _ := here.good.GetIfPresent(digestOf(bearer))
	v.read = stopped(t, v.read)
	here.good.Set(digestOf(bearer), v)
	_, err = here.Authenticate(ctx, bearer)
	wantErr(t, err, ErrUnauthenticated)
}

// stopped is a moment as it looks when the machine has been stopped for an hour since: by the wall clock alone it is that
// much longer ago. No function of package time makes such a one, so this knows where the wall clock's seconds are.
func stopped(t *testing.T, moment time.Time) time.Time {
	t.Helper()
	early := moment
	*(*uint64)(unsafe.Pointer(&early)) -= uint64(time.Hour/time.Second) << 30
	if moment.Sub(early) != 0 || moment.Round(0).Sub(early.Round(0)) != time.Hour {
		t.Fatalf("%v is not %v an hour earlier by the wall clock alone", early, moment)
	}
	return early
}

// TestAFloodOfStrangers: made-up tokens cost the store a few reads at a time, and neither keep out who was let in a moment
// ago nor have him forgotten.
func TestAFloodOfStrangers(t *testing.T) {
	t.Parallel()
	madeUp := func() string { return newBearer(claim{accessBearer, DefaultAccount, "made-up"}) }
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, ctx := w.accounts(), t.Context()
		bearer, err := a.Issue(ctx, root(t, a), TokenSpec{ID: "t", Scope: Everything()})
		must(t, err)
		_, err = a.Authenticate(ctx, bearer)
		must(t, err)
		time.Sleep(2 * time.Second) // it has to be read again
		w.faults.Set(func(c storetest.Call) storetest.Outcome {
			if c.Key.Sort == "made-up" {
				return storetest.Hold
			}
			return storetest.Pass
		})
		before, answers := w.reads(), make(chan error, 500)
		for range cap(answers) {
			go func() {
				_, err := a.Authenticate(ctx, madeUp())
				answers <- err
			}()
		}
		synctest.Wait()
		if n := w.reads() - before; n != strangersAtOnce {
			t.Errorf("%d reads at once, want %d", n, strangersAtOnce)
		}
		begun := time.Now()
		_, err = a.Authenticate(ctx, bearer)
		must(t, err)
		if took := time.Since(begun); took != 0 {
			t.Errorf("who was known waited %s", took)
		}
		for range cap(answers) { // those who waited know nothing, and say so
			if err := <-answers; !Definite(err) || !errors.Is(err, coordinator.ErrUnavailable) {
				t.Fatal(err)
			}
		}
		w.faults.Set(nil)
		_, err = a.Authenticate(ctx, madeUp())
		wantErr(t, err, ErrUnauthenticated)
	})
	w := newWorld(t)
	a, ctx := w.accounts(AccountsOptions{RootToken: testRoot, MaxAge: time.Hour, Remembered: 16}), t.Context()
	bearer, err := a.Issue(ctx, root(t, a), TokenSpec{ID: "t", Scope: Everything()})
	must(t, err)
	_, err = a.Authenticate(ctx, bearer)
	must(t, err)
	for range 1000 {
		_, err := a.Authenticate(ctx, madeUp())
		wantErr(t, err, ErrUnauthenticated)
	}
	before := w.reads()
	_, err = a.Authenticate(ctx, bearer)
	if must(t, err); w.reads() != before {
		t.Error("a good token was forgotten for those that are not")
	}
}
