package tenancy

import (
	"fmt"
	"math/bits"
)

// Op is an operation of the API as access tokens permit it. The zero Op is none, and nothing permits it.
type Op uint8

// The operations, in the order of the S2 API.
const (
	ListBasins Op = iota + 1
	CreateBasin
	DeleteBasin
	ReconfigureBasin
	GetBasinConfig
	IssueAccessToken
	RevokeAccessToken
	ListAccessTokens
	AccountMetrics
	ListLocations
	GetDefaultLocation
	SetDefaultLocation

	ListStreams
	CreateStream
	DeleteStream
	GetStreamConfig
	ReconfigureStream
	BasinMetrics

	CheckTail
	AppendRecords
	ReadRecords
	Trim
	Fence
	StreamMetrics

	opEnd
)

// Group is one of the levels by which a token permits operations together.
type Group uint8

// The groups.
const (
	AccountGroup Group = iota
	BasinGroup
	StreamGroup
	groups
)

// needs are the resources that an operation is judged by.
type needs uint8

const (
	needsBasin needs = 1 << iota
	needsStream
	needsToken
)

// opTable is the one table of operations: what each is called, which group permits it and whether as a read or a
// write, and what a token's scope must hold for it. The S2 API publishes the names and the groups but not which group
// has which operation; this table is our reading: the group is the level of the API that an operation belongs to, and
// what shows something is a read. A listing is judged by what contains it, and shows only what the scope holds.
var opTable = [opEnd]struct {
	name  string
	group Group
	write bool
	needs needs
}{
	ListBasins:         {"list-basins", AccountGroup, false, 0},
	CreateBasin:        {"create-basin", AccountGroup, true, needsBasin},
	DeleteBasin:        {"delete-basin", AccountGroup, true, needsBasin},
	ReconfigureBasin:   {"reconfigure-basin", AccountGroup, true, needsBasin},
	GetBasinConfig:     {"get-basin-config", AccountGroup, false, needsBasin},
	IssueAccessToken:   {"issue-access-token", AccountGroup, true, needsToken},
	RevokeAccessToken:  {"revoke-access-token", AccountGroup, true, needsToken},
	ListAccessTokens:   {"list-access-tokens", AccountGroup, false, 0},
	AccountMetrics:     {"account-metrics", AccountGroup, false, 0},
	ListLocations:      {"list-locations", AccountGroup, false, 0},
	GetDefaultLocation: {"get-default-location", AccountGroup, false, 0},
	SetDefaultLocation: {"set-default-location", AccountGroup, true, 0},

	ListStreams:       {"list-streams", BasinGroup, false, needsBasin},
	CreateStream:      {"create-stream", BasinGroup, true, needsBasin | needsStream},
	DeleteStream:      {"delete-stream", BasinGroup, true, needsBasin | needsStream},
	GetStreamConfig:   {"get-stream-config", BasinGroup, false, needsBasin | needsStream},
	ReconfigureStream: {"reconfigure-stream", BasinGroup, true, needsBasin | needsStream},
	BasinMetrics:      {"basin-metrics", BasinGroup, false, needsBasin},

	CheckTail:     {"check-tail", StreamGroup, false, needsBasin | needsStream},
	AppendRecords: {"append", StreamGroup, true, needsBasin | needsStream},
	ReadRecords:   {"read", StreamGroup, false, needsBasin | needsStream},
	Trim:          {"trim", StreamGroup, true, needsBasin | needsStream},
	Fence:         {"fence", StreamGroup, true, needsBasin | needsStream},
	StreamMetrics: {"stream-metrics", StreamGroup, false, needsBasin | needsStream},
}

// opsByName finds operations by what the API calls them.
var opsByName = func() map[string]Op {
	m := make(map[string]Op, opEnd)
	for op := range opTable {
		if name := opTable[op].name; name != "" {
			m[name] = Op(op)
		}
	}
	return m
}()

// ParseOp finds an operation by its name in the API.
func ParseOp(name string) (Op, bool) {
	op, ok := opsByName[name]
	return op, ok
}

// Known reports whether there is such an operation.
func (o Op) Known() bool { return o > 0 && o < opEnd }

// String is the operation's name in the API.
func (o Op) String() string {
	if !o.Known() {
		return fmt.Sprintf("operation %d", uint8(o))
	}
	return opTable[o].name
}

// Group says which group has the operation, and whether its write permission is the one needed.
func (o Op) Group() (g Group, write bool) { return opTable[o].group, opTable[o].write }

// Needs says which names the operation is judged by. An operation that is not known needs none, and is denied.
func (o Op) Needs() (basin, stream, token bool) {
	if !o.Known() {
		return false, false, false
	}
	n := opTable[o].needs
	return n&needsBasin != 0, n&needsStream != 0, n&needsToken != 0
}

// OpSet is a set of operations. The zero OpSet is empty.
type OpSet uint64

// OpsOf makes a set.
func OpsOf(ops ...Op) (s OpSet) {
	for _, op := range ops {
		if op.Known() {
			s |= 1 << op
		}
	}
	return s
}

// AllOps is every operation that there is.
func AllOps() OpSet { return 1<<opEnd - 2 }

// Has reports whether the set has the operation.
func (s OpSet) Has(op Op) bool { return op.Known() && s&(1<<op) != 0 }

// Within reports whether the other set has everything that this one has.
func (s OpSet) Within(other OpSet) bool { return s&^other == 0 }

// List is the set in the order of the table.
func (s OpSet) List() []Op {
	list := make([]Op, 0, bits.OnesCount64(uint64(s)))
	for op := Op(1); op < opEnd; op++ {
		if s.Has(op) {
			list = append(list, op)
		}
	}
	return list
}

// Permission is the read or write half of a group.
type Permission struct{ Read, Write bool }

// Groups is which halves of which groups a token permits.
type Groups [groups]Permission

// Ops is every operation that the groups permit.
func (g Groups) Ops() (s OpSet) {
	for op := Op(1); op < opEnd; op++ {
		group, write := op.Group()
		if half := g[group]; write && half.Write || !write && half.Read {
			s |= 1 << op
		}
	}
	return s
}
