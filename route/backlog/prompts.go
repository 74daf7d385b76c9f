package backlog

import (
	"slices"
	"time"
)

// prompts are those that an endpoint was sent and has not computed, in order of arrival.
type prompts struct {
	until   time.Time // when all of them are expected to be computed
	ahead   int64     // uncached tokens of streams whose first byte has not come
	streams int       // such streams
	head    int64     // uncached tokens of the first of them, as far as known
	wholes  wholes
	came    *came
}

// Of an answer that comes as a whole nobody sees when its prompt was computed. Engines compute prompts in order of arrival, so that much
// is known of it: when a prompt behind it is computed, or when its own answer has come, all prompts in front of it are computed too.

// wholes are the prompts of such answers.
type wholes struct {
	queued  int64    // uncached tokens of all prompts that the endpoint was ever sent
	open    []uint32 // jobs whose prompts are not known to be computed, in order of arrival
	tokens  int64    // of these
	between int64    // of those that were computed since the latest first byte of a stream
	blurred bool     // some were in the queue behind that stream, and may have been computed in one step with it
}

const (
	longAnswer = 3  // times as long as expected that an answer may be without being late
	mostLate   = 4  // times as long as expected that what is late may still take
	ringCame   = 64 // prompts that may come soon after one and count
)

// came is when prompts arrived, the latest ones.
type came struct {
	at   [ringCame]time.Time
	end  [ringCame]int64 // where each ends in the queue
	next int
}

func (c *came) note(now time.Time, end int64) {
	c.at[c.next], c.end[c.next] = now, end
	c.next = (c.next + 1) % ringCame
}

// by is where the queue ended at a time; ok is false for one before all that are known.
func (c *came) by(t time.Time) (end int64, ok bool) {
	for n := range ringCame { // the newest first: where the queue ends only grows
		if i := (c.next + ringCame - 1 - n) % ringCame; !c.at[i].After(t) {
			return c.end[i], true
		}
	}
	return 0, false
}

// soon is how many tokens came behind a job within half of its expected time.
func (p *prompts) soon(j *Job) (tokens float64, ok bool) {
	half := time.Duration(float64(float64(j.Prefill)*j.MsPerToken) / 2 * 1e6)
	end, ok := p.came.by(j.Sent.Add(half))
	return max(0, float64(end-j.End)), ok
}

// push puts a job's prompt behind those that are there, and returns how many ms it takes.
func (e *endpoint) push(now time.Time, n uint32, j *Job) (took float64) {
	p := &e.prompts
	e.prompting(now)
	took = float64(float64(j.Prefill) * max(j.MsPerToken, 0))
	if p.until.Before(now) {
		p.until = now
	}
	p.enter(now, n, j, Ms(p.until.Sub(now)))
	p.until = p.until.Add(duration(took))
	if j.Stream {
		if p.streams == 0 {
			p.head = j.Prefill
		}
		p.ahead += j.Prefill
		p.streams++
	}
	return took
}

// enter notes where a job's prompt is in the queue, with so many ms of others in front of it by what was expected of them.
func (p *prompts) enter(now time.Time, n uint32, j *Job, front float64) {
	w := &p.wholes
	if j.Stream && p.streams == 0 {
		// Its first byte tells the time of what is computed from now on. What was in front is done, as far as can be told.
		w.between, w.blurred = 0, false
		if front <= 0 {
			w.open, w.tokens = w.open[:0], 0
		}
	}
	w.queued += j.Prefill
	j.End, j.Front = w.queued, float64(front/max(j.MsPerToken, LeastMsPerToken))
	p.came.note(now, j.End)
	if !j.Stream {
		w.open = append(w.open, n)
		w.tokens += j.Prefill
		j.ready = p.until.Add(time.Duration(float64(float64(j.Prefill)*j.MsPerToken) * 1e6))
	}
}

// computedStream takes out the prompt of a stream that is computed, and notes what its first byte tells.
func (t *Table) computedStream(e *endpoint, j *Job) {
	w := &e.prompts.wholes
	j.Timed, j.Between = true, w.between+t.pass(w, j.End)
	blurred := w.blurred
	w.between, w.blurred = 0, len(w.open) > 0
	j.Blurred = blurred || w.blurred || e.places > 0 && e.sent()-len(e.coming) > e.places
	if j.CachedTokens == 0 {
		j.Soon, j.SoonKnown = e.prompts.soon(j)
	}
	e.prompts.pop(j)
}

