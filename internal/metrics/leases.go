package metrics

import "github.com/prometheus/client_golang/prometheus"

// WatchLeases adds the leases of programs that send requests themselves. It is called at most once, before the first
// scrape.
func (m *Metrics) WatchLeases(open func() int, expired func() uint64) {
	o, x := familyOf("warmpath_lease_calls"), familyOf("warmpath_lease_expired_total")
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: o.Name, Help: o.Help}, func() float64 {
			return float64(open())
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: x.Name, Help: x.Help}, func() float64 {
			return float64(expired())
		}),
	)
}
