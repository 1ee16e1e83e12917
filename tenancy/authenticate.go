package tenancy

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"time"

	"github.com/tailrace-streams/tailrace/coordinator/recall"
)

// verdict is what a token was found to be: a principal, or none if it is not good. Both are remembered.
type verdict struct {
	principal *Principal
	read      time.Time // before its row was read
}

// Authenticate tells whose a bearer token is. ErrUnauthenticated if it is not good; any other error says that it cannot
// be known now, and nobody is to be let in. What was read is believed for MaxAge, and an expiry is judged at every call,
// so a caller who asks again now and then learns in time that a token is no longer good.
func (a *Accounts) Authenticate(ctx context.Context, bearer string) (*Principal, error) {
	sum := digestOf(bearer)
	if a.root != nil && subtle.ConstantTimeCompare(a.root[:], sum[:]) == 1 {
		return operator(), nil
	}
	c, ok := parseBearer(bearer)
	if !ok || c.kind == rootBearer && a.root != nil {
		return nil, ErrUnauthenticated // known by itself, without a read
	}
	v, known := a.good.GetIfPresent(sum)
	if !known {
		v, _ = a.bad.GetIfPresent(sum)
	}
	if recall.Age(v.read) >= a.age {
		var err error
		if v, err = a.look(ctx, sum, c, known); err != nil {
			return nil, untouched(err)
		}
	}
	p := v.principal
	if p == nil || !p.ExpiresAt.IsZero() && !a.d.Clock().Before(p.ExpiresAt) {
		return nil, ErrUnauthenticated
	}
	return p, nil
}

func operator() *Principal {
	return &Principal{Account: DefaultAccount, Token: RootToken, Operator: true, Scope: Everything()}
}

// look reads what a token is. Whoever asks for the same one meanwhile shares the answer, which is never older than
// MaxAge, since no reading takes longer, the wait of a token that is not known for its turn among those included.
func (a *Accounts) look(ctx context.Context, sum [sha256.Size]byte, c claim, known bool) (verdict, error) {
	result := a.flights.DoChan(string(sum[:]), func() (any, error) {
		// Not the first asker's context alone: the others must not fail when it goes away.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.age)
		defer cancel()
		v := verdict{read: time.Now()}
		if !known {
			if err := a.strangers.Acquire(ctx, 1); err != nil {
				return nil, err
			}
			defer a.strangers.Release(1)
		}
		var err error
		if v.principal, err = a.read(ctx, sum, c); err != nil {
			return nil, err
		}
		if recall.Age(v.read) >= a.age {
			return nil, context.DeadlineExceeded // the process was stopped meanwhile, which the time-out does not see
		}
		a.remember(sum, v)
		return v, nil
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return verdict{}, r.Err
		}
		return r.Val.(verdict), nil
	case <-ctx.Done():
		return verdict{}, ctx.Err()
	}
}

func (a *Accounts) remember(sum [sha256.Size]byte, v verdict) {
	if v.principal != nil {
		a.good.Set(sum, v)
		return
	}
	a.bad.Set(sum, v)
	a.good.Invalidate(sum)
}

// read finds the row of a token and whether it is the one; nil if not. A wrong secret, an unknown id and a token that
// was revoked cost the same one read.
func (a *Accounts) read(ctx context.Context, sum [sha256.Size]byte, c claim) (*Principal, error) {
	if c.kind == rootBearer {
		var row rootRow
		v, err := a.d.get(ctx, rootKey(), &row)
		if err != nil || v == 0 || !sameDigest(row.Hash, sum) {
			return nil, err
		}
		return operator(), nil
	}
	var row tokenRow
	v, err := a.d.get(ctx, tokenKey(c.account, c.token), &row)
	if err != nil || v == 0 || row.State != Active || !sameDigest(row.Hash, sum) {
		return nil, err
	}
	account, _, err := a.getAccount(ctx, c.account)
	switch {
	case errors.Is(err, ErrAccountNotFound):
		return nil, nil
	case err != nil || account.Suspended:
		return nil, err
	}
	p := &Principal{Account: c.account, Token: c.token, Scope: Scope(*row.Scope), ExpiresAt: toTime(row.ExpiresAt)}
	if row.Auto {
		p.AutoPrefix = p.Scope.Streams.Name
	}
	return p, nil
}

// forget drops what is remembered of a token by its hash in hex.
func (a *Accounts) forget(hash string) {
	var sum [sha256.Size]byte
	if n, err := hex.Decode(sum[:], []byte(hash)); err == nil && n == len(sum) {
		a.good.Invalidate(sum)
	}
}

// EnsureRoot makes the root token, unless one is configured or was made before, and returns its text, which is nowhere
// else; empty if there was nothing to make. Of several processes that start together one gets it.
func (a *Accounts) EnsureRoot(ctx context.Context) (string, error) {
	if a.root != nil {
		return "", nil
	}
	var row rootRow
	if v, err := a.d.get(ctx, rootKey(), &row); err != nil || v != 0 {
		return "", untouched(err)
	}
	return a.putRoot(ctx, 0)
}

// ResetRoot replaces the root token that was made: for an operator who has lost it.
func (a *Accounts) ResetRoot(ctx context.Context) (string, error) {
	for n := 0; n < attempts && pause(ctx, n); n++ {
		var row rootRow
		v, err := a.d.get(ctx, rootKey(), &row)
		if err != nil {
			return "", untouched(err)
		}
		if bearer, err := a.putRoot(ctx, v); bearer != "" || err != nil {
			return bearer, err
		}
	}
	return "", exhausted(ctx)
}

// putRoot replaces a version of the root's row; no text if somebody else was faster.
func (a *Accounts) putRoot(ctx context.Context, v uint64) (string, error) {
	bearer := newBearer(claim{kind: rootBearer})
	_, err := a.d.put(ctx, rootKey(), &rootRow{Hash: hexOf(digestOf(bearer)), CreatedAt: a.d.now()}, v)
	var m *moved
	switch {
	case errors.As(err, &m):
		return "", nil
	case err != nil:
		return "", untouched(err)
	}
	return bearer, nil
}
