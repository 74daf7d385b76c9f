package rank

import (
	"github.com/warmpath/warmpath/pick"
)

// NewFirstTurn makes TensorRT-LLM's rank router of PR 14744: first turns of conversations go to the ranks in round
// robin, later turns and requests without an id by the score of kvCacheAware. A system prompt longer than a tenth of
// the prompt opens the gate for every request, so that all new conversations went where it was cached first; round
// robin spreads them. is_first_turn is View.NewID: the id is not among the last 100,000.
func NewFirstTurn(c Config) pick.Policy {
	kv := makeKVCacheAware(c)
	kv.firstTurns = true
	return &adapter{
		Plain: pick.Plain{Name: "rank.first_turn", Exact: true, Content: true, IDs: true},
		most:  c.MaxActive, router: kv, tokens: tokensToCompute, transfers: c.InTransfer, caches: true,
	}
}
