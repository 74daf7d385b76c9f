package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// certificatesCollector turns the ends of certificates into series.
type certificatesCollector struct {
	desc *prometheus.Desc
	ends func() map[string]time.Time
}

// WatchCertificates adds when the certificates that the router shows end, by setting. It is called at most once, before
// the first scrape.
func (m *Metrics) WatchCertificates(ends func() map[string]time.Time) {
	f := familyOf("warmpath_certificate_end_timestamp_seconds")
	m.registry.MustRegister(certificatesCollector{prometheus.NewDesc(f.Name, f.Help, f.Labels, nil), ends})
}

// Describe implements prometheus.Collector.
func (c certificatesCollector) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect implements prometheus.Collector.
func (c certificatesCollector) Collect(to chan<- prometheus.Metric) {
	for setting, end := range c.ends() {
		to <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(end.Unix()), setting)
	}
}
