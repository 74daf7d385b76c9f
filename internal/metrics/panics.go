package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/internal/panics"
)

// panicCollector turns the process's caught panics into series.
type panicCollector struct{ desc *prometheus.Desc }

const panicsName = "warmpath_panics_total"

func newPanicCollector() panicCollector {
	f := familyOf(panicsName)
	return panicCollector{prometheus.NewDesc(f.Name, f.Help, f.Labels, nil)}
}

// Describe implements prometheus.Collector.
func (c panicCollector) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect implements prometheus.Collector.
func (c panicCollector) Collect(to chan<- prometheus.Metric) {
	for who, n := range panics.Counts() {
		to <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(n), string(who))
	}
}
