// Package reasons is the closed set of words that say why an endpoint was chosen, used as metric label, log field and
// column of recorded decisions.
//
// It owns the words of all policies. A reason outside All never occurs in a decision. The words of the router itself
// are in package pick.
package reasons

import "github.com/warmpath/warmpath/pick"

// The simple policies.
const (
	ConsistentHash         pick.Reason = "consistent_hash"          // first in the conversation's order
	ConsistentHashOverflow pick.Reason = "consistent_hash_overflow" // the first with room; earlier ones had none
	LeastRequests          pick.Reason = "least_requests"           // fewest outstanding requests per weight
	LeastTokens            pick.Reason = "least_tokens"             // fewest tokens still to compute per weight
	PowerOfTwo             pick.Reason = "power_of_two"             // the less loaded of two drawn
	Random                 pick.Reason = "random"                   // drawn
	Rendezvous             pick.Reason = "rendezvous"               // first in the conversation's rendezvous order
	RoundRobin             pick.Reason = "round_robin"              // its turn
)

// The default policy, least_ttft.
const (
	Home      pick.Reason = "home"       // the conversation's endpoint, since leaving it does not pay
	Leaves    pick.Reason = "leaves"     // the conversation's endpoint is so busy that recomputing elsewhere is faster
	Warm      pick.Reason = "warm"       // it has more of the prompt cached than others
	LeastTTFT pick.Reason = "least_ttft" // the shortest predicted time to first token
	// the endpoint of the conversation that started this one, which is about as fast
	Parent pick.Reason = "parent"
	Spread pick.Reason = "spread" // several are about as fast; the first in rendezvous order
)

// The rules of other routers and of papers.
const (
	CacheMatch pick.Reason = "cache_match" // it has enough of the prompt cached
	Load       pick.Reason = "load"        // least loaded, by the rule's measure
	Hash       pick.Reason = "hash"        // place of the hash of the session or prompt
	Score      pick.Reason = "score"       // best combined score of several figures
)

// All lists every reason: those of the router, then those of the policies.
func All() []pick.Reason {
	return []pick.Reason{
		pick.ReasonOnly,
		pick.ReasonPinned,
		pick.ReasonHolder,
		pick.ReasonSession,
		pick.ReasonWeighed,
		ConsistentHash,
		ConsistentHashOverflow,
		LeastRequests,
		LeastTokens,
		Home,
		Leaves,
		LeastTTFT,
		Warm,
		Parent,
		Spread,
		PowerOfTwo,
		Random,
		Rendezvous,
		RoundRobin,
		CacheMatch,
		Load,
		Hash,
		Score,
	}
}
