package backlog

import (
	"slices"
	"sort"
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/bound"
)

// prompts are those sent to an endpoint and not computed, in order of arrival.
type prompts struct {
	until        time.Time // when all of them are expected to be computed
	at           time.Time // latest moment from which that was reckoned; see latest
	streamTokens int64     // uncached tokens of streams without a first byte
	streams      int       // number of these streams
	head         int64     // uncached tokens of the first of them, as far as known
	nonStreaming nonStreaming
	arrivals     *arrivalRing
}

// The end of prefill of a non-streamed answer is not observed. Engines compute prompts in order of arrival, so it has
// ended once a later prompt is computed or the answer has come.

// nonStreaming are the prompts of non-streamed answers.
type nonStreaming struct {
	queued    int64    // uncached tokens of all prompts ever sent to the endpoint
	open      []uint32 // jobs whose prompts are not known to be computed, in order of arrival
	tokens    int64    // tokens of these
	between   int64    // tokens of those computed since the last first byte of a stream
	ambiguous bool     // some were queued behind that stream and may have been computed in the same step
	delayed   delay    // the latest
}

// delay is by what the expected times of non-streamed answers were postponed.
type delay struct {
	until    time.Time
	perToken float64
	queued   int64
}

// arrivalRing is a ring of the latest arrivals of prompts, for Job.Soon.
type arrivalRing struct {
	at   [bound.Few]time.Time
	end  [bound.Few]int64 // end of each in the queue, in tokens
	next int
}

func (c *arrivalRing) note(now time.Time, end int64) {
	if last := c.at[(c.next+bound.Few-1)%bound.Few]; now.Before(last) {
		now = last // another router's, heard of late
	}
	c.at[c.next], c.end[c.next] = now, end
	c.next = (c.next + 1) % bound.Few
}

// by is the end of the queue at a time; ok is false for times before the oldest arrival.
func (c *arrivalRing) by(t time.Time) (end int64, ok bool) {
	for n := range bound.Few { // newest first: the end only grows
		if i := (c.next + bound.Few - 1 - n) % bound.Few; !c.at[i].After(t) {
			return c.end[i], true
		}
	}
	return 0, false
}

// soon is how many tokens arrived within half of a job's expected prefill time after it.
func (p *prompts) soon(j *Job) (tokens float64, ok bool) {
	half := fleet.Duration(float64(float64(j.Prefill)*j.MsPerToken) / 2)
	end, ok := p.arrivals.by(j.Sent.Add(half))
	return max(0, float64(end-j.End)), ok
}

// latest is a moment, or a later one from which until was reckoned: of what happens at other routers, this one hears
// late.
func (p *prompts) latest(at time.Time) time.Time {
	p.at = fleet.Later(p.at, at)
	return p.at
}

// push appends a job's prompt and returns the expected ms of its prefill.
func (e *endpoint) push(now time.Time, j *Job) (took float64) {
	p := &e.prompts
	e.prompting(now)
	took = float64(float64(j.Prefill) * max(j.MsPerToken, 0))
	p.until = fleet.Later(p.until, now)
	p.addPrompt(now, j, fleet.Ms(p.until.Sub(now)))
	p.until = p.until.Add(fleet.Duration(took))
	if j.Stream {
		if p.streams == 0 {
			p.head = j.Prefill
		}
		p.streamTokens += j.Prefill
		p.streams++
	}
	return took
}

// addPrompt records the position of a job's prompt in the queue; front is the expected ms of the prompts in front.
func (p *prompts) addPrompt(now time.Time, j *Job, front float64) {
	w := &p.nonStreaming
	if j.Stream && p.streams == 0 {
		// Its first byte measures what is computed from now on. The prompts in front are done as far as is known.
		w.between, w.ambiguous = 0, false
		if front <= 0 {
			w.open, w.tokens = w.open[:0], 0
		}
	}
	w.queued += j.Prefill
	j.End, j.TokensBefore = w.queued, float64(front/max(j.MsPerToken, LeastMsPerToken))
	p.arrivals.note(now, j.End)
	if !j.Stream {
		w.open = append(w.open, j.n)
		w.tokens += j.Prefill
		j.ready = p.until.Add(fleet.Duration(float64(float64(j.Prefill) * j.MsPerToken)))
	}
}

