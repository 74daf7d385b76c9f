package metrics

import "github.com/prometheus/client_golang/prometheus"

// Bodies is the memory of request bodies; cmd makes it from proxy.BodyMemory.
type Bodies struct {
	Held, Limit int64
	Refused     uint64
}

// WatchBodies adds the memory of request bodies. It is called at most once, before the first scrape.
func (m *Metrics) WatchBodies(now func() Bodies) {
	gauge := func(name string, value func(Bodies) int64) prometheus.Collector {
		f := familyOf(name)
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: f.Name, Help: f.Help},
			func() float64 { return float64(value(now())) })
	}
	refused := familyOf("warmpath_bodies_refused_total")
	m.registry.MustRegister(
		gauge("warmpath_body_held_bytes", func(b Bodies) int64 { return b.Held }),
		gauge("warmpath_body_limit_bytes", func(b Bodies) int64 { return b.Limit }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: refused.Name, Help: refused.Help}, func() float64 {
			return float64(now().Refused)
		}),
	)
}
