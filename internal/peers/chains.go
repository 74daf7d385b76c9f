package peers

import (
	"slices"
	"sync"
)

// names are the chains that this router tells and hears of.
type names struct {
	mu     sync.Mutex
	chains *chains
}

func newNames() *names { return &names{chains: newChains()} }

// tell is the part of a prompt that the others know already, and the rest, which they know from now on.
func (n *names) tell(chain []uint64) (base uint64, depth int, rest []uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	base, depth, rest = n.chains.split(chain)
	n.chains.join(base, depth, rest)
	return base, depth, rest
}

// hear is the whole prompt whose first depth blocks are known by the name of their last; ok is false where that is not
// known.
func (n *names) hear(base uint64, depth int, rest []uint64) (chain []uint64, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.chains.join(base, depth, rest)
}

// keep enters a prompt that was asked for.
func (n *names) keep(chain []uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.chains.keep(nil, chain)
}

// of is the prompt that ends with a name; ok is false where that is not known.
func (n *names) of(end uint64) (chain []uint64, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, ok := n.chains.known[end]
	if !ok {
		return nil, false
	}
	return slices.Clone(p.of.names[:p.depth]), true
}

// chains are the prompts that all routers have heard of, as names of their blocks, so that a prompt can be told as
// where it leaves one that is known. They are found by their end, and by every 32nd name, for what many prompts begin
// with. Memory is bounded: the chains entered longest ago are forgotten. A router asks for one that it has forgotten
// and another router uses.
type chains struct {
	known map[uint64]place
	all   []*chain // a ring of what is kept, in order of entry
	next  int
	names int // kept in all
}

// chain is one prompt.
type chain struct {
	names []uint64
	found []int32 // depths at which it is found
}

// place is a beginning of a chain.
type place struct {
	of    *chain
	depth int
}

const (
	mostChains = 1 << 15
	mostNames  = 1 << 21 // 16 MB
	everyNames = 32
)

func newChains() *chains { return &chains{known: map[uint64]place{}, all: make([]*chain, mostChains)} }

// split is a prompt as others know it: the name of its longest beginning that is known, how many blocks that is, and
// the rest.
func (c *chains) split(names []uint64) (base uint64, depth int, rest []uint64) {
	for n := len(names); n > 0; n-- {
		if p, ok := c.known[names[n-1]]; ok && p.depth == n {
			return names[n-1], n, names[n:]
		}
	}
	return 0, 0, names
}

// join is the prompt that goes on from a base; ok is false when that is not known. It is kept, and is not to be
// changed.
func (c *chains) join(base uint64, depth int, rest []uint64) (names []uint64, ok bool) {
	if depth == 0 {
		return c.keep(nil, rest), true
	}
	p, ok := c.known[base]
	if !ok || p.depth != depth {
		return nil, false
	}
	if len(rest) == 0 {
		return p.of.names[:depth:depth], true
	}
	return c.keep(p.of.names[:depth], rest), true
}

// keep enters a prompt that is base and then rest. One that goes on from the end of a chain makes that longer.
func (c *chains) keep(base, rest []uint64) []uint64 {
	n := len(base) + len(rest)
	if n == 0 {
		return nil
	}
	var to *chain
	if len(base) > 0 {
		if p := c.known[base[len(base)-1]]; p.of != nil && len(p.of.names) == p.depth && p.depth == len(base) {
			to = p.of
			to.names = append(to.names, rest...)
			c.names += len(rest)
		}
	}
	if to == nil {
		to = &chain{names: append(append(make([]uint64, 0, n+n/4), base...), rest...)}
		c.enter(to)
	}
	c.makeRoom(to)
	for d := len(base)/everyNames*everyNames + everyNames; d < n; d += everyNames {
		c.find(to, d)
	}
	c.find(to, n)
	return to.names[:n:n]
}

// find has a chain found by its beginning of so many names.
func (c *chains) find(to *chain, depth int) {
	c.known[to.names[depth-1]] = place{to, depth}
	to.found = append(to.found, int32(depth))
}

// enter takes a place for a chain, that of the one entered longest ago.
func (c *chains) enter(to *chain) {
	c.names += len(to.names)
	old := c.all[c.next]
	c.all[c.next] = to
	c.next = (c.next + 1) % len(c.all)
	c.forget(old)
}

// makeRoom forgets the oldest chains until there are few enough names; the one that is being entered stays.
func (c *chains) makeRoom(to *chain) {
	for i := 0; c.names > mostNames && i < len(c.all); i++ {
		at := (c.next + i) % len(c.all)
		if c.all[at] != nil && c.all[at] != to {
			c.forget(c.all[at])
			c.all[at] = nil
		}
	}
}

func (c *chains) forget(old *chain) {
	if old == nil {
		return
	}
	c.names -= len(old.names)
	for _, depth := range old.found {
		if n := old.names[depth-1]; c.known[n].of == old {
			delete(c.known, n)
		}
	}
}