// computedStream removes the computed prompt of a stream and records what its first byte shows.
func (t *Table) computedStream(e *endpoint, j *Job) {
	w := &e.prompts.nonStreaming
	j.Timed, j.Between = true, w.between+t.computedUpTo(w, j.End)
	ambiguous := w.ambiguous
	w.between, w.ambiguous = 0, len(w.open) > 0
	j.Ambiguous = ambiguous || w.ambiguous || e.places > 0 && e.sent()-len(e.pendingTransfers) > e.places
	if j.CachedTokens == 0 {
		j.Soon, j.SoonKnown = e.prompts.soon(j)
	}
	e.prompts.removeStream(j)
}

// withdrawStream removes the prompt of a stream that ends without an answer.
func (t *Table) withdrawStream(now time.Time, e *endpoint, j *Job) {
	p := &e.prompts
	until := p.until
	p.removeStream(j)
	perToken := t.rates.MsPerToken(j.Slot)
	p.until = p.latest(now).Add(p.remaining(perToken))
	if p.nonStreaming.tokens > 0 && p.until.After(until) { // the engine's progress is unknown
		p.until = until
	}
	t.delayNonStreaming(p, perToken)
}

// removeStream removes a stream's prompt from the counts.
func (p *prompts) removeStream(j *Job) {
	p.streamTokens -= j.Prefill
	p.streams--
	p.head = p.streamTokens / int64(max(p.streams, 1))
}

// remaining is the time for all prompts left.
func (p *prompts) remaining(perToken float64) time.Duration {
	return fleet.Duration(float64(float64(p.streamTokens+p.nonStreaming.tokens) * perToken))
}

// Rebase recomputes when the remaining prompts are expected to be done, from now on and at the latest speed.
func (t *Table) Rebase(now time.Time, slot int) {
	p, perToken := &t.endpoints.Get(slot).prompts, t.rates.MsPerToken(slot)
	p.until = p.latest(now).Add(p.remaining(perToken))
	t.delayNonStreaming(p, perToken)
}

// delayNonStreaming postpones the expected times of non-streamed answers after those in front took longer. Those that
// it has postponed before need it only if more is to be done in front since, or more slowly: streams that end without
// an answer, by thousands, make it less.
func (t *Table) delayNonStreaming(p *prompts, perToken float64) {
	w := &p.nonStreaming
	open, last := w.open, w.delayed
	if !p.until.After(last.until) && perToken >= last.perToken {
		open = open[sort.Search(len(open), func(i int) bool { return t.jobs.Get(int(open[i])).End > last.queued }):]
	}
	for _, n := range open {
		j := t.jobs.Get(int(n))
		j.ready = fleet.Later(j.ready, p.until.Add(-fleet.Duration(float64(float64(w.queued-j.End)*perToken))))
	}
	w.delayed = delay{p.until, perToken, w.queued}
}

// computedUpTo removes the prompts that are computed once the one with this end is, and returns their tokens.
func (t *Table) computedUpTo(w *nonStreaming, end int64) (tokens int64) {
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

// removeNonStreaming removes the prompt of a non-streamed answer that has come or failed.
func (t *Table) removeNonStreaming(now time.Time, e *endpoint, j *Job) {
	p := &e.prompts
	w := &p.nonStreaming
	if j.computed {
		w.between += t.computedUpTo(w, j.End)
	} else if i := slices.Index(w.open, j.n); i >= 0 {
		w.open = slices.Delete(w.open, i, i+1)
		w.tokens -= j.Prefill
	}
	perToken := t.rates.MsPerToken(j.Slot)
	p.until = fleet.Earlier(p.until, p.latest(now).Add(p.remaining(perToken)))
	if j.computed {
		behind, left := float64(w.queued-j.End), max(0, fleet.Ms(p.until.Sub(now)))
		j.TokensAfter = max(0, behind-float64(left/max(perToken, LeastMsPerToken)))
	}
}

// lateNonStreaming is the overdue ms of the oldest pending non-streamed prefill, by which later prompts may be late
// too. The answer may take fit.Outlier times its expected duration before it is late.
func (t *Table) lateNonStreaming(p *prompts, now time.Time, perToken float64) float64 {
	w := &p.nonStreaming
	if len(w.open) == 0 {
		return 0
	}
	j := t.jobs.Get(int(w.open[0]))
	return min(
		fleet.Ms(now.Sub(j.ready))-float64(fit.Outlier*float64(j.decode)*t.rates.MsPerAnswer(j.Slot)),
		float64(float64(fit.Outlier*w.tokens)*perToken),
	)
}

// unfinished is the number of prompts not yet computed, if all of them are done in left ms, and when the first of them
// is.
func (t *Table) unfinished(p *prompts, left, perToken float64) (n int, first float64) {
	first = max(0, left-float64(float64(p.streamTokens-p.head)*perToken))
	n, w := p.streams, &p.nonStreaming
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
