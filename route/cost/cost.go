// Package cost is what a placement costs: the wait of the request itself, and what it makes others wait.
//
// It owns the formulas. Policies, the rules when to split and shadow evaluation reckon with the same ones. They read
// the columns of a pick.View and nothing else, so the package keeps no state, and knows no request, policy or endpoint.
// Costs are in ms, and no constant stands for a GPU or a model.
package cost

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// NearMs is the difference in ms below which two costs are equal: predictions are no better.
const NearMs = 1.0

const (
	// utilisation up to which queues are reckoned: none lasts for ever, and of one that is there the wait is known
	fullBusy      = 0.75
	mostOccupancy = 3 // times its places or memory that an endpoint counts as occupied at most
	// ms that a ms of others' waiting counts for: some of them leave, and compute again what they had
	externalityMs = 2
	leastSpeed    = 1e-6 // ms a token, so that nothing is divided by 0
)

// Estimate says in t what placing the request of a view at one of its rows costs. Terms.Spread is 0: it is a policy's
// price for an uneven placement, and no time that a placement takes.
func Estimate(v *pick.View, c *pick.Candidate, s *Scope, t *pick.Terms) {
	brings, delays := float64(Uncached(v, c)*v.PerToken(c)), 0.0
	if s.heaviest > 0 {
		delays = externality(v, c, brings, s) + interference(v, c, brings) + answerDelay(v, c) + c.Link.DelayMs
		// An endpoint of less weight is to have less traffic: what it costs there counts for more. The request itself
		// waits no longer.
		if w := c.FullWeight() / s.heaviest; w < 1 {
			delays = (c.WaitMs+brings+delays)/w - c.WaitMs - brings // see Parts.Weight
		}
	}
	if v.Leg == fleet.LegDecode {
		*t = pick.Terms{Wait: c.WaitMs, Transfer: brings, Fixed: c.Link.FixedMs, Externality: delays}
		return
	}
	*t = pick.Terms{Wait: c.WaitMs, Prefill: brings, Fixed: c.FixedMs, Externality: delays}
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

// externality is what a placement costs those who come after it. Those who arrive while it waits and is computed wait
// for it: at a rate of r arrivals a ms, work of w ms behind b ms makes r × b of them wait for w and r × w of them for
// w/2 on average, and since these make others wait in turn, 1 / (1 - utilisation) times as much (M/G/1). Arrivals are
// conversations that begin and those that are expected back there.
//
// A first turn brings later ones to the same endpoint. What they take there of places and memory costs the derivative
// of the length of its queue (M/M/1). That keeps new conversations away from fast endpoints whose conversations evict
// each other's cache.
func externality(v *pick.View, c *pick.Candidate, prefill float64, s *Scope) float64 {
	begin, back := arrivals(v, c, s)
	cost := delayed(begin+back, c, prefill)
	cost += float64(externalityMs * float64(prefill*float64(c.Overtaken)))
	cost += occupies(c)
	if v.FirstTurn && !s.single {
		cost += laterTurns(v, c)
	}
	return cost
}

// arrivals are the turns a ms that will wait for this one: those of conversations that begin, in a scope of one request
// all that were placed there of late, and those of conversations that come back.
func arrivals(v *pick.View, c *pick.Candidate, s *Scope) (begin, back float64) {
	if s.single {
		return c.TurnsPerMs / (1 - min(c.Busy, fullBusy)), 0
	}
	return s.firstTurns / Speed(v, c), c.ReturnsPerMs / (1 - min(c.Busy, fullBusy))
}

// delayed is the wait of turns that arrive at this rate while a prompt waits and is computed.
func delayed(rate float64, c *pick.Candidate, prefill float64) float64 {
	return float64(externalityMs * float64(float64(rate*prefill)*(c.WaitMs+prefill/2)))
}

// occupies is what the request takes of places or memory, while others wait for those.
func occupies(c *pick.Candidate) float64 {
	occupancy := min(c.Occupancy, fullBusy)
	return float64(c.OccupancyMs*occupancy) / (1 - occupancy)
}

// laterTurns is the same of the turns that follow a first one.
func laterTurns(v *pick.View, c *pick.Candidate) float64 {
	return float64(v.LaterTurns * float64(c.OccupancyMs*marginalBeyond(c.Occupancy)))
}

// interference is what those wait who are answered there: a step that computes prompts delays all answers.
func interference(v *pick.View, c *pick.Candidate, prefill float64) float64 {
	if v.Leg == fleet.LegDecode {
		return 0
	}
	return float64(v.Interference * float64(float64(c.Decoding)*prefill))
}

// answerDelay is what an answer costs beyond the time that it takes alone: the prompts that are computed meanwhile, by
// the utilisation of minutes, and the others that are answered in the same steps. It delays those as much as they delay
// it, but that is not counted: it would spread answers over endpoints that prompts then have to keep away from.
func answerDelay(v *pick.View, c *pick.Candidate) float64 {
	if v.AnswerWaitCost == 0 || v.Leg == fleet.LegPrefill {
		return 0
	}
	tokens := float64(v.OutputTokens)
	alone := float64(tokens * c.AnswerMs)
	waits := alone/(1-min(c.Busy, fullBusy)) - alone
	among := float64(tokens*c.PerOtherMs) * float64(max(0, c.Load.Working()-c.Prompts))
	return float64(v.AnswerWaitCost*waits) + float64(among)
}

// marginal is the derivative of the length of a queue by its utilisation: of busy²/(1-busy), the number that wait
// (M/M/1).
func marginal(busy float64) float64 {
	return float64(busy*(2-busy)) / float64((1-busy)*(1-busy))
}

// marginalBeyond is marginal for an occupancy that may be above 1, up to mostOccupancy. Beyond fullBusy it goes on
// along its tangent: later turns stay with their conversation, so that where all endpoints are full it still matters
// which is the fullest.
func marginalBeyond(share float64) float64 {
	return marginal(min(share, fullBusy)) +
		float64(2/((1-fullBusy)*(1-fullBusy)*(1-fullBusy))*max(0, min(share, mostOccupancy)-fullBusy))
}

// TurnMs is how long a turn's prompt takes to compute at an endpoint on average, never 0.
func TurnMs(v *pick.View, c *pick.Candidate) float64 {
	return max(float64(v.TurnTokens*v.PerToken(c)), leastSpeed)
}

// Speed is the time for a token of a prompt by which endpoints have their shares, never 0. How fast KV cache comes to a
// decoder says nothing of how much it can answer: decode legs have even shares.
func Speed(v *pick.View, c *pick.Candidate) float64 {
	if v.Leg == fleet.LegDecode {
		return 1
	}
	return max(c.MsPerToken, leastSpeed)
}
