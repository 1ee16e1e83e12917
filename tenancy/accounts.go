package tenancy

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// Accounts makes accounts and access tokens, and tells who a token's holder is. Like a Directory it has no state that
// matters; any number of processes may have one over the same Table.
type Accounts struct {
	d    *Directory
	root *[sha256.Size]byte // of the root token that was configured
	age  time.Duration
	// good and bad remember what tokens were found to be, by their hash: bounded in number, and none is believed beyond its
	// age. They are two so that whoever sends made-up tokens does not have good ones forgotten.
	good, bad *otter.Cache[[sha256.Size]byte, verdict]
	flights   singleflight.Group
	// strangers bounds the reads at once for tokens that were not good a moment ago. Those that were do not wait for it.
	strangers *semaphore.Weighted
}

// strangersAtOnce is more than a process that starts needs for its first requests, and what a store bears.
const strangersAtOnce = 64

// AccountsOptions is what an Accounts is made of, besides a Directory.
type AccountsOptions struct {
	// RootToken is the operator's token. If it is empty, the one that EnsureRoot made is; if it is not, that one is
	// refused.
	RootToken string
	// MaxAge is how long what was read of a token is believed: a token that was revoked is refused everywhere that
	// much later at the latest; 2 s.
	MaxAge time.Duration
	// Remembered bounds the good tokens remembered, and the bad ones as well; 10,000.
	Remembered int
}

// NewAccounts makes an Accounts over the rows of a Directory. It starts nothing.
func NewAccounts(d *Directory, o AccountsOptions) (*Accounts, error) {
	defaultTo(&o.MaxAge, 2*time.Second)
	defaultTo(&o.Remembered, 10_000)
	a := &Accounts{d: d, age: o.MaxAge, strangers: semaphore.NewWeighted(strangersAtOnce)}
	if o.RootToken != "" {
		sum := digestOf(o.RootToken)
		a.root = &sum
	}
	var err error
	if a.good, err = otter.New(&otter.Options[[sha256.Size]byte, verdict]{MaximumSize: o.Remembered}); err != nil {
		return nil, err
	}
	a.bad, err = otter.New(&otter.Options[[sha256.Size]byte, verdict]{MaximumSize: o.Remembered})
	return a, err
}

// Account is one tenant: what its tokens can see and change are its basins and tokens alone.
type Account struct {
	ID   AccountID
	Name string
	// CreatedAt is zero for the default account, which was always there.
	CreatedAt time.Time
	Suspended bool // its tokens are refused; nothing else changes
}

// accountRow is an account: part "accounts", sorted by id.
type accountRow struct {
	versioned
	Name      string `json:"name"`
	CreatedAt uint64 `json:"created_at"`
	Suspended bool   `json:"suspended,omitempty"`
}

const accountsPart = "accounts"

func accountKey(id AccountID) coordinator.Key {
	return coordinator.Key{Part: accountsPart, Sort: string(id)}
}

func (r *accountRow) check() error { return nil }

func (r *accountRow) account(id AccountID) Account {
	return Account{id, r.Name, toTime(r.CreatedAt), r.Suspended}
}

// orDefaultAccount and inRow write the default account as nothing, which is what rows from before there were accounts
// say.
func orDefaultAccount(id AccountID) AccountID {
	if id == "" {
		return DefaultAccount
	}
	return id
}

func inRow(id AccountID) AccountID {
	if id == DefaultAccount {
		return ""
	}
	return id
}

// CreateAccount makes an account. The name is for people and need not be unique; the id is.
func (a *Accounts) CreateAccount(ctx context.Context, name string) (Account, error) {
	if len(name) > 256 || checkName("account", name) != nil {
		return Account{}, invalid("account name: must be valid UTF-8 of 1 to 256 bytes")
	}
	id := AccountID("a-" + strings.ToLower(rand.Text()))
	row := accountRow{Name: name, CreatedAt: a.d.now()}
	if _, err := a.d.put(ctx, accountKey(id), &row, 0); err != nil {
		return Account{}, untouched(fmt.Errorf("create account: %w", err))
	}
	return row.account(id), nil
}

// Account returns an account; ErrAccountNotFound.
func (a *Accounts) Account(ctx context.Context, id AccountID) (Account, error) {
	account, _, err := a.getAccount(ctx, id)
	return account, untouched(err)
}

func (a *Accounts) getAccount(ctx context.Context, id AccountID) (Account, uint64, error) {
	if id == DefaultAccount {
		return Account{ID: id, Name: string(id)}, 0, nil
	}
	if !validAccount(id) {
		return Account{}, 0, ErrAccountNotFound
	}
	var row accountRow
	v, err := a.d.get(ctx, accountKey(id), &row)
	if err == nil && v == 0 {
		err = ErrAccountNotFound
	}
	return row.account(id), v, err
}

// Suspend has the tokens of an account refused, or no longer refused. The default account cannot be suspended.
func (a *Accounts) Suspend(ctx context.Context, id AccountID, suspended bool) error {
	if id == DefaultAccount {
		return invalid("the default account cannot be suspended")
	}
	for n := 0; n < attempts && pause(ctx, n); n++ {
		account, v, err := a.getAccount(ctx, id)
		if err != nil || account.Suspended == suspended {
			return untouched(err)
		}
		row := accountRow{Name: account.Name, CreatedAt: toMillis(account.CreatedAt), Suspended: suspended}
		_, err = a.d.put(ctx, accountKey(id), &row, v)
		var m *moved
		if !errors.As(err, &m) {
			return untouched(err)
		}
	}
	return exhausted(ctx)
}

// EachAccount calls f for every account, the default one first.
func (a *Accounts) EachAccount(ctx context.Context, f func(Account) error) error {
	if err := f(Account{ID: DefaultAccount, Name: string(DefaultAccount)}); err != nil {
		return err
	}
	return a.d.each(ctx, accountsPart, "", func(r coordinator.Row) error {
		var row accountRow
		if err := decode(r.Value, &row); err != nil {
			return err
		}
		return f(row.account(AccountID(r.Key.Sort)))
	})
}
