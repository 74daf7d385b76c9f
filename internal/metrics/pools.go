package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/internal/saturation"
)

// poolsCollector has how full pools are, of those that have endpoints which take requests.
type poolsCollector struct {
	now                        func() []saturation.Pool
	prompts, answers, kv, wait *prometheus.Desc
}

// WatchPools adds how full pools are. It is called at most once, before the first scrape.
func (m *Metrics) WatchPools(now func() []saturation.Pool) {
	desc := func(name string) *prometheus.Desc {
		f := familyOf(name)
		return prometheus.NewDesc(f.Name, f.Help, f.Labels, nil)
	}
	m.registry.MustRegister(&poolsCollector{
		now, desc("warmpath_pool_prompts_ratio"), desc("warmpath_pool_answers_ratio"),
		desc("warmpath_pool_kv_cache_ratio"), desc("warmpath_pool_wait_seconds"),
	})
}

// Describe sends the families.
func (c *poolsCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.prompts
	ch <- c.answers
	ch <- c.kv
	ch <- c.wait
}

// Collect reads the pools. What is unknown has no series.
func (c *poolsCollector) Collect(ch chan<- prometheus.Metric) {
	pools := c.now()
	for i := range pools {
		p := &pools[i]
		for _, figure := range []struct {
			desc  *prometheus.Desc
			value float64
		}{{c.prompts, p.Prompts}, {c.answers, p.Answers}, {c.kv, p.KV}, {c.wait, p.WaitMs / 1000}} {
			if figure.value >= 0 {
				ch <- prometheus.MustNewConstMetric(figure.desc, prometheus.GaugeValue, figure.value, p.ID)
			}
		}
	}
}
