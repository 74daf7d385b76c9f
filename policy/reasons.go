package policy

import "github.com/warmpath/warmpath/route"

// Reasons lists every reason a decision can have: those common to all policies, then each policy's own. The set is
// closed, so it can be a metric label.
func Reasons() []route.Reason {
	return []route.Reason{
		route.ReasonOnly,
		route.ReasonPinned,
		route.ReasonHolder,
		route.ReasonSession,
		route.ReasonWeighed,
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
