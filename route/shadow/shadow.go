// Package shadow evaluates policies without applying their choices, and simulates these in worlds of their own.
//
// It owns those worlds and its findings. It promises bounded memory, and to share nothing with the router: it gets
// copies of decisions (Sighting). It never decides anything for a request.
package shadow

import (
	"math/rand/v2"
	"slices"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/cost"
	"github.com/warmpath/warmpath/route/internal/arrivals"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/session"
)

// Set evaluates shadow policies. Each has two values with separate state. One sees what the acting policy saw, decision
// by decision: what would it have chosen? The other lives in a world of its own (see world), where its own choices
// determine homes, caches and queues: what if it had always decided? The acting policy's choices are simulated in such
// a world too, so that the errors of the model affect both sides of a comparison.
//
// It touches neither the router nor the acting policy, and serves one caller at a time.
type Set struct {
	cfg    Config
	pools  []*pool // at most bound.Few, the one used last at the end
	acting *world
	worlds []*world // the same, most recently used last
	tells  []tally
	report Report
	pcg    *rand.PCG
	rng    *rand.Rand
	needs  pick.Needs            // of all shadows
	keeps  bool                  // some shadow needs the ends of leases
	open   map[fleet.Lease]*pool // leases that these know, at most bound.Most; never ranged over
	view   pick.View             // scratch
	priced pick.View             // scratch: with the terms of the cost
}

// Config lists the shadow policies. Zero values mean the defaults named at each field.
type Config struct {
	Acting   string         // name of the policy in force
	Policies []Policy       // at most Most
	Sessions session.Config // conversations in the memory of each world: at most 65,536, by hash only
}

// Policy is a shadow policy.
type Policy struct {
	Name string
	New  func() pick.Policy // makes the policy of one pool
}

// Most shadow policies there are.
const Most = 8

// pool has a pool's state of each policy, in both of its roles.
type pool struct {
	name  string
	here  []*pick.Installed // policies in the acting policy's role
	apart []*pick.Installed // policies in worlds of their own
	mixes []arrivals.Mix    // kinds of turns in those worlds
	mix   arrivals.Mix      // kinds of turns in the acting policy's world
}

// tally counts what a shadow would have chosen instead of the acting policy.
type tally struct {
	Step
	reasons []Reason
}

// New makes shadows without findings. It panics if there are too many policies.
func New(c Config) *Set {
	if len(c.Policies) > Most {
		panic("shadow: too many policies")
	}
	c.Sessions = c.Sessions.WithDefaults()
	c.Sessions.Max, c.Sessions.HashOnly = min(c.Sessions.Max, bound.Most), true
	s := &Set{cfg: c, acting: newWorld(c.Sessions), pcg: rand.NewPCG(0, 0)}
	s.rng, s.open = rand.New(s.pcg), map[fleet.Lease]*pool{}
	for _, p := range c.Policies {
		of := pick.Install(p.New())
		s.needs = s.needs.And(of.Needs)
		s.keeps = s.keeps || of.Hooks.Released != nil
		s.worlds = append(s.worlds, newWorld(c.Sessions))
		s.tells = append(s.tells, tally{})
	}
	return s
}

// Needs is what the shadows need of the router's views.
func (s *Set) Needs() pick.Needs {
	n := s.needs
	n.Returns = true // choices are priced by cost
	return n
}

// Keeps reports whether a policy needs the ends of leases (Sighting.End).
func (s *Set) Keeps() bool { return s.keeps }

// pool finds a pool's state. Beyond the bound the least recently used pool is dropped.
func (s *Set) pool(name string) *pool {
	i := slices.IndexFunc(s.pools, func(p *pool) bool { return p.name == name })
	if i >= 0 {
		p := s.pools[i]
		s.pools = append(slices.Delete(s.pools, i, i+1), p)
		return p
	}
	p := &pool{name: name, mixes: make([]arrivals.Mix, len(s.cfg.Policies))}
	for _, c := range s.cfg.Policies {
		p.here, p.apart = append(p.here, pick.Install(c.New())), append(p.apart, pick.Install(c.New()))
	}
	if len(s.pools) >= bound.Few {
		s.pools = slices.Delete(s.pools, 0, 1)
	}
	s.pools = append(s.pools, p)
	return p
}

