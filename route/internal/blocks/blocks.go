// Package blocks names the blocks of a prompt as the router remembers them.
//
// A prompt is cut into blocks of fleet.BlockBytes canonical bytes. A chain is the names of those blocks that are kept,
// in order; each name covers all of the prompt up to the end of its block, so that two prompts have a name in common
// exactly where they begin alike. The package computes names and positions from its arguments; it keeps no state.
package blocks

import (
	"sort"

	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/fleet"
)

// Hash names a key within a tenant.
func Hash(tenant, key string) uint64 {
	h := xxh3.HashString(key)
	if tenant != "" {
		h ^= xxh3.HashString(tenant) * 0x9e3779b97f4a7c15
	}
	return h
}

// Common is how many names two chains have in common, from the first on. Names cover all before them, so that it can be
// searched for.
func Common(a, b []uint64) int {
	return sort.Search(min(len(a), len(b)), func(i int) bool { return a[i] != b[i] })
}

// Scope mixes what separates caches: the model asked for, the tenant, and what the prompt depends on besides its text.
func Scope(model, tenant string, c *fleet.Content) uint64 {
	h := Hash(tenant, model)
	return Scramble(h ^ Scramble(c.Scope))
}

// Scramble mixes a hash (the finaliser of SplitMix64).
func Scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// The router keeps every block of a prompt up to 4 kB, every second up to 16 kB, every fourth up to 64 kB, then every
// eighth. So a match is exact to 1/30 of its length, and a prompt of 500 kB takes 600 entries instead of 4,000.
const everyUpTo = 32

// Reach is how many blocks the first n kept ones cover.
func Reach(n int) int {
	kept, end, shift := 0, 0, 0
	for upTo := everyUpTo; shift < 3; upTo, shift = 4*upTo, shift+1 {
		more := (upTo - end) >> shift
		if n <= kept+more {
			break
		}
		kept, end = kept+more, upTo
	}
	return end + (n-kept)<<shift
}

// Kept is how many blocks are kept of a prompt of that many.
func Kept(blocks int) int {
	kept, end, shift := 0, 0, 0
	for upTo := everyUpTo; shift < 3 && blocks > upTo; upTo, shift = 4*upTo, shift+1 {
		kept, end = kept+(upTo-end)>>shift, upTo
	}
	return kept + (blocks-end)>>shift
}

// Bytes is how many canonical bytes the first n kept blocks cover.
func Bytes(n int) int { return Reach(n) * fleet.BlockBytes }

// Keys names the kept blocks of a content within a scope. None is 0, which names no block.
func Keys(to []uint64, scope uint64, c *fleet.Content) []uint64 {
	to = to[:0]
	upTo, shift := everyUpTo, 0
	for end := 1; end <= len(c.Blocks); end += 1 << shift {
		k := (c.Blocks[end-1] ^ scope) * 0x9e3779b97f4a7c15
		k ^= k >> 32
		if k == 0 {
			k = 1
		}
		to = append(to, k)
		if end == upTo && shift < 3 {
			upTo, shift = 4*upTo, shift+1
		}
	}
	return to
}