// withdrawStream takes out the prompt of a stream that ends without an answer.
func (t *Table) withdrawStream(now time.Time, e *endpoint, j *Job, rates Rates) {
	p := &e.prompts
	until := p.until
	p.pop(j)
	perToken := rates.MsPerToken(j.Slot)
	p.until = now.Add(p.remaining(perToken))
	if p.wholes.tokens > 0 && p.until.After(until) { // nothing tells how far the engine has got
		p.until = until
	}
	t.delay(p, perToken)
}

// pop takes a stream's prompt out of the counts.
func (p *prompts) pop(j *Job) {
	p.ahead -= j.Prefill
	p.streams--
	p.head = p.ahead / int64(max(p.streams, 1))
}

// remaining is how long all that is there takes.
func (p *prompts) remaining(perToken float64) time.Duration {
	return time.Duration(float64(float64(p.ahead+p.wholes.tokens)*perToken) * 1e6)
}

// Rebase expects what an endpoint has left to be computed at the speed that is known of it now, starting now.
func (t *Table) Rebase(now time.Time, slot int, rates Rates) {
	p, perToken := &t.endpoints.Get(slot).prompts, rates.MsPerToken(slot)
	p.until = now.Add(p.remaining(perToken))
	t.delay(p, perToken)
}

// delay puts off when answers that come as a whole are expected, since those in front of them took longer than expected.
func (t *Table) delay(p *prompts, perToken float64) {
	for _, n := range p.wholes.open {
		j := t.jobs.Get(int(n))
		if at := p.until.Add(-time.Duration(float64(float64(p.wholes.queued-j.End)*perToken) * 1e6)); at.After(j.ready) {
			j.ready = at
		}
	}
}

// pass takes out those that are known to be computed when the prompt is that ends so far in the queue, and returns their tokens.
func (t *Table) pass(w *wholes, end int64) (tokens int64) {
	n := 0
	for n < len(w.open) {
		j := t.jobs.Get(int(w.open[n]))
		if j.End > end {
			break
		}
		tokens += j.Prefill
		n++
	}
	w.open = slices.Delete(w.open, 0, n)
	w.tokens -= tokens
	return tokens
}

// leaves takes out the prompt of an answer that comes as a whole: the answer is there, or there will be none.
func (t *Table) leaves(now time.Time, e *endpoint, n uint32, j *Job, rates Rates) {
	p := &e.prompts
	w := &p.wholes
	if j.computed {
		w.between += t.pass(w, j.End)
	} else if i := slices.Index(w.open, n); i >= 0 {
		w.open = slices.Delete(w.open, i, i+1)
		w.tokens -= j.Prefill
	}
	perToken := rates.MsPerToken(j.Slot)
	if most := now.Add(p.remaining(perToken)); p.until.After(most) {
		p.until = most
	}
	if j.computed {
		behind, left := float64(w.queued-j.End), max(0, Ms(p.until.Sub(now)))
		j.Behind = max(0, behind-float64(left/max(perToken, LeastMsPerToken)))
	}
}

// lateWhole is how late the first answer is that comes as a whole and whose prompt is not known to be computed, in ms: the prompts behind
// it may be as late. An answer of thrice the length that was expected is not late.
func (t *Table) lateWhole(p *prompts, now time.Time, perToken float64, rates Rates) float64 {
	w := &p.wholes
	if len(w.open) == 0 {
		return 0
	}
	j := t.jobs.Get(int(w.open[0]))
	return min(Ms(now.Sub(j.ready))-float64(longAnswer*float64(j.decode)*rates.MsPerAnswer(j.Slot)), float64(float64(mostLate*w.tokens)*perToken))
}

// unfinished is how many prompts are being computed or wait to be, when all of them are computed in left ms, and when the first of them is.
func (t *Table) unfinished(p *prompts, left, perToken float64) (n int, first float64) {
	first = max(0, left-float64(float64(p.ahead-p.head)*perToken))
	n, w := p.streams, &p.wholes
	computed := w.queued - int64(left/max(perToken, LeastMsPerToken))
	for i := len(w.open) - 1; i >= 0; i-- {
		end := t.jobs.Get(int(w.open[i])).End
		if end <= computed {
			break
		}
		n, first = n+1, min(first, float64(float64(end-computed)*perToken))
	}
	return n, first
}
