package engine

import "time"

// An engine that answers from a prompt that another one has computed does so as vLLM does with a connector that loads in the
// background (v1/core/sched/scheduler.py, WAITING_FOR_REMOTE_KVS): when a job's turn comes and there is room, it is given blocks for the
// whole prompt; what of it is in the cache is used, the rest is fetched; the job then waits beside the others, without a slot, and when
// all has come it is the first to be admitted. Its last token is computed, since that gives the first token of the answer.

// Fetch is what a job needs of the KV cache that another engine holds.
type Fetch struct {
	ID     uint64
	Tokens int // 0 when the engine has the prompt but for a few tokens, which it computes
}

// fetchLeast is how many tokens are worth fetching; less than that is computed (vLLM's kv_recompute_threshold).
const fetchLeast = 64

// Fetches is what is to be fetched since the last call, in order. The blocks are there. The slice is valid until the next call.
func (e *Engine) Fetches() []Fetch {
	e.given, e.wanted = e.wanted, e.given[:0]
	return e.given
}

// Arrived says that what a job asked for has come: it is the next to be admitted. It reports whether the job was waiting for that.
func (e *Engine) Arrived(now time.Time, id uint64) bool {
	s := e.jobs[id]
	if s == nil || !s.fetching {
		return false
	}
	e.drop(&e.coming, s)
	s.fetching, s.fetched = false, true
	e.stats.FetchedTokens += uint64(s.job.PromptTokens - s.computed)
	s.computed = s.job.PromptTokens - 1
	e.publish(s)
	e.waiting = append(e.waiting, nil)
	copy(e.waiting[1:], e.waiting)
	e.waiting[0] = s
	e.Wake(now)
	return true
}

// Release gives back the blocks that a job with Keep holds since it is done, and reports whether it held any.
func (e *Engine) Release(now time.Time, id uint64) bool {
	blocks, ok := e.handing[id]
	if !ok {
		return false
	}
	delete(e.handing, id)
	e.cache.releaseAll(blocks)
	e.Wake(now)
	return true
}

// Wake begins a step if the engine idles while a job waits that has room now: blocks that were held for others have come free.
func (e *Engine) Wake(now time.Time) {
	if !e.stepping && len(e.waiting) > 0 {
		e.startStep(now)
	}
}

// wantsFetch says whether a job waits for room for what it will fetch.
func (s *seq) wantsFetch() bool { return s.job.Remote && !s.fetched && s.made == 0 && s.cached < 0 }

// fetch gives a job blocks for its prompt and asks for what is not cached; false when there is no room. A job that needs not fetch is
// left for enter.
func (e *Engine) fetch(s *seq) bool {
	bt := e.cfg.BlockTokens
	prompt := s.job.PromptTokens
	prefix := s.job.Chain[:min(prompt/bt, len(s.job.Chain))]
	hits, keptHits := e.cache.lookup(prefix)
	if prompt-hits*bt < fetchLeast {
		s.job.Remote = false
		e.wanted = append(e.wanted, Fetch{ID: s.job.ID})
		return true
	}
	if (prompt+bt-1)/bt-hits > e.cache.available()-keptHits {
		return false
	}
	s.blocks = e.cache.hold(s.blocks[:0], prefix[:hits])
	for len(s.blocks)*bt < prompt {
		s.blocks = append(s.blocks, e.cache.alloc())
	}
	s.computed, s.named, s.cached = hits*bt, hits, hits*bt
	s.fetching = true
	e.coming = append(e.coming, s)
	e.stats.QueryTokens += uint64(prompt)
	e.stats.HitTokens += uint64(s.computed)
	e.wanted = append(e.wanted, Fetch{ID: s.job.ID, Tokens: prompt - s.computed})
	return true
}

// handOver keeps the blocks of a job that is done for who will fetch them.
func (e *Engine) handOver(s *seq) {
	if s.job.Keep {
		e.handing[s.job.ID] = append([]int32(nil), s.blocks...)
		s.blocks = s.blocks[:0]
	}
}
