package wire

import (
	"encoding/json"
	"slices"
)

// IssueAccessTokenRequest is the body of a POST of an access token.
type IssueAccessTokenRequest struct {
	ID                string           `json:"id"`
	ExpiresAt         *Time            `json:"expires_at,omitempty"`
	AutoPrefixStreams bool             `json:"auto_prefix_streams"`
	Scope             AccessTokenScope `json:"scope"`
}

// IssueAccessTokenResponse holds the secret, which is shown this once.
type IssueAccessTokenResponse struct {
	AccessToken string `json:"access_token"`
}

// AccessTokenInfo describes an access token without its secret.
type AccessTokenInfo struct {
	ID                string           `json:"id"`
	ExpiresAt         *Time            `json:"expires_at"`
	AutoPrefixStreams bool             `json:"auto_prefix_streams"`
	Scope             AccessTokenScope `json:"scope"`
}

// ListAccessTokensResponse is a page of access tokens.
type ListAccessTokensResponse struct {
	AccessTokens []AccessTokenInfo `json:"access_tokens"`
	HasMore      bool              `json:"has_more"`
}

// MarshalJSON writes no tokens as an empty array.
func (l ListAccessTokensResponse) MarshalJSON() ([]byte, error) {
	type plain ListAccessTokensResponse
	if l.AccessTokens == nil {
		l.AccessTokens = []AccessTokenInfo{}
	}
	return json.Marshal(plain(l))
}

// AccessTokenScope is what a token permits: operations, on resources. It is read from any form that the API allows and
// written in one: sets that match nothing are null, all groups are there, Ops is an array.
type AccessTokenScope struct {
	Basins       *ResourceSet `json:"basins"`
	Streams      *ResourceSet `json:"streams"`
	AccessTokens *ResourceSet `json:"access_tokens"`
	OpGroups     OpGroups     `json:"op_groups"`
	Ops          []Operation  `json:"ops"`
}

// MarshalJSON writes the normal form.
func (s AccessTokenScope) MarshalJSON() ([]byte, error) {
	type plain AccessTokenScope
	for _, set := range []**ResourceSet{&s.Basins, &s.Streams, &s.AccessTokens} {
		if *set != nil && (*set).None() {
			*set = nil
		}
	}
	if s.Ops == nil {
		s.Ops = []Operation{}
	}
	return json.Marshal(plain(s))
}

// ResourceSet is the resources of one name, or those with a prefix. The empty prefix is all, the empty name none.
type ResourceSet struct {
	// Name is the exact name, or the prefix if IsPrefix.
	Name     string
	IsPrefix bool
}

// None reports whether the set matches nothing.
func (r ResourceSet) None() bool { return !r.IsPrefix && r.Name == "" }

// MarshalJSON writes {"exact": name} or {"prefix": prefix}.
func (r ResourceSet) MarshalJSON() ([]byte, error) {
	key := "exact"
	if r.IsPrefix {
		key = "prefix"
	}
	return json.Marshal(map[string]string{key: r.Name})
}

// UnmarshalJSON reads what MarshalJSON writes, for a client.
func (r *ResourceSet) UnmarshalJSON(text []byte) (err error) {
	*r, err = decodeAs(slices.Clone(text), readResourceSet(func(string, Code) error { return nil }, StreamNames))
	return err
}

// OpGroups permits the operations of a level by kind.
type OpGroups struct {
	Account ReadWrite `json:"account"`
	Basin   ReadWrite `json:"basin"`
	Stream  ReadWrite `json:"stream"`
}

// ReadWrite permits the reading and the writing operations of a level.
type ReadWrite struct {
	Read  bool `json:"read"`
	Write bool `json:"write"`
}

// Operation is an operation of the API as a token's scope names it.
type Operation string

// operations is every operation of the API.
var operations = []Operation{
	"list-basins", "create-basin", "delete-basin", "reconfigure-basin", "get-basin-config",
	"issue-access-token", "revoke-access-token", "list-access-tokens", "account-metrics",
	"list-locations", "get-default-location", "set-default-location",
	"list-streams", "create-stream", "delete-stream", "get-stream-config", "reconfigure-stream", "basin-metrics",
	"check-tail", "append", "read", "trim", "fence", "stream-metrics",
}

