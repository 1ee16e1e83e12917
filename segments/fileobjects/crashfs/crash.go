package crashfs

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
)

// Loss chooses what becomes of what was not synced.
type Loss struct{ rng *rand.Rand }

// LoseAll loses all of it.
func LoseAll() Loss { return Loss{} }

// LoseSome loses some of it, by the seed: each name is any of those it was since it was synced, and each file has lost
// an end, or parts of it are zeros.
func LoseSome(seed uint64) Loss { return Loss{rand.New(rand.NewPCG(seed, 0))} }

// Crash cuts the power, if it has not failed yet, and returns what is left; all of that is durable. The file system it
// is called on, and its open files, only return ErrPowerOff from then on.
func (f *FS) Crash(loss Loss) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.off = true
	left := New()
	left.root = loss.node(f.root, map[*node]*node{})
	return left
}

// node returns what is left of a node. A node with two names is left once.
func (l Loss) node(n *node, done map[*node]*node) *node {
	if done[n] != nil {
		return done[n]
	}
	left := &node{dir: n.dir, modified: n.modified}
	done[n] = left
	if !n.dir {
		left.data = l.bytes(n)
		left.synced = len(left.data)
		return left
	}
	left.names = map[string]*name{}
	// In order, for the seed to mean the same every time.
	for _, base := range slices.Sorted(maps.Keys(n.names)) {
		if to := l.choose(n.names[base]); to != nil {
			left.names[base] = &name{durable: l.node(to, done)}
		}
	}
	return left
}

func (l Loss) choose(n *name) *node {
	if l.rng == nil {
		return n.durable
	}
	if i := l.rng.IntN(len(n.since) + 1); i > 0 {
		return n.since[i-1].to
	}
	return n.durable
}

func (l Loss) bytes(n *node) []byte {
	data := bytes.Clone(n.data[:n.synced])
	if l.rng == nil {
		return data
	}
	rest := n.data[n.synced:]
	rest = bytes.Clone(rest[:l.rng.IntN(len(rest)+1)])
	if len(rest) > 0 && l.rng.IntN(2) == 0 {
		clear(rest[l.rng.IntN(len(rest)):])
	}
	return append(data, rest...)
}
