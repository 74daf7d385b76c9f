// Package cost is what a placement costs, in ms: the wait of the request itself, and what it makes others wait.
//
// In comes a row of a pick.View, which says what is cached at an endpoint, how fast it is, how long a prompt waits
// there and how many requests arrive; and a Scope, which says what is reckoned of it. Out come pick.Terms, whose sum a
// policy compares, and Parts, the summands of Terms.Externality. Estimate is the whole formula; `explain` prints the
// terms of each candidate and their parts (internal/explain). Policies, the rules when to split and shadow evaluation
// reckon with it. The package keeps no state, knows no request, policy or endpoint, and none of its constants stands
// for a GPU or a model.
package cost

import (
	"math"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// NearMs is the difference in ms below which two costs are equal: predictions are no better.
const NearMs = 1.0

const (
	// utilisation up to which queues are reckoned: none lasts for ever, and of one that is there the wait is known
	mostUtilisation = 0.75
	mostOccupancy   = 3 // times its places or memory that an endpoint counts as occupied at most
	// ms that a ms of others' waiting counts for: some of them leave, and compute again what they had
	externalityMs = 2
	// a new conversation begins elsewhere if it waits there less by this many times a turn's mean prefill
	bearable = fit.Outlier
)

// Parts are the summands of Terms.Externality, in ms: what a placement costs others, by who waits.
type Parts struct {
	Arrivals     float64 // turns that begin a conversation and arrive while this one waits and is computed
	Returns      float64 // turns of conversations that come back to this endpoint in that time
	Overtaken    float64 // requests in the router's queue that this one overtakes
	Occupancy    float64 // requests that wait for the places or the KV memory that this one takes
	LaterTurns   float64 // the same for the turns that follow a first one
	Interference float64 // requests that are answered there while the prompt is computed
	Answer       float64 // the answer itself, for prompts and answers beside it; only for splitting without roles
	Link         float64 // transfers that share the link of a decode leg
	// what an endpoint of less weight costs more: (wait + prefill + all of the above) × (1/weight - 1)
	Weight float64
	// what first turns to come save by the copy of what is cached elsewhere: 0 or less
	Copy float64
}

// Sum is Terms.Externality, but for rounding.
func (p *Parts) Sum() float64 {
	return p.Arrivals + p.Returns + p.Overtaken + p.Occupancy + p.LaterTurns + p.Interference + p.Answer +
		p.Link + p.Weight + p.Copy
}

// Estimate says what placing the request of a view at one of its rows costs: the terms in t, and the parts of
// Terms.Externality. Terms.Spread is 0: it is a policy's price for an uneven placement, and no time that a placement
// takes.
func Estimate(v *pick.View, c *pick.Candidate, s *Scope, t *pick.Terms) (p Parts) {
	brings, externality := float64(Uncached(v, c)*v.PerToken(c)), 0.0
	if s.heaviest > 0 {
		// Those who arrive while it waits and is computed wait for it: at a rate of r arrivals a ms, work of w ms
		// behind b ms makes r × b of them wait for w and r × w of them for w/2 on average, and since these make others
		// wait in turn, 1 / (1 - utilisation) times as much (M/G/1).
		idle := 1 - min(c.Utilisation, mostUtilisation)
		var begin, back, most float64
		if s.single {
			begin, most = c.TurnsPerMs/idle, math.Inf(1)
		} else {
			begin, back = s.firstTurns/Speed(v, c), c.ReturnsPerMs/idle
			most = s.bearableMs(v, c)
		}
		p.Arrivals = delayed(begin, c, brings, most)
		p.Returns = delayed(back, c, brings, math.Inf(1))
		arrive := p.Arrivals + p.Returns
		p.Overtaken = float64(externalityMs * float64(brings*float64(c.Overtaken)))
		// It takes places or memory for which others wait. A first turn brings later ones, which take the same there:
		// that keeps new conversations away from fast endpoints whose conversations evict each other's cache.
		full := min(c.Occupancy, mostUtilisation)
		takes := s.takesMs(v, c)
		p.Occupancy = float64(takes*full) / (1 - full)
		if v.FirstTurn && !s.single {
			p.LaterTurns = float64(v.LaterTurns * float64(takes*marginal(c.Occupancy)))
		}
		// A step that computes prompts delays all answers.
		if v.Leg != fleet.LegDecode {
			p.Interference = float64(v.Interference * float64(float64(c.Decoding)*brings))
		}
		// An answer takes longer than alone by the prompts that are computed meanwhile, and the others that are
		// answered in the same steps. It delays those as much as they delay it, but that is not counted: it would
		// spread answers over endpoints that prompts then have to keep away from.
		if v.AnswerWaitCost > 0 && v.Leg != fleet.LegPrefill {
			tokens, beside := float64(v.OutputTokens), float64(max(0, c.Load.Working()-c.Prompts))
			alone := float64(tokens * c.AnswerMs)
			p.Answer = float64(v.AnswerWaitCost*(alone/idle-alone)) + float64(float64(tokens*c.PerOtherMs)*beside)
		}
		p.Link = c.Link.DelayMs
		externality = arrive + p.Overtaken + p.Occupancy + p.LaterTurns + p.Interference + p.Answer + p.Link
		// An endpoint of less weight is to have less traffic: what it costs there counts for more. The request itself
		// waits no longer.
		if w := c.FullWeight() / s.heaviest; w < 1 {
			weighed := (c.WaitMs+brings+externality)/w - c.WaitMs - brings
			p.Weight, externality = weighed-externality, weighed
		}
		if !s.single && v.Leg != fleet.LegDecode {
			p.Copy -= s.saved(v, c, brings)
			externality += p.Copy
		}
	}
	*t = pick.Terms{Wait: c.WaitMs, Fixed: v.Fixed(c), Externality: externality}
	if v.Leg == fleet.LegDecode {
		t.Transfer = brings
	} else {
		t.Prefill = brings
	}
	return p
}

// takesMs is what the share of an endpoint that a request takes makes one of those wait who need it, in ms. For a place
// they wait no longer than makes them leave, unless no other endpoint has one: the chance of that is the product of the
// shares taken there, as if endpoints filled up independently of each other. Memory that one request takes is taken
// from the caches of others, wherever those go.
func (s *Scope) takesMs(v *pick.View, c *pick.Candidate) float64 {
	all := c.OccupancyMs
	if s.single || !c.OfPlaces {
		return all
	}
	leaving := min(all, s.bearableMs(v, c))
	return leaving + float64((all-leaving)*s.taken.besides(min(1, c.Occupancy)))
}

// bearableMs is how long one waits at an endpoint before it goes elsewhere, in ms.
func (s *Scope) bearableMs(v *pick.View, c *pick.Candidate) float64 {
	return s.waits.besides(c.Slot) + float64(bearable*TurnMs(v, c))
}

// delayed is what the delay of later turns costs, in ms. At this rate they arrive in each ms until the prompt is
// computed. Each waits for it and for what is in front of it, but never longer than most ms.
func delayed(rate float64, c *pick.Candidate, prefill, most float64) float64 {
	extra := float64(prefill * (c.WaitMs + prefill/2)) // the integral of each one's delay
	if longest := c.WaitMs + prefill; longest > most {
		before := min(c.WaitMs, most) // what the first of them would wait without this prompt
		extra = float64(most*(longest-most/2)) - float64(before*(c.WaitMs-before/2))
	}
	return float64(externalityMs * float64(rate*extra))
}

// saved is what a copy of all that is cached of the prompt saves later first turns that share it, in ms. The copy is
// there after x ms, its wait and prefill. A prompt that has been asked for during a ms is still asked for then with the
// chance a / (a+x) (Lindy's law), and as many more come as are under way. Each of them saves the difference of the
// waits, or the time to compute the prompt here if that is less. The share of such requests at the endpoints that have
// the prompt scales this: only as far as they make each other wait does a copy help.
func (s *Scope) saved(v *pick.View, c *pick.Candidate, prefill float64) float64 {
	lacks := float64(float64(v.MostCached-c.CachedTokens) * v.PerToken(c))
	each := min(s.warmest-c.WaitMs, lacks) * s.sharers
	lasts, then := v.Sharers.OldestMs, c.WaitMs+prefill
	if each <= 0 || lasts <= 0 {
		return 0
	}
	return float64(float64(each*v.Sharers.Turns)*lasts) / (lasts + then)
}

// Uncached is how many tokens are to be computed, or of a decode leg transferred: those of the prompt that are not
// cached, and the work of fetching what only a second tier has. Where costs decide whether a request is split, the
// expected over-prediction of cached tokens counts too, since a wrong prediction delays all that are answered there,
// and blocks still in transfer do not count as cached.
func Uncached(v *pick.View, c *pick.Candidate) float64 {
	switch {
	case v.Leg == fleet.LegDecode:
		return float64(v.PromptTokens - c.CachedTokens)
	case v.Splits && v.Leg == fleet.LegPrefill:
		return float64(v.PromptTokens-c.CachedTokens) + c.ExpectedMiss + c.Fetching(c.Far)
	case v.Splits:
		return float64(v.PromptTokens-c.PresentTokens) + c.ExpectedMiss + c.Fetching(c.Far)
	default:
		return float64(v.PromptTokens-c.CachedTokens) + c.Fetching(c.Far)
	}
}

// marginal is by how many the queue for places or memory grows with the share of them that is taken: the derivative of
// u²/(1-u), the number that wait at a utilisation of u (M/M/1). The share may be above 1, up to mostOccupancy. Beyond
// mostUtilisation marginal is in proportion to it: later turns stay with their conversation, so that where all
// endpoints are full it still matters which is the fullest. They can leave, too: its tangent would keep a first turn
// away from a long prompt's cache at any price.
func marginal(share float64) float64 {
	u := min(share, mostUtilisation)
	left := 1 - u
	return float64(u*(2-u)) / float64(left*left) * max(1, min(share, mostOccupancy)/mostUtilisation)
}

// TurnMs is how long a turn's prompt takes to compute at an endpoint on average, never 0.
func TurnMs(v *pick.View, c *pick.Candidate) float64 {
	return max(float64(v.TurnTokens*v.PerToken(c)), fit.Least)
}

// Speed is the time for a token of a prompt by which endpoints have their shares, never 0. How fast KV cache comes to a
// decoder says nothing of how much it can answer: decode legs have even shares.
func Speed(v *pick.View, c *pick.Candidate) float64 {
	if v.Leg == fleet.LegDecode {
		return 1
	}
	return max(c.MsPerToken, fit.Least)
}

// Scope is what of a placement is reckoned, and what that takes of all rows together. The zero value reckons what the
// request itself waits for, without what it costs others: for a view whose policy does not reckon.
type Scope struct {
	single     bool    // this request alone
	firstTurns float64 // see firstTurns
	heaviest   float64 // largest weight; 0 where others do not count
	waits      lowest  // of the rows' waits, in ms
	taken      product // of the shares of the rows' places that are taken
	warmest    float64 // least wait, in ms, of rows with the most cached
	sharers    float64 // share of the requests there that are View.Sharers
}

// lowest is the two lowest values of rows, so that each row knows the lowest of the others; +Inf where there is none.
type lowest struct {
	slot         int // of the first
	first, other float64
}

func (l *lowest) add(slot int, x float64) {
	switch {
	case x < l.first:
		*l = lowest{slot, x, l.first}
	case x < l.other:
		l.other = x
	}
}

// besides is the lowest value of other rows than that of a slot.
func (l *lowest) besides(slot int) float64 {
	if slot == l.slot {
		return l.other
	}
	return l.first
}

// product is that of rows' values, so that each row knows the product of the others; 1 where there is none.
type product struct {
	zeros int
	rest  float64 // without the zeros
}

func (p *product) times(x float64) {
	if x == 0 {
		p.zeros++
	} else {
		p.rest *= x
	}
}

// besides is the product without one of the values.
func (p *product) besides(x float64) float64 {
	switch {
	case p.zeros == 0:
		return p.rest / x
	case p.zeros == 1 && x == 0:
		return p.rest
	default:
		return 0
	}
}

// ForChoice is for choosing among the rows.
func ForChoice(v *pick.View) Scope {
	s := Scope{
		firstTurns: firstTurns(v), heaviest: heaviest(v), taken: product{rest: 1},
		waits: lowest{pick.None, math.Inf(1), math.Inf(1)}, warmest: math.Inf(1),
	}
	working := 0
	for i := range v.Candidates {
		c := &v.Candidates[i]
		s.waits.add(c.Slot, c.WaitMs)
		s.taken.times(min(1, c.Occupancy))
		if c.CachedTokens >= v.MostCached {
			s.warmest, working = min(s.warmest, c.WaitMs), working+c.Load.Working()
		}
	}
	s.sharers = min(1, v.Sharers.Turns/float64(max(1, working)))
	return s
}

// ForSplit is for the decision whether a request is split: it compares the whole request with the same in two legs.
// Legs have different endpoints as candidates, so each endpoint's own recent turns count as arrivals, instead of its
// share of the fleet's. Later turns do not count: whether they are split is decided when they come.
func ForSplit(v *pick.View) Scope {
	return Scope{single: true, heaviest: heaviest(v)}
}

// Scopes by name, for people.
const (
	Choice  = "choice"  // arrivals are the endpoint's share of the fleet's; later turns count
	Split   = "split"   // arrivals are the endpoint's own recent turns; later turns do not count
	Request = "request" // only what the request itself waits for
)

// String is the scope's name.
func (s *Scope) String() string {
	switch {
	case s.heaviest <= 0:
		return Request
	case s.single:
		return Split
	default:
		return Choice
	}
}

// Score fills in the terms of all rows, for choosing among them.
func Score(v *pick.View) {
	s := ForChoice(v)
	for i := range v.Candidates {
		Estimate(v, &v.Candidates[i], &s, &v.Candidates[i].Terms)
	}
}

// OwnTerms is what a request itself waits for where h says what of its prompt is cached, for a step without a row.
func OwnTerms(promptTokens int, h *pick.Cached, p *pick.Pace, w *pick.Wait) pick.Terms {
	return pick.Terms{
		Wait:    w.WaitMs,
		Prefill: float64((float64(promptTokens-h.CachedTokens) + p.Fetching(h.Far)) * p.MsPerToken),
		Fixed:   p.FixedMs,
	}
}

// heaviest is the largest weight of any endpoint that may take the request.
func heaviest(v *pick.View) float64 {
	most := v.Beyond.Heaviest
	for i := range v.Candidates {
		most = max(most, v.Candidates[i].FullWeight())
	}
	return most
}

// firstTurns is how many conversations a millisecond begin at an endpoint that takes one millisecond for a token, if
// all have their share, over 1 - utilisation. Those that began at one endpoint say nothing here: they went where the
// policy sent them. While the window over which turns are counted is not full, what is missing is extrapolated, less so
// where more turns follow a first one.
func firstTurns(v *pick.View) float64 {
	var turns, used, able float64
	for i := range v.Candidates {
		c := &v.Candidates[i]
		turns += c.TurnsPerMs
		used += c.Utilisation / Speed(v, c)
		able += 1 / Speed(v, c)
	}
	turns, used, able = turns+v.Beyond.Turns, used+v.Beyond.Utilised, able+v.Beyond.Able
	if v.Watched > 0 { // a conversation placed early brings all its later turns, of which the rate of now says nothing
		turns *= 1 + (1/v.Watched-1)/(1+v.LaterTurns)
	}
	share := min(used/able, mostUtilisation)
	return turns / (1 + v.LaterTurns) / able / (1 - share)
}
