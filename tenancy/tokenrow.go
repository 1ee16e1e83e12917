package tenancy

import (
	"encoding/json"
	"fmt"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// tokenRow is an access token: part "tokens/ACCOUNT", sorted by id. Once revoked it is a tombstone, which keeps its
// version until the token would have expired, so that a delayed write of it misses.
type tokenRow struct {
	versioned
	State State `json:"state"` // active or deleted
	// Hash is SHA-256 of the text that the holder sends, in hex.
	Hash      string    `json:"hash,omitempty"`
	CreatedAt uint64    `json:"created_at"`
	ExpiresAt uint64    `json:"expires_at,omitempty"` // 0 for never
	RevokedAt uint64    `json:"revoked_at,omitempty"`
	Issuer    string    `json:"issuer,omitempty"` // the id of the token that it was issued with
	Auto      bool      `json:"auto_prefix_streams,omitempty"`
	Scope     *scopeRow `json:"scope,omitempty"`
}

func (r *tokenRow) check() error {
	active := r.State == Active && r.Hash != "" && r.Scope != nil
	dead := r.State == Deleted && r.Hash == "" && r.Scope == nil && r.RevokedAt != 0
	if !active && !dead {
		return fmt.Errorf("token without state, hash or scope: %w", ErrBadRow)
	}
	if active && r.Auto && !r.Scope.Streams.Prefix {
		return fmt.Errorf("token with a prefix to add and none to add: %w", ErrBadRow)
	}
	return nil
}

// scopeRow is a Scope in a row: names of operations and groups, so that their numbers are nobody's business.
type scopeRow Scope

// scopeJSON is its form. An operation or group that is not known is an error: a later version's scope is not guessed at.
type scopeJSON struct {
	Basins  *nameSetJSON `json:"basins,omitempty"`
	Streams *nameSetJSON `json:"streams,omitempty"`
	Tokens  *nameSetJSON `json:"tokens,omitempty"`
	Groups  []string     `json:"groups,omitempty"` // "account:read" and so on
	Ops     []string     `json:"ops,omitempty"`
}

type nameSetJSON struct {
	Exact  string  `json:"exact,omitempty"`
	Prefix *string `json:"prefix,omitempty"`
}

var groupNames = [groups]string{"account", "basin", "stream"}

func (s NameSet) stored() *nameSetJSON {
	switch {
	case s.None():
		return nil
	case s.Prefix:
		return &nameSetJSON{Prefix: &s.Name}
	}
	return &nameSetJSON{Exact: s.Name}
}

func (j *nameSetJSON) set() (NameSet, error) {
	switch {
	case j == nil:
		return NameSet{}, nil
	case j.Prefix != nil && j.Exact == "":
		return NameSet{*j.Prefix, true}, nil
	case j.Prefix == nil && j.Exact != "":
		return NameSet{j.Exact, false}, nil
	}
	return NameSet{}, fmt.Errorf("a set of names that is both or neither: %w", ErrBadRow)
}

// MarshalJSON writes the form above.
func (s scopeRow) MarshalJSON() ([]byte, error) {
	j := scopeJSON{Basins: s.Basins.stored(), Streams: s.Streams.stored(), Tokens: s.Tokens.stored()}
	for g, half := range s.Groups {
		if half.Read {
			j.Groups = append(j.Groups, groupNames[g]+":read")
		}
		if half.Write {
			j.Groups = append(j.Groups, groupNames[g]+":write")
		}
	}
	for _, op := range s.Ops.List() {
		j.Ops = append(j.Ops, op.String())
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads it.
func (s *scopeRow) UnmarshalJSON(text []byte) (err error) {
	var j scopeJSON
	if err := strictly(text, &j); err != nil {
		return err
	}
	*s = scopeRow{}
	for _, set := range []struct {
		from *nameSetJSON
		to   *NameSet
	}{{j.Basins, &s.Basins}, {j.Streams, &s.Streams}, {j.Tokens, &s.Tokens}} {
		if *set.to, err = set.from.set(); err != nil {
			return err
		}
	}
	for _, name := range j.Groups {
		if err := s.Groups.add(name); err != nil {
			return err
		}
	}
	for _, name := range j.Ops {
		op, ok := ParseOp(name)
		if !ok {
			return fmt.Errorf("operation %q is not known: %w", name, ErrBadRow)
		}
		s.Ops |= OpsOf(op)
	}
	return nil
}

func (g *Groups) add(half string) error {
	for i, name := range groupNames {
		switch half {
		case name + ":read":
			g[i].Read = true
			return nil
		case name + ":write":
			g[i].Write = true
			return nil
		}
	}
	return fmt.Errorf("group %q is not known: %w", half, ErrBadRow)
}

// rootRow is the root token that a server made for itself: part "root", one row.
type rootRow struct {
	versioned
	Hash      string `json:"hash"`
	CreatedAt uint64 `json:"created_at"`
}

func (r *rootRow) check() error {
	if r.Hash == "" {
		return fmt.Errorf("root token without hash: %w", ErrBadRow)
	}
	return nil
}

func tokensPart(a AccountID) string { return "tokens/" + string(a) }

func tokenKey(a AccountID, id string) coordinator.Key {
	return coordinator.Key{Part: tokensPart(a), Sort: id}
}

func rootKey() coordinator.Key { return coordinator.Key{Part: "root", Sort: "token"} }
