package metrics

import "github.com/warmpath/warmpath/internal/saturation"

// WatchPools adds how full pools are, of those that have endpoints which take requests. It is called at most once,
// before the first scrape.
func (m *Metrics) WatchPools(now func() []saturation.Pool) {
	m.watch(func(send sender) {
		pools := now()
		for i := range pools {
			p := &pools[i]
			known := func(name string, value float64) {
				if value >= 0 {
					send(name, value, p.ID)
				}
			}
			known("warmpath_pool_prompts_ratio", p.Prompts)
			known("warmpath_pool_answers_ratio", p.Answers)
			known("warmpath_pool_kv_cache_ratio", p.KV)
			known("warmpath_pool_wait_seconds", p.WaitMs/1000)
		}
	})
}
