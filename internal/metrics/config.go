package metrics

import "time"

// Results of a reload.
const (
	Applied  = "applied"
	Rejected = "rejected"
)

// Reloaded counts a reload: Applied or Rejected.
func (m *Metrics) Reloaded(result string) { m.v.reloads.WithLabelValues(result).Inc() }

// Configured sets the running configuration and the time since when it runs.
func (m *Metrics) Configured(hash string, at time.Time) {
	const name = "warmpath_config_info"
	m.rewatch([]family{familyOf(name)}, func(send sender) { send(name, float64(at.UnixMilli())/1000, hash) })
}
