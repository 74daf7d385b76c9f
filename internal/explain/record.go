package explain

import (
	"strconv"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// record is one decision and what became of it. Texts that clients choose are copied into memory of its own and cut, so
// that a decision keeps no body or header alive.
type record struct {
	number uint64
	text   []byte // request id, conversation, model and so on, one after the other

	request, conversation, model, failure, tenant, client cut

	pool, policy, endpoint, home string // names that the router holds anyway
	kind                         fleet.Kind
	reason                       pick.Reason
	class                        fleet.Class
	firstTurn, newID             bool
	stream                       bool
	leg                          fleet.Leg
	split                        fleet.SplitWhy
	weighed                      fleet.Weighed
	passed                       []route.PassedOver // at most as many as an alias has models
	gate                         pick.CacheGate
	refusal                      bool // the router answered it itself
	status                       int
	code, limit                  string // of the refusal: the error's code, and the setting that has the limit
	eligible, full               int

	prompt, cached int // predicted tokens
	ttft           float64

	routed, firstByte, end time.Time
	queued                 time.Duration // in the router's queue
	held                   time.Duration // before it was decided
	atLimit                bool          // since its tenant ran as many requests as it may
	greedy                 bool          // since its tenant had used much more than the others, and the engine was full
	outcome                fleet.Outcome
	usage                  fleet.Usage
	miss                   fleet.Miss
	observed, regret       float64 // ms, -1 unknown
	candidates             []pick.Candidate
	costs                  []route.Costs // of each of them
	scope                  string        // of their terms, see route.Ended
}

// cut is a piece of record.text.
type cut struct{ from, to int }

const (
	longestID    = 128 // bytes kept of a request id, a conversation's id and a model's name
	longestError = 400
)

// put copies a text into the record.
func (d *record) put(s string, longest int) cut {
	from := len(d.text)
	d.text = append(d.text, s[:min(len(s), longest)]...)
	return cut{from, len(d.text)}
}

func (d *record) get(c cut) string { return string(d.text[c.from:c.to]) }

// reset empties a record but keeps its memory.
func (d *record) reset() {
	*d = record{text: d.text[:0], candidates: d.candidates[:0], costs: d.costs[:0]}
}

// ended fills in the story of an attempt.
func (d *record) ended(e *route.Entry, hash bool) {
	x, v := e.Ended, &e.Ended.Decision
	d.reset()
	d.request = d.put(x.Request, longestID)
	d.conversation = d.putConversation(v.Session, hash)
	d.model = d.put(v.Model, longestID)
	d.pool, d.policy, d.endpoint, d.home, d.kind = v.Pool, v.Policy, v.Endpoint.Name, x.Home, v.Kind
	d.reason, d.class, d.firstTurn, d.newID, d.stream = v.Reason, x.Class, v.FirstTurn, v.NewID, x.Stream
	d.leg, d.split, d.weighed, d.gate = v.Leg, v.Why, v.Weighed, v.CacheGate
	d.passed = v.Passed
	d.eligible, d.full, d.prompt, d.cached, d.ttft = v.Candidates, v.Full, v.PromptTokens, v.CachedTokens, v.TTFTMs
	d.routed, d.firstByte, d.end = x.Routed, x.FirstByte, e.Now
	d.atLimit, d.greedy, d.held = v.AtLimit, v.Greedy, v.Held
	if v.Queued {
		sent := x.Sent
		if sent.IsZero() {
			sent = e.Now
		}
		d.queued = sent.Sub(x.Routed)
	}
	d.outcome, d.usage, d.miss = x.Outcome, x.Usage, x.Miss
	d.observed, d.regret = -1, -1
	if took, ok := x.TTFT(); ok {
		d.observed = fleet.Ms(took)
	}
	if regret, ok := x.Regret(); ok {
		d.regret = regret
	}
	d.candidates, d.costs, d.scope = append(d.candidates, x.Candidates...), append(d.costs, x.Costs...), x.Scope
}

// refused fills in the story of a request that the router answered itself.
func (d *record) refused(s *live.Served, hash bool) {
	d.reset()
	d.refusal = true
	d.request = d.put(s.ID, longestID)
	d.conversation = d.putConversation(s.Decision.Session, hash)
	d.model = d.put(s.Decision.Model, longestID)
	d.failure = d.put(s.Message, longestError)
	d.tenant = d.put(s.Tenant, longestID)
	d.client = d.put(s.Client, longestID)
	d.status, d.code, d.limit = s.Status, s.Error, s.Limit
	d.pool = s.Decision.Pool
	d.class, d.stream = s.Class, s.Stream
	d.routed, d.end, d.queued = s.Started, s.Ended, s.Queued
	d.observed, d.regret = -1, -1
}

func (d *record) putConversation(id string, hash bool) cut {
	if !hash || id == "" {
		return d.put(id, longestID)
	}
	// FNV-1a, 64 bit: enough to tell conversations apart.
	h := uint64(14695981039346656037)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	from := len(d.text)
	d.text = strconv.AppendUint(append(d.text, '#'), h, 16)
	return cut{from, len(d.text)}
}

// copy makes d the same as from, in d's own memory.
func (d *record) copy(from *record) {
	text, candidates := append(d.text[:0], from.text...), append(d.candidates[:0], from.candidates...)
	costs := append(d.costs[:0], from.costs...)
	*d = *from
	d.text, d.candidates, d.costs = text, candidates, costs
}
