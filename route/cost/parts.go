package cost

import "github.com/warmpath/warmpath/pick"

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
}

// Sum is Terms.Externality, but for rounding.
func (p *Parts) Sum() float64 {
	return p.Arrivals + p.Returns + p.Overtaken + p.Occupancy + p.LaterTurns + p.Interference + p.Answer +
		p.Link + p.Weight
}

// PartsOf says what the Externality consists of that Estimate reckons of a row in this scope.
func PartsOf(v *pick.View, c *pick.Candidate, s *Scope) (p Parts) {
	if s.heaviest <= 0 {
		return p
	}
	brings := float64(Uncached(v, c) * v.PerToken(c))
	begin, back := arrivals(v, c, s)
	p = Parts{
		Arrivals: delayed(begin, c, brings), Returns: delayed(back, c, brings),
		Overtaken: externalityMs * brings * float64(c.Overtaken), Occupancy: occupies(c),
		Interference: interference(v, c, brings), Answer: answerDelay(v, c), Link: c.Link.DelayMs,
	}
	if v.FirstTurn && !s.single {
		p.LaterTurns = laterTurns(v, c)
	}
	if w := c.FullWeight() / s.heaviest; w < 1 {
		p.Weight = (c.WaitMs + brings + p.Sum()) * (1/w - 1)
	}
	return p
}
