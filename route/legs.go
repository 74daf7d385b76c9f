package route

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/route/cost"
	"github.com/warmpath/warmpath/route/internal/admission"
	"github.com/warmpath/warmpath/route/internal/conversation"
	"github.com/warmpath/warmpath/route/internal/split"
)

// chosen is what a decision has come to.
type chosen struct {
	hold *admission.Turn // to be held, and nothing else is set; nil where it is not

	answer  placement      // of the answer or of the whole request
	compute placement      // of the prefill leg
	why     fleet.SplitWhy // why it is split or not
	weighed fleet.Weighed
	passed  []PassedOver // see modelChoice
}

// placement is the row chosen for a leg.
type placement struct {
	view   *pick.View // nil for a leg that is not placed
	who    *conversation.Found
	choice pick.Tentative
	scope  cost.Scope // in which the terms are reckoned, where the policy has not
}

// row is the one that was chosen.
func (p *placement) row() *pick.Candidate { return &p.view.Candidates[p.choice.Index] }

// chooseWhole chooses for a request without a placed leg.
func (r *readers) chooseWhole(q *asked, seen *noticed, c *chosen) (err error) {
	p, rule := q.pool, q.pool.Rule()
	why, undecided := rule.ByRequest(split.Pool{Splits: p.Splits(), Must: p.SplitsAlways()}, q.req, q.size.Tokens)
	var prefill filled
	if why.Splits() || undecided {
		answers := q.answerSearch(why)
		by := search{leg: fleet.LegPrefill, who: r.prefillSide(q), model: r.answerModel(q, seen, &answers)}
		if undecided {
			by.prices = r.prices(rule, by.leg)
		}
		if prefill, err = r.fill(q, seen, &by); err != nil {
			if r.noFallback && rule.When != fleet.WhenFree || p.SplitsAlways() && !p.ServesWhole() {
				return err
			}
			why, undecided = fleet.WholeNoPrefiller, false
		}
	}
	answers := q.answerSearch(why)
	if undecided {
		answers.prices = r.prices(rule, answers.leg)
	}
	whole, hold, err := r.fillWhole(q, seen, answers)
	if err != nil || hold != nil {
		c.hold = hold
		return err
	}
	if prefill.view != nil && whole.forced == pick.ReasonHolder {
		why, undecided = fleet.WholePinned, false
	}
	known := false // who answers, before it is known how
	if undecided {
		why, known = r.weigh(q, prefill.view, &whole, c)
	}
	c.why, c.passed, c.answer.who = why, whole.passed, q.who
	if why.Splits() {
		r.split(q, prefill.view, whole.view, known, c)
		return nil
	}
	v := whole.view
	if p.Splits() && (!known || c.answer.choice.Reason == pick.ReasonWeighed) {
		v = q.fillArrived(v)
	}
	if c.answer.view = v; !known {
		c.answer.choice = r.choose(q, v, whole.forced)
	}
	if undecided && v.Splits {
		c.answer.scope = cost.ForSplit(v)
	}
	return nil
}

// weigh decides about splitting by what the rows say. It reports whether who answers is chosen with it, in c.answer.
func (r *readers) weigh(q *asked, prefill *pick.View, whole *filled, c *chosen) (why fleet.SplitWhy, known bool) {
	switch rule := q.pool.Rule(); rule.When {
	case fleet.WhenUncached:
		c.answer.choice = r.choose(q, whole.view, whole.forced)
		return rule.Uncached(whole.view, c.answer.choice.Index), true
	case fleet.WhenFree:
		f, decode := &q.free, whole.view
		f.Begin(prefill, whole.view)
		for i, row := range f.Prefiller {
			if row >= 0 {
				decode = r.fillDecode(q, whole.view, f.ReadyMs(i))
				f.AddPairs(i, decode)
			}
		}
		c.answer.choice.Reason = pick.ReasonWeighed
		why, c.weighed, c.answer.choice.Index = f.Choose(decode)
		return why, true
	default:
		decode := r.fillDecode(q, whole.view, split.ReadyMs(prefill))
		why, c.weighed = split.Time(prefill, whole.view, decode)
		return why, false
	}
}

// answerSearch is the search for those that may answer a request, which is split for this reason, or is not.
func (q *asked) answerSearch(why fleet.SplitWhy) search {
	return search{leg: fleet.LegUnsplit, who: q.who, decodes: why.Splits() && q.pool.SplitsAlways()}
}

// fillWhole fills the rows of those that may take the whole request now. If none may, with any model that the request
// can get, it says how the turn is to be held.
func (r *readers) fillWhole(q *asked, seen *noticed, s search) (f filled, hold *admission.Turn, err error) {
	if f, err = r.fill(q, seen, &s); err != nil {
		return f, nil, err
	}
	if hold = r.admit(q, &f); hold == nil {
		return f, nil, nil
	}
	if next, ok := r.overflowsHold(q, &s, f.model, hold); ok {
		return r.fillWhole(q, seen, next) // at most once for each model of the alias
	}
	if full := r.full(q); full != nil {
		full.RetryAfter = retryAfter(r.admission.MaxHold(hold))
		return f, nil, full
	}
	return f, hold, nil
}

