package cache

import (
	"slices"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/slot"
)

// coming are an endpoint's requests whose blocks are not computed yet.
type coming struct {
	leases []uint32 // as they were placed
	groups []group  // their prompts; one without prompts is free
	blocks int      // what their prompts add to what was there
}

// group are the prompts that come to one generation of a cache in one way.
type group struct {
	epoch    uint32
	transfer bool // they are computed elsewhere
	prompts  ranking
}

func (c *coming) add(leases *slot.Table[lease], n uint32) {
	l := leases.Get(int(n))
	c.leases = append(c.leases, n)
	c.blocks += l.adds()
	for i, chain := range l.prompts() {
		c.of(l).prompts.add(leases, ranked{n, int32(i)}, chain)
	}
}

func (c *coming) remove(leases *slot.Table[lease], n uint32) {
	i := slices.Index(c.leases, n)
	if i < 0 {
		return
	}
	l := leases.Get(int(n))
	c.leases = slices.Delete(c.leases, i, i+1)
	c.blocks -= l.adds()
	for i, chain := range l.prompts() {
		c.of(l).prompts.remove(leases, ranked{n, int32(i)}, chain)
	}
}

// of is the row for a lease's prompts.
func (c *coming) of(l *lease) *group {
	free, transfer := -1, l.leg == fleet.LegDecode
	for i := range c.groups {
		a := &c.groups[i]
		if a.epoch == l.epoch && a.transfer == transfer {
			return a
		}
		if len(a.prompts) == 0 {
			free = i
		}
	}
	if free < 0 {
		free = len(c.groups)
		c.groups = append(c.groups, group{})
	}
	a := &c.groups[free]
	a.epoch, a.transfer = l.epoch, transfer
	return a
}
