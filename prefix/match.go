package prefix

import "iter"

// Matches is how much of one chain each slot holds. The zero value is ready; used again it allocates nothing.
type Matches struct {
	depth   []int32 // by slot
	holders []uint16
	deepest int
}

// Depth is how many blocks of the chain a slot holds.
func (m *Matches) Depth(slot int) int {
	if slot < 0 || slot >= len(m.depth) {
		return 0
	}
	return int(m.depth[slot])
}

// Deepest is the most blocks of the chain that any slot holds.
func (m *Matches) Deepest() int { return m.deepest }

// Holders is how many slots hold at least the first block.
func (m *Matches) Holders() int { return len(m.holders) }

// All goes through the slots that hold something of the chain, with how many blocks, in an order that depends on nothing
// but the operations before.
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

// Match finds how many blocks of the chain, from the first on, each slot holds. It costs a comparison a block and a step
// for each slot on each run that the chain follows, and marks nothing as used.
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
			// Who is on a deeper node as well gets its depth there.
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