// Operations lists every operation of the API.
func Operations() []Operation { return slices.Clone(operations) }

// LocationInfo describes a location.
type LocationInfo struct {
	Name      string `json:"name"`
	IsPrivate bool   `json:"is_private"`
}

func readResourceSet(check func(name string, at Code) error, kind NameKind) func(*scanner) (ResourceSet, error) {
	return func(s *scanner) (r ResourceSet, err error) {
		keys := 0
		err = s.object(func(key []byte) error {
			keys++
			switch string(key) {
			case "exact", "prefix":
				r.IsPrefix = string(key) == "prefix"
			default:
				return s.fail(`the key "exact" or "prefix"`)
			}
			return assign(s, &r.Name, readString)
		})
		switch {
		case err != nil:
		case keys != 1:
			err = s.fail(`exactly one of "exact" and "prefix"`)
		case r.IsPrefix:
			err = CheckPrefix(kind, r.Name, CodeBadJSON)
		case r.Name != "":
			err = check(r.Name, CodeBadJSON)
		}
		return r, err
	}
}

func readReadWrite(s *scanner) (rw ReadWrite, err error) {
	err = s.fields(map[string]field{
		"read":  plainField(&rw.Read, (*scanner).boolean),
		"write": plainField(&rw.Write, (*scanner).boolean),
	})
	return rw, err
}

// orZero reads null as the zero value.
func orZero[T any](to *T, read func(*scanner) (T, error)) field {
	return func(s *scanner) error {
		v, err := nullable(s, read)
		if err == nil && v != nil {
			*to = *v
		}
		return err
	}
}

func readOpGroups(s *scanner) (g OpGroups, err error) {
	err = s.fields(map[string]field{
		"account": orZero(&g.Account, readReadWrite),
		"basin":   orZero(&g.Basin, readReadWrite),
		"stream":  orZero(&g.Stream, readReadWrite),
	})
	return g, err
}

// readOps reads operations once each: a set, however often it names one.
func readOps(s *scanner) (ops []Operation, err error) {
	read := readEnum(operations...)
	err = s.array(func(int) error {
		op, err := read(s)
		if err == nil && !slices.Contains(ops, op) {
			ops = append(ops, op)
		}
		return err
	})
	return ops, err
}

func readScope(s *scanner) (scope AccessTokenScope, err error) {
	err = s.fields(map[string]field{
		"basins":        nullableField(&scope.Basins, readResourceSet(CheckBasinName, BasinNames)),
		"streams":       nullableField(&scope.Streams, readResourceSet(CheckStreamName, StreamNames)),
		"access_tokens": nullableField(&scope.AccessTokens, readResourceSet(CheckTokenID, TokenIDs)),
		"op_groups":     orZero(&scope.OpGroups, readOpGroups),
		"ops":           orZero(&scope.Ops, readOps),
	})
	return scope, err
}

func readTime(s *scanner) (t Time, err error) {
	text, err := readString(s)
	if err == nil && t.UnmarshalText([]byte(text)) != nil {
		err = s.fail("an RFC 3339 time")
	}
	return t, err
}

// DecodeIssueAccessToken reads the body of a POST of an access token, names included. Whether the scope makes sense is
// not decided here.
func DecodeIssueAccessToken(body []byte) (IssueAccessTokenRequest, error) {
	hasScope := false
	r, err := decodeAs(body, func(s *scanner) (r IssueAccessTokenRequest, err error) {
		err = s.fields(map[string]field{
			"id":                  plainField(&r.ID, readName(CheckTokenID)),
			"expires_at":          nullableField(&r.ExpiresAt, readTime),
			"auto_prefix_streams": plainField(&r.AutoPrefixStreams, (*scanner).boolean),
			"scope": func(s *scanner) error {
				hasScope = true
				return assign(s, &r.Scope, readScope)
			},
		})
		return r, err
	})
	switch {
	case err != nil:
	case r.ID == "":
		err = missing("id")
	case !hasScope:
		err = missing("scope")
	}
	return r, err
}

// DecodeLocationName reads the body of a PUT of the default location: a bare string.
func DecodeLocationName(body []byte) (string, error) {
	return decodeAs(body, readName(CheckLocationName))
}
