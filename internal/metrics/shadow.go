package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

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

// shadowCollector turns the report into series at the time of a scrape. Labels are bounded: policies by the
// configuration, reasons by the policies.
type shadowCollector struct {
	source Shadows
	descs  map[string]*prometheus.Desc
}

// WatchShadows adds the shadows' findings. It is called once, before the first scrape.
func (m *Metrics) WatchShadows(s Shadows) {
	if s == nil {
		m.replace("shadows")
		return
	}
	c := &shadowCollector{source: s, descs: map[string]*prometheus.Desc{}}
	for _, f := range shadowFamilies() {
		c.descs[f.Name] = prometheus.NewDesc(f.Name, f.Help, f.Labels, nil)
	}
	m.replace("shadows", c)
}

// Describe sends the fixed set of families.
func (c *shadowCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect reads the report.
func (c *shadowCollector) Collect(ch chan<- prometheus.Metric) {
	r, skipped, dropped, spent := c.source.Told()
	send := func(name string, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(c.descs[name], prometheus.CounterValue, v, labels...)
	}
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
