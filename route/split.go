package route

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/route/internal/split"
)

// prices are the costs of delays between prompts and answers, see pick.View.
type prices struct {
	splits                       bool
	interference, answerWaitCost float64
}

// prices says what they are, if costs decide about splitting.
func (r *readers) prices(d *decision, l fleet.Leg) (p prices) {
	rule := d.pool.Rule()
	if !d.open || rule.When == WhenUncached {
		return p
	}
	p.splits = true
	if !r.without.Has(ablation.Interruptions) {
		p.interference = rule.Interference()
	}
	if rule.When == WhenFree && l == fleet.LegUnsplit && !r.without.Has(ablation.AnswerCost) {
		p.answerWaitCost = split.AnswerWaitCost
	}
	return p
}

// weighFree decides about splitting without roles, and which endpoint answers.
func (r *readers) weighFree(d *decision) (SplitWhy, Weighed, pick.Choice) {
	f := &d.free
	f.Begin(&d.prefill, &d.whole)
	for i, row := range f.Prefiller {
		if row >= 0 {
			r.fillDecode(d, f.ReadyMs(i))
			f.Pair(i, &d.decode)
		}
	}
	why, w, row := f.Choose(&d.decode)
	return why, w, pick.Choice{Index: row, Reason: pick.ReasonWeighed}
}
