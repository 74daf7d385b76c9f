package policy

import "github.com/warmpath/warmpath/pick"

// The simple policies.
const (
	ReasonConsistentHash         pick.Reason = "consistent_hash"          // first in the conversation's order
	ReasonConsistentHashOverflow pick.Reason = "consistent_hash_overflow" // the first with room; those before it had none
	ReasonLeastRequests          pick.Reason = "least_requests"           // fewest outstanding requests per weight
	ReasonLeastTokens            pick.Reason = "least_tokens"             // fewest tokens still to compute per weight
	ReasonPowerOfTwo             pick.Reason = "power_of_two"             // the less loaded of two that were drawn
	ReasonRandom                 pick.Reason = "random"                   // drawn
	ReasonRendezvous             pick.Reason = "rendezvous"               // first in the conversation's rendezvous order
	ReasonRoundRobin             pick.Reason = "round_robin"              // its turn
)

// The default policy, least_ttft.
const (
	ReasonHome      pick.Reason = "home"       // the conversation's endpoint, and leaving it would not pay
	ReasonLeaves    pick.Reason = "leaves"     // the conversation's endpoint is so busy that computing it again elsewhere is quicker
	ReasonWarm      pick.Reason = "warm"       // it holds more of the prompt than others
	ReasonLeastTTFT pick.Reason = "least_ttft" // the shortest predicted time to first token
	ReasonParent    pick.Reason = "parent"     // the endpoint of the conversation that started this one, which is about as quick
	ReasonSpread    pick.Reason = "spread"     // several are as quick; the one given the fewest conversations of late
)

// The rules of other routers and of papers.
const (
	ReasonCacheMatch pick.Reason = "cache_match" // it holds enough of the prompt
	ReasonLoad       pick.Reason = "load"        // least loaded, by the rule's measure
	ReasonHash       pick.Reason = "hash"        // where the hash of the session or of the prompt falls
	ReasonScore      pick.Reason = "score"       // the best by a score of several figures
)

// Reasons lists every reason a decision can have: those of the router, then those of the policies.
func Reasons() []pick.Reason {
	return []pick.Reason{
		pick.ReasonOnly,
		pick.ReasonPinned,
		pick.ReasonHolder,
		pick.ReasonSession,
		pick.ReasonWeighed,
		ReasonConsistentHash,
		ReasonConsistentHashOverflow,
		ReasonLeastRequests,
		ReasonLeastTokens,
		ReasonHome,
		ReasonLeaves,
		ReasonLeastTTFT,
		ReasonWarm,
		ReasonParent,
		ReasonSpread,
		ReasonPowerOfTwo,
		ReasonRandom,
		ReasonRendezvous,
		ReasonRoundRobin,
		ReasonCacheMatch,
		ReasonLoad,
		ReasonHash,
		ReasonScore,
	}
}
