package admission

import (
	"fmt"
	"slices"
)

// Tenants is how many have members or held turns, or something on their account that they have not.
func (t *Table) Tenants() (n int) {
	for _, x := range t.tenants {
		if x.refs > 0 {
			n++
		}
	}
	return n
}

// Lapsed is how many conversations are no members any more and remembered.
func (t *Table) Lapsed() int { return len(t.lapsed) }

// Elsewhere is how many queues of other routers are known.
func (t *Table) Elsewhere() (n int) {
	for _, all := range t.elsewhere {
		n += len(all)
	}
	return n
}

// Reserved is what is reserved of an endpoint.
func (t *Table) Reserved(slot int) int64 { return t.endpoints.Get(slot).reserved }

// Fault says which sum of the members is not what they take; "" for none.
func (t *Table) Fault() string {
	for _, slot := range t.slots {
		if fault := t.faultOf(slot); fault != "" {
			return fault
		}
		e, sum := t.endpoints.Get(slot), endpoint{}
		for _, m := range t.members {
			if m.slot != slot {
				continue
			}
			if m.needed < 0 || m.needed > m.tokens || m.running > 0 && m.needed != m.tokens {
				return fmt.Sprintf("%d of %d tokens of a member with %d turns are needed",
					m.needed, m.tokens, m.running)
			}
			sum.tokens, sum.needed, sum.ranks[m.rank] = sum.tokens+m.tokens, sum.needed+m.needed,
				sum.ranks[m.rank]+m.needed
			if m.idle {
				sum.idleRanks[m.rank] += m.needed
			}
		}
		if e.tokens != sum.tokens || e.needed != sum.needed || e.ranks != sum.ranks || e.idleRanks != sum.idleRanks {
			return fmt.Sprintf(
				"%d tokens, %d needed, of priorities %v, idle %v are counted; members have %d, %d, %v, %v",
				e.tokens, e.needed, e.ranks, e.idleRanks, sum.tokens, sum.needed, sum.ranks, sum.idleRanks)
		}
	}
	for _, x := range t.tenants {
		held, waits := int64(0), 0
		for _, h := range t.heldTurns {
			if h.tenant == x {
				held, waits = held+h.own(), waits+1
			}
		}
		if x.held != held || x.waits != waits {
			return fmt.Sprintf("%d tokens of %d held turns are counted, there are %d of %d",
				x.held, x.waits, held, waits)
		}
	}
	for _, l := range t.order {
		needs, grouped := int64(0), 0
		for _, w := range l.turns {
			needs += w.turn.own()
		}
		for _, g := range l.groups {
			grouped += len(g.turns)
		}
		known := t.first(l)
		if reckoned := *l; len(l.groups) != len(l.byOwner) {
			return fmt.Sprintf("%d groups, %d of them by owner", len(l.groups), len(l.byOwner))
		} else if reckoned.foremost = nil; t.first(&reckoned) != known {
			return "the group that goes next is another one"
		}
		sorted := slices.IsSortedFunc(l.turns, func(a, b waiting) int { return a.deadline.Compare(b.deadline) })
		if l.needs != needs || grouped != len(l.turns) || !sorted {
			return fmt.Sprintf(
				"%d tokens of %d turns wait, %d of these are in groups, in order: %v; there are %d of %d", l.needs,
				len(l.turns), grouped, sorted, needs, len(l.turns))
		}
	}
	return ""
}

// Blocks is how many blocks an endpoint's members have.
func (t *Table) Blocks(slot int) int { return len(t.endpoints.Get(slot).contents.blocks) }

// faultOf says what of an endpoint's contents is not what its members' prompts make; "" for nothing.
func (t *Table) faultOf(slot int) string {
	c := &t.endpoints.Get(slot).contents
	shared, counted := int64(0), map[uint64]int{}
	for _, m := range t.members {
		if m.slot != slot {
			continue
		}
		own := int64(0)
		for i, name := range m.names {
			b := c.blocks[name]
			tokens := b.upTo - c.upTo(m.names, i)
			if counted[name]++; counted[name] == 1 && b.owner == nil {
				shared += tokens
			}
			if b.owner == nil && own > 0 || b.owner != nil && b.owner != m {
				return fmt.Sprintf("block %d of a prompt is another one's", i)
			}
			if b.owner != nil {
				own += tokens
			}
		}
		if whole := c.upTo(m.names, len(m.names)); m.shared != whole-own || m.tokens != max(0, m.whole-m.shared) {
			return fmt.Sprintf("a member shares %d of %d tokens and has %d; of its prompt others have %d",
				m.shared, m.whole, m.tokens, whole-own)
		}
	}
	for name, b := range c.blocks {
		if counted[name] != b.members {
			return fmt.Sprintf("%d members have a block, %d are counted", counted[name], b.members)
		}
	}
	if c.shared != shared || len(counted) != len(c.blocks) {
		return fmt.Sprintf("%d shared tokens, %d blocks are counted; there are %d, %d",
			c.shared, len(c.blocks), shared, len(counted))
	}
	return ""
}
