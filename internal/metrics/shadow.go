package metrics

import (
	"time"

	"github.com/warmpath/warmpath/route/shadow"
)

// Shadows returns the findings of shadow policies, such as shadow.Shadow.
type Shadows interface {
	// Told returns the report so far, the decisions that were not evaluated because of the budget and of a full queue,
	// and the time spent.
	Told() (r shadow.Report, skipped, dropped uint64, spent time.Duration)
}

// acting is the value of the label policy for the policy in force.
const acting = "acting"

// WatchShadows adds the shadows' findings, in the place of earlier ones; nil removes them. Labels are bounded: policies
// by the configuration, reasons by the policies.
func (m *Metrics) WatchShadows(s Shadows) {
	if s == nil {
		m.rewatch(shadowFamilies(), nil)
		return
	}
	m.rewatch(shadowFamilies(), func(send sender) { sendShadows(s, send) })
}

// sendShadows sends the report.
func sendShadows(source Shadows, send sender) {
	r, skipped, dropped, spent := source.Told()
	world := func(policy string, w *shadow.World) {
		send("warmpath_shadow_turns_total", float64(w.Turns), policy)
		send("warmpath_shadow_ttft_seconds_total", w.TTFTMs/1000, policy)
		send("warmpath_shadow_prompt_tokens_total", float64(w.PromptTokens), policy)
		send("warmpath_shadow_cached_tokens_total", float64(w.CachedTokens), policy)
	}
	world(acting, &r.Acting)
	for i := range r.Shadows {
		t := &r.Shadows[i]
		world(t.Policy, &t.Apart)
		send("warmpath_shadow_decisions_total", float64(t.Here.Decisions-t.Here.Differs), t.Policy, "same")
		send("warmpath_shadow_decisions_total", float64(t.Here.Differs), t.Policy, "differs")
		send("warmpath_shadow_cost_seconds_total", t.Here.SavesMs/1000, t.Policy, "saved")
		send("warmpath_shadow_cost_seconds_total", t.Here.LosesMs/1000, t.Policy, "lost")
		for _, why := range t.Why {
			send("warmpath_shadow_differs_total", float64(why.Differs), t.Policy, string(why.Reason))
		}
	}
	send("warmpath_shadow_skipped_total", float64(skipped), "budget")
	send("warmpath_shadow_skipped_total", float64(dropped), "queue")
	send("warmpath_shadow_judging_seconds_total", spent.Seconds())
}
