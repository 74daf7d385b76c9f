package engine

// Change is a content block that entered or left an engine's cache.
type Change struct {
	Hash   uint64 // as in Job.Chain
	Stored bool   // it came
}

// news is the changes not yet returned, recorded for Watch only.
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

// Watch makes the engine record changes of its cache. The caller must fetch them with Changes, since they accumulate.
func (e *Engine) Watch() { e.cache.news.on = true }

// Changes returns the changes since the last call, in order. The slice is valid until the next call. A restart (Clear)
// is not included.
func (e *Engine) Changes() []Change {
	n := &e.cache.news
	n.given, n.changes = n.changes, n.given[:0]
	return n.given
}
