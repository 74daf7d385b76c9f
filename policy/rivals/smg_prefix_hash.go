package rivals

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/content"
	"github.com/warmpath/warmpath/policy/fair"
	"github.com/warmpath/warmpath/policy/reasons"
)

// smgPrefixHash is SMG's prefix_hash with its defaults (smg-project/smg 1.13,
// model_gateway/src/policies/prefix_hash.rs, over HTTP): the hash of the first 256 tokens, taken as 1,024 characters,
// on a ring of 150 places per endpoint. An endpoint is acceptable while its load including this request is at most 1.25
// times the mean, or at most 10 above it. If the one on the ring is not, the least loaded is picked, the first of ties.
//
// Differences: a prompt of less than 128 bytes has the hash of its conversation. Without the prompt the least loaded is
// picked, as in the original when there is nothing to hash.
type smgPrefixHash struct {
	pick.Plain
	ring byhash.Ring
}

const (
	smgRingPlaces   = 150
	smgPrefixTokens = 256
	smgLoadFactor   = 1.25
	smgLoadAbs      = 10
)

// NewSMGPrefixHash makes the policy smg.prefix_hash.
func NewSMGPrefixHash() pick.Policy {
	return &smgPrefixHash{
		Plain: pick.Plain{Name: "smg.prefix_hash", Exact: true, Content: true},
		ring:  byhash.Ring{Places: smgRingPlaces},
	}
}

// Pick implements pick.Policy.
func (p *smgPrefixHash) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	cs := v.Candidates
	_, _, total := fair.Spread(cs)
	mean := float64(total+1) / float64(len(cs))
	if r.Content != nil {
		key := v.Hash
		if n := min(len(r.Content.Blocks), smgPrefixTokens*content.BytesPerToken/fleet.BlockBytes); n > 0 {
			key = r.Content.Blocks[n-1]
		}
		p.ring.Fit(cs)
		at := p.ring.At(key, pick.None)
		if fair.Outstanding(&cs[at]) <= max(float64(mean*smgLoadFactor), mean+smgLoadAbs) {
			return pick.Choice{Index: at, Reason: reasons.Hash}
		}
	}
	at := 0 // it has at most the mean load, so it is acceptable
	for i := range cs {
		if cs[i].Load.Requests < cs[at].Load.Requests {
			at = i
		}
	}
	return pick.Choice{Index: at, Reason: reasons.Load}
}
