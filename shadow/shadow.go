// Package shadow asks policies what they would have done, and plays their choices in worlds of their own.
//
// It owns those worlds and the counts of what it found. It is handed copies of decisions (Sighting), never touches a router, and never
// decides anything for a request.
package shadow

import (
	"math/rand/v2"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/arrivals"
	"github.com/warmpath/warmpath/route/cost"
	"github.com/warmpath/warmpath/session"
)

// Set is policies that are asked what they would do and are not obeyed. Each is asked twice, as two values with a state of
// their own. The one is shown what the acting policy saw, decision by decision: what would it have done here? The other lives in
// a world of its own (see world), where its own choices make the homes, the caches and the queues: what if it had decided all
// along? The acting policy's choices are played through such a world too, so that two worlds are compared and what the model
// of a world gets wrong it gets wrong for both.
//
// It touches neither the router nor the acting policy, and serves one caller at a time.
type Set struct {
	cfg    Config
	pools  map[string]*pool
	order  []*pool // the same, the one used last at the end
	acting *world
	worlds []*world // by shadow
	tells  []tally
	report Report
	pcg    *rand.PCG
	rng    *rand.Rand
	keeps  bool                  // one of them is Keeping
	open   map[fleet.Lease]*pool // leases that those have been told of, at most mostOpen; never ranged over
	view   pick.View             // scratch
	priced pick.View             // scratch: with the terms of the cost
}

// Config says which policies are asked. Zero values mean the defaults named at each field.
type Config struct {
	Acting   string         // name of the policy that decides
	Policies []Policy       // at most Most
	Sessions session.Config // conversations that each world remembers: at most 65,536, by hash only
}

// Policy is one of them.
type Policy struct {
	Name string
	New  func() pick.Policy // makes the policy of one pool
}

// Bounds of what shadows keep.
const (
	Most         = 8
	mostPools    = 64 // the one not used for longest makes room
	mostReasons  = 64
	mostOpen     = 1 << 16
	chanceStream = 0x9e3779b97f4a7c15 // the second half of each decision's seed, as in Route
)

// pool is what belongs to one pool: a state for each policy in each of its two places.
type pool struct {
	name  string
	here  []pick.Policy  // asked in the acting policy's place
	apart []pick.Policy  // each in a world of its own
	mixes []arrivals.Mix // what turns are like in those worlds
	mix   arrivals.Mix   // the same in the acting policy's
}

// tally counts what a shadow would have done in the acting policy's place.
type tally struct {
	Step
	reasons []Reason
}

// New makes shadows that have seen nothing. It panics on a configuration with too many policies.
func New(c Config) *Set {
	if len(c.Policies) > Most {
		panic("shadow: too many policies")
	}
	c.Sessions = c.Sessions.WithDefaults()
	c.Sessions.Max, c.Sessions.HashOnly = min(c.Sessions.Max, mostWorldSessions), true
	s := &Set{cfg: c, pools: map[string]*pool{}, acting: newWorld(c.Sessions), pcg: rand.NewPCG(0, 0)}
	s.rng, s.open = rand.New(s.pcg), map[fleet.Lease]*pool{}
	for _, p := range c.Policies {
		_, keeps := p.New().(pick.Keeping)
		s.keeps = s.keeps || keeps
		s.worlds = append(s.worlds, newWorld(c.Sessions))
		s.tells = append(s.tells, tally{})
	}
	return s
}

// CountsBlocks reports whether one of the policies goes by Candidate.ActiveTokens, see Config.Counting.
func (s *Set) CountsBlocks() bool {
	for _, p := range s.cfg.Policies {
		if c, ok := p.New().(pick.Counting); ok && c.CountsBlocks() {
			return true
		}
	}
	return false
}

// Keeps reports whether one of the policies keeps books, so that ends of leases are worth telling (Sighting.End).
func (s *Set) Keeps() bool { return s.keeps }

// pool finds what belongs to a pool. Beyond the bound the one not used for longest is forgotten.
func (s *Set) pool(name string) *pool {
	p := s.pools[name]
	if p == nil {
		p = &pool{name: name, mixes: make([]arrivals.Mix, len(s.cfg.Policies))}
		for _, c := range s.cfg.Policies {
			p.here, p.apart = append(p.here, c.New()), append(p.apart, c.New())
		}
		if len(s.order) >= mostPools {
			delete(s.pools, s.order[0].name)
			s.order = append(s.order[:0], s.order[1:]...)
		}
		s.pools[name] = p
		s.order = append(s.order, p)
		return p
	}
	if last := len(s.order) - 1; s.order[last] != p {
		for i, other := range s.order {
			if other == p {
				copy(s.order[i:], s.order[i+1:])
				s.order[last] = p
				break
			}
		}
	}
	return p
}

