package engine

import "time"

// An engine that answers from a prompt computed elsewhere behaves as vLLM does with a connector that loads in the
// background (v1/core/sched/scheduler.py, WAITING_FOR_REMOTE_KVS): when it is a job's turn and there is room, it gets
// blocks for the whole prompt; cached blocks are used, the rest is fetched; the job then waits without a slot, and is
// admitted first when all has arrived. Its last token is computed, since that yields the first token of the answer.

// Fetch is what a job needs from another engine's KV cache.
type Fetch struct {
	ID     uint64
	Tokens int // 0 if the engine has all but a few tokens of the prompt, which it computes
}

// fetchLeast is the minimum number of tokens worth fetching; fewer are computed (vLLM's kv_recompute_threshold).
const fetchLeast = 64

// Fetches returns the requests since the last call, in order. Their blocks are allocated. The slice is valid until the
// next call.
func (e *Engine) Fetches() []Fetch {
	e.given, e.wanted = e.wanted, e.given[:0]
	return e.given
}

// Arrived means that the content requested by a job has arrived: it is admitted next. It reports whether the job was
// waiting for that.
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

// Release frees the blocks that a finished job with Keep holds, and reports whether it held any.
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

// Wake starts a step if the engine is idle while a job waits that has room now, after blocks held for others were
// freed.
func (e *Engine) Wake(now time.Time) {
	if !e.stepping && len(e.waiting) > 0 {
		e.next(now)
	}
}

// wantsFetch says whether a job waits for room for its fetch.
func (s *seq) wantsFetch() bool { return s.job.Remote && !s.fetched && s.made == 0 && s.cached < 0 }

// fetch allocates blocks for a job's prompt and requests what is not cached; false without room. A job that need not
// fetch is left for enter.
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

// handOver keeps the blocks of a finished job for another engine.
func (e *Engine) handOver(s *seq) {
	if s.job.Keep {
		e.handing[s.job.ID] = append([]int32(nil), s.blocks...)
		s.blocks = s.blocks[:0]
	}
}
