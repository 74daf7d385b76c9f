package backlog

import (
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/ablation"
)

// Newcomer is a request that may come to endpoints.
type Newcomer struct {
	Asker
	Now                        time.Time
	PromptTokens, OutputTokens int
}

// Expect says how long a request would wait at an endpoint that holds some of its prompt, of that shared with all
// others, and computes at some pace.
func (r Reader) Expect(q *Newcomer, c *pick.Endpoint, h *pick.Cached, shared int, p *pick.Pace) (w pick.Wait) {
	e, decodeMs := r.t.endpoints.Get(c.Slot), r.t.rates.DecodeMs(c.Slot)
	sent, queued, queuedMs := e.sent(), 0, 0.0
	if e.queue.n > 0 {
		own := float64((float64(q.PromptTokens-h.CachedTokens) + p.Fetching(h.Far)) * p.MsPerToken)
		queued, queuedMs, w.Overtaken = r.t.jobsBefore(q.Now, e, &q.Asker, own, p.MsPerToken)
	}
	competing := r.t.competing(q.Now, e, sent, decodeMs) + queued
	takes := q.PromptTokens - shared + q.OutputTokens
	w.WaitMs = queuedMs + r.t.wait(q.Now, e, c, p.MsPerToken, decodeMs, competing, memory{h.Resident, takes})
	w.Prompts, w.Decoding = e.prompts.streams, e.decoding(sent)
	if !r.t.cfg.Without.Has(ablation.Occupancy) {
		e.occupy(&w, c, h.Resident, takes, decodeMs)
	}
	return w
}

// ExpectDecode says how long a decode leg would wait whose prompt is computed elsewhere in readyMs, and how the prompt
// comes to it. c is the row of the same endpoint for all of the request.
func (r Reader) ExpectDecode(
	now time.Time, c *pick.Candidate, promptTokens int, readyMs float64,
) (pick.Wait, pick.Link) {
	speed := r.t.rates.Transfer(now, c.Slot)
	w, l := c.Wait, pick.Link{MsPerToken: speed.MsPerToken, FixedMs: speed.FixedMs}
	if !r.t.cfg.Without.Has(ablation.Links) {
		l.WaitMs = r.LinkMs(now, c.Slot, speed, float64(promptTokens-c.CachedTokens), readyMs)
		l.DelayMs = l.WaitMs
	}
	// Pending legs have a place by the time that this one is ready, or are in front of it.
	e, decodeMs := r.t.endpoints.Get(c.Slot), r.t.rates.DecodeMs(c.Slot)
	m := memory{c.Resident, promptTokens - c.CachedTokens}
	w.WaitMs = l.WaitMs + max(0, r.t.wait(now, e, &c.Endpoint, c.MsPerToken, decodeMs, e.sent(), m)-readyMs)
	return w, l
}

// Use is what of an endpoint is in use.
type Use struct {
	PromptMs float64 // until the prompts that it was sent are computed
	WaitMs   float64 // until a prompt is computed that comes now, behind all that the router's queue has
	Requests int     // that it was sent
	Places   int     // requests that it computes concurrently; 0 unknown
}

// Use says what of an endpoint is in use. resident is the tokens of memory that its outstanding requests take. Of the
// row of a candidate it needs Slot, Load.EngineWaiting and EngineRequests.
func (r Reader) Use(now time.Time, c *pick.Endpoint, resident int64) Use {
	e := r.t.endpoints.Get(c.Slot)
	perToken, decodeMs := r.t.rates.MsPerToken(c.Slot), r.t.rates.DecodeMs(c.Slot)
	u := Use{Requests: e.sent(), Places: e.places}
	u.PromptMs = r.t.turnMs(now, e, &pick.Endpoint{Slot: c.Slot}, perToken, decodeMs, 0)
	competing := r.t.competing(now, e, u.Requests, decodeMs)
	wait := func(competing int) float64 {
		return r.t.wait(now, e, c, perToken, decodeMs, competing, memory{resident, 0})
	}
	// placeFreeMs takes queued requests for answers, which end sooner than prompts: none may wait less for them
	u.WaitMs = float64(float64(e.queue.tokens)*perToken) + max(wait(competing), wait(competing+e.queue.n))
	return u
}

// competing is how many of the requests sent compete with a new one for a place at the engine: all that have or await
// one, but for decode legs whose KV cache arrives only once it would be answered.
func (t *Table) competing(now time.Time, e *endpoint, sent int, decodeMs float64) int {
	// the first is the case for every endpoint without split requests
	if len(e.pendingTransfers) == 0 || t.cfg.Without.Has(ablation.PendingTransfers) {
		return sent
	}
	n, until := sent, now.Add(fleet.Duration(decodeMs))
	for i := range e.pendingTransfers {
		if e.pendingTransfers[i].due.After(until) {
			n--
		}
	}
	return n
}

