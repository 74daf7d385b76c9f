package engine

// Cached says how many tokens of a prompt with this chain are in the cache now, in host memory included.
func (e *Engine) Cached(chain []uint64) int {
	hits := e.cache.reach(chain)
	return (hits + e.inHost(chain[hits:])) * e.cfg.BlockTokens
}
