package backlog

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// Expect fills in the columns WaitMs, LineMs, Behind, Prompts, Decoding, Crowd and CrowdMs. It reads the load, what is cached and
// MsPerToken.
func (r Reader) Expect(v *pick.View, rates Rates) {
	everywhere := v.Everywhere()
	for i := range v.Candidates {
		c := &v.Candidates[i]
		e, hold := r.t.endpoints.Get(c.Slot), rates.HoldMs(c.Slot)
		shared := everywhere
		if v.FirstTurn { // all that a new conversation finds is of others too
			shared = c.CachedTokens
		}
		queued, first, behind := r.t.ahead(v.Now, e, float64(float64(v.PromptTokens-c.CachedTokens)*c.MsPerToken), c.MsPerToken)
		taken := r.t.taken(v.Now, e, hold) + queued
		c.WaitMs, c.LineMs, c.Behind = first+r.t.wait(v.Now, e, c, hold, taken, rates), first, behind
		c.Prompts, c.Decoding = e.prompts.streams, e.decoding()
		c.Crowd, c.CrowdMs = e.occupancy(c, v.PromptTokens-shared+v.OutputTokens, hold)
	}
}

// ExpectDecode fills in WaitMs and LinkMs of decode legs whose prompts are computed in readyMs. whole has the same rows for whole requests:
// a place is waited for at the speed that is in those.
func (r Reader) ExpectDecode(whole, decode *pick.View, readyMs float64, rates Rates) {
	for i := range decode.Candidates {
		c := &decode.Candidates[i]
		wait := r.LegWaitMs(whole.Now, &whole.Candidates[i], rates)
		c.LinkMs = r.LinkMs(whole.Now, c.Slot, rates.Transfer(whole.Now, c.Slot), float64(decode.PromptTokens-c.CachedTokens), readyMs)
		c.WaitMs = max(0, wait-readyMs) + c.LinkMs
	}
}

// LegWaitMs is how long a decode leg would wait now. By the time it comes, those that are coming have a place, or are in front.
func (r Reader) LegWaitMs(now time.Time, c *pick.Candidate, rates Rates) float64 {
	e := r.t.endpoints.Get(c.Slot)
	return r.t.wait(now, e, c, rates.HoldMs(c.Slot), e.sent(), rates)
}

// taken is how many requests stand between a new one and a place at the endpoint: those that have one or wait for one, and those that
// come while the new one would be answered. What comes later finds it gone.
func (t *Table) taken(now time.Time, e *endpoint, hold float64) int {
	if len(e.coming) == 0 { // of every endpoint where nothing is split
		return e.sent()
	}
	n, until := e.sent(), now.Add(duration(hold))
	for _, k := range e.coming {
		if t.jobs.Get(int(k)).due.After(until) {
			n--
		}
	}
	return n
}

// wait is how long a new prompt waits for those in front of it, in ms, and for a place if so many requests take or want one.
func (t *Table) wait(now time.Time, e *endpoint, c *pick.Candidate, hold float64, taken int, rates Rates) float64 {
	p, perToken, left := &e.prompts, c.MsPerToken, 0.0
	if tokens := e.load.PrefillTokens - e.line.tokens; tokens > 0 {
		switch due := Ms(p.until.Sub(now)); {
		case due >= 0:
			left = min(due, float64(float64(tokens)*perToken))
		case p.ahead > 0: // it is late: what is as late as that may take as long again
			left = min(-due, float64(float64(mostLate*p.ahead)*perToken))
		}
		left = max(left, t.lateWhole(p, now, perToken, rates))
	}
	if e.places > 0 && taken >= e.places {
		prompts, first := t.unfinished(p, left, perToken)
		return max(left, place(hold, left, first, prompts, taken, e.places))
	}
	if running := c.Queue - c.Load.Waiting; c.Load.Waiting > 0 && running > 0 { // as the engine reports
		left = max(left, float64(hold*float64(c.Load.Waiting))/float64(running))
	}
	return left
}

