package engine

// Receive puts a prompt's blocks computed by another engine into the cache, from the first on as far as there is room,
// and returns how many tokens are cached then. A job with that chain submitted next computes only the rest. The caller
// accounts for the transfer time.
func (e *Engine) Receive(chain []uint64) int {
	hits, keptHits := e.cache.lookup(chain)
	n := hits + min(len(chain)-hits, e.cache.available()-keptHits)
	for i := n - 1; i >= 0; i-- { // the first blocks are evicted last, as in any chain
		e.cache.keep(chain[i])
	}
	return n * e.cfg.BlockTokens
}
