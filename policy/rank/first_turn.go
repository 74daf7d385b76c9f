package rank

import (
	"github.com/warmpath/warmpath/pick"
)

// NewFirstTurn makes TensorRT-LLM's rank router as PR 14744 published it: the first turn of a conversation goes to the ranks in
// round robin, later turns, and requests without an id, by the score of kvCacheAware. A system prompt longer than a tenth of a prompt
// opens the gate for everybody, so that new conversations all went where it was first; this is what spreads them.
// is_first_turn is route.View.NewID: the id is not among the last 100,000.
func NewFirstTurn(c Config) pick.Policy {
	kv := makeKVCacheAware(c)
	kv.firstTurns = true
	return &adapter{most: c.MaxActive, router: kv, tokens: tokensToCompute, transfers: c.InTransfer, caches: true}
}