// wait is how long a new prompt waits in ms, for its turn and for memory.
func (t *Table) wait(
	now time.Time, e *endpoint, c *pick.Endpoint, perToken, decodeMs float64, competing int, m memory,
) float64 {
	return max(t.turnMs(now, e, c, perToken, decodeMs, competing), t.memoryMs(e, m, competing, decodeMs))
}

// turnMs is how long a new prompt waits for its turn, in ms: for the prompts in front, or for a place if all are taken.
// If a place is free by the router's accounts, or the number of places is unknown, the queue that the engine reports
// counts: it empties as its requests end.
func (t *Table) turnMs(
	now time.Time, e *endpoint, c *pick.Endpoint, perToken, decodeMs float64, competing int,
) float64 {
	p, left := &e.prompts, 0.0
	if tokens := e.load.PrefillTokens - e.queue.tokens; tokens > 0 {
		switch due := fleet.Ms(p.until.Sub(now)); {
		case due >= 0:
			left = min(due, float64(float64(tokens)*perToken))
		// late: what is late by t may take as long as t again
		case p.streamTokens > 0 && !t.cfg.Without.Has(ablation.Late):
			left = min(-due, float64(float64(fit.Outlier*p.streamTokens)*perToken))
		}
		if !t.cfg.Without.Has(ablation.Late) {
			left = max(left, t.lateNonStreaming(p, now, perToken))
		}
	}
	if e.places > 0 && competing >= e.places {
		prompts, first := t.unfinished(p, left, perToken)
		return max(left, placeFreeMs(decodeMs, left, first, prompts, competing, e.places))
	}
	// as reported by the engine
	if running := c.EngineRequests - c.Load.EngineWaiting; c.Load.EngineWaiting > 0 && running > 0 {
		left = max(left, float64(decodeMs*float64(c.Load.EngineWaiting))/float64(running))
	}
	return left
}

// memory is what requests take of an endpoint's KV memory, in tokens.
type memory struct {
	resident int64 // all outstanding ones together, with their answers
	takes    int   // the new one
}

// memoryMs is how long a new request waits for memory, in ms. The competing requests hold their share of what is
// resident, without half of the answers, which is still to come on average. Memory comes free as these requests end,
// evenly within decodeMs; the new one waits until what is needed beyond all of it has come free.
func (t *Table) memoryMs(e *endpoint, m memory, competing int, decodeMs float64) float64 {
	outstanding := e.load.Working()
	if e.memory <= 0 || outstanding == 0 || t.cfg.Without.Has(ablation.Occupancy) {
		return 0
	}
	each := (float64(m.resident) - float64(e.load.DecodeTokens)/2) / float64(outstanding)
	held := float64(each*float64(competing)) + float64(m.takes)
	return max(0, float64(decodeMs*(held/float64(e.memory)-1)))
}

// placeFreeMs is the time in ms until a place is free at an endpoint with at least as many requests as places. Its
// prompts are all computed in left ms, the first of them in first ms. Answers end evenly within decodeMs, and requests
// in prefill end decodeMs ms after their prompt is computed.
func placeFreeMs(decodeMs, left, first float64, prompts, requests, places int) float64 {
	before := float64(requests - places + 1)
	answers, each := float64(min(max(requests-prompts, 0), places)), float64(max(prompts, 1))
	switch {
	case before <= answers:
		return float64(decodeMs*before) / answers
	case before <= float64(places):
		return decodeMs + first + float64((left-first)*(before-answers))/each
	default:
		return float64((decodeMs + first +
			float64((left-first)*(float64(places)-answers))/each) * before / float64(places))
	}
}

// occupy says what share of the endpoint's places and memory is in use, and what share one more request takes, times
// how long it stays.
func (e *endpoint) occupy(w *pick.Wait, c *pick.Endpoint, resident int64, tokens int, decodeMs float64) {
	var each float64
	if n := e.places; n > 0 {
		w.Occupancy, w.OfPlaces, each = float64(e.load.Working())/float64(n), true, 1/float64(n)
	}
	if n := c.CacheTokens; n > 0 {
		if memory := float64(resident) / float64(n); memory > w.Occupancy {
			w.Occupancy, w.OfPlaces = memory, false
		}
		each = max(each, float64(tokens)/float64(n))
	}
	w.OccupancyMs = float64(each * decodeMs)
}