// place is how long it takes until a place is free at an endpoint that has as many requests as places or more, when all their
// prompts are computed in left ms and the first of them in first ms. Answers end one by one within hold, and the prompts that have a
// place a hold after they are computed, the first of them not before it is computed as a whole.
func place(hold, left, first float64, prompts, requests, slots int) float64 {
	before := float64(requests - slots + 1)
	answers, each := float64(min(max(requests-prompts, 0), slots)), float64(max(prompts, 1))
	switch {
	case before <= answers:
		return float64(hold*before) / answers
	case before <= float64(slots):
		return hold + first + float64((left-first)*(before-answers))/each
	default:
		return float64((hold + first + float64((left-first)*(float64(slots)-answers))/each) * before / float64(slots))
	}
}

// occupancy is how much of the endpoint's places and memory is taken, and what one more request of so many tokens takes of it, times how
// long it keeps that.
func (e *endpoint) occupancy(c *pick.Candidate, tokens int, hold float64) (share, takesMs float64) {
	var each float64
	if n := e.places; n > 0 {
		share, each = float64(e.load.Requests)/float64(n), 1/float64(n)
	}
	if n := c.CacheTokens; n > 0 {
		share, each = max(share, float64(c.Resident)/float64(n)), max(each, float64(tokens)/float64(n))
	}
	return share, float64(each * hold)
}

const (
	mostTTFT      = 4  // times the predicted time to first token after which an answer may be called overdue
	mostTTFTGuess = 16 // the same where nothing has been learnt of the endpoint itself
	mostLength    = 2  // times what the longest answer that was asked for should take, of those that come as a whole
)

// overdueAt is when the answer of a job is overdue, should its endpoint have given no sign of life; zero for never, as long as nothing
// tells how long it ought to take.
func (t *Table) overdueAt(j *Job, rates Rates) time.Time {
	if t.cfg.Silent < 0 || j.Class != fleet.Turn || j.TTFTMs <= 0 {
		return time.Time{}
	}
	known, times := rates.Known(j.Slot), float64(mostTTFT)
	if !known.Own {
		if times = mostTTFTGuess; !known.Any {
			return time.Time{}
		}
	}
	patience := float64(times * j.TTFTMs)
	if !j.Stream {
		if j.MaxTokens <= 0 || known.MsPerAnswer == 0 {
			return time.Time{}
		}
		patience += float64(float64(mostLength*float64(j.MaxTokens)) * known.MsPerAnswer)
	}
	return j.Sent.Add(t.cfg.Silent + time.Duration(min(patience, 1e9)*1e6))
}

// late reports whether the job's answer is overdue.
func (j *Job) late(now time.Time) bool {
	switch {
	case j.overdue.IsZero():
		return false
	case j.Leg != fleet.LegDecode:
		return !now.Before(j.overdue)
	}
	// It waits for its prefiller until it is handed what it needs.
	return !j.Handed.IsZero() && !now.Before(j.overdue.Add(max(0, j.Handed.Sub(j.due))))
}

// Waiting is the jobs of one endpoint that were sent and have no answer yet.
type Waiting struct {
	Jobs   int
	Since  time.Time // when the first of them was sent
	Late   bool      // an answer is overdue
	Wholes int       // that are not late and whose answers come as a whole
}

// Overdue looks at the jobs that wait for an answer of an endpoint.
func (r Reader) Overdue(now time.Time, slot int) Waiting {
	e, w := r.t.endpoints.Get(slot), Waiting{Since: now}
	for i := range r.t.jobs.Len() {
		j := r.t.jobs.Get(i)
		if !j.open || j.computed || j.Queued || j.Slot != slot || j.incarnation != e.incarnation {
			continue
		}
		w.Jobs++
		if j.late(now) {
			w.Late = true
		} else if !j.Stream {
			w.Wholes++
		}
		if j.Sent.Before(w.Since) {
			w.Since = j.Sent
		}
	}
	return w
}
