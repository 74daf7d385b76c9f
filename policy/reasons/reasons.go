// Package reasons is the closed set of words that say why an endpoint was chosen: a metric label, a log field and a column of
// recorded decisions.
//
// It owns the words of all policies. A reason that is not in All never reaches a decision. The words of the router itself are
// in package pick.
package reasons

import "github.com/warmpath/warmpath/pick"

// The simple policies.
const (
	ConsistentHash         pick.Reason = "consistent_hash"          // first in the conversation's order
	ConsistentHashOverflow pick.Reason = "consistent_hash_overflow" // the first with room; those before it had none
	LeastRequests          pick.Reason = "least_requests"           // fewest outstanding requests per weight
	LeastTokens            pick.Reason = "least_tokens"             // fewest tokens still to compute per weight
	PowerOfTwo             pick.Reason = "power_of_two"             // the less loaded of two that were drawn
	Random                 pick.Reason = "random"                   // drawn
	Rendezvous             pick.Reason = "rendezvous"               // first in the conversation's rendezvous order
	RoundRobin             pick.Reason = "round_robin"              // its turn
)

// The default policy, least_ttft.
const (
	Home      pick.Reason = "home"       // the conversation's endpoint, and leaving it would not pay
	Leaves    pick.Reason = "leaves"     // the conversation's endpoint is so busy that computing it again elsewhere is quicker
	Warm      pick.Reason = "warm"       // it holds more of the prompt than others
	LeastTTFT pick.Reason = "least_ttft" // the shortest predicted time to first token
	Parent    pick.Reason = "parent"     // the endpoint of the conversation that started this one, which is about as quick
	Spread    pick.Reason = "spread"     // several are as quick; the one given the fewest conversations of late
)

// The rules of other routers and of papers.
const (
	CacheMatch pick.Reason = "cache_match" // it holds enough of the prompt
	Load       pick.Reason = "load"        // least loaded, by the rule's measure
	Hash       pick.Reason = "hash"        // where the hash of the session or of the prompt falls
	Score      pick.Reason = "score"       // the best by a score of several figures
)

// All lists every reason a decision can have: those of the router, then those of the policies.
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
