package metrics

import "github.com/prometheus/client_golang/prometheus"

// figures are series whose values are read at the time of a scrape.
type figures struct {
	table map[string]described
	own   []family // those that are described to the registry, which can then remove the collector
	read  func(send sender)
}

// sender sends the value of a series, by its family's name and its labels.
type sender func(name string, value float64, labels ...string)

// described is a family as the registry wants it.
type described struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// describe is the table of families, by name.
func describe(families []family) map[string]described {
	table := map[string]described{}
	for _, f := range families {
		kind := prometheus.GaugeValue
		if f.Kind == counter {
			kind = prometheus.CounterValue
		}
		table[f.Name] = described{prometheus.NewDesc(f.Name, f.Help, f.Labels, nil), kind}
	}
	return table
}

// watch adds what read sends at each scrape.
func (m *Metrics) watch(read func(send sender)) {
	m.registry.MustRegister(&figures{table: m.table, read: read})
}

// rewatch adds what read sends of these families, in the place of what it was before; nil only removes that.
func (m *Metrics) rewatch(families []family, read func(send sender)) {
	m.optional.Lock()
	defer m.optional.Unlock()
	name := families[0].Name
	if before := m.watched[name]; before != nil {
		m.registry.Unregister(before)
		delete(m.watched, name)
	}
	if read != nil {
		m.watched[name] = &figures{m.table, families, read}
		m.registry.MustRegister(m.watched[name])
	}
}

// Describe implements prometheus.Collector.
func (c *figures) Describe(to chan<- *prometheus.Desc) {
	for _, f := range c.own {
		to <- c.table[f.Name].desc
	}
}

// Collect implements prometheus.Collector.
func (c *figures) Collect(to chan<- prometheus.Metric) {
	c.read(func(name string, value float64, labels ...string) {
		f := c.table[name]
		to <- prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...)
	})
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
