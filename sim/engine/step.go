package engine

import (
	"slices"
	"time"
)

// startStep plans the next step at now: what each running job computes, who is admitted, and how long it takes. With
// nothing to compute the engine goes idle.
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
			continue // no budget left for its prompt in this step
		}
		ok, p := e.room(s, s.computed+n)
		preempted = preempted || p
		if !ok {
			continue // it was itself the youngest and gave way; it is no longer in running
		}
		s.plan = n
		if prefill {
			budget -= n
		}
	}
	if !preempted && !e.cfg.SlotOrder {
		e.admit(&budget)
	}
	prefill, seqs := 0, 0
	for _, s := range e.running {
		if s.plan == 0 {
			continue
		}
		seqs++
		if s.plan > 1 || s.made == 0 {
			prefill += s.plan
		}
	}
	e.stepping = seqs > 0
	if !e.stepping {
		return
	}
	e.stats.PrefillTokens += uint64(prefill)
	e.stepStart = now
	e.stepEnd = now.Add(e.stepTime(prefill, seqs))
}

// stepTime is StepBase + StepPerSeq for each sequence + the prompt tokens at the prefill rate + those that come back from host
// memory at its rate, with jitter.
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

// room sees that a running job has blocks for so many tokens. When every block is held, the youngest running job is
// preempted until there is one; ok is false when that was the job itself.
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

// preempt puts the youngest running job back to the head of the queue; it will be computed again from whatever the
// cache still holds of it.
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

// admit moves waiting jobs into the step in order of arrival while there are slots, budget and blocks. A job that
// waits for its lane is passed over; one that waits for blocks holds up all after it, so that a long prompt is not
// starved by short ones.
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

// enter admits one job: it takes the blocks of its prompt that the cache has, and room for its first chunk. A prompt
// found whole is computed for its last block all the same, since an engine needs at least one token to compute.
// Admission asks for room for the whole prompt, or two long prompts would push each other out in turns.
func (e *Engine) enter(s *seq, budget *int) bool {
	bt := e.cfg.BlockTokens
	target := s.target()
	if s.fetched {
		s.plan = target - s.computed
		*budget -= s.plan
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
	*budget -= s.plan
	for len(s.blocks)*bt < s.computed+s.plan {
		s.blocks = append(s.blocks, e.cache.alloc())
	}
	e.begin(s)
	e.stats.QueryTokens += uint64(target)
	e.stats.HitTokens += uint64(s.computed)
	return true
}

// begin puts a job behind those that run, or into the lowest free slot.
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

// bringBack gives a job blocks with content from host memory. It stays there too, and is the latest to be forgotten: its last
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

// endStep books what the step computed and reports it.
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

// publish names the blocks that are full now, which makes them reusable by others.
func (e *Engine) publish(s *seq) {
	full := min(s.computed/e.cfg.BlockTokens, len(s.job.Chain))
	for ; s.named < full; s.named++ {
		s.blocks[s.named] = e.cache.publish(s.blocks[s.named], s.job.Chain[s.named])
	}
}

// produce reports the next token of a job whose tokens so far are all computed, and says whether the job is over.
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
