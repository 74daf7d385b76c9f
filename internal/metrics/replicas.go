package metrics

import "github.com/prometheus/client_golang/prometheus"

// Fleet is the state of the connections to other routers of the fleet.
type Fleet struct {
	Peers                                                   int     // connected
	Expected                                                int     // that there should be, this one among them
	DelayMs                                                 float64 // longest delay of a peer's latest frame
	Sent, Received, SentBytes, ReceivedBytes, Refused, Gaps uint64
	// conversations written to the store, not written; failed attempts
	Kept, KeptDropped, KeptFailed uint64
}

// Replicas returns it; cmd makes one from peers.Group.
type Replicas interface{ Replicas() Fleet }

// replicasCollector turns it into series at the time of a scrape.
type replicasCollector struct {
	source Replicas
	descs  []*prometheus.Desc
}

// WatchReplicas adds the other routers. It is called at most once, before the first scrape.
func (m *Metrics) WatchReplicas(r Replicas) {
	c := &replicasCollector{source: r}
	for _, f := range replicasFamilies() {
		c.descs = append(c.descs, prometheus.NewDesc(f.Name, f.Help, f.Labels, nil))
	}
	m.registry.MustRegister(c)
}

// Describe sends the families.
func (c *replicasCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect reads the counts.
func (c *replicasCollector) Collect(ch chan<- prometheus.Metric) {
	f := c.source.Replicas()
	ch <- prometheus.MustNewConstMetric(c.descs[0], prometheus.GaugeValue, float64(f.Peers))
	ch <- prometheus.MustNewConstMetric(c.descs[1], prometheus.GaugeValue, float64(f.Expected))
	ch <- prometheus.MustNewConstMetric(c.descs[2], prometheus.GaugeValue, f.DelayMs/1000)
	for _, of := range []struct {
		result string
		count  uint64
	}{{"sent", f.Sent}, {"received", f.Received}, {"refused", f.Refused}, {"gap", f.Gaps}} {
		ch <- prometheus.MustNewConstMetric(c.descs[3], prometheus.CounterValue, float64(of.count), of.result)
	}
	ch <- prometheus.MustNewConstMetric(c.descs[4], prometheus.CounterValue, float64(f.SentBytes), "sent")
	ch <- prometheus.MustNewConstMetric(c.descs[4], prometheus.CounterValue, float64(f.ReceivedBytes), "received")
	for _, of := range []struct {
		result string
		count  uint64
	}{{"written", f.Kept}, {"dropped", f.KeptDropped}, {"failed", f.KeptFailed}} {
		ch <- prometheus.MustNewConstMetric(c.descs[5], prometheus.CounterValue, float64(of.count), of.result)
	}
}
