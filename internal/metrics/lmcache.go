package metrics

import "github.com/prometheus/client_golang/prometheus"

// Notifications are the total counts of LMCache's notifications of pushed KV cache.
type Notifications struct {
	Taken, Unknown, Malformed, Missing, Refused uint64
}

// LMCache returns the counts; cmd makes one from lmcache.Socket.
type LMCache interface{ Notifications() Notifications }

// lmcacheCollector turns the counts into series at the time of a scrape.
type lmcacheCollector struct {
	source LMCache
	desc   *prometheus.Desc
}

// WatchLMCache counts the notifications of LMCache. It is called at most once, before the first scrape.
func (m *Metrics) WatchLMCache(l LMCache) {
	f := lmcacheFamily()
	m.registry.MustRegister(&lmcacheCollector{l, prometheus.NewDesc(f.Name, f.Help, f.Labels, nil)})
}

// Describe sends the one family.
func (c *lmcacheCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect reads the counts.
func (c *lmcacheCollector) Collect(ch chan<- prometheus.Metric) {
	n := c.source.Notifications()
	for _, of := range []struct {
		result string
		count  uint64
	}{{"taken", n.Taken}, {"unknown", n.Unknown}, {"malformed", n.Malformed}, {"missing", n.Missing}, {
		"refused", n.Refused,
	}} {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(of.count), of.result)
	}
}
