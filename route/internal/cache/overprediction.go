package cache

import (
	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// overprediction estimates the share of the predicted cached tokens that a full cache turns out not to hold. A whole
// request whose long prompt is wrongly expected to be cached delays all requests decoding there; a split one delays
// only itself.
type overprediction struct {
	missing, n fit.Sum // of missing shares and of samples
}

// learnOverprediction compares a prompt's predicted cached tokens with those reported.
func (e *endpoint) learnOverprediction(l *lease, u *fleet.Usage) {
	if l.leg == fleet.LegDecode || !u.CachedKnown || l.cachedTokens < usualBlock || l.epoch != e.epoch {
		return
	}
	g, predicted := &e.overprediction, float64(l.cachedTokens)
	share := max(0, predicted-float64(u.CachedTokens)) / predicted
	g.missing.Add(1-fit.Usual, 1, share)
	g.n.Add(1-fit.Usual, 1, 1)
}

// expectedMiss is the expected number of cached tokens that must be computed all the same.
func (e *endpoint) expectedMiss(h *pick.Cached, cached int) float64 {
	if !h.Full {
		return 0 // nothing has been evicted
	}
	if n := e.facts.CacheTokens; n > 0 && float64(h.Resident) >= float64(float64(n)*max(1, e.capacity.share)) {
		return float64(cached) // requests wait for memory, so every unused block is evicted
	}
	return float64(float64(cached)*float64(e.overprediction.missing)) / (float64(e.overprediction.n) + fit.Enough)
}
