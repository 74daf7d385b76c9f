package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// State is the status of the state file.
type State struct {
	Saved    time.Time // zero for never
	Bytes    int64
	Failures uint64
	Restored bool
}

// WatchState adds the state file's status. It is called at most once, before the first scrape.
func (m *Metrics) WatchState(now func() State) {
	gauge := func(name string, value func(State) float64) prometheus.Collector {
		f := familyOf(name)
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: f.Name, Help: f.Help},
			func() float64 { return value(now()) })
	}
	failures := familyOf("warmpath_state_failures_total")
	m.registry.MustRegister(
		gauge("warmpath_state_saved_timestamp_seconds", func(s State) float64 {
			if s.Saved.IsZero() {
				return 0
			}
			return float64(s.Saved.UnixMilli()) / 1000
		}),
		gauge("warmpath_state_bytes", func(s State) float64 { return float64(s.Bytes) }),
		gauge("warmpath_state_restored", func(s State) float64 {
			if s.Restored {
				return 1
			}
			return 0
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: failures.Name, Help: failures.Help}, func() float64 {
			return float64(now().Failures)
		}),
	)
}
