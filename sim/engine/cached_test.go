package engine

// Cached is the number of tokens of a prompt with this chain that are cached now, including host memory.
func (e *Engine) Cached(chain []uint64) int {
	hits := e.cache.reach(chain)
	return (hits + e.inHost(chain[hits:])) * e.cfg.BlockTokens
}
