package route

import "github.com/warmpath/warmpath/fleet"

// measure converts between the canonical bytes of a prompt and its tokens. The count of the conversation's last turn is an
// anchor, since it is the engine's own; what is new is estimated.
type measure struct {
	lead, bytes, tokens    int // of this prompt
	knownBytes, knownCount int // of the last turn's prompt, 0 when there is none
}

// anchor takes the last turn in, unless the prompt does not go on from one of its length.
func (m *measure) anchor(t *talk) {
	if t.known && t.entry.Prompt > 0 && t.entry.Bytes > 0 && t.entry.Bytes <= m.bytes {
		m.knownBytes, m.knownCount = t.entry.Bytes, t.entry.Prompt
	}
}

// at is how many tokens the first n canonical bytes are, with what is in front of them.
func (m *measure) at(n int) int {
	switch {
	case n <= 0 || m.bytes <= 0:
		return 0
	case n >= m.bytes:
		return m.tokens
	case m.knownBytes == 0:
		return part(m.tokens, m.lead+n, m.lead+m.bytes)
	case n <= m.knownBytes:
		return part(m.knownCount, m.lead+n, m.lead+m.knownBytes)
	default:
		return m.knownCount + part(m.tokens-m.knownCount, n-m.knownBytes, m.bytes-m.knownBytes)
	}
}

// part is total × of / whole in integers.
func part(total, of, whole int) int {
	if whole <= 0 {
		return 0
	}
	return int(int64(total) * int64(of) / int64(whole))
}

// scopeOf mixes what separates caches: the model asked for, the tenant, and what the prompt depends on besides its text.
func scopeOf(model, tenant string, c *fleet.Content) uint64 {
	h := placeHash(&fleet.Request{Tenant: tenant, HashKey: model}, "")
	return scramble(h ^ scramble(c.Scope))
}

// scramble spreads a hash over 64 bits (the finaliser of SplitMix64).
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// The belief keeps fewer blocks of a prompt the farther they are from its beginning: each up to 4 kB, every second up to
// 16 kB, every fourth up to 64 kB, then every eighth. So what it tells of a prompt is true to a thirtieth of its length or
// better, and one of 500 kB takes 600 places instead of 4,000.
const (
	everyUpTo   = 32
	secondUpTo  = everyUpTo + (128-everyUpTo)/2
	fourthUpTo  = secondUpTo + (512-128)/4
	secondBytes = 128 // these two in blocks
	fourthBytes = 512
)

// reach is how many blocks the first n kept ones cover.
func reach(n int) int {
	switch {
	case n <= everyUpTo:
		return n
	case n <= secondUpTo:
		return everyUpTo + 2*(n-everyUpTo)
	case n <= fourthUpTo:
		return secondBytes + 4*(n-secondUpTo)
	default:
		return fourthBytes + 8*(n-fourthUpTo)
	}
}

// kept is how many of so many blocks are kept.
func kept(blocks int) int {
	switch {
	case blocks <= everyUpTo:
		return blocks
	case blocks <= secondBytes:
		return everyUpTo + (blocks-everyUpTo)/2
	case blocks <= fourthBytes:
		return secondUpTo + (blocks-secondBytes)/4
	default:
		return fourthUpTo + (blocks-fourthBytes)/8
	}
}

// reachBytes is how many canonical bytes the first n kept blocks cover.
func reachBytes(n int) int { return reach(n) * fleet.BlockBytes }

// keys names the kept blocks of a content within a scope. None is 0, which names no block.
func keys(to []uint64, scope uint64, c *fleet.Content) []uint64 {
	to = to[:0]
	for n := 1; n <= kept(len(c.Blocks)); n++ {
		k := (c.Blocks[reach(n)-1] ^ scope) * 0x9e3779b97f4a7c15
		k ^= k >> 32
		if k == 0 {
			k = 1
		}
		to = append(to, k)
	}
	return to
}
