package sim_test

import (
	"cmp"
	"slices"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// smgCacheAware is the cache_aware policy of SMG, and of SGLang's router before it, up to SMG 1.12, with the defaults
// of its command line: a prefix tree of all prompts, common to the endpoints of a model, whose nodes know which
// endpoints were sent them and when. Blocks name all bytes before them, so a table of blocks is that tree, cut every
// 128 bytes. (policy/rivals has the rule of SMG 1.13, with other thresholds.)
//
// While loads are unbalanced (most - least outstanding requests above absolute, and most above relative times least)
// the least loaded endpoint is picked. Otherwise a prompt with more than threshold in the tree goes to the least loaded
// endpoint with the match, and any other to the least loaded. Load is outstanding requests; ties go to the endpoint
// that was sent fewer requests, then to the first. The prompt is recorded for the endpoint picked.
type smgCacheAware struct {
	threshold float64
	absolute  int
	relative  float64
	maxBytes  int // of the tree per endpoint, see evict
	every     int // requests between evictions (the original evicts every 120 s)

	nodes     map[uint64]*smgNode
	held      map[string]int // bytes
	processed map[string]int
	epoch     int
}

type smgNode struct {
	used  map[string]int // endpoint -> epoch of its latest use
	depth int
}

func newSMG() *smgCacheAware {
	return &smgCacheAware{
		threshold: 0.3, absolute: 64, relative: 1.5, maxBytes: 1 << 26, every: 10_000,
		nodes: map[uint64]*smgNode{}, held: map[string]int{}, processed: map[string]int{},
	}
}

func (*smgCacheAware) Needs() pick.Needs { return pick.Needs{Name: "smg_cache_aware"} }

func (p *smgCacheAware) Hooks() pick.Hooks { return pick.Hooks{Placed: p.placed} }

func (p *smgCacheAware) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	at, _ := p.place(v, r)
	return pick.Choice{Index: at, Reason: "cache_aware"}
}

func (p *smgCacheAware) placed(v *pick.View, r *fleet.Request, _ pick.Choice) {
	p.epoch++
	at, records := p.place(v, r)
	if records {
		p.insert(v.Candidates[at].Name, r.Content.Blocks)
	}
	p.processed[v.Candidates[at].Name]++
	if (p.epoch+1)%p.every == 0 {
		p.evict()
	}
}

// place is the endpoint for a request, and whether its prompt is recorded there.
func (p *smgCacheAware) place(v *pick.View, r *fleet.Request) (at int, records bool) {
	cs := v.Candidates
	least := p.leastOf(cs, func(*pick.Candidate) bool { return true })
	most := 0
	for i := range cs {
		most = max(most, cs[i].Load.Requests)
	}
	fewest := cs[least].Load.Requests
	at = least
	if most-fewest <= p.absolute || float64(most) <= p.relative*float64(fewest) {
		depth := 0
		for depth < len(r.Content.Blocks) && p.nodes[r.Content.Blocks[depth]] != nil {
			depth++
		}
		if float64(depth*fleet.BlockBytes) > p.threshold*float64(r.Content.Bytes) {
			node := p.nodes[r.Content.Blocks[depth-1]]
			at = p.leastOf(cs, func(c *pick.Candidate) bool { return node.used[c.Name] > 0 })
			if at < 0 { // the endpoint with the match has left: the first one, and nothing is recorded
				return 0, false
			}
		}
	}
	return at, true
}

// leastOf is the least loaded that qualifies; -1 when none does.
func (p *smgCacheAware) leastOf(cs []pick.Candidate, ok func(c *pick.Candidate) bool) int {
	best := -1
	for i := range cs {
		if !ok(&cs[i]) {
			continue
		}
		if best < 0 || cmp.Or(cmp.Compare(cs[i].Load.Requests, cs[best].Load.Requests),
			cmp.Compare(p.processed[cs[i].Name], p.processed[cs[best].Name])) < 0 {
			best = i
		}
	}
	return best
}

func (p *smgCacheAware) insert(name string, blocks []uint64) {
	for i, b := range blocks {
		n := p.nodes[b]
		if n == nil {
			n = &smgNode{used: map[string]int{}, depth: i}
			p.nodes[b] = n
		}
		if n.used[name] == 0 {
			p.held[name] += fleet.BlockBytes
		}
		n.used[name] = p.epoch
	}
}

// evict removes the least recently used leaves of endpoints with too much in the tree.
func (p *smgCacheAware) evict() {
	for name, held := range p.held {
		if held <= p.maxBytes {
			continue
		}
		type leaf struct {
			block       uint64
			used, depth int
		}
		var all []leaf
		for b, n := range p.nodes {
			if n.used[name] > 0 {
				all = append(all, leaf{b, n.used[name], n.depth})
			}
		}
		slices.SortFunc(all, func(a, b leaf) int {
			return cmp.Or(cmp.Compare(a.used, b.used), cmp.Compare(b.depth, a.depth), cmp.Compare(a.block, b.block))
		})
		for _, l := range all[:(held-p.maxBytes+fleet.BlockBytes-1)/fleet.BlockBytes] {
			delete(p.nodes[l.block].used, name)
			if len(p.nodes[l.block].used) == 0 {
				delete(p.nodes, l.block)
			}
		}
		p.held[name] = p.maxBytes
	}
}
