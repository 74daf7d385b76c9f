package engine

// Change is a block of content that came into the cache of an engine, or went.
type Change struct {
	Hash   uint64 // as in Job.Chain
	Stored bool   // it came
}

// news is the changes that nobody was told of yet, kept for who watches only.
type news struct {
	on      bool
	changes []Change
	given   []Change
}

func (n *news) add(hash uint64, stored bool) {
	if n.on {
		n.changes = append(n.changes, Change{hash, stored})
	}
}

// Watch has the engine keep what comes into its cache and goes for Changes. Who watches must ask for them, since they pile up.
func (e *Engine) Watch() { e.cache.news.on = true }

// Changes is what came into the cache and went since the last call, in order. The slice is valid until the next call. A restart
// (Clear) is not among them.
func (e *Engine) Changes() []Change {
	n := &e.cache.news
	n.given, n.changes = n.changes, n.given[:0]
	return n.given
}