// Judge evaluates a decision. Decisions come in the order in which they were made.
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
	switch {
	case len(g.view.Candidates) > 1:
		s.here(p, g)
	case !g.forced:
		for _, policy := range p.here {
			s.show(&s.view, g)
			s.ask(policy, &s.view, g)
		}
	}
	s.reserved(p, g)
	if g.request.Class != fleet.Turn || g.retry {
		return // in every world a retry stays where it was first placed
	}
	if !g.view.FirstTurn && !s.acting.knows(g) {
		s.report.Late++ // its beginning was not seen, so its place is unknown
		return
	}
	s.acting.follow(s, g, nil, &p.mix)
	for i, w := range s.worlds {
		w.follow(s, g, p.apart[i], &p.mixes[i])
	}
}

// here evaluates what the shadows would have chosen instead of the acting policy, and the cost of that.
func (s *Set) here(p *pool, g *Sighting) {
	turn := g.request.Class == fleet.Turn && g.view.PromptTokens > 0
	if turn {
		s.show(&s.priced, g)
		cost.Score(&s.priced)
	}
	for i := range s.tells {
		s.show(&s.view, g)
		s.tells[i].tell(g, s.ask(p.here[i], &s.view, g), turn, s.priced.Candidates)
	}
}

// reserved informs the policies of the actual placement.
func (s *Set) reserved(p *pool, g *Sighting) {
	if !s.keeps || len(s.open) >= bound.Most {
		return
	}
	for _, policy := range p.here {
		if reserved := policy.Hooks.Reserved; reserved != nil {
			s.show(&s.view, g)
			reserved(g.lease, &s.view.Candidates[g.chosen], &s.view, &g.request)
		}
	}
	s.open[g.lease] = p
}

// released informs them of its end.
func (s *Set) released(g *Sighting) {
	p := s.open[g.lease]
	if p == nil {
		return
	}
	delete(s.open, g.lease)
	for _, policy := range p.here {
		if released := policy.Hooks.Released; released != nil {
			released(g.lease, g.answered)
		}
	}
}

// left informs the policies of all pools that an endpoint is gone.
func (s *Set) left(endpoint uint64) {
	for _, p := range s.pools {
		for _, policies := range [...][]*pick.Installed{p.here, p.apart} {
			for _, policy := range policies {
				policy.Forgotten(endpoint)
			}
		}
	}
}

// show copies the acting policy's view, so that a policy may write into it.
func (s *Set) show(to *pick.View, g *Sighting) {
	candidates := append(to.Candidates[:0], g.view.Candidates...)
	*to = g.view
	to.Candidates = candidates
}

// ask lets a policy choose with the decision's own random seed, and learn from its choice. The only candidate is chosen
// without it; it learns of that if it wants to.
func (s *Set) ask(p *pick.Installed, v *pick.View, g *Sighting) pick.Choice {
	pick.Seed(s.pcg, g.request.Seed, fleet.LegUnsplit)
	v.Rand, v.Source = s.rng, s.pcg
	var a pick.Tentative
	if len(v.Candidates) == 1 {
		a = p.Only(v, pick.ReasonOnly)
	} else {
		a = p.Ask(v, &g.request)
	}
	p.Placed(&a, &g.request)
	return a.Choice
}

// tell counts a choice. priced are the candidates with their terms, for a turn of known length.
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
	i := slices.IndexFunc(t.reasons, func(x Reason) bool { return x.Reason == r })
	if i < 0 {
		i, t.reasons = len(t.reasons), append(t.reasons, Reason{Reason: r})
	}
	t.reasons[i].Differs++
}
