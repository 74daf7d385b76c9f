package rivals

import (
	"fmt"
	"math"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/content"
	"github.com/warmpath/warmpath/policy/reasons"
)

// dualMap is DualMap (Y. Yuan and others, ICLR 2026, arXiv 2602.06502): two hashes of the beginning of a prompt give it two
// endpoints on a ring. The one that holds more of it is picked while its time to first token is predicted within the
// objective, and beyond that the one of the two that is predicted to answer sooner. The prediction is the time to compute
// the prompts in front and what is not cached, by learnt speeds; what is cached is Candidate.CachedTokens.
//
// How much of the prompt is hashed adapts: of 1, 2, 4, ... blocks, as few as are shared by no more of the recent requests than
// an endpoint's fair share, so that what everybody begins with does not decide.
//
// Differences: queued requests cannot be moved between engines, so its rebalancing is left out. The paper sets the objective by
// experiment; it is an option here, and how its prefix grows is our reading of it.
type dualMap struct {
	sloMs   float64
	ring    byhash.Ring
	begins  [dualMapBegins]begin
	counted int // requests that begins counts
}

// begin counts the recent requests that begin with the same blocks.
type begin struct {
	block uint64 // the last of them
	count int
}

const (
	dualMapPlaces = 160
	dualMapBegins = 1 << 14 // beginnings counted
	dualMapRecent = 1 << 12 // requests after which counts are halved
	dualMapEarly  = 16      // requests for each endpoint that shares are taken of at least
)

// NewDualMap makes dualmap with a configuration that has its defaults.
func NewDualMap(c DualMapConfig) pick.Policy {
	return &dualMap{sloMs: c.SLOMs, ring: byhash.Ring{Places: dualMapPlaces}}
}

// Pick implements pick.Policy.
func (p *dualMap) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	key := p.key(v, r)
	p.ring.Fit(v.Candidates)
	first := p.ring.At(key, pick.Nobody)
	second := p.ring.At(byhash.Mix(key)^byhash.Golden, first)
	a, b := &v.Candidates[first], &v.Candidates[second]
	soonA, soonB := queuedTTFT(v, a), queuedTTFT(v, b)
	warm, soon := first, first
	if soonB < soonA {
		soon = second
	}
	if b.CachedTokens > a.CachedTokens || b.CachedTokens == a.CachedTokens && soon == second {
		warm = second
	}
	switch {
	case a.CachedTokens == b.CachedTokens:
		return pick.Choice{Index: warm, Reason: reasons.Hash}
	case queuedTTFT(v, &v.Candidates[warm]) <= p.sloMs:
		return pick.Choice{Index: warm, Reason: reasons.CacheMatch}
	}
	return pick.Choice{Index: soon, Reason: reasons.Load}
}

// key is the hash of the beginning that decides, and counts this request.
func (p *dualMap) key(v *pick.View, r *fleet.Request) uint64 {
	chain := content.Blocks(r)
	if len(chain) == 0 {
		return v.Hash
	}
	if p.counted++; p.counted > dualMapRecent {
		p.counted /= 2
		for i := range p.begins {
			p.begins[i].count /= 2
		}
	}
	fair := max(p.counted, dualMapEarly*len(v.Candidates)) / len(v.Candidates)
	key, found := chain[len(chain)-1], false
	for n := 1; n <= len(chain); n *= 2 {
		if p.count(chain[n-1]) <= fair && !found {
			key, found = chain[n-1], true
		}
	}
	return key
}

// count counts a beginning once more. Of those that share a place the frequent one keeps it (J. Misra and D. Gries, 1982); the
// others count as rare.
func (p *dualMap) count(block uint64) int {
	b := &p.begins[byhash.Mix(block)%dualMapBegins]
	switch {
	case b.block == block:
		b.count++
		return b.count
	case b.count > 0:
		b.count--
	default:
		*b = begin{block: block, count: 1}
	}
	return 1
}

// DualMapConfig are the options of dualmap.
type DualMapConfig struct {
	// SLOMs is the objective for the time to first token in milliseconds: while it is predicted to be met, the warmer of the two
	// endpoints is picked. 0 means 5000.
	SLOMs float64 `yaml:"slo_ms"`
}

// defaultSLOMs is the objective when none is given.
const defaultSLOMs = 5000

// WithDefaults is c with each option that is not given replaced by its default.
func (c DualMapConfig) WithDefaults() DualMapConfig {
	if c.SLOMs == 0 {
		c.SLOMs = defaultSLOMs
	}
	return c
}

// Validate reports the fault of a configuration with its defaults.
func (c DualMapConfig) Validate() error {
	if f := c.SLOMs; !(f > 0) || math.IsInf(f, 0) {
		return fmt.Errorf("policy: dualmap.slo_ms is %v, must be above 0 (0 means %v)", f, defaultSLOMs)
	}
	return nil
}
