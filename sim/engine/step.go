package engine

import (
	"slices"
	"time"
)

// startStep plans the next step: what each running job computes, which jobs are admitted, and how long it takes.
// Without work the engine becomes idle.
func (e *Engine) startStep(now time.Time) {
	budget := e.cfg.ChunkTokens
	e.loading = 0
	preempted := false
	if e.cfg.SlotOrder {
		none := 0
		e.admit(&none)
	}
	for i := 0; i < len(e.running); i++ {
		s := e.running[i]
		s.plan = 0
		n := s.target() - s.computed
		prefill := n > 1 || s.made == 0
		if prefill {
			n = min(n, budget)
		}
		if n == 0 {
			continue // no budget left for its prompt
		}
		ok, p := e.room(s, s.computed+n)
		preempted = preempted || p
		if !ok {
			continue // it was the youngest itself and was preempted
		}
		s.plan = n
		if prefill {
			e.spend(&budget, n)
		}
	}
	if !preempted && !e.cfg.SlotOrder {
		e.admit(&budget)
	}
	prefill, longest, seqs := 0, 0, 0
	for _, s := range e.running {
		if s.plan == 0 {
			continue
		}
		seqs++
		if s.plan > 1 || s.made == 0 {
			prefill += s.plan
			longest = max(longest, s.plan)
		}
	}
	e.stepping = seqs > 0
	if !e.stepping {
		return
	}
	e.stats.PrefillTokens += uint64(prefill)
	if e.cfg.AtOnce {
		prefill = longest
	}
	e.stepStart = now
	e.stepEnd = now.Add(e.stepTime(prefill, seqs))
}

// spend subtracts prompt tokens from a step's budget.
func (e *Engine) spend(budget *int, tokens int) {
	if !e.cfg.AtOnce {
		*budget -= tokens
	}
}

// stepTime is StepBase + StepPerSeq per sequence + the prompt tokens at the prefill rate + restored tokens at the
// host's rate, with jitter.
func (e *Engine) stepTime(prefillTokens, seqs int) time.Duration {
	d := e.cfg.StepBase + time.Duration(seqs)*e.cfg.StepPerSeq +
		time.Duration(float64(prefillTokens)/e.cfg.PrefillTokensPerSecond*float64(time.Second))
	if e.loading > 0 {
		d += time.Duration(float64(e.loading) / e.cfg.HostTokensPerSecond * float64(time.Second))
	}
	if e.cfg.Jitter > 0 {
		d = time.Duration(float64(d) * (1 + float64(e.cfg.Jitter*(float64(2*e.rng.Float64())-1))))
	}
	if e.pace > 0 {
		d = time.Duration(float64(d) * e.pace)
	}
	return max(d, 1)
}

// room allocates blocks so that a running job has enough for this many tokens. If every block is held, the youngest
// running job is preempted until there is one; ok is false if that was the job itself.
func (e *Engine) room(s *seq, tokens int) (ok, preempted bool) {
	for len(s.blocks)*e.cfg.BlockTokens < tokens {
		b := e.cache.alloc()
		if b != 0 {
			s.blocks = append(s.blocks, b)
			continue
		}
		victim := e.running[len(e.running)-1]
		e.preempt(victim)
		preempted = true
		if victim == s {
			return false, true
		}
	}
	return true, preempted
}

// preempt moves the youngest running job to the head of the queue; it will be recomputed from what the cache still has.
func (e *Engine) preempt(s *seq) {
	e.running = e.running[:len(e.running)-1]
	e.cache.releaseAll(s.blocks)
	s.blocks = s.blocks[:0]
	s.computed, s.named, s.plan = 0, 0, 0
	s.running, s.fetched = false, false
	e.waiting = append(e.waiting, nil)
	copy(e.waiting[1:], e.waiting)
	e.waiting[0] = s
	e.stats.Preemptions++
}

// admit moves waiting jobs into the step in order of arrival while there are slots, budget and blocks. A job that waits
// for its lane is skipped; one that waits for blocks blocks all after it, so that short prompts do not starve a long
// one.
func (e *Engine) admit(budget *int) {
	keep := 0
	i := 0
	for ; i < len(e.waiting) && len(e.running) < e.cfg.Slots && (*budget > 0 || e.cfg.SlotOrder); i++ {
		s := e.waiting[i]
		if s.job.Lane != 0 && e.laneBusy(s.job.Lane) {
			e.waiting[keep] = s
			keep++
			continue
		}
		if s.wantsFetch() {
			if !e.fetch(s) {
				break
			}
			if s.fetching {
				continue
			}
		}
		if !e.enter(s, budget) {
			break
		}
	}
	if keep == i {
		return
	}
	n := copy(e.waiting[keep:], e.waiting[i:])
	clear(e.waiting[keep+n:])
	e.waiting = e.waiting[:keep+n]
}

