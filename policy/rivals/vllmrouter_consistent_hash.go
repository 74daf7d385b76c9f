package rivals

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/content"
	"github.com/warmpath/warmpath/policy/reasons"
)

// vllmConsistentHash is vllm-router's consistent_hash (vllm-project/router 0.1.17, src/policies/consistent_hash.rs): a
// ring with 160 places per endpoint, by the request's session, ignoring load. Without a session it uses the hash of the
// request's body, so each turn goes elsewhere.
//
// Differences: it does not require parsed prompts; without a session and a prompt it uses the conversation, as far as
// that is recognised. The ring contains the available endpoints only, so that the conversations of one that is down
// spread over the others; the original sends all of them to the first healthy one. The released 0.1.17 was observed to
// send all requests without a session to one endpoint.
type vllmConsistentHash struct {
	pick.Plain
	ring byhash.Ring
}

const vllmRingPlaces = 160

// NewVLLMConsistentHash makes the policy vllmrouter.consistent_hash.
func NewVLLMConsistentHash() pick.Policy {
	return &vllmConsistentHash{
		Plain: pick.Plain{Name: "vllmrouter.consistent_hash", Exact: true},
		ring:  byhash.Ring{Places: vllmRingPlaces},
	}
}

// Pick implements pick.Policy.
func (p *vllmConsistentHash) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	p.ring.Fit(v.Candidates)
	return pick.Choice{Index: p.ring.At(sessionOrPrompt(v, r), pick.None), Reason: reasons.Hash}
}

// sessionOrPrompt is the hash of the session named by the client, else that of the known prompt.
func sessionOrPrompt(v *pick.View, r *fleet.Request) uint64 {
	if chain := content.Blocks(r); r.Session == "" && len(chain) > 0 {
		return chain[len(chain)-1] + uint64(r.Content.Bytes)
	}
	return v.Hash
}
