package admission

import (
	"sort"

	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/route/internal/size"
)

// contents is the blocks of the prompts of an endpoint's members, each once. A block's name stands for all before it,
// so what a prompt has in common with others is its first blocks.
type contents struct {
	blocks map[uint64]block
	shared int64 // tokens of the blocks without an owner
}

type block struct {
	upTo    int64 // tokens from the prompt's beginning to the block's end
	members int
	owner   *member // who alone has it; nil once a second member has had it
}

func (c *contents) known(prompt []uint64) int {
	return sort.Search(len(prompt), func(i int) bool { return c.blocks[prompt[i]].members == 0 })
}

// upTo is the tokens of a prompt's first n blocks, which are there.
func (c *contents) upTo(prompt []uint64, n int) int64 {
	if n == 0 {
		return 0
	}
	return c.blocks[prompt[n-1]].upTo
}

// replace puts a prompt in the place of a member's earlier one. Blocks that one other member alone had are shared from
// now on: it returns that member, nil for none, and the tokens of these blocks.
func (c *contents) replace(m *member, p *Prompt) (owner *member, tokens int64) {
	if c.blocks == nil {
		c.blocks = map[uint64]block{}
	}
	kept := blocks.Common(m.names, p.Names)
	c.cut(m, kept)
	known := kept + c.known(p.Names[kept:])
	for i := kept; i < known; i++ {
		b := c.blocks[p.Names[i]]
		if b.owner != nil {
			owner, tokens = b.owner, tokens+b.upTo-c.upTo(p.Names, i)
		}
		b.owner, b.members = nil, b.members+1
		c.blocks[p.Names[i]] = b
	}
	before := c.upTo(p.Names, known)
	for i := known; i < len(p.Names); i++ {
		own := size.Part(p.Tokens, blocks.Bytes(i+1)-blocks.Bytes(known), p.Bytes)
		c.blocks[p.Names[i]] = block{upTo: before + int64(own), members: 1, owner: m}
	}
	if known > kept {
		m.shared = before
	}
	m.names = append(m.names, p.Names[kept:]...)
	c.shared += tokens
	return owner, tokens
}

// cut takes away a member's blocks but the first n.
func (c *contents) cut(m *member, n int) {
	for i := len(m.names) - 1; i >= n; i-- {
		name := m.names[i]
		b := c.blocks[name]
		if b.members--; b.members > 0 {
			c.blocks[name] = b
			continue
		}
		if b.owner == nil {
			c.shared -= b.upTo - c.upTo(m.names, i)
		}
		delete(c.blocks, name)
	}
	m.names = m.names[:n]
	m.shared = min(m.shared, c.upTo(m.names, n))
}
