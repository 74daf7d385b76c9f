package cache

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// losses is how much of what a full cache is believed to hold proves to be missing, of late. A request that goes to one endpoint
// because a long prompt is believed to be there has it computed in front of all who are answered there if that is wrong; in two legs
// only it waits itself. Where outstanding requests need all the memory that there is, all of it is taken to be evicted, also what they
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
func (e *endpoint) learnLosses(l *lease, u *fleet.Usage) {
	if l.leg == fleet.LegDecode || !u.CachedKnown || l.cachedTokens < leastDoubt || l.epoch != e.epoch {
		return
	}
	g, predicted := &e.losses, float64(l.cachedTokens)
	share := max(0, predicted-float64(u.CachedTokens)) / predicted
	g.missing, g.n = float64(g.missing*keepLosses)+share, float64(g.n*keepLosses)+1
}

// unsure is how many of the tokens that an endpoint is believed to have are to be computed all the same, on average.
func (e *endpoint) unsure(c *pick.Candidate, cached int) float64 {
	if !c.Full {
		return 0 // nothing has been evicted
	}
	if n := e.facts.CacheTokens; n > 0 && float64(c.Resident) >= float64(float64(n)*max(1, e.capacity.share)) {
		return float64(cached) // a request that waits for memory has had all evicted first that nobody uses
	}
	return float64(float64(cached)*(e.losses.missing+firstLosses)) / (e.losses.n + firstFinds)
}
