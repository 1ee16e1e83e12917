package faultproxy

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Rule decides over every request before it is forwarded. Requests at once call it at once; it may block.
type Rule func(Request) Fault

// Match picks requests.
type Match func(Request) bool

// Any picks every request.
func Any(Request) bool { return true }

// Op picks requests of the operations.
func Op(ops ...string) Match {
	return func(r Request) bool { return slices.Contains(ops, r.Op) }
}

// Writes picks requests that change something.
func Writes(r Request) bool {
	switch r.Op {
	case PutObject, DeleteObject, DeleteObjects, PutItem, UpdateItem, DeleteItem:
		return true
	}
	return r.Header.Get("X-Amz-Target") == "" && r.Method != http.MethodGet && r.Method != http.MethodHead
}

// Key picks requests about objects whose keys contain a text.
func Key(part string) Match {
	return func(r Request) bool { return r.Key != "" && strings.Contains(r.Key, part) }
}

// Below picks requests about objects whose keys contain a text, and listings of prefixes that do.
func Below(part string) Match {
	return func(r Request) bool {
		return strings.Contains("/"+r.Key, part) || strings.Contains("/"+r.URL.Query().Get("prefix"), part)
	}
}

// Says picks requests whose body contains a text, as an expression of DynamoDB does.
func Says(part string) Match {
	return func(r Request) bool { return strings.Contains(string(r.Body), part) }
}

// With picks requests that have a header.
func With(header string) Match {
	return func(r Request) bool { return r.Header.Get(header) != "" }
}

// All picks what each of the others picks.
func All(matches ...Match) Match {
	return func(r Request) bool {
		return !slices.ContainsFunc(matches, func(m Match) bool { return !m(r) })
	}
}

// Always is a rule for all requests that match.
func Always(match Match, fault Fault) Rule {
	return func(r Request) Fault {
		if match(r) {
			return fault
		}
		return Fault{}
	}
}

// First is a rule for the first n requests that match; all later ones pass.
func First(n int, match Match, fault Fault) Rule { return between(1, int64(n), match, fault) }

// Nth is a rule for the n-th request that matches, from 1.
func Nth(n int, match Match, fault Fault) Rule { return between(int64(n), int64(n), match, fault) }

func between(first, last int64, match Match, fault Fault) Rule {
	var seen atomic.Int64
	return func(r Request) Fault {
		if !match(r) {
			return Fault{}
		}
		if n := seen.Add(1); n < first || n > last {
			return Fault{}
		}
		return fault
	}
}

// Sometimes is a rule for a share of the requests that match, drawn from the seed, each by one of the faults.
func Sometimes(seed uint64, share float64, match Match, faults ...Fault) Rule {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, seed))
	return func(r Request) Fault {
		if !match(r) {
			return Fault{}
		}
		mu.Lock()
		defer mu.Unlock()
		if random.Float64() >= share {
			return Fault{}
		}
		return faults[random.IntN(len(faults))]
	}
}

// Either plays the first of the rules that has a fault for the request. All of them see every request.
func Either(rules ...Rule) Rule {
	return func(r Request) Fault {
		var fault Fault
		for _, rule := range rules {
			if f := rule(r); fault == (Fault{}) {
				fault = f
			}
		}
		return fault
	}
}