// Judge asks the shadows about a decision. Decisions come in the order in which they were made.
func (s *Set) Judge(g *Sighting) {
	switch g.what {
	case ended:
		s.released(g)
		return
	case departed:
		s.left(g.endpoint)
		return
	case decided:
	}
	s.report.Decisions++
	p := s.pool(g.pool)
	if len(g.view.Candidates) > 1 {
		s.here(p, g)
	} else if !g.forced {
		s.alone(p, g)
	}
	s.reserved(p, g)
	if g.request.Class != fleet.Turn || g.retry {
		return // a retry stays, in every world, where it was placed first
	}
	if !g.view.FirstTurn && !s.acting.knows(g) {
		s.report.Late++ // its beginning was not seen: nothing tells where it would be
		return
	}
	s.acting.follow(s, g, nil, &p.mix)
	for i, w := range s.worlds {
		w.follow(s, g, p.apart[i], &p.mixes[i])
	}
}

// here asks what the shadows would have done in the acting policy's place, and what that would have cost.
func (s *Set) here(p *pool, g *Sighting) {
	turn := g.request.Class == fleet.Turn && g.view.PromptTokens > 0
	if turn {
		s.show(&s.priced, g)
		cost.Reckon(&s.priced)
	}
	for i := range s.tells {
		s.show(&s.view, g)
		s.tells[i].tell(g, s.ask(p.here[i], &s.view, g), turn, s.priced.Candidates)
	}
}

// alone asks the policies that the router, too, asks where there is one candidate.
func (s *Set) alone(p *pool, g *Sighting) {
	for _, policy := range p.here {
		if pick.AskedAlone(policy) {
			s.show(&s.view, g)
			s.ask(policy, &s.view, g)
		}
	}
}

// reserved tells the policies that keep books where a request went in fact.
func (s *Set) reserved(p *pool, g *Sighting) {
	if !s.keeps || len(s.open) >= mostOpen {
		return
	}
	for _, policy := range p.here {
		if k, ok := policy.(pick.Keeping); ok {
			s.show(&s.view, g)
			k.Reserved(g.lease, &s.view.Candidates[g.chosen], &s.view, &g.request)
		}
	}
	s.open[g.lease] = p
}

// released tells them the end of it.
func (s *Set) released(g *Sighting) {
	p := s.open[g.lease]
	if p == nil {
		return
	}
	delete(s.open, g.lease)
	for _, policy := range p.here {
		if k, ok := policy.(pick.Keeping); ok {
			k.Released(g.lease, g.answered)
		}
	}
}

// left tells the policies of all pools that an endpoint is not there any more, if they bind conversations to it.
func (s *Set) left(endpoint uint64) {
	for _, p := range s.order {
		for _, policies := range [...][]pick.Policy{p.here, p.apart} {
			for _, policy := range policies {
				if f, ok := policy.(pick.Forgetting); ok {
					f.Forget(endpoint)
				}
			}
		}
	}
}

// show copies what the acting policy saw, so that whoever is asked may write into it.
func (s *Set) show(to *pick.View, g *Sighting) {
	candidates := append(to.Candidates[:0], g.view.Candidates...)
	*to = g.view
	to.Candidates = candidates
}

// ask lets a policy choose with the decision's own chance.
func (s *Set) ask(p pick.Policy, v *pick.View, g *Sighting) pick.Choice {
	s.pcg.Seed(g.request.Seed, chanceStream)
	v.Rand = s.rng
	return p.Pick(v, &g.request)
}

// tell counts a choice. priced are the candidates with their terms, if it is a turn of known length.
func (t *tally) tell(g *Sighting, c pick.Choice, turn bool, priced []pick.Candidate) {
	t.Decisions++
	if c.Index == g.chosen {
		return
	}
	t.Differs++
	t.because(c.Reason)
	if !turn {
		return
	}
	its, ours := &priced[c.Index].Terms, &priced[g.chosen].Terms
	t.Priced++
	t.TTFTMs += its.TTFT() - ours.TTFT()
	more := its.Cost() - ours.Cost()
	t.CostMs += more
	if more < 0 {
		t.Cheaper++
		t.SavesMs -= more
	} else {
		t.LosesMs += more
	}
}

func (t *tally) because(r pick.Reason) {
	for i := range t.reasons {
		if t.reasons[i].Reason == r {
			t.reasons[i].Differs++
			return
		}
	}
	if len(t.reasons) < mostReasons {
		t.reasons = append(t.reasons, Reason{Reason: r, Differs: 1})
	}
}