// enter admits one job: it takes its prompt's cached blocks, and room for its first chunk. Of a fully cached prompt the
// last block is computed, since an engine needs at least one token to compute. Admission requires room for the whole
// prompt, or two long prompts would evict each other in turns.
func (e *Engine) enter(s *seq, budget *int) bool {
	bt := e.cfg.BlockTokens
	target := s.target()
	if s.fetched {
		s.plan = target - s.computed
		e.spend(budget, s.plan)
		e.begin(s)
		return true
	}
	prefix := s.job.Chain[:min((target-1)/bt, len(s.job.Chain))]
	hits, keptHits := e.cache.lookup(prefix)
	need := (target+bt-1)/bt - hits
	if need > e.cache.available()-keptHits {
		return false
	}
	back := e.inHost(prefix[hits:])
	s.blocks = e.cache.hold(s.blocks[:0], prefix[:hits])
	e.bringBack(s, prefix[hits:hits+back])
	hits += back
	s.computed, s.named = hits*bt, hits
	if s.cached < 0 {
		s.cached = s.computed
		e.stats.HostTokens += uint64(back * bt)
	}
	s.plan = min(target-s.computed, *budget)
	e.spend(budget, s.plan)
	for len(s.blocks)*bt < s.computed+s.plan {
		s.blocks = append(s.blocks, e.cache.alloc())
	}
	e.begin(s)
	e.stats.QueryTokens += uint64(target)
	e.stats.HitTokens += uint64(s.computed)
	return true
}

// begin adds a job to the running ones, or to the lowest free slot.
func (e *Engine) begin(s *seq) {
	s.running = true
	at := len(e.running)
	if e.cfg.SlotOrder {
		at = 0
		for at < len(e.running) && e.running[at].place == at {
			at++
		}
		s.place = at
	}
	e.running = slices.Insert(e.running, at, s)
}

// bringBack restores blocks of a job from host memory. They stay there too, as the last to be evicted: the job's last
// block first, as in the cache.
func (e *Engine) bringBack(s *seq, chain []uint64) {
	for i := len(chain) - 1; i >= 0; i-- {
		e.host.keep(chain[i])
	}
	for _, hash := range chain {
		s.blocks = append(s.blocks, e.cache.publish(e.cache.alloc(), hash))
	}
	e.loading += len(chain) * e.cfg.BlockTokens
}

func (e *Engine) laneBusy(lane uint32) bool {
	for _, s := range e.running {
		if s.job.Lane == lane {
			return true
		}
	}
	return false
}

// endStep applies the step's results and reports them.
func (e *Engine) endStep() {
	e.stats.Steps++
	e.stats.Busy += e.stepEnd.Sub(e.stepStart)
	keep := 0
	for _, s := range e.running {
		s.computed += s.plan
		s.plan = 0
		e.publish(s)
		if s.computed == s.target() && e.produce(s) {
			e.handOver(s)
			e.end(s)
			continue
		}
		e.running[keep] = s
		keep++
	}
	clear(e.running[keep:])
	e.running = e.running[:keep]
}

// publish names the blocks that are full now, so that others can reuse them.
func (e *Engine) publish(s *seq) {
	full := min(s.computed/e.cfg.BlockTokens, len(s.job.Chain))
	for ; s.named < full; s.named++ {
		s.blocks[s.named] = e.cache.publish(s.blocks[s.named], s.job.Chain[s.named])
	}
}

// produce reports the next token of a job whose tokens are all computed, and whether the job is over.
func (e *Engine) produce(s *seq) bool {
	if s.made == 0 {
		e.emit(Emission{ID: s.job.ID, Kind: Prefilled, CachedTokens: s.cached})
		e.stats.PromptTokens += uint64(s.job.PromptTokens)
		e.stats.CachedTokens += uint64(s.cached)
	}
	if s.made < s.job.OutputTokens {
		e.emit(Emission{ID: s.job.ID, Kind: Token, Index: s.made})
		s.made++
		e.stats.OutputTokens++
	}
	if s.made < s.job.OutputTokens {
		return false
	}
	e.emit(Emission{ID: s.job.ID, Kind: Done, Index: s.made, CachedTokens: s.cached})
	e.stats.Finished++
	return true
}

func (e *Engine) emit(em Emission) {
	em.At = e.stepEnd
	e.out = append(e.out, em)
}
