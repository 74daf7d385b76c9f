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

// dualMap is DualMap (Y. Yuan and others, ICLR 2026, arXiv 2602.06502): two hashes of a prompt's prefix select two
// endpoints on a ring. The one with more of the prompt cached is picked if its predicted time to first token is within
// the objective, otherwise the one of the two with the shorter prediction. The prediction is the time to compute the
// prompts in front and the uncached part, by learnt speeds; cached tokens are Candidate.CachedTokens.
//
// The length of the hashed prefix adapts: the smallest of 1, 2, 4, ... blocks that no more than an endpoint's fair
// share of recent requests have in common, so that a prefix common to all does not decide.
//
// Differences: queued requests cannot be moved between engines, so its rebalancing is omitted. The paper sets the
// objective by experiment; here it is an option. The growth of the prefix is our interpretation.
type dualMap struct {
	pick.Plain
	sloMs   float64
	ring    byhash.Ring
	begins  [dualMapBegins]begin
	counted int // requests counted in begins
}

// begin counts the recent requests with the same leading blocks.
type begin struct {
	block uint64 // the last of these blocks
	count int
}

const (
	dualMapPlaces = 160
	dualMapBegins = 1 << 14 // number of counters
	dualMapRecent = 1 << 12 // requests after which counts are halved
	dualMapEarly  = 16      // requests per endpoint before shares are meaningful
)

// NewDualMap makes dualmap. The configuration must have its defaults.
func NewDualMap(c DualMapConfig) pick.Policy {
	return &dualMap{
		Plain: pick.Plain{Name: "dualmap", Exact: true, Content: true},
		sloMs: c.SLOMs,
		ring:  byhash.Ring{Places: dualMapPlaces},
	}
}

// Pick implements pick.Policy.
func (p *dualMap) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	key := p.key(v, r)
	p.ring.Fit(v.Candidates)
	first := p.ring.At(key, pick.None)
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

// key is the hash of the deciding prefix, with this request counted.
func (p *dualMap) key(v *pick.View, r *fleet.Request) uint64 {
	chain := content.Blocks(r)
	if len(chain) == 0 {
		return v.Hash
	}
	counted, halves := p.counted+1, 1
	if counted > dualMapRecent {
		counted, halves = counted/2, 2
	}
	fair := max(counted, dualMapEarly*len(v.Candidates)) / len(v.Candidates)
	for n := 1; n <= len(chain); n *= 2 {
		b, count := p.begin(chain[n-1]), 1
		if b.block == chain[n-1] {
			count += b.count / halves
		}
		if count <= fair {
			return chain[n-1]
		}
	}
	return chain[len(chain)-1]
}

// begin is the counter of a prefix, perhaps another one's.
func (p *dualMap) begin(block uint64) *begin { return &p.begins[byhash.Mix(block)%dualMapBegins] }

// Hooks implements pick.Policy.
func (p *dualMap) Hooks() pick.Hooks { return pick.Hooks{Placed: p.placed} }

// placed counts the request. Of prefixes with the same place the frequent one keeps it (J. Misra and D. Gries, 1982);
// the others count as rare.
func (p *dualMap) placed(_ *pick.View, r *fleet.Request, _ pick.Choice) {
	chain := content.Blocks(r)
	if len(chain) == 0 {
		return
	}
	if p.counted++; p.counted > dualMapRecent {
		p.counted /= 2
		for i := range p.begins {
			p.begins[i].count /= 2
		}
	}
	for n := 1; n <= len(chain); n *= 2 {
		switch b := p.begin(chain[n-1]); {
		case b.block == chain[n-1]:
			b.count++
		case b.count > 0:
			b.count--
		default:
			*b = begin{block: chain[n-1], count: 1}
		}
	}
}

// DualMapConfig are the options of dualmap.
type DualMapConfig struct {
	// SLOMs is the objective for the time to first token in milliseconds: while the prediction meets it, the warmer of
	// the two endpoints is picked. 0 means 5000.
	SLOMs float64 `yaml:"slo_ms"`
}

// defaultSLOMs is the default of SLOMs.
const defaultSLOMs = 5000

// WithDefaults returns c with defaults for options that are not set.
func (c DualMapConfig) WithDefaults() DualMapConfig {
	if c.SLOMs == 0 {
		c.SLOMs = defaultSLOMs
	}
	return c
}

// Validate reports the fault of a configuration that has its defaults.
func (c DualMapConfig) Validate() error {
	if f := c.SLOMs; !(f > 0) || math.IsInf(f, 0) {
		return fmt.Errorf("policy: dualmap.slo_ms is %v, must be above 0 (0 means %v)", f, defaultSLOMs)
	}
	return nil
}
