package policy

import (
	"github.com/warmpath/warmpath/pick"
)

// Reasons lists every reason a decision can have: those common to all policies, then each policy's own. The set is
// closed, so it can be a metric label.
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
