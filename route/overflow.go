package route

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/health"
	"github.com/warmpath/warmpath/route/internal/pool"
)

// An alias's models may divide its conversations (shares) or stand in order, the next one being for what the one before
// cannot take now (overflow). Either way a request has one model, which is settled before its endpoints are looked at.
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

// option is one of an alias's models for a request.
type option struct {
	rank    health.Rank // the best of its engines, but those at which the request failed
	refused bool        // an engine has refused the request: it asks for less traffic
	waitMs  float64     // the shortest at engines of that rank

	tried, short, lacks bool // some of its engines are left out for this
}

// settle settles which of an alias's models the request gets, if they divide or are in order; none where no engine of
// any can be used.
func (r *readers) settle(d *decision, l fleet.Leg) {
	if !d.pool.Divides() || d.settled(l) {
		return
	}
	d.model, d.passed = "", nil
	models, bounds := r.pools.AliasOf(d.pool.Name()), r.pools.Overflow(d.pool.Name())
	r.lookAtModels(d, l, models, bounds != nil)
	best := health.Unfit
	for i := range d.options {
		best = min(best, d.options[i].rank)
	}
	if i := slices.Index(models, d.who.Entry.Model); d.who.Known && i >= 0 && !d.retriesFirst(l) &&
		d.options[i].stays(best) {
		d.model = models[i]
		return
	}
	if best == health.Unfit {
		return
	}
	if bounds == nil {
		d.model = r.pools.Drawn(d.pool.Name(), d.drawn(), func(model string) bool {
			return d.options[slices.Index(models, model)].rank == best
		})
		return
	}
	at := -1
	for i := range d.options {
		o := &d.options[i]
		if d.holdMs != nil {
			o.waitMs = max(o.waitMs, d.holdMs[i])
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
	d.model = models[at]
	for i := range at {
		d.passed = append(d.passed, d.options[i].passed(models[i], best))
	}
}

// overflowsHold reports whether a request that admission would hold may get another model instead, since it would be
// held for longer than the alias says. Then it is to be placed anew. A conversation keeps its model.
func (r *readers) overflowsHold(d *decision) bool {
	bounds := r.pools.Overflow(d.pool.Name())
	if bounds == nil || d.who.Known && d.who.Entry.Model == d.model {
		return false
	}
	at, longest := slices.Index(r.pools.AliasOf(d.pool.Name()), d.model), r.admission.MaxHold(&d.turn)
	if bounds[at] == 0 || longest <= bounds[at] {
		return false
	}
	if d.holdMs == nil {
		d.holdMs = make([]float64, len(bounds))
	}
	asked := d.holdMs[at] > 0
	d.holdMs[at] = float64(longest) / float64(time.Millisecond)
	return !asked
}

// settled reports whether the model is that of the other leg.
func (d *decision) settled(l fleet.Leg) bool {
	return d.model != "" && (l == fleet.LegPrefill || d.req.Leg != fleet.LegUnsplit)
}

// retriesFirst reports whether the request failed and is its conversation's first, which has no cache yet.
func (d *decision) retriesFirst(l fleet.Leg) bool {
	return d.who.Entry.Turns == 1 && len(tried(d.req, l)) > 0
}

// drawn is the number by which the request's conversation draws a model.
func (d *decision) drawn() uint64 {
	if d.who.ID != "" {
		return placeHash(d.req, d.who.ID)
	}
	return d.req.Seed
}

// lookAtModels looks at the engines of each model, and if waits at how long a new prompt waits there.
func (r *readers) lookAtModels(d *decision, l fleet.Leg, models []string, waits bool) {
	d.options = slices.Grow(d.options[:0], len(models))[:len(models)]
	for i := range d.options {
		d.options[i] = option{rank: health.Unfit}
	}
	lacking, tokens := r.endpoints.Absences(d.req.Path), d.size.Tokens+d.req.MaxTokens
	for i := range d.pool.Len() {
		m := d.pool.Member(i)
		ep := m.Endpoint()
		if d.pool.Splits() && !d.takes(m, l) || !d.fits(ep) || slices.Contains(d.req.Exclude, ep.Name()) {
			continue
		}
		rank, waitMs := r.usable(d.now, ep, d.req.Caller), -1.0
		failed := slices.Contains(tried(d.req, l), ep.Name())
		d.serving = r.pools.Serving(m, d.serving[:0], &d.servingOthers)
		for _, as := range d.serving {
			o := &d.options[max(0, slices.Index(models, as.Model()))]
			switch {
			case failed:
				o.tried, o.refused = true, o.refused || slices.Contains(d.req.Refused, ep.Name())
			case rank == health.Unfit:
			case lacking.Any() && lacking.Has(d.now, ep):
				o.lacks = true
			case as.Context() > 0 && as.Context() <= tokens:
				o.short = true
			case rank <= o.rank:
				if waits && waitMs < 0 {
					e := pick.Endpoint{Slot: ep.Slot()}
					r.reported(d.now, ep, &e)
					waitMs = r.backlog.Use(d.now, &e, r.speed).WaitMs
				}
				if rank < o.rank || waitMs < o.waitMs {
					o.waitMs = waitMs
				}
				o.rank = rank
			}
		}
	}
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

// serves reports whether a member's engine may be asked for the model that is settled.
func (r *readers) serves(d *decision, m pool.Member) bool {
	if m.Model() == d.model {
		return true
	}
	d.serving = r.pools.Serving(m, d.serving[:0], &d.servingOthers)
	return slices.ContainsFunc(d.serving, func(m pool.Member) bool { return m.Model() == d.model })
}
