package route

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/route/internal/split"
)

// prices sets the costs of delays between prompts and answers, if costs decide about splitting.
func (r *readers) prices(d *decision, v *pick.View) {
	rule := &r.rule
	if !d.open || rule.When == WhenUncached {
		return
	}
	v.Splits = true
	if !r.without.Has(ablation.Interruptions) {
		v.Interrupts = rule.Interrupts()
	}
	if rule.When == WhenFree && v.Leg == fleet.LegWhole && !r.without.Has(ablation.AnswerCost) {
		v.AnswerWait = split.AnswerWait
		r.speed.FillAnswers(v)
	}
}

// weighFree decides about splitting without roles, and which endpoint answers.
func (r *readers) weighFree(d *decision) (SplitWhy, Weighed, pick.Choice) {
	f := split.Begin(&d.prefill, &d.whole)
	for i, row := range f.Prefiller {
		if row >= 0 {
			r.fillDecode(d, f.ReadyMs(i))
			f.Pair(i, &d.decode)
		}
	}
	why, w, row := f.Choose(&d.decode)
	return why, w, pick.Choice{Index: row, Reason: pick.ReasonWeighed}
}
