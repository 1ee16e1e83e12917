package tenancy

import "strings"

// NameSet is a set of names: one, or all that start with a prefix. The zero NameSet is empty.
type NameSet struct {
	// Name is the exact name, or the prefix if Prefix is set. An empty exact name is no name; an empty prefix is all.
	Name   string
	Prefix bool
}

// AllNames is the set of all names.
var AllNames = NameSet{Prefix: true}

// None reports whether the set is empty.
func (s NameSet) None() bool { return !s.Prefix && s.Name == "" }

// Has reports whether a name is in the set. Names are compared byte by byte; an empty name is in no set.
func (s NameSet) Has(name string) bool {
	switch {
	case name == "":
		return false
	case s.Prefix:
		return strings.HasPrefix(name, s.Name)
	}
	return name == s.Name
}

// Within reports whether every name of the set is in the other too. A prefix is never within an exact name, even where
// only one name could have it.
func (s NameSet) Within(other NameSet) bool {
	switch {
	case s.None():
		return true
	case s.Prefix:
		return other.Prefix && strings.HasPrefix(s.Name, other.Name)
	}
	return other.Has(s.Name)
}

// Narrow is the part of a listing by prefix that the set holds: the prefix to list by, and whether only the name equal
// to it is meant. If nothing can be in both, ok is false.
func (s NameSet) Narrow(prefix string) (by string, exact, ok bool) {
	switch {
	case s.None():
		return "", false, false
	case !s.Prefix:
		return s.Name, true, strings.HasPrefix(s.Name, prefix)
	case strings.HasPrefix(prefix, s.Name):
		return prefix, false, true
	}
	return s.Name, false, strings.HasPrefix(s.Name, prefix)
}

// prepended is the set with a text before each of its names. The empty set stays empty.
func (s NameSet) prepended(text string) NameSet {
	if s.None() {
		return s
	}
	return NameSet{text + s.Name, s.Prefix}
}

// Scope is what an access token permits. The zero Scope permits nothing.
type Scope struct {
	Basins, Streams, Tokens NameSet
	// Groups and Ops are kept apart, as they were asked for; what is permitted is both together.
	Groups Groups
	Ops    OpSet
}

// Everything is the scope that permits everything.
func Everything() Scope {
	all := Permission{true, true}
	return Scope{AllNames, AllNames, AllNames, Groups{all, all, all}, 0}
}

// Permitted is every operation of the scope, by a group or by itself.
func (s *Scope) Permitted() OpSet { return s.Groups.Ops() | s.Ops }

// Resource is what an operation is about: the names that the operation is judged by, others empty. Streams are named
// in full, with any prefix that is added for the client.
type Resource struct{ Basin, Stream, Token string }

// May reports whether the scope permits an operation on a resource: the operation, and each name that the operation
// is judged by. A name that is missing is in no set. It looks at nothing but its arguments.
func (s *Scope) May(op Op, on Resource) bool {
	if !s.Permitted().Has(op) {
		return false
	}
	basin, stream, token := op.Needs()
	return (!basin || s.Basins.Has(on.Basin)) && (!stream || s.Streams.Has(on.Stream)) && (!token || s.Tokens.Has(on.Token))
}

// Within reports whether the other scope permits everything that this one does.
func (s *Scope) Within(other *Scope) bool {
	return s.Permitted().Within(other.Permitted()) && s.Basins.Within(other.Basins) && s.Streams.Within(other.Streams) &&
		s.Tokens.Within(other.Tokens)
}
