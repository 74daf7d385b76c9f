package engine

import "sort"

// cache is the pool of KV blocks of one engine. A block is in one of three states: free (no content), held (by one or
// more requests), or kept (content that nobody holds; evictable). Kept blocks form a list in the order in which they
// were let go, a request's last block first. Since who holds a block holds all blocks before it in its chain, that
// order never evicts a block before the blocks that continue it: leaves go first without anybody counting children.
type cache struct {
	blocks []block // index 0 is the sentinel of the kept list
	free   []int32 // stack
	table  table
	kept   int    // length of the kept list
	spill  *cache // where evicted content goes, nil for nowhere

	evictions uint64
	news      news // what came and went, for who watches
}

// block is one KV block; prev and next are meaningful only while it is kept.
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

// available is how many blocks alloc can still give.
func (c *cache) available() int { return len(c.free) + c.kept }

// match walks the chain and says how many of its blocks are in the cache without a gap, and how many of those are
// kept (they stop being available when held).
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

// reach is the hits of match without a walk: blocks are pushed out before those that they go on from, so the blocks of a chain that
// are there come before those that are not. It doubles its steps until one is not there and halves the last of them.
func (c *cache) reach(chain []uint64) int {
	low, high := 0, 1 // the first low blocks are there
	for high <= len(chain) && c.table.find(c.blocks, chain[high-1]) != 0 {
		low, high = high, 2*high
	}
	return low + sort.Search(min(high, len(chain)+1)-1-low, func(i int) bool { return c.table.find(c.blocks, chain[low+i]) == 0 })
}

// lookup is match without a walk: of the blocks that are there, those that somebody holds come before those that are only kept.
func (c *cache) lookup(chain []uint64) (hits, keptHits int) {
	hits = c.reach(chain)
	held := sort.Search(hits, func(i int) bool { return c.blocks[c.table.find(c.blocks, chain[i])].refs == 0 })
	return hits, hits - held
}

// hold takes a reference on each block of a chain that match found, and appends the blocks to dst.
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

// alloc gives an empty block held once, evicting the oldest kept block when none is free; 0 means that every block is
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

// publish names the content of a block that has become full. When the cache already has that content in another block
// the two are merged, and the caller goes on with the block returned.
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

// release drops one reference. The last one frees a block without a name and keeps a block with one.
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

// keep notes content that nobody holds, as the latest to be evicted; what was kept longest makes room. It is for a cache that is a
// second tier and whose blocks nobody ever holds.
func (c *cache) keep(hash uint64) {
	if b := c.table.find(c.blocks, hash); b != 0 {
		c.take(b)
		c.release(b)
		return
	}
	c.release(c.publish(c.alloc(), hash))
}
