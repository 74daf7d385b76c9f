package record

import "slices"

// tree is a radix tree of the prompts of a file. It finds the prefix that a new prompt shares with earlier ones. The
// hash of a block covers all bytes up to its end, so that equal blocks have equal prefixes. The tree is bounded and
// evicts the least recently used pieces.
type tree struct {
	byFirst map[uint64]*piece // by the hash of its first block
	newest  *piece            // most recently used first; a piece comes after the ones before it in a prompt
	oldest  *piece
	size    int // see cost
	most    int
	path    []*piece // scratch
}

// piece is an edge of the tree: a run of blocks.
type piece struct {
	blocks       []uint64
	before       *piece // parent; nil at the root
	number       uint64 // of a request that has the whole run
	newer, older *piece
}

// cost is the memory of a piece in units of 8 bytes.
func (p *piece) cost() int { return len(p.blocks) + 24 }

const mostTree = 4 << 20 // units of 8 bytes: 32 MiB

func newTree(most int) *tree { return &tree{byFirst: map[uint64]*piece{}, most: most} }

// add inserts the prompt of a request. It returns how many of its first blocks an earlier request has, and the number
// of that request.
func (t *tree) add(number uint64, chain []uint64) (from uint64, shared int) {
	t.path = t.path[:0]
	var before *piece
	for shared < len(chain) {
		p := t.byFirst[chain[shared]]
		if p == nil || p.before != before {
			break
		}
		n := common(p.blocks, chain[shared:])
		from = p.number
		shared += n
		if n < len(p.blocks) {
			p = t.split(p, n)
		}
		t.path = append(t.path, p)
		before = p
	}
	if shared < len(chain) {
		p := &piece{blocks: append([]uint64(nil), chain[shared:]...), before: before, number: number}
		if t.byFirst[chain[shared]] == nil { // else the hashes of two blocks collide, and only some sharing is missed
			t.byFirst[chain[shared]] = p
			t.size += p.cost()
			t.push(p)
			t.path = append(t.path, p)
		}
	}
	for i := len(t.path) - 1; i >= 0; i-- {
		t.unlink(t.path[i])
		t.push(t.path[i])
	}
	for t.size > t.most && t.oldest != nil {
		p := t.oldest
		t.unlink(p)
		delete(t.byFirst, p.blocks[0])
		t.size -= p.cost()
	}
	return from, shared
}

// common is the length of the common prefix of two runs with an equal first block.
func common(a, b []uint64) int {
	n := min(len(a), len(b))
	low, high := 1, n // equal blocks have equal prefixes
	for low < high {
		mid := (low + high + 1) / 2
		if a[mid-1] == b[mid-1] {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}

// split cuts a piece after its first n blocks and returns the front. Both halves are copied, so that neither keeps the
// whole array alive.
func (t *tree) split(p *piece, n int) *piece {
	front := &piece{blocks: slices.Clone(p.blocks[:n]), before: p.before, number: p.number}
	t.size -= p.cost()
	p.blocks, p.before = slices.Clone(p.blocks[n:]), front
	t.size += p.cost() + front.cost()
	t.byFirst[front.blocks[0]] = front
	t.byFirst[p.blocks[0]] = p
	t.push(front)
	return front
}

func (t *tree) push(p *piece) {
	p.newer, p.older = nil, t.newest
	if t.newest != nil {
		t.newest.newer = p
	} else {
		t.oldest = p
	}
	t.newest = p
}

func (t *tree) unlink(p *piece) {
	if p.newer != nil {
		p.newer.older = p.older
	} else {
		t.newest = p.older
	}
	if p.older != nil {
		p.older.newer = p.newer
	} else {
		t.oldest = p.newer
	}
	p.newer, p.older = nil, nil
}
