package cost

import (
	"math"

	"github.com/warmpath/warmpath/pick"
)

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

func noRow() lowest { return lowest{pick.None, math.Inf(1), math.Inf(1)} }

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
		firstTurns: firstTurns(v), heaviest: heaviest(v), waits: noRow(), taken: product{rest: 1},
		warmest: math.Inf(1),
	}
	working, sharers := 0, 0.0
	for i := range v.Candidates {
		c := &v.Candidates[i]
		s.waits.add(c.Slot, c.WaitMs)
		s.taken.times(min(1, c.Occupancy))
		if c.CachedTokens >= v.MostCached {
			s.warmest, working = min(s.warmest, c.WaitMs), working+c.Load.Working()
		}
	}
	for _, o := range v.Sharers {
		sharers += o.Turns
	}
	s.sharers = min(1, sharers/float64(max(1, working)))
	return s
}

// ForSplit is for the decision whether a request is split: it compares the whole request with the same in two legs. The
// candidates of legs are different endpoints, so arrivals are the turns that each endpoint had of late, not its share
// of the fleet's. Later turns are left out: each is compared anew.
func ForSplit(v *pick.View) Scope {
	return Scope{single: true, heaviest: heaviest(v)}
}

// Scopes by name, for people.
const (
	Choice  = "choice"  // those who come after count, and the later turns of a conversation that begins
	Split   = "split"   // those who come after count as those who came of late, later turns do not
	Request = "request" // what the request itself waits for, and nothing else
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
