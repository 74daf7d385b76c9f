package engine

// Receive puts blocks of a prompt into the cache that another engine has computed, from the first on as far as there is room,
// and says how many tokens are there then. A job with that chain that is submitted next computes only the rest. What the transfer
// takes of time is for the caller to wait.
func (e *Engine) Receive(chain []uint64) int {
	hits, keptHits := e.cache.lookup(chain)
	n := hits + min(len(chain)-hits, e.cache.available()-keptHits)
	for i := n - 1; i >= 0; i-- { // the first blocks are the last to be evicted, as in any chain
		e.cache.keep(chain[i])
	}
	return n * e.cfg.BlockTokens
}
