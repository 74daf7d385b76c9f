package prompt

import (
	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// Large tools are equal in every turn, and many clients write them after the messages, where no hash of the body's
// beginning covers them.

const (
	leastValue = 1 << 10 // bytes above which a value is worth remembering
	valueHead  = 512     // leading bytes by which it is found
	valueSets  = 128
	valueWays  = 4
)

// knownValue is a value seen before: an object or array of this many raw bytes.
type knownValue struct {
	head   uint64
	lo, hi uint64 // hash of all of it
	length int
	lump   lump
}

// valueSet holds values whose heads share a slot, most recently used first.
type valueSet [valueWays]knownValue

func (m *Memory) headOf(raw []byte) uint64 { return xxh3.HashSeed(raw[:valueHead], m.seed) }

// knowsValue recognises the value at the start of data and returns its raw length; 0 if unknown.
func (m *Memory) knowsValue(data []byte) (l lump, length int) {
	if m == nil || len(data) < leastValue {
		return lump{}, 0
	}
	head := m.headOf(data)
	m.lock.Lock()
	set := m.values[head%valueSets] // a copy, so that hashing needs no lock
	m.lock.Unlock()
	var h xxh3.Uint128
	hashed := 0
	for i := range set {
		v := &set[i]
		if v.length == 0 || v.head != head || v.length > len(data) {
			continue
		}
		if hashed != v.length {
			h, hashed = xxh3.Hash128Seed(data[:v.length], m.seed), v.length
		}
		if v.lo == h.Lo && v.hi == h.Hi {
			m.putValue(v)
			return v.lump, v.length
		}
	}
	return lump{}, 0
}

// learnValue remembers the value at a span of a body.
func (m *Memory) learnValue(body []byte, at jsonscan.Span, l lump) {
	if m == nil || at.Len() < leastValue || (body[at.Start] != '[' && body[at.Start] != '{') {
		return
	}
	raw := body[at.Start:at.End]
	h := xxh3.Hash128Seed(raw, m.seed)
	m.putValue(&knownValue{head: m.headOf(raw), lo: h.Lo, hi: h.Hi, length: len(raw), lump: l})
}

// putValue makes a value the most recently used of its set.
func (m *Memory) putValue(v *knownValue) {
	m.lock.Lock()
	defer m.lock.Unlock()
	set := &m.values[v.head%valueSets]
	i := 0
	for i < valueWays-1 && (set[i].lo != v.lo || set[i].hi != v.hi) {
		i++
	}
	copy(set[1:i+1], set[:i])
	set[0] = *v
}

// lump is the contribution to Scope of a large member that enters the prompt as JSON.
type lump struct {
	size int    // canonical bytes
	hash uint64 // of them
}
