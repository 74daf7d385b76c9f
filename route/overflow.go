package route

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/admission"
	"github.com/warmpath/warmpath/route/internal/conversation"
	"github.com/warmpath/warmpath/route/internal/health"
)

// An alias's models may divide its conversations (shares) or stand in order, the next one being for what the one before
// cannot take now (overflow). Either way a request has one model, which is chosen before its endpoints are looked at.
// A conversation keeps the model that it has, since its cache is there: also while its engines refuse, which is told to
// the client. It gets another one when no engine with it can be used.

// Passing is why a model was passed over for a request.
type Passing string

// Why a model was passed over.
const (
	PassedDown    Passing = "down"       // no engine of it is there and fit, or may take this request
	PassedEjected Passing = "ejected"    // its engines failed lately
	PassedRefuses Passing = "refuses"    // its engines asked for less traffic
	PassedTried   Passing = "tried"      // this request failed at its engines
	PassedFull    Passing = "full"       // a new prompt waits longer than the alias says
	PassedShort   Passing = "context"    // the prompt and its answer exceed its context
	PassedLacks   Passing = "not_served" // its engines do not have the path
)

// PassedOver is a model before the one that a request got.
type PassedOver struct {
	Model  string
	Why    Passing
	WaitMs float64 // of PassedFull: how long a new prompt waits at its best engine
}

// modelChoice is the model that the rows of a leg have, of an alias whose models divide its requests, and if they are
// in order those before it, which were passed over.
type modelChoice struct {
	model  string
	passed []PassedOver
}

// option is one of an alias's models for a request.
type option struct {
	rank    health.Rank // the best of its engines, but those at which the request failed
	refused bool        // an engine has refused the request: it asks for less traffic
	waitMs  float64     // the shortest at engines of that rank

	tried, short, lacks bool // some of its engines are left out for this
}

// chooseModel says which of an alias's models the request gets, if they divide or are in order, and which it passes
// over for that; none where no engine of any can be used.
func (r *readers) chooseModel(q *asked, s *search) (is modelChoice) {
	if !q.pool.Divides() || s.model != "" {
		return modelChoice{model: s.model}
	}
	models, bounds := r.pools.AliasOf(q.pool.Name()), r.pools.Overflow(q.pool.Name())
	options := r.optionsFor(q, s, models, bounds)
	best := health.Unfit
	for i := range options {
		best = min(best, options[i].rank)
	}
	if i := slices.Index(models, q.who.Entry.Model); q.who.Known && i >= 0 && !q.retriesFirst(q.who, s.leg) &&
		options[i].stays(best) {
		return modelChoice{model: models[i]}
	}
	if best == health.Unfit {
		return is
	}
	if bounds == nil {
		is.model = r.pools.Drawn(q.pool.Name(), q.drawn(), func(model string) bool {
			return options[slices.Index(models, model)].rank == best
		})
		return is
	}
	at := -1
	for i := range options {
		o := &options[i]
		if s.holdMs != nil {
			o.waitMs = max(o.waitMs, s.holdMs[i])
		}
		full := bounds[i] > 0 && o.waitMs > float64(bounds[i])/float64(time.Millisecond)
		if o.rank == best && at < 0 {
			at = i // unless a later one is not full
		}
		if o.rank == best && !full {
			at = i
			break
		}
	}
	for i := range at {
		is.passed = append(is.passed, options[i].passed(models[i], best))
	}
	is.model = models[at]
	return is
}

// overflowsHold reports whether a request that admission would hold with a model may get another one instead, since it
// would be held for longer than the alias says. next is the search for it, which knows of that hold. A conversation
// keeps its model.
func (r *readers) overflowsHold(q *asked, s *search, model string, hold *admission.Turn) (next search, ok bool) {
	bounds := r.pools.Overflow(q.pool.Name())
	if bounds == nil || q.who.Known && q.who.Entry.Model == model {
		return next, false
	}
	at, longest := slices.Index(r.pools.AliasOf(q.pool.Name()), model), r.admission.MaxHold(hold)
	if bounds[at] == 0 || longest <= bounds[at] || s.holdMs != nil && s.holdMs[at] > 0 {
		return next, false
	}
	next = *s
	next.holdMs = make([]float64, len(bounds))
	copy(next.holdMs, s.holdMs)
	next.holdMs[at] = float64(longest) / float64(time.Millisecond)
	return next, true
}

// retriesFirst reports whether the request failed and is its conversation's first, which has no cache yet. A retry is
// still the same turn.
func (q *asked) retriesFirst(who *conversation.Found, l fleet.Leg) bool {
	return who.Entry.Turns == 1 && len(tried(q.req, l)) > 0
}

// optionsFor looks at the engines of each model, and at how long a new prompt waits there if the models are in order,
// so that there are bounds.
func (r *readers) optionsFor(q *asked, s *search, models []string, bounds []time.Duration) []option {
	q.options = slices.Grow(q.options[:0], len(models))[:len(models)]
	for i := range q.options {
		q.options[i] = option{rank: health.Unfit}
	}
	path, tokens := r.registry.Path(q.req.Path), q.size.Tokens+q.req.MaxTokens
	for i := range q.pool.Len() {
		m := q.pool.Member(i)
		ep := m.Endpoint()
		if q.pool.Splits() && !q.takes(m, s) || !fits(q.req, ep) || slices.Contains(q.req.Exclude, ep.Name()) {
			continue
		}
		rank, waitMs := r.usable(q.now, ep, q.req.Caller), -1.0
		failed := slices.Contains(tried(q.req, s.leg), ep.Name())
		q.serving = r.pools.Serving(m, q.serving[:0], &q.servingOthers)
		for _, as := range q.serving {
			o := &q.options[max(0, slices.Index(models, as.Model()))]
			switch {
			case failed:
				o.tried, o.refused = true, o.refused || slices.Contains(q.req.Refused, ep.Name())
			case rank == health.Unfit:
			case path.LackedBy(q.now, ep):
				o.lacks = true
			case as.Context() > 0 && as.Context() <= tokens:
				o.short = true
			case rank <= o.rank:
				if bounds != nil && waitMs < 0 {
					use, _ := r.use(q.now, ep)
					waitMs = use.WaitMs
				}
				if rank < o.rank || waitMs < o.waitMs {
					o.waitMs = waitMs
				}
				o.rank = rank
			}
		}
	}
	return q.options
}

// stays reports whether a conversation keeps the model: an engine with it can be used, or has refused this request.
// What an engine is to others says nothing of one at which this request failed: it may be gone.
func (o *option) stays(best health.Rank) bool {
	return o.rank < health.Ejected || o.rank == best && best < health.Unfit || o.refused
}

// passed says why the model is passed over.
func (o *option) passed(model string, best health.Rank) PassedOver {
	p := PassedOver{Model: model, Why: PassedDown}
	switch {
	case o.rank == best:
		p.Why, p.WaitMs = PassedFull, o.waitMs
	case o.rank == health.Strained || o.refused:
		p.Why = PassedRefuses
	case o.rank == health.Ejected:
		p.Why = PassedEjected
	case o.tried:
		p.Why = PassedTried
	case o.short:
		p.Why = PassedShort
	case o.lacks:
		p.Why = PassedLacks
	}
	return p
}
