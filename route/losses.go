package route

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// losses is how much of what a full cache is believed to hold proves not to be there, of late. A request that goes to one endpoint since
// all of a long prompt is believed to be there has it computed in front of all who are answered there if that is wrong; in two legs only
// itself waits. Where outstanding requests need all the memory that there is, all of it is taken to be gone, also what they
// have in common: such an endpoint should be spared in any case.
type losses struct {
	missing, n float64 // shares missing, and samples; older ones weigh less
}

const (
	keepLosses  = 0.98
	firstLosses = 1.0 // before anything is known one of firstFinds is taken to be missing
	firstFinds  = 50.0
)

// learnLosses compares what a prompt was to find in a cache with what it found.
func (f *flight) learnLosses(u *fleet.Usage) {
	if f.leg == fleet.LegDecode || !f.pool.parts || !u.CachedKnown || f.decision.CachedTokens < leastDoubt || f.epoch != f.ep.epoch {
		return
	}
	g, predicted := &f.ep.losses, float64(f.decision.CachedTokens)
	share := max(0, predicted-float64(u.CachedTokens)) / predicted
	g.missing, g.n = float64(g.missing*keepLosses)+share, float64(g.n*keepLosses)+1
}

// uncertain is how many of the tokens that a candidate is believed to have are to be computed all the same, on average.
func (e *endpoint) uncertain(c *pick.Candidate, cached int) float64 {
	if !c.Full {
		return 0 // nothing has been pushed out
	}
	if n := e.report.CacheTokens; n > 0 && float64(e.resident()) >= float64(float64(n)*max(1, e.cache.share)) {
		return float64(cached) // whoever waits for memory has had all taken first that nobody uses
	}
	return float64(float64(cached)*(e.losses.missing+firstLosses)) / (e.losses.n + firstFinds)
}
