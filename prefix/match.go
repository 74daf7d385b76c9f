package prefix

import (
	"iter"
	"slices"
)

// Matches is how many blocks of one chain each slot holds. The zero value is ready to use; reusing it allocates
// nothing.
type Matches struct {
	depth   []int32 // by slot
	holders []uint16
	deepest int
}

// Depth is the number of blocks of the chain that a slot holds.
func (m *Matches) Depth(slot int) int {
	if slot < 0 || slot >= len(m.depth) {
		return 0
	}
	return int(m.depth[slot])
}

// Deepest is the largest Depth.
func (m *Matches) Deepest() int { return m.deepest }

// Drop removes a slot.
func (m *Matches) Drop(slot int) {
	depth := m.Depth(slot)
	if depth == 0 {
		return
	}
	m.depth[slot] = 0
	m.holders = slices.DeleteFunc(m.holders, func(s uint16) bool { return int(s) == slot })
	if depth < m.deepest {
		return
	}
	m.deepest = 0
	for _, s := range m.holders {
		m.deepest = max(m.deepest, int(m.depth[s]))
	}
}

// All yields the slots that hold blocks of the chain, and how many. The order depends only on the operations before.
func (m *Matches) All() iter.Seq2[int, int] {
	return func(yield func(slot, depth int) bool) {
		for _, s := range m.holders {
			if !yield(int(s), int(m.depth[s])) {
				return
			}
		}
	}
}

func (m *Matches) reset(slots int) {
	for _, s := range m.holders {
		m.depth[s] = 0
	}
	m.holders, m.deepest = m.holders[:0], 0
	if len(m.depth) < slots {
		m.depth = make([]int32, slots)
	}
}

// Match finds how many blocks of the chain, from the first on, each slot holds. It costs one comparison per block and
// one step per slot on each run along the chain, and does not count as a use.
func (x *Index) Match(chain []uint64, out *Matches) {
	out.reset(len(x.slots))
	n, i := uint32(0), 0
	for i < len(chain) {
		if n = x.childBy(n, chain[i]); n == 0 {
			return
		}
		nd := x.nodes.at(n)
		same := x.common(n, 0, chain[i:])
		for id := nd.members; id != 0; {
			m := x.members.at(id)
			if out.depth[m.slot] == 0 {
				out.holders = append(out.holders, m.slot)
			}
			// A slot that is on a deeper node too gets its depth there.
			out.depth[m.slot] = int32(i) + int32(min(m.length, same))
			id = m.next
		}
		i += int(same)
		out.deepest = i
		if same < nd.length {
			return
		}
	}
}
