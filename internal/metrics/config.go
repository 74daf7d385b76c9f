package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Results of a reload.
const (
	Applied  = "applied"
	Rejected = "rejected"
)

// Reloaded counts a reload: Applied or Rejected.
func (m *Metrics) Reloaded(result string) { m.v.reloads.WithLabelValues(result).Inc() }

// Configured sets the running configuration and the time since when it runs.
func (m *Metrics) Configured(hash string, at time.Time) {
	f := familyOf("warmpath_config_info")
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: f.Name, Help: f.Help, ConstLabels: prometheus.Labels{"hash": hash},
	})
	g.Set(float64(at.UnixMilli()) / 1000)
	m.replace(f.Name, g)
}
