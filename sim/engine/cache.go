package engine

import "sort"

// cache is the pool of KV blocks of one engine. A block is free (no content), held by requests, or kept (content that
// no request holds; evictable). Kept blocks form a list in the order of release, a request's last block first. Since a
// request that holds a block holds all blocks before it, this order never evicts a block before its continuations:
// leaves go first without any counting of children.
type cache struct {
	blocks []block // index 0 is the sentinel of the kept list
	free   []int32 // stack
	table  table
	kept   int    // length of the kept list
	spill  *cache // receives evicted content; nil for none

	evictions uint64
	news      news // changes, for Watch
}

// block is one KV block; prev and next are only meaningful while it is kept.
type block struct {
	hash       uint64
	refs       int32
	prev, next int32
	hashed     bool // hash is set and in the table
}

func newCache(n int) *cache {
	c := &cache{}
	c.init(n)
	return c
}

// init empties the cache and gives it n blocks.
func (c *cache) init(n int) {
	if len(c.blocks) != n+1 {
		c.blocks = make([]block, n+1)
		c.free = make([]int32, n)
		c.table.init(n)
	} else {
		clear(c.blocks)
		c.free = c.free[:n]
		clear(c.table.slots)
	}
	for i := range c.free {
		c.free[i] = int32(n - i)
	}
	c.kept = 0
	c.evictions = 0
}

// available is the number of blocks that alloc can provide.
func (c *cache) available() int { return len(c.free) + c.kept }

// match returns how many blocks of the chain are cached without a gap, and how many of those are kept (they stop being
// available when held).
func (c *cache) match(chain []uint64) (hits, keptHits int) {
	for _, h := range chain {
		b := c.table.find(c.blocks, h)
		if b == 0 {
			break
		}
		hits++
		if c.blocks[b].refs == 0 {
			keptHits++
		}
	}
	return hits, keptHits
}

// reach is the hits of match by binary search: blocks are evicted before those they continue, so a chain's cached
// blocks come first. The step doubles until a block is missing.
func (c *cache) reach(chain []uint64) int {
	low, high := 0, 1 // the first low blocks are cached
	for high <= len(chain) && c.table.find(c.blocks, chain[high-1]) != 0 {
		low, high = high, 2*high
	}
	return low + sort.Search(min(high, len(chain)+1)-1-low, func(i int) bool {
		return c.table.find(c.blocks, chain[low+i]) == 0
	})
}

// lookup is match by binary search: of the cached blocks, held ones come before kept ones.
func (c *cache) lookup(chain []uint64) (hits, keptHits int) {
	hits = c.reach(chain)
	held := sort.Search(hits, func(i int) bool { return c.blocks[c.table.find(c.blocks, chain[i])].refs == 0 })
	return hits, hits - held
}

// hold takes a reference on each block of a matched chain and appends the blocks to dst.
func (c *cache) hold(dst []int32, chain []uint64) []int32 {
	for _, h := range chain {
		b := c.table.find(c.blocks, h)
		c.take(b)
		dst = append(dst, b)
	}
	return dst
}

// take adds a reference to a block with content.
func (c *cache) take(b int32) {
	if c.blocks[b].refs == 0 {
		c.unlink(b)
	}
	c.blocks[b].refs++
}

// alloc returns an empty block held once, evicting the oldest kept block if none is free; 0 means that every block is
// held.
func (c *cache) alloc() int32 {
	if n := len(c.free); n > 0 {
		b := c.free[n-1]
		c.free = c.free[:n-1]
		c.blocks[b].refs = 1
		return b
	}
	b := c.blocks[0].next
	if b == 0 {
		return 0
	}
	c.unlink(b)
	c.table.remove(c.blocks, b)
	if c.spill != nil {
		c.spill.keep(c.blocks[b].hash)
	}
	c.news.add(c.blocks[b].hash, false)
	c.blocks[b] = block{refs: 1}
	c.evictions++
	return b
}

// publish names the content of a full block. If the cache has that content in another block the two are merged, and the
// caller continues with the block returned.
func (c *cache) publish(b int32, hash uint64) int32 {
	if twin := c.table.find(c.blocks, hash); twin != 0 {
		c.take(twin)
		c.release(b)
		return twin
	}
	c.blocks[b].hash = hash
	c.blocks[b].hashed = true
	c.table.insert(c.blocks, b)
	c.news.add(hash, true)
	return b
}

// release drops one reference. After the last one a block without a name is freed and one with a name is kept.
func (c *cache) release(b int32) {
	p := &c.blocks[b]
	p.refs--
	if p.refs > 0 {
		return
	}
	if !p.hashed {
		c.free = append(c.free, b)
		return
	}
	last := c.blocks[0].prev
	p.prev, p.next = last, 0
	c.blocks[last].next = b
	c.blocks[0].prev = b
	c.kept++
}

// releaseAll drops one reference on each block, the last of the chain first.
func (c *cache) releaseAll(blocks []int32) {
	for i := len(blocks) - 1; i >= 0; i-- {
		c.release(blocks[i])
	}
}

func (c *cache) unlink(b int32) {
	p := &c.blocks[b]
	c.blocks[p.prev].next = p.next
	c.blocks[p.next].prev = p.prev
	p.prev, p.next = 0, 0
	c.kept--
}

// keep adds unheld content as the last to be evicted, evicting the oldest if needed. It is for a second tier, whose
// blocks are never held.
func (c *cache) keep(hash uint64) {
	if b := c.table.find(c.blocks, hash); b != 0 {
		c.take(b)
		c.release(b)
		return
	}
	c.release(c.publish(c.alloc(), hash))
}
