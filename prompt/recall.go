package prompt

import (
	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// ParseChainFrom is ParseChain starting where the body differs from those in mem, and adds the body to mem. The result
// is equal, except that Chain.HashAt may have to read the body again. mem may be nil.
func (p *Parser) ParseChainFrom(
	mem *Memory,
	api API,
	body []byte,
	header func(string) string,
	c *Chain,
) (out Prompt, err error) {
	c.Reset()
	if mem == nil || !api.hasChain() || len(body) < mem.least || len(body) > maxChainBody {
		_, err = p.chain(nil, api, body, header, c, &out)
		return out, err
	}
	if c.keys, c.noting = mem.keys(c.keys, api, body), true; len(c.keys) > 1 {
		mem.recall(c)
	}
	ok, err := p.chain(mem, api, body, header, c, &out)
	if !ok { // the same messages under another system prompt, which follows them
		keys := c.keys
		c.Reset()
		c.keys, c.noting = keys, true
		out = Prompt{}
		_, err = p.chain(mem, api, body, header, c, &out)
	}
	if err != nil {
		return out, err
	}
	if c.resumed {
		c.again = again{parser: p, api: api, body: body}
	}
	if len(c.stops) > 0 && c.root == rootText {
		mem.keep(c)
	}
	return out, nil
}

// keys appends the keys of the whole chunks of a body, or of the first only if that is new.
func (m *Memory) keys(dst []chunkKey, api API, body []byte) []chunkKey {
	k := chunkKey{key: m.seed ^ (uint64(api)+1)*0x9e3779b97f4a7c15}
	for from, end := 0, jsonscan.ChunkAfter(0); end <= len(body); from, end = end, jsonscan.ChunkAfter(end) {
		h := xxh3.Hash128Seed(body[from:end], k.key)
		// The first half is the seed of the next key; the second half is chained separately.
		k = chunkKey{key: h.Lo ^ m.seed, check: (k.check ^ h.Hi) * 0xff51afd7ed558ccd, end: end}
		k.check ^= k.check >> 32
		dst = append(dst, k)
		if from == 0 && !m.begun(&k) {
			break
		}
	}
	return dst
}

// begun reports whether the first chunk of a body is known.
func (m *Memory) begun(k *chunkKey) bool {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.find(k) != 0
}

// recall loads the longest known part of a body, by its keys.
func (m *Memory) recall(c *Chain) {
	m.lock.Lock()
	defer m.lock.Unlock()
	_, n := m.deepest(c.keys)
	m.touch(n)
	for n != 0 && m.node(n).cell == 0 { // nothing new in this chunk
		n = m.node(n).parent
	}
	if c.broken = n != 0 && !m.load(n, c); n == 0 || c.broken {
		c.Blocks, c.Marks = c.Blocks[:0], c.Marks[:0]
	}
}

// deepest finds the last known key and the number of keys up to it. The ancestors of a known key are known.
func (m *Memory) deepest(keys []chunkKey) (depth int, n uint32) {
	low, high := 0, len(keys)
	for probe := 0; low < high; probe = (low + high) / 2 {
		at := m.find(&keys[probe])
		if at == 0 {
			high = probe
			continue
		}
		low, n = probe+1, at
	}
	return low, n
}

// load puts the blocks and marks of a node and its ancestors into the chain, with the remaining state. It returns false
// if they belong to different system prompts.
func (m *Memory) load(n uint32, c *Chain) bool {
	last := m.node(n)
	blocks, marks := uint32(last.bytes/BlockBytes), last.marks
	c.Blocks = grown(c.Blocks, int(blocks))
	c.Marks = grown(c.Marks, int(marks))
	for ; n != 0; n = m.node(n).parent {
		at := m.node(n)
		if at.cell == 0 {
			continue
		}
		if at.front != last.front || at.start != last.start || at.bytes/BlockBytes != blocks || at.marks != marks {
			return false
		}
		r := reader{m: m, cell: at.cell}
		r.read(c.Blocks[at.fromBlocks:blocks])
		for i := at.fromMarks; i < marks; i++ {
			var w [3]uint64
			r.read(w[:])
			c.Marks[i] = Mark{Bytes: int(uint32(w[0])), Role: Role(w[0] >> 32), Hash: w[1], Own: w[2]}
		}
		blocks, marks = at.fromBlocks, at.fromMarks
		if at == last {
			c.known.tail = grown(c.known.tail, int(at.bytes)-tailStart(int(at.bytes)))
			r.text(c.known.tail)
		}
	}
	if blocks != 0 || marks != 0 {
		return false
	}
	c.known.stop = stop{
		raw: int(last.raw), bytes: int(last.bytes), text: int(last.text), marks: int(last.marks),
		media: int(last.media), lost: int(last.lost), kinds: TextKinds{
			Latin: int(last.kinds[0]), Code: int(last.kinds[1]), CJK: int(last.kinds[2]), Other: int(last.kinds[3]),
			Digits: int(last.kinds[4]), Starts: int(last.kinds[5]),
		},
	}
	c.known.start, c.known.front = int(last.start), last.front
	return true
}

// grown is s with another length and any content.
func grown[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	return make([]T, n)
}

// keep remembers the stops of a chain. Of a body with a new beginning it keeps the first chunk only: many bodies never
// return, and the second one with that beginning adds the rest.
func (m *Memory) keep(c *Chain) {
	m.lock.Lock()
	defer m.lock.Unlock()
	parent, next := uint32(0), 0
	depth, n := m.deepest(c.keys)
	if n != 0 {
		m.touch(n)
		switch at := m.node(n); {
		case c.resumed && int(at.raw) < c.known.raw:
			return // evicted meanwhile
		case at.raw == 0 || at.front == c.front.hash && int(at.start) == c.mainAt:
			parent = n
			for next < len(c.stops) && c.stops[next].raw <= c.keys[depth-1].end {
				next++
			}
		case c.resumed:
			return
		default: // another system prompt
			depth = 0
		}
		if c.broken {
			parent, next, depth = 0, 0, 0
		}
	}
	for ; depth < len(c.keys) && next < len(c.stops); depth++ {
		key := &c.keys[depth]
		at := (*stop)(nil)
		if s := &c.stops[next]; s.raw <= key.end {
			at = s
			next++
			if s.bytes < sampleAll {
				at = nil
			}
		}
		if n = m.put(key, parent, at, c); n == 0 {
			return
		}
		parent = n
	}
}

// put stores the stop of a chunk, nil for none, after its parent. It returns 0 without room. An existing node is
// overwritten.
func (m *Memory) put(key *chunkKey, parent uint32, s *stop, c *Chain) uint32 {
	n := m.index[key.key]
	switch {
	case n == 0:
		if n = m.newNode(parent); n == 0 {
			return 0
		}
		at := m.node(n)
		at.key, at.check, at.parent = key.key, key.check, parent
		m.index[key.key] = n
		m.link(n, parent)
	case m.node(n).check != key.check || m.node(n).parent != parent:
		return 0
	default:
		m.freeCells(m.node(n))
	}
	at := m.node(n)
	before := node{start: uint32(c.mainAt), front: c.front.hash}
	if parent != 0 {
		before = *m.node(parent)
	}
	at.front, at.start, at.cell = before.front, before.start, 0
	at.raw, at.bytes, at.text, at.marks, at.media, at.lost, at.kinds = before.raw, before.bytes, before.text,
		before.marks, before.media, before.lost, before.kinds
	at.fromBlocks, at.fromMarks = before.bytes/BlockBytes, before.marks
	if s == nil {
		return n
	}
	if int(before.bytes) > s.bytes || int(before.marks) > s.marks {
		return 0 // only for another body with equal keys
	}
	blocks, marks, from := c.Blocks[at.fromBlocks:s.bytes/BlockBytes], c.Marks[at.fromMarks:s.marks], tailStart(s.bytes)
	tail := c.text[from-c.base : s.bytes-c.base]
	w := writer{m: m, keep: n}
	if !w.begin(len(blocks) + 3*len(marks) + (len(tail)+7)/8) {
		m.drop(n)
		return 0
	}
	w.write(blocks)
	for i := range marks {
		k := &marks[i]
		w.write([]uint64{uint64(k.Bytes) | uint64(k.Role)<<32, k.Hash, k.Own})
	}
	w.text(tail)
	at.cell, at.front, at.start = w.first, c.front.hash, uint32(c.mainAt)
	at.raw, at.bytes, at.text, at.marks = uint32(s.raw), uint32(s.bytes), uint32(s.text), uint32(s.marks)
	at.media, at.lost = uint32(s.media), uint32(s.lost)
	k := &s.kinds
	at.kinds = [6]uint32{
		uint32(k.Latin), uint32(k.Code), uint32(k.CJK), uint32(k.Other), uint32(k.Digits), uint32(k.Starts),
	}
	return n
}
