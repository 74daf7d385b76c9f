package policy

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// vllmConsistentHash is vllm-router's consistent_hash (vllm-project/router 0.1.17, src/policies/consistent_hash.rs): a ring with 160
// places for each endpoint, by the session of the request, whatever the load. Without a session it places by the
// hash of the request's body, so each turn falls anew.
//
// Differences: it does not ask for prompts to be read; without a session and without the prompt it places by the conversation, as
// far as that is recognised. The ring is of the endpoints that may take the request, so that the conversations of one that is down spread
// over the others; the original sends all of them to the first healthy one. The released 0.1.17 was seen to send all
// requests without a session to one endpoint.
type vllmConsistentHash struct{ ring ring }

const vllmRingPlaces = 160

func newVLLMConsistentHash() pick.Policy {
	return &vllmConsistentHash{ring: ring{places: vllmRingPlaces}}
}

// Pick implements route.Policy.
func (p *vllmConsistentHash) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	p.ring.fit(v.Candidates)
	return pick.Choice{Index: p.ring.at(sessionOrPrompt(v, r), pick.Nobody), Reason: ReasonHash}
}

// sessionOrPrompt is the hash of the session that the client named, without one that of the whole prompt as far as it is known.
func sessionOrPrompt(v *pick.View, r *fleet.Request) uint64 {
	if chain := blocksOf(r); r.Session == "" && len(chain) > 0 {
		return chain[len(chain)-1] + uint64(r.Content.Bytes)
	}
	return v.Hash
}