// split chooses endpoints for both legs: who answers, for a prompt that is computed as soon as can be, unless that is
// known, in c.answer; who computes it for that one; and, where that takes longer, who answers it then.
func (r *readers) split(q *asked, prefill, whole *pick.View, known bool, c *chosen) {
	ready, answer := split.ReadyMs(prefill), &c.answer
	decode := r.fillDecode(q, whole, ready)
	if !known {
		answer.choice = r.choose(q, decode, "")
	}
	decoder := &decode.Candidates[answer.choice.Index].Endpoint
	narrow(prefill, func(row int) bool { return split.Pairs(&prefill.Candidates[row].Endpoint, decoder) })
	if len(prefill.Candidates) == 0 { // the only possible prefiller is the decoder itself
		c.why, answer.view = fleet.WholeNoPrefiller, whole
		return
	}
	c.compute = placement{view: prefill, who: &q.found[fleet.LegPrefill], choice: r.choose(q, prefill, "")}
	prefiller := c.compute.row()
	if ms := split.ReadyAt(prefill, prefiller); ms > ready {
		decode = r.fillDecode(q, whole, ms)
		if !known {
			narrow(decode, func(row int) bool {
				return split.Pairs(&prefiller.Endpoint, &decode.Candidates[row].Endpoint)
			})
			answer.choice = r.choose(q, decode, "")
		}
	}
	if answer.view = decode; answer.choice.Reason == pick.ReasonWeighed {
		answer.scope = cost.ForSplit(decode)
	}
	if prefill.Splits {
		c.compute.scope = cost.ForSplit(prefill)
	}
}

// choosePrefill chooses another prefiller for a request that keeps its decoder.
func (r *readers) choosePrefill(q *asked, seen *noticed, c *chosen) error {
	f, err := r.fillAgain(q, seen, search{leg: fleet.LegPrefill, who: r.prefillSide(q)}, q.req.Decoder)
	if err == nil {
		c.passed = f.passed
		c.compute = placement{view: f.view, who: &q.found[fleet.LegPrefill], choice: r.choose(q, f.view, f.forced)}
	}
	return err
}

// chooseDecode chooses another decoder for a prompt that is already computed.
func (r *readers) chooseDecode(q *asked, seen *noticed, c *chosen) error {
	f, err := r.fillAgain(q, seen, search{leg: fleet.LegUnsplit, decodes: true, who: q.who}, q.req.Prefiller)
	if err == nil {
		decode := r.fillDecode(q, f.view, 0)
		c.why, c.passed = fleet.SplitKept, f.passed
		c.answer = placement{view: decode, who: q.who, choice: r.choose(q, decode, f.forced)}
	}
	return err
}

// fillAgain fills the view of those that may take one leg of a request whose other leg stays at an endpoint, with the
// model that this one got of an alias whose models divide its requests.
func (r *readers) fillAgain(q *asked, seen *noticed, s search, other string) (f filled, err error) {
	if q.pool.Divides() {
		s.model = q.req.LegModel
	}
	if f, err = r.fill(q, seen, &s); err != nil {
		return f, err
	}
	if f.forced == pick.ReasonHolder { // of two legs a pin forces the choice, not the place of a stored response
		f.forced = ""
	}
	if ep := r.registry.Named(other); ep.Exists() { // then only rows that pair with it stay
		at := pick.Endpoint{Slot: ep.Slot(), Kind: ep.Kind(), Model: f.model} // the model that the rows have
		if m, ok := q.pool.MemberAt(ep); ok && at.Model == "" {
			at.Model = m.Model()
		}
		narrow(f.view, func(row int) bool { return split.Pairs(&at, &f.view.Candidates[row].Endpoint) })
	}
	if len(f.view.Candidates) == 0 {
		return f, r.noEndpoint(q, &s, f.model)
	}
	return f, nil
}

// prefillSide is the conversation in the scope of the prefill side.
func (r *readers) prefillSide(q *asked) *conversation.Found {
	who := &q.found[fleet.LegPrefill]
	r.conversations.FindOther(q.now, q.scope(fleet.LegPrefill), q.who, who)
	return who
}

// prices are the costs of delays between prompts and answers, see pick.View.
type prices struct {
	splits                       bool
	interference, answerWaitCost float64
}

// prices says what they are for the rows of a leg, where the rows decide whether the request is split. They are 0 for a
// rule that compares no costs.
func (r *readers) prices(rule *split.Rule, l fleet.Leg) (p prices) {
	if rule.When == fleet.WhenUncached {
		return p
	}
	p.splits = true
	if !r.without.Has(ablation.Interruptions) {
		p.interference = rule.Interference()
	}
	if rule.When == fleet.WhenFree && l == fleet.LegUnsplit && !r.without.Has(ablation.AnswerCost) {
		p.answerWaitCost = split.AnswerWaitCost
	}
	return p
}

// choose asks the leg's policy if there is a choice. The policy changes nothing before commit.
func (r *readers) choose(q *asked, v *pick.View, forced pick.Reason) pick.Tentative {
	switch {
	case forced != "":
		return pick.Tentative{Choice: pick.Choice{Index: 0, Reason: forced}}
	case len(v.Candidates) == 1:
		if v.Home == 0 {
			return q.pool.Only(v, pick.ReasonSession)
		}
		return q.pool.Only(v, pick.ReasonOnly)
	}
	return q.pool.Ask(v, q.req)
}
